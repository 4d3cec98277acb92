"""A worker that dies at any step: the event comes again, and the outcome is as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest

from opx.adapters.aws.opensearch import opensearch_client
from opx.adapters.aws.opensearch_bulk import BulkLimits
from opx.adapters.aws.opensearch_indices import ensure_index
from tests.doubles.fake_time import FakeTime
from tests.doubles.opensearch import OpenSearchDouble
from tests.e2e.systems import System, an_account, aws_system, chunk_key, created, key_of
from tests.fakes import WordsEmbedder

MOST_STEPS = 60
TWO_ACTIONS = BulkLimits(actions=2)


class Died(BaseException):
    """The process is gone: nobody catches this."""


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


@contextmanager
def a_mortal_system(session: boto3.Session, generation: str, steps: Steps) -> Iterator[System]:
    clients = {name: steps.watch(client) for name, client in an_account(session).items()}
    embedder = WordsEmbedder()
    with OpenSearchDouble(generation) as double:
        client = opensearch_client(double.endpoint, session.get_credentials(), "eu-central-1")
        ensure_index(client, "knowledge", model_id=embedder.model_id, dimension=embedder.dimension)
        yield aws_system(generation, clients, steps.watch(client), embedder, FakeTime(), limits=TWO_ACTIONS)
        client.close()


def a_text(number: int, sections: int, tag: str) -> str:
    body = "".join(f"## Part {n}\n\n{f'version{number} step{n} ' * 40}\n\n" for n in range(sections))
    return f"---\ntags: [{tag}, common]\n---\n# Disk\n\n{body}"


def put(system: System, key: str, number: int, sections: int, tag: str) -> None:
    system.put_silently(key, a_text(number, sections, tag))


def is_changed(system: System, key: str) -> None:
    put(system, key, 1, 3, "old")
    system.deliver(created(key, 1))
    put(system, key, 2, 2, "new")


def is_retagged(system: System, key: str) -> None:
    put(system, key, 1, 2, "old")
    system.deliver(created(key, 1))
    put(system, key, 1, 2, "new")


def is_new(system: System, key: str) -> None:
    put(system, key, 1, 3, "new")


def is_deleted(system: System, key: str) -> None:
    put(system, key, 1, 3, "old")
    system.deliver(created(key, 1))
    system.silent.delete(key)


def nothing(system: System, key: str) -> None:
    pass


def changes_again(system: System, key: str) -> None:
    put(system, key, 3, 1, "newer")


def changes_back(system: System, key: str) -> None:
    put(system, key, 1, 3, "old")


def goes(system: System, key: str) -> None:
    system.silent.delete(key)


SCENARIOS: dict[str, tuple[Callable[[System, str], None], Callable[[System, str], None]]] = {
    "changed": (is_changed, nothing),
    "retagged": (is_retagged, nothing),
    "new": (is_new, nothing),
    "deleted": (is_deleted, nothing),
    "changed, changed again meanwhile": (is_changed, changes_again),
    "changed, changed back meanwhile": (is_changed, changes_back),
    "new, gone meanwhile": (is_new, goes),
}


@pytest.mark.parametrize("generation", ["nextgen", "classic"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_death_at_any_step_leaves_no_trace_after_the_event_comes_again(
    aws: boto3.Session, generation: str, scenario: str
) -> None:
    before, meanwhile = SCENARIOS[scenario]
    steps = Steps()
    with a_mortal_system(aws, generation, steps) as system:
        for step in range(MOST_STEPS):
            key = f"documents/runbooks/{step}.md"
            before(system, key)
            if not dies(system, key, steps, step):
                break
            meanwhile(system, key)
            system.lease_over()
            (outcome,) = system.deliver(created(key, 2), receives=2)
            assert outcome.result in ("ingested", "deleted", "skipped", "unchanged"), (step, outcome)
            assert state(system, key) == expected(system, before, meanwhile), f"died at step {step}"
        else:
            pytest.fail("there are more steps than were tried")
        assert step > 8


def dies(system: System, key: str, steps: Steps, step: int) -> bool:
    steps.left = step
    try:
        system.deliver(created(key, 2))
    except Died:
        return True
    finally:
        steps.left = -1
    return False


def expected(
    system: System, before: Callable[[System, str], None], meanwhile: Callable[[System, str], None]
) -> dict[str, Any]:
    """The state of a document to which the same happened without a death."""
    key = "documents/runbooks/reference.md"
    if not list(system.versions(key)) and system.silent.head(key) is None:
        before(system, key)
        meanwhile(system, key)
        system.deliver(created(key, 2))
    return state(system, key)


def state(system: System, key: str) -> dict[str, Any]:
    """All that the catalog, the index and the chunk files say, but for names and times."""
    catalog = system.services.catalog
    key_id = key_of(key).id
    head = catalog.head(key_of(key)) or {}
    entries = [entry for entry in system.entries() if entry.key_id == key_id]
    versions = list(system.versions(key))
    references = system.services.index.references(key_id)
    return {
        "versions": [(v.version, v.state, v.document_id, v.tags, v.chunk_count) for v in versions],
        "entries": [(e.chunk, e.trust, e.scope_key) for e in entries],
        "references": len(references),
        "kept references are right": system.services.index.derives_ids
        or sorted(catalog.references(key_of(key))) == sorted(references),
        "tagged": [
            (tag, document.document_id)
            for tag in ("old", "new", "newer", "common")
            for document in catalog.tagged(tag)
            if document.key.id == key_id
        ],
        "head": {name: head.get(name) for name in ("documentId", "version", "state", "leaseToken", "writing", "tries")},
        "chunk files": [system.silent.head(chunk_key(key, v.document_id)) is not None for v in versions],
    }
