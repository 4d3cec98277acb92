"""A deployed system with bulk jobs on doubles: the synthesised state machine, interpreted, over S3, DynamoDB and SQS in moto,
OpenSearch, Bedrock and its batch inference on the loopback, and the stages' function in this process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import boto3
import pytest

from lambdas.bulk_stage.handler import make_handler
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.operations.system import System
from opx.ports.tables import FAILURES
from opx.settings import FIRST_COLLECTION
from opx.system import bootstrap
from opx_aws.executions import StateMachineRunner
from opx_aws.ports import OpenSearchIndexes
from opx_bulk import ingesting
from opx_bulk.applying import apply_objects
from opx_bulk.capability import Bulk
from opx_bulk.finishing import read_report
from opx_bulk.job import BulkJob, BulkKind, BulkReport, BulkWork
from opx_testing.fake_time import FakeTime
from tests.aws.cloud import BUCKET, INDEX, Cloud, a_cloud
from tests.aws.rebuilt_indexes import _titan, first_collection
from tests.doubles.batch_inference import BatchInferenceDouble
from tests.doubles.step_functions import Functions, StateMachine, a_state_machine
from tests.support.builders import ports_of
from tests.support.fakes import function_logs

FUNCTION = "opx-bulk-stage"
ROLE = "arn:aws:iam::123456789012:role/opx-batch-inference"
ACCOUNT, REGION = "123456789012", "eu-central-1"


def deployed_text(text: str) -> str:
    """Part of a template with account, region and partition written out."""
    for name, value in (("AccountId", ACCOUNT), ("Region", REGION), ("Partition", "aws")):
        text = text.replace(f"<AWS::{name}>", value)
    assert "<" not in re.sub(r'"[^"]*States\.[^"]*"', "", text)
    return text


@dataclass
class BulkCloud:
    """The account, the system that its functions have, and the state machine."""

    cloud: Cloud
    system: System
    machine: StateMachine
    functions: Functions
    batches: BatchInferenceDouble
    clock: FakeTime
    runner: StateMachineRunner

    def put_pages(self, count: int) -> None:
        for number in range(count):
            self.put(f"documents/runbooks/area{number % 7}/page-{number}.md", page(number))

    def put(self, key: str, text: str) -> None:
        """Stores an object whose event was never delivered."""
        self.cloud.s3.put_object(Bucket=BUCKET, Key=key, Body=text.encode())

    def report(self, job: BulkJob) -> BulkReport:
        found = read_report(self.system.part(Bulk.of).stages.files(job.job_id))
        assert found is not None
        return found

    def indexed(self) -> list[str]:
        """Titles of all chunks in the index."""
        (index,) = (one for name, one in self.cloud.search._indexes.items() if name == INDEX)
        return [str(document.source["title"]) for document in index.documents()]

    def failed_items(self) -> list[str]:
        """Sources in the list of failed items."""
        return [str(item["objectKey"]["S"]) for item in self.cloud.items(FAILURES.name)]

    def begin(self, kind: BulkKind = BulkKind.INGEST, **work: Any) -> BulkJob:
        return self.system.part(Bulk.of).begin(BulkWork(kind=kind, **work), "tests")

    def run(self, job: BulkJob) -> dict[str, Any]:
        """An execution of the job, to its end."""
        return self.machine.ended(self.runner.start(job.job_id))

    def keys(self, prefix: str) -> list[str]:
        pages = self.cloud.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", ())]

    def ask(self, question: str) -> list[str]:
        answer = self.system.questions.for_reader().search(question, QueryConfig(min_confidence=0.0))
        return [result.title for result in answer.results]


def page(number: int) -> str:
    """A document with a chunk."""
    return (
        f"# Page {number}\n\nThe service number {number} restarts when queue q{number % 97} is full.\n\n"
        f"## Steps\n\n1. Drain node n{number}.\n2. Restart unit u{number}.\n"
    )


@contextmanager
def a_bulk_cloud(
    aws: boto3.Session, definition: str, *, children: int = 4, tolerated: int = 5, **chosen: Any
) -> Iterator[BulkCloud]:
    """Everything deployed and empty, in an account that moto mocks as `INTERPRETED`."""
    clock = FakeTime()
    functions = Functions({})
    with ExitStack() as stack:
        stack.enter_context(function_logs())
        cloud = stack.enter_context(a_cloud(aws, clock=clock.clock, **chosen))
        batches = stack.enter_context(BatchInferenceDouble(cloud.s3))
        machine = stack.enter_context(a_state_machine(aws, definition, functions, clock))
        settings = {"bulk_state_machine": machine.arn, "bulk_batch_role": ROLE, "bulk_children": children}
        clients = {"bedrock": aws.client("bedrock", endpoint_url=batches.endpoint), "stepfunctions": machine.client}
        given = ports_of(cloud.services).given["aws"]
        system = bootstrap(
            replace(cloud.services.settings, **settings),
            clock=clock.clock,
            embedder=cloud.services.indexing.embedder,
            aws=lambda service, **more: clients[service] if service in clients else given(service, **more),
            indexes=OpenSearchIndexes(
                {FIRST_COLLECTION: first_collection(cloud)}, cloud.services.settings.search_index, timeout=5.0
            ),
            new_embedder=lambda model, _, dimension: _titan(cloud.services, model, dimension),
        )
        system.indexing.editions.clock = clock.clock
        functions.handlers[FUNCTION] = make_handler(lambda: system)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(ingesting, "apply_objects", partial(apply_objects, sleep=clock.sleep))
        runner = StateMachineRunner(machine.client, machine.arn, children=children, tolerated=tolerated)
        yield BulkCloud(cloud, system, machine, functions, batches, clock, runner)
