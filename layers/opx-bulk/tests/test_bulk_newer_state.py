"""Documents change while a bulk job runs: at every moment the newer state wins, in any order of writers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from opx.domain.documents import DocumentKey
from opx.domain.scopes import Scope
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.operations.system import System
from opx.ports import DocumentChange
from opx_bulk.capability import Bulk
from tests.support.bulk_support import FOLDER, begun, contents, drained, page, put_pages, system_at

KEY = f"{FOLDER}page-001.md"
OLD, NEW = page(1), page(1, "Another cause: the volume is read-only.")
SIDECAR = b'{"metadataAttributes": {"title": "Named otherwise", "tags": ["late"]}}'

Change = Callable[[System], object]
CHANGES: dict[str, Change] = {
    "replaced": lambda system: system.store.put(KEY, NEW),
    "deleted": lambda system: system.store.delete(KEY),
    "described": lambda system: system.store.put(KEY + SIDECAR_SUFFIX, SIDECAR),
    "replaced and put back": lambda system: (system.store.put(KEY, NEW), system.store.put(KEY, OLD)),
    "deleted and put again": lambda system: (system.store.delete(KEY), system.store.put(KEY, NEW)),
}
MOMENTS = ("listed", "prepared", "claimed", "applied")
INGESTS = ("the worker at once", "the worker at the end")


def ordinary(home: Path, change: Change) -> dict[str, Any]:
    """Contents after ordinary ingestion of the documents in their last state."""
    with system_at(home) as system:
        put_pages(system, 3, quiet=False)
        change(system)
        drained(system)
        return contents(system)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return {name: ordinary(tmp_path_factory.mktemp("ordinary"), change) for name, change in CHANGES.items()}


@pytest.mark.parametrize(("name", "moment", "ingests"), list(product(CHANGES, MOMENTS, INGESTS)))
def test_the_newer_state_wins(
    tmp_path: Path, expected: dict[str, dict[str, Any]], name: str, moment: str, ingests: str
) -> None:
    with system_at(tmp_path / "home") as system:
        put_pages(system, 3)
        job, stages = begun(system), system.part(Bulk.of).stages

        def changes(at: str) -> None:
            if at == moment:
                CHANGES[name](system)
                if ingests == INGESTS[0] and at != "claimed":  # a worker waits for the lock of the one that writes
                    drained(system)

        stages.list(job.job_id)
        changes("listed")
        stages.prepare(job.job_id, 0, embed=True)
        changes("prepared")
        with_change_at_the_write(system, lambda: changes("claimed"))
        stages.apply(job.job_id, 0)
        changes("applied")
        report = stages.finish(job.job_id)
        drained(system)
        assert report is not None
        assert (report.documents, report.unsettled, report.failed) == (3, 0, 0)
        assert without_withdrawn(contents(system)) == without_withdrawn(expected[name])


def with_change_at_the_write(system: System, change: Callable[[], None]) -> None:
    """Has a change happen once all documents are claimed and read, before the index is written."""
    index, pending = system.index, [change]
    apply = index.apply

    def applied(changes: list[DocumentChange]) -> list[list[str]]:
        if pending:
            pending.pop()()
        return apply(changes)

    index.apply = applied  # type: ignore[method-assign,assignment]


def without_withdrawn(found: dict[str, Any]) -> dict[str, Any]:
    """Without what is left of documents that aren't current, whose versions differ by what was ingested in between. So do the
    statistics of words, of which confidence depends, until the index is rewritten."""
    current = {source for source, (_, state) in found["catalog"].items() if state == "current"}
    answers = {question: sorted(document for document, _ in each) for question, each in found["answers"].items()}
    per_key = ("catalog", "entries", "graph")
    return {"answers": answers} | {
        name: {key: value for key, value in found[name].items() if key in current} for name in per_key
    }


def test_a_document_that_changed_is_embedded_again_and_others_are_not(tmp_path: Path) -> None:
    with system_at(tmp_path / "home") as system:
        put_pages(system, 3)
        job, stages = begun(system), system.part(Bulk.of).stages
        stages.list(job.job_id)
        stages.prepare(job.job_id, 0, embed=True)
        system.corpus.quiet_store.put(KEY, NEW)
        applied = stages.apply(job.job_id, 0)
        assert applied.ingested == 3
        assert 0 < applied.embedded < applied.chunks
        document = current_id(system.corpus.catalog.head(DocumentKey(Scope(), KEY)) or {})
        chunks = system.ingestion.pipeline.read_chunks(DocumentKey(Scope(), KEY), document)
        assert any("read-only" in chunk.content for chunk in chunks)
