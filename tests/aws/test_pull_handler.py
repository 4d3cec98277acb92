"""The function that pulls sources, on S3, DynamoDB and SQS, and what registering a source does there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import boto3
import pytest

from lambdas.pull_sources.handler import make_handler
from lambdas.report_coverage.handler import make_handler as make_report_handler
from opx.domain.knowledge import Tier
from opx.domain.record import replace
from opx.domain.sources import SourceDefinition, SourceDocument
from opx.errors import SecretNotFoundError, SourceUnavailableError
from opx.runtime.functions import FunctionFailedError
from opx_aws.queue import SqsQueue
from opx_aws.secrets import ManagedSecrets
from opx_aws.triggers import EventBridgeSchedules, PullTarget
from tests.aws.cloud import BUCKET, Cloud, a_cloud
from tests.aws.rebuilt_indexes import HOUR, Runtime
from tests.support.fakes import FakeContext, function_logs


@dataclass
class Guides:
    """A source of so many documents, or of none for now."""

    name: str = "guides"
    tier: Tier = Tier.SPECIALIZED
    count: int = 3
    broken: bool = False
    calls: list[datetime | None] = field(default_factory=list)

    def fetch(self, since: datetime | None = None) -> Iterator[SourceDocument]:
        self.calls.append(since)
        for number in range(self.count):
            yield SourceDocument(f"guide-{number}", f"# Guide {number}\n\nDo step {number}.\n")
        if self.broken:
            raise SourceUnavailableError("no answer")

    def health_check(self) -> bool:
        return not self.broken


@dataclass
class Deployed:
    cloud: Cloud
    source: Guides
    pulls: str

    def call(self, message: Any, left: int = HOUR) -> None:
        body = message if isinstance(message, str) else json.dumps(message)
        make_handler(lambda: self.cloud.services)({"Records": [{"body": body}]}, Runtime(left=left))

    def requested_pulls(self) -> list[tuple[dict[str, Any], int]]:
        """Requested pulls with the delays of their messages."""
        queue = self.cloud.sqs
        found = queue.receive_message(QueueUrl=self.pulls, MaxNumberOfMessages=10).get("Messages", [])
        waiting = queue.get_queue_attributes(
            QueueUrl=self.pulls, AttributeNames=["ApproximateNumberOfMessagesDelayed"]
        )["Attributes"]
        return [(json.loads(message["Body"]), 0) for message in found] + [({}, 1)] * int(
            waiting["ApproximateNumberOfMessagesDelayed"]
        )

    @property
    def keys(self) -> list[str]:
        return [found["Key"] for found in self.cloud.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


@pytest.fixture
def deployed(aws: boto3.Session) -> Iterator[Deployed]:
    with function_logs(), a_cloud(aws) as cloud:
        pulls = cloud.sqs.create_queue(QueueName="pulls")["QueueUrl"]
        services = cloud.services
        services.installation.settings = replace(services.settings, pull_queue_url=pulls)
        services.ports.functions.pulls = SqsQueue(cloud.sqs, pulls, wait_seconds=0)  # type: ignore[misc]
        source = Guides()
        services.connectors.provide(source, "0 4 * * *", "vendor/linux")
        yield Deployed(cloud, source, pulls)


def test_a_message_has_its_source_pulled_into_the_corpus(deployed: Deployed) -> None:
    deployed.call({"source": "guides"})
    assert deployed.keys == [f"documents/vendor/linux/sources/guides/guide-{number}~.md" for number in range(3)]
    assert deployed.requested_pulls() == []


def test_a_paused_source_is_pulled_by_hand_only(deployed: Deployed) -> None:
    deployed.cloud.services.connectors.control.change("guides", {"enabled": False})
    deployed.call({"source": "guides"})
    assert deployed.keys == []
    deployed.source.count = 150
    deployed.call({"source": "guides", "by_hand": True}, left=1000)
    assert (len(deployed.keys), deployed.requested_pulls()) == (100, [({"source": "guides", "by_hand": True}, 0)])


def test_long_pull_continues_in_the_next_call(deployed: Deployed) -> None:
    deployed.source.count = 150
    deployed.call({"source": "guides"}, left=1000)
    assert (len(deployed.keys), deployed.requested_pulls()) == (100, [({"source": "guides"}, 0)])


def test_a_source_that_fails_is_tried_three_times_more_after_a_pause(deployed: Deployed) -> None:
    deployed.source.broken = True
    for _ in range(3):
        deployed.call({"source": "guides"})
    assert len(deployed.requested_pulls()) == 3
    deployed.call({"source": "guides"})
    assert len(deployed.requested_pulls()) == 3


def test_a_source_that_is_being_pulled_is_left_alone(deployed: Deployed) -> None:
    deployed.cloud.services.connectors.sources.claim("guides", seconds=900)
    deployed.call({"source": "guides"})
    assert (deployed.keys, deployed.requested_pulls()) == ([], [])


@pytest.mark.parametrize("message", ["not json", "[]", "{}", {"source": 5}])
def test_message_without_a_source_fails_the_call(deployed: Deployed, message: Any) -> None:
    with pytest.raises(FunctionFailedError):
        deployed.call(message)


def test_a_source_that_was_removed_is_forgotten(deployed: Deployed) -> None:
    deployed.call({"source": "removed-meanwhile"})
    assert (deployed.keys, deployed.requested_pulls()) == ([], [])


def test_a_requested_pull_waits_until_the_source_is_free(deployed: Deployed) -> None:
    deployed.cloud.services.connectors.sources.claim("guides", seconds=900)
    deployed.call({"source": "guides", "accept_missing": True})
    assert len(deployed.requested_pulls()) == 1


def test_a_complete_pull_makes_its_category_fresh(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    deployed.call({"source": "guides"})
    make_report_handler(lambda: deployed.cloud.services)({}, FakeContext())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"SourceAge"' in line]
    (age,) = [line["SourceAge"][0] for line in lines if line.get("category") == "vendor/linux"]
    assert age < 60


class TestSchedules:
    @pytest.fixture
    def scheduler(self, aws: boto3.Session) -> Any:
        client = aws.client("scheduler")
        client.create_schedule_group(Name="opx")
        return client

    def definition(self, **given: Any) -> SourceDefinition:
        known = {"kind": "feed", "category": "web/blogs", "tier": Tier.INTERNET, "schedule": "0 6 * * 1"}
        return SourceDefinition("blog", **{**known, **given})

    def schedules(self, client: Any) -> EventBridgeSchedules:
        arn = "arn:aws:sqs:eu-central-1:123456789012:"
        target = PullTarget(f"{arn}pulls", "arn:aws:iam::123456789012:role/schedules", f"{arn}pulls-failed")
        return EventBridgeSchedules(client, "opx", target)

    def test_a_source_is_pulled_by_a_message_at_its_times(self, scheduler: Any) -> None:
        self.schedules(scheduler).put(self.definition(time_zone="Europe/Vienna"))
        found = scheduler.get_schedule(GroupName="opx", Name="source-blog")
        assert (found["ScheduleExpression"], found["ScheduleExpressionTimezone"]) == (
            "cron(0 6 ? * MON *)",
            "Europe/Vienna",
        )
        assert json.loads(found["Target"]["Input"]) == {"source": "blog"}

    def test_a_change_replaces_what_was_scheduled(self, scheduler: Any) -> None:
        schedules = self.schedules(scheduler)
        for schedule in ("0 6 * * 1", "30 7 * * *"):
            schedules.put(self.definition(schedule=schedule))
        found = scheduler.get_schedule(GroupName="opx", Name="source-blog")
        assert found["ScheduleExpression"] == "cron(30 7 * * ? *)"

    @pytest.mark.parametrize("change", [{"schedule": ""}, {"enabled": False}])
    def test_a_source_without_times_is_scheduled_no_more(self, scheduler: Any, change: dict[str, Any]) -> None:
        schedules = self.schedules(scheduler)
        schedules.put(self.definition())
        schedules.put(self.definition(**change))
        schedules.delete("blog")
        assert scheduler.list_schedules(GroupName="opx")["Schedules"] == []


class TestSecrets:
    def test_a_secret_is_found_below_the_prefix_and_kept_for_a_while(self, aws: boto3.Session) -> None:
        client = aws.client("secretsmanager")
        client.create_secret(Name="dev-opx-knowledge/token", SecretString="first")
        now = [0.0]
        secrets = ManagedSecrets(client, "dev-opx-knowledge/", lambda: now[0])
        assert secrets.get("token") == "first"
        client.put_secret_value(SecretId="dev-opx-knowledge/token", SecretString="second")
        assert secrets.get("token") == "first"
        now[0] = 301.0
        assert secrets.get("token") == "second"

    def test_an_object_with_one_value_is_that_value(self, aws: boto3.Session) -> None:
        client = aws.client("secretsmanager")
        client.create_secret(Name="p/token", SecretString='{"token": "value"}')
        assert ManagedSecrets(client, "p/", lambda: 0.0).get("token") == "value"

    @pytest.mark.parametrize("stored", [None, '{"a": "b", "c": "d"}'])
    def test_a_missing_or_malformed_secret_is_reported_with_its_name(
        self, aws: boto3.Session, stored: str | None
    ) -> None:
        client = aws.client("secretsmanager")
        if stored:
            client.create_secret(Name="p/token", SecretString=stored)
        with pytest.raises(SecretNotFoundError, match="p/token"):
            ManagedSecrets(client, "p/", lambda: 0.0).get("token")
