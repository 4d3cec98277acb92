"""A bulk job builds a new index as reindexing does, by the same steps after its documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from opx.errors import BulkCancelledError, InvalidInputError, ReindexBusyError
from opx.ingestion.indexing.book import EditionState
from opx.lifecycle.reindex.job import ReindexPhase
from opx.operations.system import System
from opx_assurance.capability import assurance
from opx_bulk.capability import Bulk
from opx_bulk.job import BulkKind, BulkStage, BulkWork
from tests.support.bulk_support import FOLDER, begun, contents, drained, job_files, page, put_pages, run, system_at

OTHER = BulkWork(kind=BulkKind.REINDEX, model="other")
STATED = ("catalog", "entries", "chunks", "graph")
PAGES = 60


@pytest.fixture
def system(tmp_path: Path) -> System:
    made = system_at(tmp_path / "home")
    put_pages(made, PAGES)
    run(made)
    return made


def filled(system: System) -> str:
    """A job whose documents are all in the new index, which isn't switched to yet."""
    job_id, stages = begun(system, OTHER).job_id, system.part(Bulk.of).stages
    assert stages.list(job_id)
    for shard in stages.shards(job_id):
        stages.prepare(job_id, shard.number, embed=True)
        assert stages.apply(job_id, shard.number).embedded == 0
    return job_id


@pytest.mark.parametrize("processes", [0, 2])
def test_the_new_index_has_the_same_entries_and_the_old_one_is_kept(system: System, processes: int) -> None:
    before = contents(system)
    report = run(system, OTHER, processes=processes)
    assert (report.documents, report.ingested, report.unsettled, report.problems) == (PAGES, PAGES, 0, [])
    after = contents(system)
    assert {name: after[name] for name in STATED} == {name: before[name] for name in STATED}
    assert system.indexing.document_embedder.model_id == "words/64/other"
    state, job = system.lifecycle.reindexer.status()
    assert [one.state for one in state.others] == [EditionState.PREVIOUS]
    assert job
    assert (job.phase, job.documents, job.chunks, len(job.sample)) == (ReindexPhase.DONE, PAGES, report.chunks, 50)
    assert job.report["questions"] > 0


def test_the_index_can_be_switched_back_after_writes(system: System) -> None:
    before = contents(system)
    run(system, OTHER)
    put_pages(system, PAGES + 1, quiet=False)
    drained(system)
    reindexer = system.lifecycle.reindexer
    reindexer.roll_back()
    assert reindexer.advance(lambda: False).finished
    after = contents(system)
    assert system.indexing.document_embedder.model_id == "words/64"
    assert len(after["catalog"]) == PAGES + 1
    assert all(after["entries"].values())
    assert {key: after["entries"][key] for key in before["entries"]} == before["entries"]


def test_documents_that_change_meanwhile_are_caught_up_on(system: System) -> None:
    job_id = filled(system)
    system.store.put(f"{FOLDER}page-001.md", page(1, "Another cause."))
    system.store.delete(f"{FOLDER}page-002.md")
    system.store.put(f"{FOLDER}page-new.md", page(99))
    drained(system)
    report = system.part(Bulk.of).stages.finish(job_id)
    assert report
    assert report.problems == []
    assert system.part(assurance).reconciler(thorough=True).run().total == 0
    assert system.indexing.document_embedder.model_id == "words/64/other"


def test_reindexing_does_not_advance_the_edition_of_a_bulk_job(system: System) -> None:
    job = begun(system, OTHER)
    with pytest.raises(ReindexBusyError, match=job.job_id):
        system.lifecycle.reindexer.advance(lambda: False)
    filled(system)
    with pytest.raises(ReindexBusyError, match=job.job_id):
        system.lifecycle.reindexer.advance(lambda: False)


def test_a_bulk_job_does_not_begin_while_an_index_is_being_built(system: System) -> None:
    system.lifecycle.reindexer.start(model="other")
    with pytest.raises(InvalidInputError, match="opx reindex"):
        begun(system, OTHER)
    assert system.part(Bulk.of).jobs.unfinished(BulkKind.REINDEX) is None


@pytest.mark.parametrize("at", ["begun", "filled"])
def test_a_cancelled_job_discards_its_index(system: System, at: str) -> None:
    before = contents(system)
    job_id = begun(system, OTHER).job_id if at == "begun" else filled(system)
    job = system.part(Bulk.of).stages.cancel(job_id)
    assert job.stage is BulkStage.CANCELLED
    assert job_files(system, job_id) == ["failures.jsonl", "report.json"]
    state, _ = system.lifecycle.reindexer.status()
    assert (state.target, [one.state for one in state.others]) == (None, [EditionState.DISCARDED])
    with pytest.raises(BulkCancelledError):
        system.part(Bulk.of).stages.prepare(job_id, 0)
    assert contents(system) == before
    assert run(system, OTHER).ingested == PAGES


def test_a_worse_index_is_refused_with_its_problems(tmp_path: Path) -> None:
    with system_at(tmp_path / "home") as system:
        put_pages(system, PAGES)
        run(system)
        job_id = begun(system, OTHER).job_id
        stages = system.part(Bulk.of).stages
        stages.list(job_id)
        stages.abandon(job_id, 0, "its process ended")
        stages.apply(job_id, 1)
        report = stages.finish(job_id)
        assert report
        assert report.failed == 50
        assert any("entries" in problem for problem in report.problems)
        assert system.part(Bulk.of).jobs.get(job_id).stage is BulkStage.REFUSED
        assert system.indexing.document_embedder.model_id == "words/64"
