"""The stores compared by segments show the differences that they show as a whole."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from opx.domain.scopes import Scope
from opx.errors import StoreUnavailableError
from opx.ingestion.corpus.chunk_files import chunk_file
from opx.operations.system import System
from opx.ports import DocumentChange
from opx.ports.tables import KEYS
from opx.settings import Settings
from opx.system import bootstrap
from opx_assurance.capability import assurance, opened
from opx_assurance.consistency.comparing import WHOLE, Comparison, SegmentKind, StoreSegment
from opx_assurance.consistency.differences import Problem
from opx_assurance.consistency.processes import compared_in_processes
from opx_assurance.consistency.store_checks import CheckedDocuments
from opx_testing.entries import a_change, an_entry
from tests.e2e.systems import SystemUnderTest, key_of
from tests.support.archive_support import objects, unknown_objects

DOCUMENTS = 40
PREFIXES = (
    "documents/runbooks/",
    "clients/acme/projects/shop/documents/operations/incidents/",
    "clients/zoo/documents/",
)


def keys() -> list[str]:
    return [f"{PREFIXES[number % 3]}team-{number % 4}/n{number}.md" for number in range(DOCUMENTS)]


@pytest.fixture
def broken(embedded: SystemUnderTest) -> SystemUnderTest:
    """Documents of three owners, with differences of each kind in corpus, catalog and index."""
    for key in keys():
        embedded.put(key, f"# {key}\n\nRestart what {key} says.\n")
    embedded.work()
    embedded.put(keys()[0], "# Second\n\nAnother version.\n")
    embedded.work()
    for key in keys()[3:6]:
        embedded.silent.delete(key)
    for key in keys()[7:9]:
        embedded.put_silently(key, "# Changed\n\nNobody was told.\n")
    for number in range(3):
        embedded.put_silently(f"{PREFIXES[number]}lost/{number}.md", "# Lost\n\nNobody was told.\n")
        embedded.put_silently(f"{PREFIXES[number].partition('documents')[0]}chunks/{number:064x}.jsonl", "{}")
    index = embedded.services.index
    for key in keys()[12:15]:
        index.apply([DocumentChange(key_of(key).id, "", superseded=index.references(key_of(key).id))])
    vector = embedded.services.indexing.embedder.embed_query("unknown")
    index.apply(
        [a_change(an_entry(f"unknown {number}", scope=Scope(f"c{number}"), vector=vector)) for number in range(3)]
    )
    document = embedded.document(keys()[20])
    embedded.silent.delete(chunk_file(document.key, document.document_id))
    return embedded


def compared(comparison: Comparison, segments: Iterable[StoreSegment]) -> CheckedDocuments:
    found = CheckedDocuments()
    for segment in segments:
        for checked in comparison.compare(segment):
            found.add(checked)
    return found


def shown(found: CheckedDocuments) -> tuple[Counter[Any], dict[str, int], int]:
    return Counter(found.found), dict(found.compared), found.in_flight


def many(comparison: Comparison) -> list[StoreSegment]:
    found = comparison.cut(1, 7)[0]
    assert [one.kind for one in found] == [SegmentKind.OBJECTS] * 7 + [SegmentKind.DOCUMENTS] * 7
    return found


def test_segments_have_all_differences_of_the_whole(broken: SystemUnderTest) -> None:
    comparison = broken.services.part(assurance).comparison()
    whole = compared(comparison, WHOLE)
    kinds = {one.problem for one in whole.found}
    assert kinds >= {Problem.OBJECT_MISSING, Problem.CHANGED, Problem.NOT_TAKEN_IN, Problem.INDEX_DIFFERS}
    assert kinds >= {Problem.INDEX_UNKNOWN, Problem.CHUNK_FILE_UNKNOWN, Problem.CHUNKS_MISSING}
    segments = many(comparison)
    random.Random(7).shuffle(segments)
    assert shown(compared(comparison, segments)) == shown(whole)


def test_segment_may_be_compared_again(broken: SystemUnderTest) -> None:
    comparison = broken.services.part(assurance).comparison()
    for segment in many(comparison):
        again = StoreSegment.from_json(segment.to_json())
        assert shown(compared(comparison, [again])) == shown(compared(comparison, [segment]))


def test_each_segment_has_its_share(broken: SystemUnderTest) -> None:
    comparison = broken.services.part(assurance).comparison()
    for segment in many(comparison):
        counts = compared(comparison, [segment]).compared
        assert counts["objects"] + counts["chunk_files"] + counts["documents"] < DOCUMENTS


def test_small_catalog_is_compared_as_a_whole(broken: SystemUnderTest) -> None:
    comparison = broken.services.part(assurance).comparison()
    assert comparison.cut(DOCUMENTS, 100)[0] == comparison.cut(1, 1)[0] == list(WHOLE)


def test_catalog_that_is_lost_leaves_the_whole_corpus(broken: SystemUnderTest) -> None:
    tables = broken.services.tables
    for item in list(tables.every_item(KEYS)):
        tables.table(KEYS).delete({"documentKey": item["documentKey"]})
    comparison = broken.services.part(assurance).comparison()
    assert comparison.cut(1, 7)[0] == list(WHOLE)
    assert {one.problem for one in compared(comparison, WHOLE).found} >= {Problem.NOT_TAKEN_IN}


@pytest.mark.parametrize("listed", [1, 2, 500])
def test_changed_sidecar_is_found_wherever_the_listing_is_cut(
    embedded: SystemUnderTest, monkeypatch: pytest.MonkeyPatch, listed: int
) -> None:
    monkeypatch.setattr("opx_assurance.consistency.comparing._LISTED", listed)
    runbooks = [f"documents/runbooks/{name}.md" for name in ("a", "b", "b.md.a", "c")]
    for key in runbooks:
        embedded.put(key, f"# {key}\n\nText.\n")
    embedded.work()
    embedded.put_silently(f"{runbooks[1]}.metadata.json", '{"tags": ["silent"]}')
    found = compared(embedded.services.part(assurance).comparison(), WHOLE)
    assert [(one.problem, one.object_key) for one in found.found] == [(Problem.CHANGED, runbooks[1])]


# -- in processes


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return unknown_objects(tmp_path)


def test_processes_find_what_one_finds(home: Settings) -> None:
    segments = objects("documents/runbooks/03.md", "documents/runbooks/08")
    found = CheckedDocuments()
    for _, checked in compared_in_processes(partial(opened, bootstrap, home), segments, processes=2, thorough=False):
        found.add(checked)
    with bootstrap(home) as system:
        assert shown(found) == shown(compared(system.part(assurance).comparison(), WHOLE[:1]))
    assert len(found.found) == found.compared["objects"] == 12


def ending(settings: Settings) -> System:
    os.kill(os.getpid(), signal.SIGKILL)
    return bootstrap(settings)


def test_process_that_is_killed_is_an_error(home: Settings) -> None:
    with pytest.raises(StoreUnavailableError, match="run it again"):
        list(compared_in_processes(partial(opened, ending, home), objects(), processes=1, thorough=False))
