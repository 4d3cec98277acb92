"""Calls that wake a sleeping collection: rules on alarms and incidents, and a timetable."""

from __future__ import annotations

import json
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import pytest

from infra.configuration import ContextError, Deployment
from infra.constructs.waking import incident_deliveries
from infra.names import Names
from opx.domain.knowledge import Tier
from opx.domain.sources import WebhookDefinition
from opx.retrieval.waking import WAKE
from opx_streams.webhooks.receiving import FOLDER
from tests.infra.templates import Assembly, Resource


def rules(assembly: Assembly) -> list[Resource]:
    return list(assembly.resources("observability", "Events::Rule").values())


@pytest.fixture(scope="module")
def woken(make: Callable[..., Assembly]) -> Assembly:
    """A collection that is woken by timetable and by alarms."""
    return make(awake="weekdays 7-19 Europe/Berlin", wake_on_alarms="true")


def test_nothing_wakes_the_collection_by_default(default: Assembly) -> None:
    queues = default.resources("observability", "SQS::Queue").values()
    assert rules(default) == []
    assert not any("waking" in queue["QueueName"] for queue in queues)


def test_an_alarm_that_goes_off_calls_the_function_that_searches_if_that_is_chosen(woken: Assembly) -> None:
    (rule,) = rules(woken)
    assert rule["EventPattern"] == {
        "source": ["aws.cloudwatch"],
        "detail-type": ["CloudWatch Alarm State Change"],
        "detail": {"state": {"value": ["ALARM"]}},
    }
    (target,) = rule["Targets"]
    assert json.loads(target["Input"]) == dict(WAKE)
    assert target["Arn"].endswith("opx-retrieve-knowledge:live")
    assert target["RetryPolicy"]["MaximumEventAgeInSeconds"] == 60
    permission = woken.only("observability", "Lambda::Permission")
    assert permission["Principal"] == "events.amazonaws.com"
    assert permission["FunctionName"] == target["Arn"]
    assert "WakingAlarms" in permission["SourceArn"]


def test_a_classic_collection_needs_no_waking(ephemeral: Assembly) -> None:
    assert rules(ephemeral) == []


def test_a_least_capacity_is_that_of_the_group_which_then_never_sleeps(without_snapstart: Assembly) -> None:
    limits = without_snapstart.only("search", "OpenSearchServerless::CollectionGroup")["CapacityLimits"]
    assert (limits["MinSearchCapacityInOcu"], limits["MinIndexingCapacityInOcu"]) == (2, 0)
    assert rules(without_snapstart) == []


def test_the_timetable_calls_every_eight_minutes_on_time(woken: Assembly) -> None:
    schedules = woken.resources("observability", "Scheduler::Schedule").values()
    (schedule,) = (one for one in schedules if one["Name"] == "keep-awake")
    assert schedule["ScheduleExpression"] == "cron(0/8 7-18 ? * MON-FRI *)"
    assert schedule["ScheduleExpressionTimezone"] == "Europe/Berlin"
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert json.loads(schedule["Target"]["Input"]) == dict(WAKE)


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        ({"awake": "always"}, "weekdays or daily"),
        ({"awake": "weekdays 19-7"}, "the first before the last"),
        ({"awake": "weekdays 7-25"}, "weekdays or daily"),
        ({"awake": "daily 7-19", "search_generation": "classic"}, "never sleeps"),
        ({"awake": "daily 7-19", "search_min_ocu": "1"}, "never sleeps"),
        ({"search_min_ocu": "3"}, "0, 1, 2, 4, 8"),
        ({"search_min_ocu": "1", "search_generation": "classic"}, "never sleeps"),
    ],
)
def test_choices_that_mean_nothing_are_refused(context: dict[str, str], reason: str) -> None:
    with pytest.raises(ContextError, match=reason):
        Deployment.from_context(context)


class TestIncidents:
    def _pattern(self, kind: str, *, webhooks: bool = True) -> Any:
        names = Names(Deployment(webhooks=webhooks))
        one = WebhookDefinition(name="pager", tier=Tier.INTERNAL, category="operations/alerts", format=kind)
        return incident_deliveries(names, {"pager": one})

    @pytest.mark.parametrize("prefix", ["", "clients/acme/", "clients/acme/projects/shop/"])
    def test_documents_of_deliveries_match(self, prefix: str) -> None:
        (key,) = self._pattern("pagerduty").detail["object"]["key"]
        assert fnmatchcase(f"{prefix}documents/operations/alerts/{FOLDER}/pager/Q1.md", key["wildcard"])
        assert not fnmatchcase(f"{prefix}documents/operations/alerts/other.md", key["wildcard"])

    def test_webhooks_for_documents_wake_nothing(self) -> None:
        assert self._pattern("github") is None

    def test_without_the_webhooks_stack_there_is_no_rule(self) -> None:
        assert self._pattern("pagerduty", webhooks=False) is None
