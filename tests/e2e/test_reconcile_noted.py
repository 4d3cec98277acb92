"""An interrupted `opx reconcile` goes on with the segments of the stores that it had not compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from opx.ingestion.events import ObjectEvent
from opx.ports import ObjectStore
from opx.settings import Settings
from opx.system import bootstrap
from opx_assurance.capability import assurance, opened
from opx_assurance.consistency.comparing import StoreSegment
from opx_assurance.consistency.noted import NOTED_SECONDS, NotedSegments
from opx_assurance.consistency.processes import compared_in_processes
from opx_assurance.consistency.store_checks import CheckedDocuments
from tests.support.archive_support import objects, unknown_objects


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return unknown_objects(tmp_path)


def noted_in(store: ObjectStore) -> list[str]:
    return [info.key for info in store.list("bulk/")]


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_interrupted_comparison_goes_on_with_the_segments_that_lack_findings(home: Settings) -> None:
    compare = partial(compared_in_processes, partial(opened, bootstrap, home), processes=1, thorough=False)
    with bootstrap(home) as system:
        store, clock = system.storage.objects, Clock()
        cut = objects("documents/runbooks/03.md", "documents/runbooks/08")
        interrupted = NotedSegments(store, clock, thorough=False)
        first = next(interrupted.compared(interrupted.begin(lambda: cut), compare))
        compared_again: list[StoreSegment] = []

        def rest(segments: Sequence[StoreSegment]) -> Iterator[tuple[StoreSegment, CheckedDocuments]]:
            compared_again.extend(segments)
            return compare(segments)

        again = NotedSegments(store, clock, thorough=False)
        found = CheckedDocuments()
        for checked in again.compared(again.begin(list), rest):
            found.add(checked)
        assert len(compared_again) == 2
        assert 0 < first.compared["objects"] < 12
        assert len(found.found) == found.compared["objects"] == 12
        assert noted_in(store) == []


def test_comparison_that_was_interrupted_long_ago_begins_anew(home: Settings) -> None:
    with bootstrap(home) as system:
        clock = Clock()
        noted = NotedSegments(system.storage.objects, clock, thorough=False)
        old, new = objects("documents/a", "documents/b"), objects("documents/c", "documents/d")
        assert list(noted.begin(lambda: old)) == old
        assert list(noted.begin(lambda: new)) == old
        assert list(NotedSegments(system.storage.objects, clock, thorough=True).begin(lambda: new)) == new
        clock.now += NOTED_SECONDS
        assert list(noted.begin(lambda: new)) == new


def test_reconcile_notes_segments_until_its_end(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opx_assurance.consistency.processes.DOCUMENTS_A_SEGMENT", 2)
    monkeypatch.setattr("opx_assurance.capability.cores", lambda: 2)
    with bootstrap(home) as system:
        for number in range(12):
            event = ObjectEvent(f"documents/runbooks/{number:02}.md", deleted=False, sequencer="")
            system.ingestion.pipeline.apply([event])
        store, noted = system.storage.objects, []
        reconciler = system.part(assurance).reconciler(
            progress=lambda _kind, _count: noted.append(len(noted_in(store)))
        )
        report = reconciler.run()
        assert (report.objects, report.documents, report.total) == (12, 12, 0)
        assert max(noted) > 2
        assert noted_in(store) == []
