"""Bulk ingestion by the interpreted state machine: all documents once, whatever is killed, stopped or busy meanwhile."""

from __future__ import annotations

import gzip
import json
import threading
from typing import Any

import pytest

from opx.errors import BulkBusyError, IndexWakingError
from opx_bulk.capability import Bulk
from opx_bulk.job import BulkJob, BulkStage
from tests.aws.cloud import BUCKET
from tests.bulk.bulk_cloud import BulkCloud, page
from tests.doubles.step_functions import Kill, Killed

pytestmark = pytest.mark.bulk

STAGES = [
    "list",
    "prepare",
    "embed",
    "finish",
    "apply",
]
DOCUMENTS = 24


@pytest.fixture
def loaded(bulk: BulkCloud) -> BulkCloud:
    """Two dozen documents in the bucket, in six shards; nothing knows of them."""
    bulk.put_pages(DOCUMENTS)
    return bulk


def succeeded(bulk: BulkCloud, job: BulkJob) -> None:
    ended = bulk.run(job)
    assert ended["status"] == "SUCCEEDED", (ended, bulk.system.part(Bulk.of).jobs.get(job.job_id).problem)


def all_are_in_once(bulk: BulkCloud, job: BulkJob) -> None:
    report = bulk.report(job)
    assert (report.documents, report.ingested + report.unchanged, report.failed, report.unsettled) == (24, 24, 0, 0)
    assert sorted(bulk.indexed()) == sorted(f"Page {number}" for number in range(DOCUMENTS))
    assert bulk.system.part(Bulk.of).jobs.get(job.job_id).stage is BulkStage.DONE
    assert [key.rpartition("/")[2] for key in bulk.keys("bulk/")] == ["failures.jsonl", "report.json"]


def test_documents_whose_events_are_lost_are_ingested_with_vectors_of_a_batch_job(loaded: BulkCloud) -> None:
    job = loaded.begin()
    succeeded(loaded, job)
    all_are_in_once(loaded, job)
    assert set(loaded.batches.embedded.values()) == {1}
    assert loaded.report(job).embedded == 0
    assert loaded.cloud.bedrock.calls == []
    assert loaded.ask("drain node n17")[0] == "Page 17"
    again = loaded.begin()
    succeeded(loaded, again)
    assert (loaded.report(again).unchanged, loaded.report(again).ingested) == (24, 0)
    assert set(loaded.batches.embedded.values()) == {1}


@pytest.mark.parametrize("stage", STAGES)
def test_a_call_that_is_killed_in_any_stage_is_made_again(loaded: BulkCloud, kills: list[Kill], stage: str) -> None:
    kill = Kill(stage, at=5)
    kills.append(kill)
    loaded.functions.before, loaded.functions.after = kill.begin, kill.end
    job = loaded.begin()
    succeeded(loaded, job)
    assert kill.killed
    all_are_in_once(loaded, job)
    assert set(loaded.batches.embedded.values()) == {1}


@pytest.mark.parametrize("stage", STAGES)
def test_a_job_whose_execution_is_stopped_in_any_stage_goes_on_in_the_next_one(loaded: BulkCloud, stage: str) -> None:
    job, stopped = loaded.begin(), threading.Event()

    def stop(event: dict[str, Any]) -> None:
        if event["stage"] == stage and not stopped.is_set():
            stopped.set()
            loaded.runner.cancel(execution)

    loaded.functions.before = stop
    execution = loaded.runner._arn(f"{job.job_id}-1")
    assert loaded.runner.start(job.job_id) == execution
    assert loaded.machine.ended(execution)["status"] == "ABORTED"
    assert "aborted" in loaded.runner.problem(execution)
    loaded.functions.before = lambda _event: None
    succeeded(loaded, job)
    all_are_in_once(loaded, job)
    assert set(loaded.batches.embedded.values()) == {1}


def test_documents_of_a_child_that_always_dies_are_failed_items_within_the_tolerated_share(loaded: BulkCloud) -> None:
    def die(event: dict[str, Any]) -> None:
        if event["stage"] in ("prepare", "apply") and event["shard"] == 2:
            raise Killed

    loaded.functions.before = die
    job = loaded.begin()
    loaded.runner._tolerated = 20
    succeeded(loaded, job)
    assert loaded.functions.calls["apply", 2] == loaded.functions.calls["prepare", 2] == 4
    report = loaded.report(job)
    assert (report.ingested, report.failed, report.unsettled) == (20, 4, 0)
    assert len({failure.object_key for failure in report.failures}) == 4
    assert all("every call of the function failed" in failure.reason for failure in report.failures)
    assert len(loaded.failed_items()) == 4


def test_more_failures_than_tolerated_stop_the_job_which_goes_on_when_the_cause_is_gone(loaded: BulkCloud) -> None:
    def die(event: dict[str, Any]) -> None:
        if event["stage"] == "apply" and event["shard"] in (1, 4):
            raise Killed

    loaded.functions.before = die
    job = loaded.begin()
    ended = loaded.run(job)
    assert ended["status"] == "FAILED"
    assert ended["error"] == "BulkFailedError"
    assert "ExceedToleratedFailureThreshold" in loaded.system.part(Bulk.of).jobs.get(job.job_id).problem
    assert "ExceedToleratedFailureThreshold" in loaded.runner.problem(ended["executionArn"])
    assert loaded.failed_items() == []
    loaded.functions.before = lambda _event: None
    succeeded(loaded, job)
    all_are_in_once(loaded, job)


def test_a_redrive_of_a_failed_execution_forgets_the_failure_and_goes_on(loaded: BulkCloud) -> None:
    job = loaded.begin()
    failing = {"stage": "fail", "job": job.job_id, "execution": f"{job.job_id}-1", "error": "E", "cause": "C"}
    first = loaded.functions.invoke(FunctionName="f:opx-bulk-stage", Payload=json.dumps(failing))
    assert first["FunctionError"] == "Unhandled"
    assert loaded.system.part(Bulk.of).jobs.get(job.job_id).problem == f"{job.job_id}-1: E: C"
    again = loaded.functions.invoke(FunctionName="f:opx-bulk-stage", Payload=json.dumps(failing))
    assert json.loads(again["Payload"].read()) == {"finished": False, "waitSeconds": 0, "ended": False}
    assert loaded.system.part(Bulk.of).jobs.get(job.job_id).problem == ""


def test_children_wait_longer_and_longer_for_a_busy_service(loaded: BulkCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    stages, waiting = loaded.system.part(Bulk.of).stages, dict.fromkeys(range(6), 3)
    apply = stages.apply

    def busy(job_id: str, shard: int) -> Any:
        waiting[shard] -= 1
        if waiting[shard] >= 0:
            raise IndexWakingError("the index wakes up", 20.0)
        return apply(job_id, shard)

    monkeypatch.setattr(stages, "apply", busy)
    job = loaded.begin()
    succeeded(loaded, job)
    all_are_in_once(loaded, job)
    assert [loaded.functions.calls["apply", shard] for shard in range(6)] == [4] * 6


def test_of_two_jobs_at_once_the_second_is_refused_by_the_name_of_the_first(loaded: BulkCloud) -> None:
    job = loaded.begin()
    assert loaded.begin() == job, "the same work goes on"
    with pytest.raises(BulkBusyError, match=job.job_id):
        loaded.begin(prefix="clients/acme/")
    execution = loaded.runner.start(job.job_id)
    assert loaded.runner.start(job.job_id) == execution
    assert loaded.machine.ended(execution)["status"] == "SUCCEEDED"
    all_are_in_once(loaded, job)


def test_a_cancelled_job_leaves_its_report_alone_and_stops_its_batch_jobs(loaded: BulkCloud) -> None:
    job, cancelled = loaded.begin(), threading.Event()

    def cancel(event: dict[str, Any]) -> None:
        if event["stage"] == "embed" and loaded.batches.running and not cancelled.is_set():
            cancelled.set()
            loaded.runner.cancel(execution)
            loaded.system.part(Bulk.of).stages.cancel(job.job_id)

    loaded.functions.before = cancel
    execution = loaded.runner._arn(f"{job.job_id}-1")
    loaded.runner.start(job.job_id)
    assert loaded.machine.ended(execution)["status"] == "ABORTED"
    assert {batch.state for batch in loaded.batches.jobs.values()} <= {"Stopping", "Stopped"}
    assert [key.rpartition("/")[2] for key in loaded.keys("bulk/")] == ["failures.jsonl", "report.json"]
    assert loaded.indexed() == []


def test_an_inventory_that_is_a_day_old_lists_what_is_read_as_it_is_now(loaded: BulkCloud) -> None:
    keys = loaded.keys("documents/")
    rows = [f'"{BUCKET}","{key}","100"' for key in keys]
    s3 = loaded.cloud.s3
    s3.create_bucket(Bucket="inventories", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    s3.put_object(Bucket="inventories", Key="data/1.csv.gz", Body=gzip.compress("\n".join(rows).encode()))
    manifest = {"fileFormat": "CSV", "fileSchema": "Bucket, Key, Size", "files": [{"key": "data/1.csv.gz"}]}
    s3.put_object(Bucket="inventories", Key="manifest.json", Body=json.dumps(manifest))
    s3.delete_object(Bucket=BUCKET, Key=keys[0])
    loaded.put(keys[1], page(500))
    loaded.put("documents/runbooks/newer.md", page(600))  # which comes by its event
    job = loaded.begin(inventory="s3://inventories/manifest.json")
    succeeded(loaded, job)
    report = loaded.report(job)
    assert (report.documents, report.ingested, report.skipped, report.failed) == (24, 23, 1, 0)
    titles = set(loaded.indexed())
    assert "Page 500" in titles
    assert "Page 600" not in titles
    assert len(titles) == 23


def test_an_execution_of_a_job_that_has_ended_is_done_at_once(loaded: BulkCloud) -> None:
    job = loaded.begin()
    loaded.system.part(Bulk.of).stages.cancel(job.job_id)
    ended = loaded.run(job)
    assert ended["status"] == "SUCCEEDED"
    assert loaded.machine.names(ended["executionArn"]) == ["List", "Is list finished?", "Done"]


def test_a_job_that_is_cancelled_between_two_calls_ends_its_execution(loaded: BulkCloud) -> None:
    job = loaded.begin()

    def cancel(event: dict[str, Any]) -> None:
        if event["stage"] == "embed":
            loaded.system.part(Bulk.of).stages.cancel(job.job_id)

    loaded.functions.before = cancel
    ended = loaded.run(job)
    assert ended["status"] == "SUCCEEDED"
    assert loaded.machine.names(ended["executionArn"])[-2:] == ["Is embed finished?", "Done"]
