"""Choices of operators: a budget, and how long records are kept."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from infra.configuration import ContextError, Deployment
from opx.retrieval.waking import CANARY
from tests.infra.templates import Assembly, has_our_code, lint_findings


@pytest.fixture(scope="module")
def chosen(make: Callable[..., Assembly]) -> Assembly:
    return make(budget_usd="500", audit_days="90", canary="true")


def test_a_budget_counts_the_environments_resources_and_notifies_the_topic(chosen: Assembly) -> None:
    found = chosen.only("observability", "Budgets::Budget")
    budget = found["Budget"]
    assert budget["BudgetLimit"] == {"Amount": 500, "Unit": "USD"}
    tags = {each["Tags"]["Key"]: each["Tags"]["Values"] for each in budget["FilterExpression"]["And"]}
    assert tags == {"application": ["opx-knowledge"], "environment": ["dev"]}
    notified = {
        (each["Notification"]["NotificationType"], each["Notification"]["Threshold"], one["SubscriptionType"])
        for each in found["NotificationsWithSubscribers"]
        for one in each["Subscribers"]
    }
    assert notified == {("ACTUAL", 80, "SNS"), ("FORECASTED", 100, "SNS")}


def test_the_budget_may_publish_to_the_encrypted_topic(chosen: Assembly, default: Assembly) -> None:
    def senders(assembly: Assembly) -> str:
        kinds = ("SNS::TopicPolicy", "KMS::Key")
        return json.dumps([list(assembly.resources("observability", kind).values()) for kind in kinds])

    assert senders(chosen).count("budgets.amazonaws.com") == 2
    assert "budgets" not in senders(default)


def test_a_template_with_a_budget_is_clean(chosen: Assembly) -> None:
    assert chosen.findings == []
    assert lint_findings(chosen, "observability") == []


def test_functions_keep_records_as_long_as_chosen(chosen: Assembly, default: Assembly) -> None:
    def kept(assembly: Assembly) -> set[str]:
        functions = filter(has_our_code, assembly.resources("retrieval", "Lambda::Function").values())
        return {one["Environment"]["Variables"].get("OPX_AUDIT_DAYS", "") for one in functions}

    assert kept(chosen) == {"90"}
    assert kept(default) == {""}


def test_the_function_that_estimates_costs_knows_the_budget(chosen: Assembly, default: Assembly) -> None:
    def budgets(assembly: Assembly) -> list[str]:
        functions = assembly.resources("api", "Lambda::Function").values()
        return [one["Environment"]["Variables"].get("OPX_MONTHLY_BUDGET", "") for one in functions]

    assert (budgets(chosen), budgets(default)) == (["500"], [""])


@pytest.mark.parametrize("key", ["budget_usd", "audit_days", "gap_days"])
def test_negative_numbers_are_refused(key: str) -> None:
    with pytest.raises(ContextError, match="0 or more"):
        Deployment.from_context({key: "-1"})


class TestCanary:
    def test_the_function_that_searches_gets_a_question_every_hour_on_time(self, chosen: Assembly) -> None:
        schedules = chosen.resources("observability", "Scheduler::Schedule").values()
        (schedule,) = (one for one in schedules if json.loads(one["Target"]["Input"]) == CANARY)
        assert schedule["ScheduleExpression"] == "cron(35 * * * ? *)"
        assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
        assert schedule["Target"]["Arn"].endswith(":function:dev-opx-retrieve-knowledge:live")

    def test_two_failures_in_a_row_and_silence_raise_an_alarm(self, chosen: Assembly) -> None:
        alarms = chosen.resources("observability", "CloudWatch::Alarm").values()
        (alarm,) = (one for one in alarms if one["AlarmName"] == "dev-opx-knowledge-canary")
        assert (alarm["MetricName"], alarm["Statistic"], alarm["Period"]) == ("CanaryFailed", "Maximum", 3600)
        assert (alarm["Threshold"], alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (0, 2, 2)
        assert alarm["TreatMissingData"] == "breaching"

    def test_there_is_none_unless_chosen(self, default: Assembly) -> None:
        schedules = default.resources("observability", "Scheduler::Schedule").values()
        assert dict(CANARY) not in [json.loads(one["Target"]["Input"]) for one in schedules]


def test_capacity_alarms_have_the_statistic_that_aws_documents(default: Assembly) -> None:
    """The sum of a minute, for 30 of them: sums of longer periods are multiples of the units."""
    alarms = default.resources("observability", "CloudWatch::Alarm").values()
    units = [one for one in alarms if one.get("Namespace") == "AWS/AOSS"]
    assert {one["MetricName"] for one in units} == {"SearchOCU", "IndexingOCU"}
    for alarm in units:
        assert (alarm["Statistic"], alarm["Period"]) == ("Sum", 60)
        assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"], alarm["Threshold"]) == (30, 30, 8)
