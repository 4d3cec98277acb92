"""A count of documents that takes longer than a function may run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from lambdas.report_coverage.handler import make_handler
from opx.domain.scopes import Identity
from opx.operations.context import Caller, Context
from opx.operations.usage import GetCosts, GetUsage, get_costs, get_usage
from opx.ports.tables import SHARDS
from opx.runtime.metrics import Metric
from opx_testing.fake_time import FakeTime
from tests.aws.cloud import Cloud, a_cloud
from tests.support.fakes import FakeContext, function_logs
from tests.support.telemetry_support import metric_lines

DAILY, HOURLY = {"holdings": True}, dict[str, bool]()
DOCUMENTS = 30
CATEGORY = "runbooks/procedures"
TIMEOUT = 900.0


class FunctionEndedError(BaseException):
    """Lambda ended the function, whatever it was doing."""


class TimedContext(FakeContext):
    """A call of a function that runs for as long as a Lambda function may."""

    def __init__(self, time: FakeTime) -> None:
        super().__init__()
        self._time = time
        self._ends = time.now + TIMEOUT

    def get_remaining_time_in_millis(self) -> int:
        return int(1000 * (self._ends - self._time.now))


class SlowCatalog:
    """An account in which, once it is slowed down, a page of a query has two items, as if each were of thousands, and takes
    20 s for the four parts of a category together."""

    def __init__(self, cloud: Cloud, time: FakeTime) -> None:
        self.cloud = cloud
        self.time = time
        self._ends = float("inf")
        self._report = make_handler(lambda: cloud.services)

    def slow_down(self) -> None:
        events = self.cloud.dynamodb.meta.events
        events.register("provide-client-params.dynamodb.Query", lambda params, **_: {**params, "Limit": 2})
        events.register("before-call.dynamodb.Query", self._pass_time)

    def _pass_time(self, **_: Any) -> None:
        self.time.now += 20 / SHARDS
        if self.time.now >= self._ends:
            raise FunctionEndedError

    def put(self, number: int, text: str = "Do it.") -> None:
        self.cloud.put(f"documents/{CATEGORY}/{number}.md", f"# Step {number}\n\n{text}")

    def deliver(self) -> None:
        while self.cloud.services.queue.waiting():
            self.cloud.deliver()

    def call(self, event: dict[str, bool]) -> dict[str, int]:
        self._ends = self.time.now + TIMEOUT
        found: dict[str, int] = self._report(event, TimedContext(self.time))
        self._ends = float("inf")
        return found

    def until_counted(self, most: int = 24) -> dict[str, int]:
        """The result of the hour in which a day's count is finished."""
        found = self.call(DAILY)
        while "documents" not in found and (most := most - 1):
            self.time.now += 3600
            found = self.call(HOURLY)
        return found


@pytest.fixture
def catalog(aws: boto3.Session) -> Iterator[SlowCatalog]:
    time = FakeTime()
    with function_logs(), a_cloud(aws, clock=time.clock) as cloud:
        found = SlowCatalog(cloud, time)
        for number in range(DOCUMENTS):
            found.put(number)
        found.deliver()
        found.slow_down()
        yield found


def test_count_is_finished_by_the_calls_of_the_next_hours(catalog: SlowCatalog) -> None:
    assert catalog.call(DAILY)["unfinished"]
    found = catalog.until_counted()
    assert (found["documents"], found["chunks"], found["clients"]) == (DOCUMENTS, DOCUMENTS, 1)


def test_each_category_is_reported_once(catalog: SlowCatalog, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    catalog.until_counted()
    lines = [line for line in metric_lines(capsys.readouterr().out) if Metric.DOCUMENTS in line]
    reported = [line["category"] for line in lines]
    assert sorted(reported) == sorted(catalog.cloud.services.installation.knowledge.categories)
    assert next(line[Metric.DOCUMENTS] for line in lines if line["category"] == CATEGORY) == [float(DOCUMENTS)]


def test_use_is_that_of_the_day_before_the_count_began(catalog: SlowCatalog) -> None:
    day = catalog.cloud.services.lifecycle.usage.tally().day
    catalog.call(DAILY)
    catalog.time.now += 86_400
    catalog.until_counted()
    context = Context(catalog.cloud.services, Caller(Identity(), owns_system=True))
    usage = get_usage(context, GetUsage(month=day[:7]))
    (client,) = usage.clients
    assert (client.days, client.documents) == (1, DOCUMENTS)
    assert catalog.cloud.services.lifecycle.usage.has(day)
    costs = get_costs(context, GetCosts())
    assert costs.is_billed
    assert [one.dollars > 0 for one in costs.months if one.days] == [True]


def test_hourly_calls_count_nothing_after_the_end(catalog: SlowCatalog) -> None:
    catalog.until_counted()
    assert "documents" not in catalog.call(HOURLY)


def test_documents_that_change_in_between_count_once(catalog: SlowCatalog) -> None:
    catalog.call(DAILY)
    for number in range(DOCUMENTS):
        catalog.put(number, "Do it in another way.")
    catalog.put(DOCUMENTS)
    catalog.time.now += 60
    catalog.deliver()
    assert catalog.until_counted()["documents"] == DOCUMENTS
