"""When sources are pulled, and by what."""

from __future__ import annotations

import json
from pathlib import Path

import aws_cdk as cdk
import pytest

from infra.application import new_app
from infra.configuration import Deployment
from infra.constructs.code import LayerSource, Platform
from infra.names import Names
from infra.sources import SourcesStack
from opx.connectors.pulling import LEASE_SECONDS
from opx.connectors.repository import declared_sources
from opx.ports.tables import SOURCES
from opx.runtime.knowledge_file import load_knowledge
from opx.settings import Settings
from tests.infra.templates import Assembly, Resource, listed, plain
from tests.infra.test_functions import environment
from tests.infra.test_ingestion import BUCKET, clients_arn, pairs, table_arns

DECLARED = {source.source_id: source for source in declared_sources(load_knowledge()).values() if source.schedule}


def schedules(assembly: Assembly) -> dict[str, Resource]:
    return {found["Name"]: found for found in assembly.resources("sources", "Scheduler::Schedule").values()}


def test_each_declared_source_is_pulled_by_a_message_with_its_id(default: Assembly) -> None:
    sent = {name: json.loads(found["Target"]["Input"]) for name, found in schedules(default).items()}
    assert sent == {f"pull-{source_id}": {"source": source_id} for source_id in DECLARED}


def test_schedules_have_the_times_of_the_knowledge_file(default: Assembly) -> None:
    times = {
        name: (found["ScheduleExpression"], found["ScheduleExpressionTimezone"])
        for name, found in schedules(default).items()
    }
    assert times["pull-nvd"] == ("cron(0 4 * * ? *)", "UTC")
    assert times["pull-attack"] == ("cron(0 5 ? * SUN *)", "UTC")


def test_they_are_followed_for_the_sources_that_are_enabled(default: Assembly) -> None:
    states = {name.removeprefix("pull-"): found["State"] for name, found in schedules(default).items()}
    assert states == {name: "ENABLED" if source.enabled else "DISABLED" for name, source in DECLARED.items()}


def test_a_source_that_is_enabled_is_pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Path("corpus/knowledge.yaml").read_text(encoding="utf-8").split("\nsources:")[0]
    path = tmp_path / "knowledge.yaml"
    path.write_text(
        f"{text}\nsources:\n  blog: {{kind: feed, category: web/blogs, schedule: '30 6 * * *', "
        "time_zone: Europe/Vienna, options: {urls: 'https://example.org/feed'}}\n",
        encoding="utf-8",
    )
    monkeypatch.setattr("infra.sources.declared_sources", lambda knowledge: declared_sources(knowledge, path))
    app = new_app()
    source = LayerSource(bundle=False, platform=Platform("arm64", "3.13"))
    stack = SourcesStack(app, "sources", names=Names(Deployment()), env=cdk.Environment(), source=source)
    template = cdk.assertions.Template.from_stack(stack)
    (found,) = template.find_resources("AWS::Scheduler::Schedule").values()
    assert found["Properties"]["State"] == "ENABLED"
    assert found["Properties"]["ScheduleExpressionTimezone"] == "Europe/Vienna"


def test_the_scheduler_may_send_to_the_queue_of_pulls_and_to_the_dead_letters(default: Assembly) -> None:
    queues = {q["QueueName"]: f"<{name}.Arn>" for name, q in default.resources("sources", "SQS::Queue").items()}
    statements = _statements_of(default, "SchedulesRole")
    assert {statement["Action"] for statement in statements} == {"sqs:SendMessage"}
    allowed = {resource for statement in statements for resource in listed(statement["Resource"])}
    assert allowed == {queues["dev-opx-knowledge-pulls"], queues["dev-opx-knowledge-pulls-failed"]}


@pytest.mark.parametrize("environment_", ["default", "ephemeral"])
def test_the_scheduler_acts_for_schedules_of_this_environment_only(
    environment_: str, request: pytest.FixtureRequest
) -> None:
    assembly: Assembly = request.getfixturevalue(environment_)
    roles = assembly.resources("sources", "IAM::Role")
    (role,) = [found for name, found in roles.items() if name.startswith("SchedulesRole")]
    group = assembly.only("sources", "Scheduler::ScheduleGroup")["Name"]
    (statement,) = plain(role)["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Condition"]["ArnLike"]["aws:SourceArn"].endswith(f":schedule-group/{group}")


class TestPullSources:
    def test_the_function_may_do_exactly_this(self, default: Assembly) -> None:
        logs = default.only("sources", "Lambda::Function")["LoggingConfig"]["LogGroup"].strip("<>")
        queue = next(
            f"<{name}.Arn>"
            for name, found in default.resources("sources", "SQS::Queue").items()
            if found["QueueName"] == "dev-opx-knowledge-pulls"
        )
        documents = {f"{BUCKET}/documents/*", f"{BUCKET}/clients/*/documents/*"}
        secrets = "arn:<AWS::Partition>:secretsmanager:<AWS::Region>:<AWS::AccountId>:secret:dev-opx-knowledge/*"
        found = {
            (action, resource)
            for statement in _statements_of(default, "PullSourcesRole")
            for action in listed(statement["Action"])
            for resource in listed(statement["Resource"])
        }
        assert found == (
            pairs("logs:CreateLogStream PutLogEvents", {f"<{logs}.Arn>"})
            | pairs("s3:ListBucket", {BUCKET})
            | pairs("s3:AbortMultipartUpload DeleteObject GetObject PutObject PutObjectTagging", documents)
            | pairs("dynamodb:BatchGetItem BatchWriteItem DeleteItem GetItem PutItem Query", table_arns(SOURCES))
            | pairs("dynamodb:GetItem", clients_arn())
            | pairs(
                "sqs:ChangeMessageVisibility DeleteMessage GetQueueAttributes GetQueueUrl ReceiveMessage SendMessage",
                {queue},
            )
            | pairs("secretsmanager:GetSecretValue", {secrets})
            | pairs("xray:PutTelemetryRecords PutTraceSegments", {"*"})
        )

    def test_it_gets_one_message_at_a_time(self, default: Assembly) -> None:
        mapping = default.only("sources", "Lambda::EventSourceMapping")
        assert mapping["BatchSize"] == 1

    def test_its_settings_are_valid(self, default: Assembly) -> None:
        settings = Settings.from_environ(environment(default, "sources"))
        assert (settings.backend, settings.table_prefix) == ("aws", "dev-")

    def test_a_message_of_a_killed_function_comes_back_after_its_lease(self, default: Assembly) -> None:
        timeout = default.only("sources", "Lambda::Function")["Timeout"]
        (queue,) = [
            found
            for found in default.resources("sources", "SQS::Queue").values()
            if found["QueueName"] == "dev-opx-knowledge-pulls"
        ]
        assert queue["VisibilityTimeout"] > timeout + LEASE_SECONDS

    def test_private_hosts_and_other_buckets_are_reached_only_if_the_operator_names_them(
        self, default: Assembly, least: Assembly
    ) -> None:
        assert environment(default, "sources")["OPX_ALLOWED_HOSTS"] == ""
        assert environment(least, "sources")["OPX_ALLOWED_HOSTS"] == "jira.internal"
        read = {
            resource
            for statement in _statements_of(least, "PullSourcesRole")
            if statement["Action"] == "s3:GetObject"
            for resource in listed(statement["Resource"])
        }
        assert read == {"arn:<AWS::Partition>:s3:::docs-of-ops/*", "arn:<AWS::Partition>:s3:::other/*"}


def _statements_of(assembly: Assembly, role: str) -> list[Resource]:
    """Of the policies of the role whose logical id begins so."""
    return [
        statement
        for policy in assembly.resources("sources", "IAM::Policy").values()
        if any(str(name).strip("<>").startswith(role) for name in policy["Roles"])
        for statement in policy["PolicyDocument"]["Statement"]
    ]
