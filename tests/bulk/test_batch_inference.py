"""Vectors of bulk jobs by batch inference: whatever the service makes of it, each text has a vector in the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from opx.errors import EmbeddingError, InvalidInputError, ThrottledError
from opx.ports.bulk import BatchLimits, BatchPhase
from opx_aws.batch_embedder import BedrockBatchEmbedder
from opx_aws.bedrock_embedder import BedrockEmbedder
from opx_bulk.capability import Bulk
from tests.bulk.bulk_cloud import ROLE, BulkCloud
from tests.doubles.batch_inference import BatchInferenceDouble

pytestmark = pytest.mark.bulk

BUCKET = "opx-knowledge-corpus"


def ingested(bulk: BulkCloud, documents: int = 12) -> int:
    """Texts that were embedded on demand by a job over so many documents, all of which end in the index."""
    bulk.put_pages(documents)
    job = bulk.begin()
    assert bulk.run(job)["status"] == "SUCCEEDED", bulk.system.part(Bulk.of).jobs.get(job.job_id)
    report = bulk.report(job)
    assert (report.ingested, report.failed, report.unsettled) == (documents, 0, 0)
    assert sorted(bulk.indexed()) == sorted(f"Page {number}" for number in range(documents))
    assert report.embedded == len(bulk.cloud.bedrock.calls)
    return report.embedded


def test_records_that_are_missing_refused_twice_or_in_another_order_are_embedded_on_demand(bulk: BulkCloud) -> None:
    wrong = bulk.batches.misbehaviour
    wrong.errors, wrong.missing, wrong.twice = 0.2, 0.2, 0.3
    assert ingested(bulk) == 12 - len(bulk.batches.embedded) > 0


@pytest.mark.parametrize(("ends", "jobs"), [(["Expired"], 2), (["Failed", "Expired"], 2), (["Stopped"], 2)])
def test_a_job_that_failed_or_expired_is_tried_once_more_and_its_texts_are_embedded_on_demand_after_that(
    bulk: BulkCloud, ends: list[str], jobs: int
) -> None:
    bulk.batches.misbehaviour.ends = list(ends)
    assert ingested(bulk) == (12 if len(ends) == 2 else 0)
    assert len(bulk.batches.jobs) == jobs


def test_what_a_job_that_ended_halfway_has_is_used(bulk: BulkCloud) -> None:
    bulk.batches.misbehaviour.ends = ["PartiallyCompleted"]
    assert ingested(bulk) == 6


def test_too_few_texts_are_embedded_on_demand(bulk: BulkCloud) -> None:
    assert ingested(bulk, documents=3) == 3
    assert bulk.batches.jobs == {}


def test_a_quota_that_is_lowered_in_the_middle_only_costs_the_lower_price(bulk: BulkCloud) -> None:
    def lower(event: dict[str, Any]) -> None:
        if event["stage"] == "embed":
            bulk.batches.quotas.most_records = 8

    bulk.functions.before = lower
    assert ingested(bulk) == 12
    assert {job.state for job in bulk.batches.jobs.values()} == {"Failed"}


def test_jobs_beyond_the_quota_wait_until_others_end(bulk: BulkCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    bulk.batches.quotas.jobs = 1
    limits = BatchLimits(minimum_records=4, maximum_records=4)
    monkeypatch.setattr(BedrockBatchEmbedder, "limits", property(lambda _: limits, lambda *_: None), raising=False)
    bulk.batches.quotas.fewest_records = 4
    assert ingested(bulk) == 0
    assert len(bulk.batches.jobs) == 3


# -- the adapter


@pytest.fixture
def double(aws: boto3.Session) -> Iterator[BatchInferenceDouble]:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    with BatchInferenceDouble(s3) as found:
        found.quotas.fewest_records = 1
        yield found


@pytest.fixture
def embedder(aws: boto3.Session, double: BatchInferenceDouble) -> BedrockBatchEmbedder:
    titan = BedrockEmbedder(aws.client("bedrock-runtime"), "amazon.titan-embed-text-v2:0", dimension=256)
    clients = aws.client("bedrock", endpoint_url=double.endpoint), aws.client("s3")
    return BedrockBatchEmbedder(*clients, BUCKET, titan, role=ROLE, limits=BatchLimits())


def put_texts(embedder: BedrockBatchEmbedder, key: str, *texts: str) -> str:
    lines = [json.dumps({"recordId": text, "modelInput": dict(embedder.request(text))}) for text in texts]
    embedder.s3.put_object(Bucket=BUCKET, Key=key, Body="\n".join(lines).encode())
    return key


def ended(embedder: BedrockBatchEmbedder, batch_id: str) -> Any:
    found = [embedder.state(batch_id) for _ in range(5)]
    assert found[0].phase is BatchPhase.RUNNING
    return found[-1]


def test_results_are_named_for_their_inputs(embedder: BedrockBatchEmbedder) -> None:
    inputs = [put_texts(embedder, f"bulk/j/texts/0000{n}.jsonl", f"disk {n}") for n in (3, 7)]
    found = ended(embedder, embedder.start("bulk-j-00000", inputs, "bulk/j/outputs/00000/"))
    assert (found.phase, found.reason, list(found.outputs)) == (BatchPhase.ENDED, "", inputs)
    body = embedder.s3.get_object(Bucket=BUCKET, Key=found.outputs[inputs[1]])["Body"].read()
    assert b'"recordId":"disk 7"' in body


def test_the_same_name_starts_one_job_also_when_its_token_is_forgotten(
    embedder: BedrockBatchEmbedder, double: BatchInferenceDouble
) -> None:
    inputs = [put_texts(embedder, "bulk/j/texts/00000.jsonl", "disk")]
    started = {embedder.start("bulk-j-00000", inputs, "bulk/j/outputs/00000/") for _ in range(2)}
    double.jobs[next(iter(started))].token = "forgotten"
    assert started == {embedder.start("bulk-j-00000", inputs, "bulk/j/outputs/00000/")}
    assert len(double.jobs) == 1


def test_a_used_up_quota_is_waited_for_and_a_refused_job_is_an_error(
    embedder: BedrockBatchEmbedder, double: BatchInferenceDouble
) -> None:
    inputs = [put_texts(embedder, "bulk/j/texts/00000.jsonl", "disk")]
    double.quotas.jobs = 0
    with pytest.raises(ThrottledError, match="quota of batch jobs"):
        embedder.start("a", inputs, "bulk/j/outputs/00000/")
    with pytest.raises(InvalidInputError, match="refuses the batch job"):
        embedder.start("a", inputs, "bulk/j/out puts/")


def test_a_job_can_be_stopped_twice_and_unknown_ones_failed(
    embedder: BedrockBatchEmbedder, double: BatchInferenceDouble
) -> None:
    inputs = [put_texts(embedder, "bulk/j/texts/00000.jsonl", "disk")]
    batch = embedder.start("a", inputs, "bulk/j/outputs/00000/")
    embedder.stop(batch)
    assert embedder.state(batch).phase is BatchPhase.FAILED
    embedder.stop(batch)
    embedder.stop(batch[:-1] + "0")
    assert double.jobs[batch].state == "Stopped"


def test_vectors_have_length_one_and_other_replies_are_refused(embedder: BedrockBatchEmbedder) -> None:
    (vector,) = embedder.vectors({"embedding": [3.0, 4.0] + [0.0] * 254})
    assert list(vector[:2]) == pytest.approx([0.6, 0.8])
    for reply in ({}, {"embedding": [1.0]}, {"embedding": [0.0] * 256}, {"embedding": None}):
        with pytest.raises(EmbeddingError):
            embedder.vectors(reply)
