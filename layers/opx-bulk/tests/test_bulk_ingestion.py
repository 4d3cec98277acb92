"""A bulk job ingests as messages do: the same ids, index, chunk files, graph and answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from opx.domain.documents import DocumentKey
from opx.domain.record import to_json
from opx.domain.scopes import Scope
from opx.errors import BulkBusyError, BulkCancelledError, BulkJobNotFoundError, StoreUnavailableError
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.events import Result
from opx.ports import Vectors
from opx_assurance.capability import assurance
from opx_assurance.consistency.differences import Problem
from opx_bulk.capability import Bulk
from opx_bulk.job import BulkKind, BulkStage, BulkWork
from opx_bulk.listing import SHARD_BYTES, packed
from tests.support.bulk_support import (
    FOLDER,
    begun,
    contents,
    drained,
    job_files,
    json_file,
    page,
    put_pages,
    run,
    runner,
    system_at,
)
from tests.support.fakes import WordsEmbedder

REPORT = ["failures.jsonl", "report.json"]


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Contents after ordinary ingestion of the pages."""
    with system_at(tmp_path_factory.mktemp("ordinary")) as system:
        put_pages(system, 60, quiet=False)
        assert {outcome.result for outcome in drained(system)} == {Result.INGESTED}
        return contents(system)


@pytest.mark.parametrize("processes", [0, 2])
def test_bulk_ingestion_makes_the_same_as_ordinary_ingestion(
    tmp_path: Path, ordinary: dict[str, object], processes: int
) -> None:
    with system_at(tmp_path / "home") as system:
        put_pages(system, 60)
        report = run(system, processes=processes)
        assert (report.documents, report.ingested, report.failed, report.unsettled) == (60, 60, 0, 0)
        assert report.embedded == (0 if processes else report.chunks)
        assert contents(system) == ordinary
        assert system.queue.waiting() == 0
        job = system.part(Bulk.of).jobs.all(limit=1)[0]
        assert (job.stage, job.shards) == (BulkStage.DONE, 2)
        assert job_files(system, job.job_id) == REPORT


def test_vectors_that_children_computed_are_cached(tmp_path: Path) -> None:
    with system_at(tmp_path / "home") as system:
        (key,) = put_pages(system, 1)
        run(system, processes=1)
        document_key = DocumentKey(Scope(), key)
        current = current_id(system.corpus.catalog.head(document_key) or {})
        texts = [chunk.text for chunk in system.ingestion.pipeline.read_chunks(document_key, current)]
        assert texts
        assert system.indexing.document_embedder.stored(texts).keys() == set(texts)


def test_documents_that_are_in_order_are_not_applied(tmp_path: Path) -> None:
    with system_at(tmp_path / "home") as system:
        keys = put_pages(system, 5, quiet=False)
        drained(system)
        system.corpus.quiet_store.put(keys[2], page(2, "Another text."))
        job = begun(system)
        system.part(Bulk.of).stages.list(job.job_id)
        prepared = system.part(Bulk.of).stages.prepare(job.job_id, 0)
        assert (prepared.left, prepared.unchanged) == ((keys[2],), 4)
        report = run(system)
        assert (report.ingested, report.unchanged, report.documents) == (1, 4, 5)


def test_unreadable_documents_are_named_with_their_reasons(tmp_path: Path) -> None:
    with system_at(tmp_path / "home") as system:
        put_pages(system, 4)
        broken = f"{FOLDER}broken.md"
        system.corpus.quiet_store.put(broken, b" \n")
        report = run(system, processes=1)
        assert (report.documents, report.ingested, report.failed) == (5, 4, 1)
        assert [one.object_key for one in report.failures] == [broken]
        assert report.failures[0].reason
        assert [failure.object_key for failure in system.corpus.failures.items()] == [broken]
        job = system.part(Bulk.of).jobs.all(limit=1)[0]
        assert to_json(system.part(Bulk.of).failures(job, after=0, limit=9)) == to_json(report.failures)


def test_a_prefix_limits_the_documents(tmp_path: Path) -> None:
    with system_at(tmp_path / "home") as system:
        put_pages(system, 3)
        system.corpus.quiet_store.put("documents/postmortems/lag.md", page(9))
        report = run(system, BulkWork(kind=BulkKind.INGEST, prefix="documents/postmortems/"))
        assert (report.documents, report.ingested) == (1, 1)


def test_an_empty_corpus_is_done_at_once(tmp_path: Path) -> None:
    with system_at(tmp_path / "home") as system:
        assert run(system, processes=2).documents == 0


# -- shards


def test_a_giant_document_is_a_shard_of_its_own() -> None:
    listed = [({"key": f"k{at}"}, size, f"k{at}") for at, size in enumerate((10, SHARD_BYTES + 1, 10, 20))]
    shards = [([line["key"] for line in lines], size, after) for lines, size, after in packed(iter(listed))]
    assert shards == [(["k0"], 10, "k0"), (["k1"], SHARD_BYTES + 1, "k1"), (["k2", "k3"], 30, "k3")]


def test_shards_have_a_limit_of_documents() -> None:
    listed = (({"key": str(at)}, 1, str(at)) for at in range(1201))
    assert [len(lines) for lines, _, _ in packed(listed)] == [500, 500, 201]


def test_a_listing_goes_on_where_its_turn_ended(tmp_path: Path) -> None:
    with system_at(tmp_path / "home") as system:
        keys = put_pages(system, 120)
        job, turns = begun(system), 1
        while not system.part(Bulk.of).stages.list(job.job_id, lambda: True):
            turns += 1
        shards = system.part(Bulk.of).stages.shards(job.job_id)
        files = system.part(Bulk.of).stages.files(job.job_id)
        listed = [row["key"] for shard in shards for row in files.lines(files.name("shards", shard.number))]
        assert (listed, turns) == (keys, 4)
        assert system.part(Bulk.of).jobs.get(job.job_id).documents == 120


# -- several jobs, and their end


def test_a_second_job_is_refused_by_the_name_of_the_first(tmp_path: Path) -> None:
    with system_at(tmp_path / "home") as system:
        put_pages(system, 1)
        first = begun(system)
        with pytest.raises(BulkBusyError, match=first.job_id):
            begun(system, BulkWork(kind=BulkKind.INGEST, prefix="documents/x/"))
        assert begun(system).job_id == first.job_id  # the same work continues it
        assert [job.job_id for job in system.part(Bulk.of).jobs.all(limit=9)] == [first.job_id]
        run(system)
        assert begun(system).job_id != first.job_id


def test_a_job_runs_in_one_process_at_a_time(tmp_path: Path) -> None:
    with system_at(tmp_path / "home") as system, system_at(tmp_path / "home") as other:
        put_pages(system, 1)
        job = begun(system)
        with other.work.exclusive_bulk(job.job_id), pytest.raises(BulkBusyError, match=job.job_id):
            runner(system).run(job.job_id)


def test_the_next_job_removes_files_that_an_ended_one_left(tmp_path: Path) -> None:
    with system_at(tmp_path / "home") as system:
        put_pages(system, 1)
        job_id = run(system).job_id
        system.part(Bulk.of).stages.files(job_id).put_list(
            "shards.json", []
        )  # its process was killed before it removed them
        begun(system)
        assert job_files(system, job_id) == REPORT


def test_an_unknown_job_is_not_found(tmp_path: Path) -> None:
    with system_at(tmp_path / "home") as system, pytest.raises(BulkJobNotFoundError):
        system.part(Bulk.of).jobs.get("20260101-000000-abcdef")


@pytest.mark.parametrize("stages", range(5))
def test_a_cancelled_job_leaves_its_report_alone(tmp_path: Path, stages: int) -> None:
    with system_at(tmp_path / "home") as system:
        put_pages(system, 60)
        job_id, bulk = begun(system).job_id, system.part(Bulk.of).stages
        steps: list[Callable[[], object]] = [
            lambda: bulk.list(job_id, lambda: True),
            lambda: bulk.list(job_id),
            lambda: bulk.prepare(job_id, 0, embed=True),
            lambda: bulk.apply(job_id, 0),
        ]
        for step in steps[:stages]:
            step()
        job = bulk.cancel(job_id)
        assert job.stage is BulkStage.CANCELLED
        assert job_files(system, job_id) == REPORT
        assert json_file(system, f"bulk/{job_id}/report.json")["ingested"] == (50 if stages == 4 else 0)
        with pytest.raises(BulkCancelledError):
            bulk.apply(job_id, 1)
        found = {one.problem for one in system.part(assurance).reconciler().run().differences}
        assert found == {Problem.NOT_TAKEN_IN}  # and nothing half-written
        assert run(system).ingested == (10 if stages == 4 else 60)


def test_a_stage_that_runs_while_its_job_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    class CancellingEmbedder(WordsEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
            system.part(Bulk.of).stages.cancel(job.job_id)
            return super().embed_documents(texts)

    with system_at(tmp_path / "home", embedder=CancellingEmbedder()) as system:
        put_pages(system, 2)
        job = begun(system)
        system.part(Bulk.of).stages.list(job.job_id)
        with pytest.raises(BulkCancelledError):
            system.part(Bulk.of).stages.prepare(job.job_id, 0, embed=True)
        assert job_files(system, job.job_id) == REPORT


def test_reconciling_finds_no_difference_after_a_job(tmp_path: Path) -> None:
    with system_at(tmp_path / "home") as system:
        put_pages(system, 8)
        run(system, processes=1)
        assert system.part(assurance).reconciler(thorough=True).run().total == 0


def test_a_removed_client_is_in_no_file_of_a_job(tmp_path: Path) -> None:
    with system_at(tmp_path / "home") as system:
        own = f"{Scope('acme').prefix}{FOLDER}"
        system.corpus.quiet_store.put(f"{own}page.md", page(1))
        system.corpus.quiet_store.put(f"{own}broken.md", b" \n")
        job_id = begun(system).job_id
        system.part(Bulk.of).stages.list(job_id)
        removal = system.tenants.offboarding(sleep=lambda _: None)
        assert (removal.count("acme")["files of bulk jobs"], removal.count("other")["files of bulk jobs"]) == (1, 0)
        runner(system).run(job_id)
        assert removal.count("acme")["files of bulk jobs"] == 2  # report and list name what failed
        second = begun(system, BulkWork(kind=BulkKind.INGEST, prefix=own))
        with pytest.raises(StoreUnavailableError, match=second.job_id):
            removal.remove("acme")
        system.part(Bulk.of).stages.cancel(second.job_id)
        assert removal.remove("acme").left == {}
        assert list(system.store.list("bulk/")) == []
