"""The stores compared by the interpreted state machine: each segment by a child, and again only where a result is lacking."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from opx.domain.documents import DocumentKey
from opx.domain.scopes import Scope
from opx.ingestion.events import ObjectEvent, Result
from opx_assurance.consistency.comparing import Comparison
from opx_assurance.consistency.differences import Problem, ReconcileReport
from opx_bulk import reconciling
from opx_bulk.capability import Bulk
from opx_bulk.files import PREPARED, BulkFiles
from opx_bulk.job import BulkJob, BulkKind, BulkStage, ShardPrepared
from tests.aws.cloud import BUCKET
from tests.bulk.bulk_cloud import BulkCloud, page
from tests.doubles.step_functions import Killed

pytestmark = pytest.mark.bulk

DOCUMENTS = 24


@pytest.fixture
def filled(bulk: BulkCloud, monkeypatch: pytest.MonkeyPatch) -> BulkCloud:
    """Two dozen documents, ingested in the ordinary way, of which segments have four each."""
    monkeypatch.setattr(reconciling, "SEGMENT_DOCUMENTS", 4)
    for number in range(DOCUMENTS):
        bulk.put(name(number), page(number))
        (outcome,) = bulk.system.ingestion.pipeline.apply([ObjectEvent(name(number), deleted=False, sequencer="")])
        assert outcome.result is Result.INGESTED
    bulk.clock.sleep(3600)  # so that nothing is too young to be seen everywhere
    return bulk


def name(number: int) -> str:
    return f"documents/runbooks/area{number % 7}/page-{number}.md"


def compared(bulk: BulkCloud, job: BulkJob) -> ReconcileReport:
    ended = bulk.run(job)
    assert ended["status"] == "SUCCEEDED", (ended, bulk.system.part(Bulk.of).jobs.get(job.job_id).problem)
    report = bulk.report(job)
    assert report.unsettled == 0
    assert report.reconciled is not None
    return report.reconciled


def shards(bulk: BulkCloud, stage: str) -> set[object]:
    return {shard for called, shard in bulk.functions.calls if called == stage}


def lose(bulk: BulkCloud) -> None:
    """Loses a document's chunks, and the object of another one."""
    found = bulk.system.corpus.catalog.head(DocumentKey(Scope(), name(5)))
    assert found is not None
    for key in (f"chunks/{found['documentId']}.jsonl", name(3)):
        assert key in bulk.keys(key)
        bulk.cloud.s3.delete_object(Bucket=BUCKET, Key=key)


def test_children_compare_segments_and_find_what_differs(filled: BulkCloud) -> None:
    lose(filled)
    job = filled.begin(BulkKind.RECONCILE)
    found = compared(filled, job)
    assert (found.objects, found.documents, found.index_documents) == (DOCUMENTS - 1, DOCUMENTS, DOCUMENTS)
    assert found.counts == {Problem.CHUNKS_MISSING: 1, Problem.OBJECT_MISSING: 1}
    assert {one.object_key for one in found.differences} == {name(5), name(3)}
    assert (found.repaired, found.held_back) == (0, 0)
    assert len(shards(filled, "prepare")) == len(shards(filled, "apply")) == 12
    assert filled.functions.most_at_once > 1
    assert filled.batches.jobs == {}


def test_a_repair_sends_documents_to_ingestion_and_removes_nothing(filled: BulkCloud) -> None:
    lose(filled)
    found = compared(filled, filled.begin(BulkKind.RECONCILE, repair=True))
    assert (found.repaired, found.waiting, found.held_back) == (1, 1, 1)
    (event,) = [record["body"] for record in filled.cloud.receive()]
    assert name(5) in event
    (outcome,) = filled.system.ingestion.worker.process([(event, 1)])
    assert outcome.result is Result.INGESTED
    assert compared(filled, filled.begin(BulkKind.RECONCILE)).counts == {Problem.OBJECT_MISSING: 1}


def test_an_interrupted_comparison_goes_on_with_the_segments_that_lack_a_result(filled: BulkCloud) -> None:
    job, stopped = filled.begin(BulkKind.RECONCILE), threading.Event()

    def stop(event: dict[str, Any]) -> None:
        if event["stage"] == "prepare" and len(filled.functions.results) > 6 and not stopped.is_set():
            stopped.set()
            filled.runner.cancel(execution)

    filled.functions.before = stop
    execution = filled.runner._arn(f"{job.job_id}-1")
    assert filled.runner.start(job.job_id) == execution
    assert filled.machine.ended(execution)["status"] == "ABORTED"
    before = filled.system.part(Bulk.of).stages.files(job.job_id).numbers(PREPARED)
    assert 0 < len(before) < 12
    again: list[int] = []
    compare_segment = reconciling.compare_segment

    def compare(files: BulkFiles, shard: int, comparison: Comparison) -> ShardPrepared:
        again.append(shard)
        return compare_segment(files, shard, comparison)

    filled.functions.before = lambda _event: None
    assert filled.begin(BulkKind.RECONCILE).job_id == job.job_id
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reconciling, "compare_segment", compare)
        found = compared(filled, job)
    assert sorted(again) == sorted(set(range(12)) - set(before))
    assert (found.documents, found.total) == (DOCUMENTS, 0)


def test_a_segment_whose_child_always_dies_is_named(filled: BulkCloud) -> None:
    def die(event: dict[str, Any]) -> None:
        if event["stage"] in ("prepare", "apply") and event["shard"] == 1:
            raise Killed

    filled.functions.before = die
    filled.runner._tolerated = 20
    job = filled.begin(BulkKind.RECONCILE)
    compared(filled, job)
    report = filled.report(job)
    (failure,) = report.failures
    assert failure.object_key.startswith("objects behind ")
    assert "every call of the function failed" in failure.reason
    assert filled.failed_items() == []
    assert filled.system.part(Bulk.of).jobs.get(job.job_id).stage is BulkStage.DONE
