"""From an event on the bus to a pattern in the bucket, through the functions as Lambda calls them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.dynamodb.models import dynamodb_backends
from moto.sqs.models import sqs_backends

from lambdas.learn_from_events.handler import make_handler as make_learn_handler
from lambdas.learn_from_work.handler import make_handler as make_tools_handler
from lambdas.process_checkpoint.handler import make_handler as make_checkpoint_handler
from opx.domain.learning import EntryType, StagingEntry
from opx.domain.record import replace
from opx.domain.scopes import Identity
from opx.errors import StoreUnavailableError
from opx.operations import load
from opx.operations.context import Caller, Context
from opx.operations.grants import ToolGrants, read_grants
from opx.operations.learning import ProcessCheckpoint, process_checkpoint
from opx.operations.patterns import FindPatternsForTask, ListPatterns, find_patterns_for_task, list_patterns
from opx.operations.registry import LEARNING
from opx.operations.system import System
from opx.system import bootstrap
from opx_aws.queue import SqsQueue
from tests.aws.cloud import BUCKET, Cloud, a_cloud
from tests.support.agent_calls import a_function_event, text_of
from tests.support.builders import ports_of
from tests.support.fakes import FakeContext, function_logs

ACCOUNT = "123456789012"
"""As moto has it."""

BUS = "opx-knowledge-learning"
SHOP = Identity("acme", "shop")
PATTERNS = "clients/acme/documents/learning/patterns/"
FAILURE: dict[str, Any] = {
    "client_id": "acme",
    "project_id": "shop",
    "agent_type": "database",
    "task_type": "operations",
    "failure_description": "The nightly export of invoices stops with a lock timeout",
    "error_message": "canceling statement due to lock timeout",
    "solution_steps": ["Run the export on the read replica"],
    "technology": "postgresql",
    "success_verified": True,
}


@dataclass
class Learning:
    """A bus whose rules fill two queues, as they are deployed, and the functions behind them."""

    cloud: Cloud
    events: Any
    queues: dict[str, str]

    def __post_init__(self) -> None:
        services = self.services
        services.ports.functions.learning_failed = SqsQueue(self.cloud.sqs, self.queues["failed"], wait_seconds=0)  # type: ignore[misc]
        self.functions = {
            "learning": make_learn_handler(lambda: services),
            "checkpoints": make_checkpoint_handler(lambda: services),
        }

    @property
    def services(self) -> System:
        return self.cloud.services

    def as_(self, identity: Identity) -> Context:
        return Context(self.services, Caller(identity))

    def put(self, kind: str, **detail: Any) -> None:
        """Put an event on the bus, as an agent or a pipeline does."""
        entry = {"Source": "opx.learning", "DetailType": kind, "Detail": json.dumps(detail), "EventBusName": BUS}
        assert self.events.put_events(Entries=[entry])["FailedEntryCount"] == 0

    def deliver(self, queue: str) -> list[str]:
        """Deliver messages like Lambda: failed ones stay in the queue, others are deleted. Returns the failed ones."""
        url = self.queues[queue]
        found = self.cloud.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        ).get("Messages", [])
        if not found:
            return []
        records = [
            {"messageId": m["MessageId"], "body": m["Body"], "attributes": m["Attributes"], "eventSource": "aws:sqs"}
            for m in found
        ]
        answer: Any = self.functions[queue]({"Records": records}, FakeContext())
        again = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        for message in found:
            if message["MessageId"] not in again:
                self.cloud.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            else:
                self.cloud.sqs.change_message_visibility(
                    QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
                )
        return sorted(again)

    @property
    def refused(self) -> list[dict[str, Any]]:
        found = self.cloud.sqs.receive_message(QueueUrl=self.queues["failed"], MaxNumberOfMessages=10)
        return [json.loads(message["Body"]) for message in found.get("Messages", [])]

    def entries(self, identity: Identity = SHOP) -> list[StagingEntry]:
        return self.services.learning.capture(identity).entries()

    def objects(self, prefix: str = PATTERNS) -> list[str]:
        found = self.cloud.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return [one["Key"] for one in found]


@pytest.fixture(scope="module")
def deployed(aws_session: boto3.Session) -> Iterator[Learning]:
    with mock_aws(), function_logs(), a_cloud(aws_session) as cloud:
        events = aws_session.client("events")
        events.create_event_bus(Name=BUS)
        queues = {
            name: cloud.sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("learning", "checkpoints", "failed")
        }
        kinds = {"learning": [{"anything-but": ["Checkpoint"]}], "checkpoints": ["Checkpoint"]}
        for name, kind in kinds.items():
            pattern = json.dumps({"source": ["opx.learning"], "detail-type": kind})
            events.put_rule(Name=name, EventBusName=BUS, EventPattern=pattern)
            arn = cloud.sqs.get_queue_attributes(QueueUrl=queues[name], AttributeNames=["QueueArn"])["Attributes"][
                "QueueArn"
            ]
            events.put_targets(Rule=name, EventBusName=BUS, Targets=[{"Id": "queue", "Arn": arn}])
        yield Learning(cloud, events, queues)


@pytest.fixture
def learning(deployed: Learning) -> Learning:
    """With empty stores, and services that tests may change."""
    cloud, given = deployed.cloud, deployed.services
    for table in dynamodb_backends[ACCOUNT]["eu-central-1"].tables.values():
        table.items.clear()
    queues = sqs_backends[ACCOUNT]["eu-central-1"]
    for name, queue in queues.queues.items():
        queue.last_purged_at = None  # or else it may be done once a minute
        queues.purge_queue(name)
    for key in deployed.objects(""):
        cloud.s3.delete_object(Bucket=BUCKET, Key=key)
    for index in cloud.search._indexes.values():
        for document in [one.id for one in index.documents()]:
            index.remove(document)
    services = bootstrap(
        given.settings,
        index=given.index,
        embedder=given.indexing.embedder,
        aws=ports_of(given).given["aws"],
    )
    return replace(deployed, cloud=replace(cloud, services=services))


def test_an_event_becomes_a_pattern_that_another_project_finds(learning: Learning) -> None:
    learning.put("FailureSolved", **FAILURE)
    learning.put("Checkpoint", client_id="acme", project_id="shop", checkpoint_type="phase_completion")
    assert learning.deliver("learning") == []
    (entry,) = learning.entries()
    assert (entry.project_id, entry.agent_type, entry.embedded) == ("shop", "database", False)
    assert learning.objects() == []  # nothing is ingested before the checkpoint
    assert learning.deliver("checkpoints") == []
    (key,) = learning.objects()
    assert learning.entries()[0].embedded
    learning.cloud.send(learning.cloud.event(key))
    assert learning.cloud.deliver() == []
    task = FindPatternsForTask(task_description=FAILURE["failure_description"])
    (found, *_) = find_patterns_for_task(learning.as_(Identity("acme", "search")), task).patterns
    assert (found.success_count, "read replica" in found.solution) == (1, True)
    assert find_patterns_for_task(learning.as_(Identity("umbrella", "shop")), task).patterns == ()


def test_an_event_that_comes_twice_counts_once(learning: Learning) -> None:
    for _ in range(2):
        learning.put("FailureSolved", **FAILURE)
        learning.put("Checkpoint", client_id="acme", project_id="shop", checkpoint_type="project_completion")
        learning.deliver("learning")
        learning.deliver("checkpoints")
    (pattern,) = list_patterns(learning.as_(SHOP), ListPatterns()).patterns
    assert (pattern.success_count, len(learning.objects()), learning.refused) == (1, 1, [])


def test_every_kind_of_event_is_kept_as_its_type(learning: Learning) -> None:
    details: dict[str, dict[str, str]] = {
        "GateRejected": {"gate_type": "security", "human_feedback": "no", "revision_approach": "another way"},
        "GateApproved": {"gate_type": "security", "approved_approach": "a queue a client"},
        "WarningNoted": {"tried": "restart the broker", "effect": "made_worse"},
    }
    for kind, detail in details.items():
        learning.put(kind, client_id="acme", project_id="shop", **detail)
    assert learning.deliver("learning") == []
    assert {entry.entry_type for entry in learning.entries()} == {"gate_rejection", "gate_approval", "warning"}


def test_a_verification_that_overtakes_its_entry_waits_for_it(learning: Learning) -> None:
    waiting = {**FAILURE, "success_verified": False}
    given = {name: value for name, value in waiting.items() if name != "client_id"}
    entry_id = learning.services.learning.capture(SHOP).capture(EntryType.FAILURE_SOLUTION, given)
    learning.services.learning.staging._table.delete({"id": entry_id})
    learning.put("Verified", client_id="acme", project_id="shop", entry_id=entry_id, worked=True)
    assert len(learning.deliver("learning")) == 1
    learning.put("FailureSolved", **waiting)
    learning.deliver("learning")
    learning.deliver("learning")
    assert [entry.success_verified for entry in learning.entries()] == [True]
    assert learning.refused == []


def test_a_verification_of_what_never_comes_is_refused_in_the_end(learning: Learning) -> None:
    learning.put("Verified", client_id="acme", project_id="shop", entry_id="0" * 32, worked=True)
    assert [len(learning.deliver("learning")) for _ in range(3)] == [1, 1, 0]
    assert len(learning.refused) == 1


REFUSED: dict[str, tuple[str, dict[str, str]]] = {
    "failure_description": ("FailureSolved", {"client_id": "acme", "failure_description": "", "solution_steps": "x"}),
    "client id": ("FailureSolved", {"client_id": "a/../b", "failure_description": "x"}),
    "password": ("FailureSolved", {"failure_description": "x", "password": "y"}),
    "unknown field scope": ("FailureSolved", {"failure_description": "x", "scope": "client:umbrella"}),
    "detail-type 'Forgotten'": ("Forgotten", {}),
    "worked": ("Verified", {"entry_id": "0", "worked": "yes"}),
    "good": ("Outcome", {"client_id": "acme", "receipt_id": "0", "document_id": "0", "result": "good"}),
}
"""Rejected events by the part that the reason names."""


def test_invalid_event_is_set_aside_with_the_reason(learning: Learning) -> None:
    for kind, detail in REFUSED.values():
        learning.put(kind, **detail)
    assert learning.deliver("learning") == []
    found = {json.dumps(one["event"]["detail"], sort_keys=True): one["reason"] for one in learning.refused}
    assert len(found) == len(REFUSED)
    for named, (_, detail) in REFUSED.items():
        assert named in found[json.dumps(detail, sort_keys=True)]


def test_a_checkpoint_of_an_unknown_project_is_set_aside_and_names_those_there_are(learning: Learning) -> None:
    learning.put("FailureSolved", **FAILURE)
    learning.deliver("learning")
    learning.put("Checkpoint", client_id="acme", project_id="shopp", checkpoint_type="cancellation")
    learning.put("Checkpoint", client_id="acme", project_id="shop", checkpoint_type="lunch")
    assert learning.deliver("checkpoints") == []
    reasons = sorted(one["reason"] for one in learning.refused)
    assert "shopp" in " ".join(reasons)
    assert any("lunch" in reason and "phase_completion" in reason for reason in reasons)
    assert learning.objects() == []


def test_refused_event_can_be_sent_again_once_corrected(learning: Learning) -> None:
    learning.put("Forgotten", **FAILURE)
    learning.deliver("learning")
    (refused,) = learning.refused
    refused["event"]["detail-type"] = "FailureSolved"
    learning.cloud.sqs.send_message(QueueUrl=learning.queues["learning"], MessageBody=json.dumps(refused))
    assert learning.deliver("learning") == []
    assert len(learning.entries()) == 1


def test_while_the_tables_are_away_events_come_again_and_the_others_go_on(
    learning: Learning, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = learning.services.learning.capture
    calls: list[Identity | None] = []

    def away_at_first(identity: Identity | None = None, at: float | None = None) -> Any:
        calls.append(identity)
        if len(calls) == 1:
            raise StoreUnavailableError("can't be reached")
        return capture(identity, at)

    monkeypatch.setattr(learning.services.learning, "capture", away_at_first)
    learning.put("FailureSolved", **FAILURE)
    learning.put("FailureSolved", **{**FAILURE, "failure_description": "Another one"})
    assert len(learning.deliver("learning")) == 1
    assert learning.deliver("learning") == []
    monkeypatch.undo()
    assert (len(learning.entries()), learning.refused) == (2, [])


def test_an_installation_for_one_client_learns_of_no_other(learning: Learning) -> None:
    learning.services.installation.settings = replace(learning.services.settings, client_id="umbrella")
    learning.put("FailureSolved", **FAILURE)
    assert learning.deliver("learning") == []
    (refused,) = learning.refused
    assert "acme" in refused["reason"]
    assert learning.entries() == []


def test_checkpoint_of_a_project_includes_entries_captured_by_the_client(learning: Learning) -> None:
    given = {name: value for name, value in FAILURE.items() if name != "client_id"}
    learning.services.learning.capture(Identity("acme")).capture(EntryType.FAILURE_SOLUTION, given)
    learning.put("Checkpoint", client_id="acme", project_id="shop", checkpoint_type="manual")
    assert learning.deliver("checkpoints") == []
    assert (len(learning.objects()), learning.refused) == (1, [])


def test_a_checkpoint_requested_over_the_api_is_limited_to_the_callers_scope(learning: Learning) -> None:
    client = Identity("acme")
    given = {name: value for name, value in FAILURE.items() if name != "client_id"}
    learning.services.learning.capture(client).capture(EntryType.FAILURE_SOLUTION, given)
    learning.put("FailureSolved", **FAILURE)
    learning.deliver("learning")
    learning.services.ports.functions.checkpoints = SqsQueue(learning.cloud.sqs, learning.queues["checkpoints"])  # type: ignore[misc]
    for identity in (Identity("umbrella"), SHOP):
        reply = process_checkpoint(learning.as_(identity), ProcessCheckpoint(project_id="shop"))
        assert (reply.asked, reply.report) == (True, None)
    learning.deliver("checkpoints")
    assert [entry.embedded for who in (SHOP, client) for entry in learning.entries(who)] == [True, False]
    assert len(learning.objects()) == 1


def test_agents_capture_entries_in_the_sessions_scope(learning: Learning) -> None:
    learning.services.installation.declare(read_grants, ToolGrants(frozenset(load().tools(LEARNING))))
    handler = make_tools_handler(lambda: learning.services)

    def reply_of(tool: str, **arguments: str) -> str:
        event = a_function_event(tool, {"opxClientId": "acme", "opxProjectId": "shop"}, **arguments)
        return text_of(handler({**event, "actionGroup": LEARNING.name}, FakeContext()))

    steps = "Rotate the logs\nRestart the service"
    answer = reply_of("capture_failure_solution", failure_description="The disk fills up", solution_steps=steps)
    (entry,) = learning.entries()
    assert entry.id in answer
    assert entry.solution_steps == tuple(steps.splitlines())
    assert (entry.project_id, entry.agent_type) == ("shop", "operations")
    reply_of("verify_solution", entry_id=entry.id, result="worked")
    assert learning.entries()[0].worked
    assert "is no orchestrator" in reply_of("query_for_task", task_description="Keep the disk from filling up")
