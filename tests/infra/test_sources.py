"""When sources are pulled."""

from __future__ import annotations

import json

import aws_cdk as cdk
import pytest

from infra.application import new_app
from infra.configuration import Deployment
from infra.names import Names
from infra.sources import SourcesStack
from opx.knowledge_file import load_knowledge
from tests.infra.templates import Assembly, plain

SCHEDULED = {category.path for category in load_knowledge().categories.values() if category.schedule}


def test_each_category_with_a_schedule_is_pulled_by_a_message_with_its_name(default: Assembly) -> None:
    schedules = default.resources("sources", "Scheduler::Schedule").values()
    assert {json.loads(schedule["Target"]["Input"])["category"] for schedule in schedules} == SCHEDULED


def test_schedules_say_the_times_of_the_knowledge_file(default: Assembly) -> None:
    times = {
        schedule["Name"]: (schedule["ScheduleExpression"], schedule["ScheduleExpressionTimezone"])
        for schedule in default.resources("sources", "Scheduler::Schedule").values()
    }
    assert times["pull-security-cve"] == ("cron(0 4 * * ? *)", "UTC")
    assert times["pull-security-mitre"] == ("cron(0 5 ? * SUN *)", "UTC")


def test_nothing_is_pulled_while_no_category_has_a_source(default: Assembly) -> None:
    schedules = default.resources("sources", "Scheduler::Schedule").values()
    assert {schedule["State"] for schedule in schedules} == {"DISABLED"}


def test_categories_with_a_source_are_pulled() -> None:
    app = new_app()
    names = Names(Deployment())
    connected = frozenset({"security/cve"})
    stack = SourcesStack(app, "sources", names=names, env=cdk.Environment(), connected=connected)
    template = cdk.assertions.Template.from_stack(stack)
    found = template.find_resources("AWS::Scheduler::Schedule", {"Properties": {"State": "ENABLED"}}).values()
    assert [json.loads(schedule["Properties"]["Target"]["Input"]) for schedule in found] == [
        {"category": "security/cve"}
    ]


def test_the_scheduler_may_send_to_the_queue_of_pulls_and_to_the_dead_letters(default: Assembly) -> None:
    (policy,) = default.resources("sources", "IAM::Policy").values()
    queues = {q["QueueName"]: f"<{name}.Arn>" for name, q in default.resources("sources", "SQS::Queue").items()}
    statements = policy["PolicyDocument"]["Statement"]
    assert {statement["Action"] for statement in statements} == {"sqs:SendMessage"}
    allowed = {r for s in statements for r in (s["Resource"] if isinstance(s["Resource"], list) else [s["Resource"]])}
    assert allowed == {queues["dev-opx-knowledge-pulls"], queues["dev-opx-knowledge-pulls-failed"]}


@pytest.mark.parametrize("environment", ["default", "ephemeral"])
def test_the_scheduler_acts_for_schedules_of_this_environment_only(
    environment: str, request: pytest.FixtureRequest
) -> None:
    assembly: Assembly = request.getfixturevalue(environment)
    (role,) = assembly.resources("sources", "IAM::Role").values()
    group = assembly.only("sources", "Scheduler::ScheduleGroup")["Name"]
    (statement,) = plain(role)["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Condition"]["ArnLike"]["aws:SourceArn"].endswith(f":schedule-group/{group}")
