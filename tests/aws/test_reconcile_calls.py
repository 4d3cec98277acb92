"""Calls of a comparison of all stores, which its calculated time follows from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import boto3

from opx_assurance.capability import assurance
from tests.aws.cloud import a_cloud
from tests.benchmarks.bulk_simulation import HEADS_OF_CHUNKS, HEADS_OF_DOCUMENTS, QUERIES
from tests.support.fakes import function_logs

DOCUMENTS = 20


def counting(calls: Counter[str]) -> Callable[..., None]:
    def count(model: Any, **_: Any) -> None:
        calls[model.name] += 1

    return count


def test_document_costs_few_calls(aws: boto3.Session) -> None:
    calls: Counter[str] = Counter()
    with function_logs(), a_cloud(aws) as cloud:
        for number in range(DOCUMENTS):
            cloud.put(f"documents/runbooks/procedures/{number}.md", f"# Step {number}\n\nDo it.\n")
        while cloud.services.queue.waiting():
            cloud.deliver()
        for client in (cloud.s3, cloud.dynamodb):
            client.meta.events.register("before-call", counting(calls))
        report = cloud.services.part(assurance).reconciler().run()
    assert (report.documents, report.objects, report.total) == (DOCUMENTS, DOCUMENTS, 0)
    of_all = calls["ListObjectsV2"] + calls["BatchGetItem"]
    assert of_all < DOCUMENTS / 2
    for name, each in (("HeadObject", HEADS_OF_DOCUMENTS + HEADS_OF_CHUNKS), ("Query", QUERIES)):
        assert each <= calls[name] / DOCUMENTS < each + 0.5
