"""A worker that dies at any step: the event comes again, and the outcome is as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.object_store import FolderObjectStore
from opx.adapters.embedded.table import SqliteTable
from opx.domain.documents import DocumentState
from opx.domain.ids import epoch_seconds, iso_time
from opx.domain.queries import QueryConfig
from opx.ports import SearchRequest
from opx.retrieval.query_language import parse_query
from opx.settings import Settings
from opx.system import bootstrap
from opx_assurance.capability import assurance
from opx_aws.object_store import S3ObjectStore
from opx_aws.opensearch import OpenSearchIndex, ensure_index, opensearch_client
from opx_aws.opensearch_bulk import BulkLimits
from opx_aws.opensearch_schema import CLASSIC_ENGINE
from opx_testing.fake_time import FakeTime
from tests.doubles.opensearch import OpenSearchDouble
from tests.e2e.systems import EVERYTHING, SystemUnderTest, an_account, chunk_key, created, key_of, outline_key
from tests.support.archive_support import tagged
from tests.support.fakes import WordsEmbedder
from tests.support.lessons import Ungrouped
from tests.support.sampling import sampled

BUCKET = "corpus"
INDEX = "knowledge"
MOST_STEPS = 60
TWO_ACTIONS = BulkLimits(actions=2)
Scene = Callable[[SystemUnderTest, str], None]
"""Changes of a document before its event is handled, or while the worker is dead."""


class Died(BaseException):
    """Simulates the death of the process: no code catches it."""


class Steps:
    """Counts the calls of all clients and dies at one of them."""

    def __init__(self) -> None:
        self.left = -1

    def take(self) -> None:
        if self.left == 0:
            raise Died
        self.left -= 1

    def watch(self, client: Any) -> Any:
        return _Watched(client, self)


class _Watched:
    def __init__(self, client: Any, steps: Steps) -> None:
        self._client = client
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*positional: Any, **named: Any) -> Any:
            self._steps.take()
            return method(*positional, **named)

        return call


@dataclass
class Mortal:
    """A system whose calls are counted. `anew` empties the index, which would grow with every death."""

    system: SystemUnderTest
    steps: Steps
    collection: Any
    generation: str

    def anew(self) -> None:
        self.collection.indices.delete(index=INDEX)
        make_index(self.collection, self.generation)

    def dies(self, key: str, step: int) -> bool:
        self.steps.left = step
        try:
            self.system.deliver(created(key, 3))
        except Died:
            return True
        finally:
            self.steps.left = -1
        return False


Parts = Callable[[Path, boto3.Session, Steps, FakeTime], dict[str, Any]]


def on_dynamodb(folder: Path, session: boto3.Session, steps: Steps, time: FakeTime) -> dict[str, Any]:
    clients = {name: steps.watch(client) for name, client in an_account(session).items()}
    return {"store": S3ObjectStore(BUCKET, clients["s3"]), "aws": lambda service, **_: clients[service]}


def on_sqlite(folder: Path, session: boto3.Session, steps: Steps, time: FakeTime) -> dict[str, Any]:
    """Quicker, and as far from a transaction over several calls, since nothing groups them."""
    database = open_database(folder / "tables.db")
    store = steps.watch(FolderObjectStore(folder / "corpus"))
    return {
        "store": store,
        "tables": Ungrouped(lambda spec: steps.watch(SqliteTable(spec, database, clock=time.clock))),
    }


def make_index(client: Any, generation: str) -> None:
    engine = CLASSIC_ENGINE if generation == "classic" else ""
    ensure_index(client, INDEX, model_id=WordsEmbedder.model_id, dimension=WordsEmbedder.dimension, engine=engine)


@contextmanager
def a_mortal_system(generation: str, folder: Path, session: boto3.Session, parts: Parts) -> Iterator[Mortal]:
    steps, time, embedder = Steps(), FakeTime(), WordsEmbedder()
    with OpenSearchDouble(generation) as double:
        client = opensearch_client(double.endpoint, session.get_credentials(), "eu-central-1")
        make_index(client, generation)
        index = OpenSearchIndex(steps.watch(client), INDEX, generation=generation, limits=TWO_ACTIONS, sleep=time.sleep)
        settings = Settings(backend="aws", corpus_bucket=BUCKET, search_generation=generation)
        made = parts(folder, session, steps, time)
        services = bootstrap(settings, clock=time.clock, embedder=embedder, index=index, **made)
        yield Mortal(SystemUnderTest(services, time, made["store"]), steps, client, generation)
        client.close()


def a_text(number: int, sections: int, tag: str) -> str:
    body = "".join(f"## Part {n}\n\n{f'version{number} step{n} ' * 40}\n\n" for n in range(sections))
    return f"---\ntags: [{tag}, common]\n---\n# Disk\n\n{body}"


def put(system: SystemUnderTest, key: str, number: int, sections: int, tag: str) -> None:
    system.put_silently(key, a_text(number, sections, tag))


def is_changed(system: SystemUnderTest, key: str) -> None:
    put(system, key, 1, 3, "old")
    system.deliver(created(key, 1))
    put(system, key, 2, 2, "new")


def is_retagged(system: SystemUnderTest, key: str) -> None:
    put(system, key, 1, 2, "old")
    system.deliver(created(key, 1))
    put(system, key, 1, 2, "new")


def is_brought_back(system: SystemUnderTest, key: str) -> None:
    is_changed(system, key)
    system.time.sleep(60)
    system.deliver(created(key, 2))
    put(system, key, 1, 3, "old")


def is_new(system: SystemUnderTest, key: str) -> None:
    put(system, key, 1, 3, "new")


def is_deleted(system: SystemUnderTest, key: str) -> None:
    put(system, key, 1, 3, "old")
    system.deliver(created(key, 1))
    system.silent.delete(key)


def nothing(system: SystemUnderTest, key: str) -> None:
    pass


def changes_again(system: SystemUnderTest, key: str) -> None:
    put(system, key, 3, 1, "newer")


def changes_back(system: SystemUnderTest, key: str) -> None:
    put(system, key, 1, 3, "old")


def goes(system: SystemUnderTest, key: str) -> None:
    system.silent.delete(key)


SCENARIOS: dict[str, tuple[Scene, Scene]] = {
    "changed": (is_changed, nothing),
    "retagged": (is_retagged, nothing),
    "brought back": (is_brought_back, nothing),
    "new": (is_new, nothing),
    "deleted": (is_deleted, nothing),
    "changed, changed again meanwhile": (is_changed, changes_again),
    "changed, changed back meanwhile": (is_changed, changes_back),
    "deleted, changed meanwhile": (is_deleted, changes_again),
    "new, gone meanwhile": (is_new, goes),
}


@pytest.mark.parametrize(
    ("scenario", "generation"),
    [*((scenario, "nextgen") for scenario in SCENARIOS), ("changed", "classic"), ("deleted", "classic")],
)
def test_death_at_any_step_leaves_no_trace_after_the_event_comes_again(
    tmp_path: Path, aws_session: boto3.Session, generation: str, scenario: str
) -> None:
    with a_mortal_system(generation, tmp_path, aws_session, on_sqlite) as mortal:
        assert_immortal(mortal, scenario, sampled(range(MOST_STEPS), part=list(SCENARIOS).index(scenario)))


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["nextgen", "classic"])
def test_death_between_calls_of_aws_leaves_no_trace(tmp_path: Path, aws: boto3.Session, generation: str) -> None:
    with a_mortal_system(generation, tmp_path, aws, on_dynamodb) as mortal:
        steps = sampled(range(1, MOST_STEPS, 3), part=len(generation))
        assert_immortal(mortal, "changed, changed again meanwhile", steps)


def assert_immortal(mortal: Mortal, scenario: str, steps: Sequence[int]) -> None:
    """Die at these steps, and let the event come again each time."""
    before, meanwhile = SCENARIOS[scenario]
    system = mortal.system
    expected = [undisturbed(mortal, before, meanwhile, first=first) for first in (True, False)]
    for step in steps:
        mortal.anew()
        key = f"documents/runbooks/{step}.md"
        before(system, key)
        if not mortal.dies(key, step):
            assert step > 8
            return
        meanwhile(system, key)
        system.lease_over()
        system.deliver(created(key, 3), receives=2)
        system.deliver(created(key, 4))
        assert state(system, key) in expected, f"died at step {step}"
        assert_seamless(system, key, f"died at step {step}")
    pytest.fail("there are more steps than were tried")


def assert_seamless(system: SystemUnderTest, key: str, case: str) -> None:
    """A version that was replaced ends when the next begins; at any time that is over, the one that was current is found."""
    versions = list(system.versions(key))[::-1]
    system.time.sleep(60)
    for old, new in pairwise(versions):
        assert old.state is not DocumentState.SUPERSEDED or old.superseded_at == new.current_since, case
    noted = {at for one in versions for at in (one.current_since, one.superseded_at) if at}
    for at in sorted({iso_time((epoch_seconds(time) or 0) + moved) for time in noted for moved in (-1, 0)}):
        current = {one.document_id for one in versions if one.current_since <= at < (one.superseded_at or "~")}
        assert found_as_of(system, key, at) == current, f"{case}, at {at}"


def found_as_of(system: SystemUnderTest, key: str, at: str) -> set[str]:
    """The document ids that a key had then, by a search."""
    services = system.services
    query = parse_query("disk", QueryConfig(as_of=at), services.installation.knowledge)
    engine = services.part(assurance).as_of.engine(query, EVERYTHING, services.index)
    chunks = engine.search(SearchRequest(EVERYTHING, text="disk", depth=1000)).chunks.values()
    return {one.chunk.document_id for one in chunks if one.key_id == key_of(key).id}


def undisturbed(mortal: Mortal, before: Scene, meanwhile: Scene, *, first: bool) -> dict[str, Any]:
    """The state of a document that is changed without a death, before the event was handled for the first time or after.

    Either may be what a death leaves: it depends on whether the worker had done its work.
    """
    system = mortal.system
    key = f"documents/runbooks/undisturbed-{first}.md"
    mortal.anew()
    before(system, key)
    if first:
        meanwhile(system, key)
    system.deliver(created(key, 3))
    if not first:
        meanwhile(system, key)
    system.deliver(created(key, 4))
    return state(system, key)


def an_outline(system: SystemUnderTest, key: str, document_id: str) -> str:
    """The outline of a version as it is on file; "" if it isn't."""
    name = outline_key(key, document_id)
    if system.silent.head(name) is None:
        return ""
    with system.silent.open(name) as stream:
        return stream.read().decode()


def state(system: SystemUnderTest, key: str) -> dict[str, Any]:
    """All that the catalog, the index, the chunk files and the outlines say, but for names and times."""
    catalog = system.services.corpus.catalog
    key_id = key_of(key).id
    head = catalog.head(key_of(key)) or {}
    entries = [entry for entry in system.entries() if entry.key_id == key_id]
    versions = list(system.versions(key))
    if not versions:  # never there, or gone before it was finished: the same to everybody
        head = {name: value for name, value in head.items() if name != "state" and value != {}}
    references = system.services.index.references(key_id)
    return {
        "versions": [(v.version, v.state, v.document_id, v.tags, v.chunk_count) for v in versions],
        "entries": [(e.chunk, e.trust, e.scope_key) for e in entries],
        "references": len(references),
        "kept references are right": system.services.index.derives_ids
        or sorted(catalog.all_references(key_of(key).id)) == sorted(references),
        "tagged": [
            (tag, document.document_id)
            for tag in ("old", "new", "newer", "common")
            for document in tagged(catalog, tag)
            if document.key.id == key_id
        ],
        "head": {name: head.get(name) for name in ("documentId", "version", "state", "leaseToken", "writing", "tries")},
        "outlines": [an_outline(system, key, v.document_id) for v in versions],
        "chunk files": [system.silent.head(chunk_key(key, v.document_id)) is not None for v in versions],
    }
