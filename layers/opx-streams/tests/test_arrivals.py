"""The last delivery of a webhook and the last record of a stream, which are kept at little cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from opx.domain.record import to_json
from opx.domain.scopes import Identity
from opx.errors import StoreUnavailableError
from opx.operations.context import Caller, Context
from opx.ports import Condition, Table
from opx.ports.tables import DELIVERIES
from opx_streams import capability
from opx_streams.arrivals import STREAM, WEBHOOK, WRITE_SECONDS, Arrivals, ArrivalState, LastArrival
from opx_streams.operations.streams import ListStreams, list_streams
from opx_streams.operations.webhooks import ListWebhooks, list_webhooks
from tests.support.stream_support import SystemUnderTest, a_stream, an_incident, from_kinesis
from tests.support.webhook_support import Webhooks, an_issue, github


def last_of(webhooks: Webhooks, name: str) -> LastArrival | None:
    return webhooks.services.part(capability.arrivals).last(WEBHOOK, [name]).get(name)


def test_nothing_is_known_before_the_first_delivery(webhooks: Webhooks) -> None:
    assert last_of(webhooks, "github") is None


def test_an_accepted_delivery_is_noted_with_its_time(webhooks: Webhooks) -> None:
    assert webhooks.send(github(an_issue())) == (202, "accepted")
    found = last_of(webhooks, "github")
    assert found
    assert found.accepted
    assert (found.accepted.count, found.accepted.at[:4].isdigit(), found.refused) == (1, True, None)


def test_a_refused_delivery_is_noted_with_its_reason(webhooks: Webhooks) -> None:
    forged = replace(github(an_issue()), headers={"x-github-event": "issues"})
    assert webhooks.send(forged)[0] == 401
    found = last_of(webhooks, "github")
    assert found
    assert found.refused
    assert (found.refused.reason, found.accepted) == ("unverified", None)


def test_a_known_delivery_is_noted_as_ignored(webhooks: Webhooks) -> None:
    for _ in range(2):
        webhooks.send(github(an_issue()))
    found = last_of(webhooks, "github")
    assert found
    assert found.ignored
    assert found.ignored.reason == "duplicate"


def test_the_list_of_webhooks_has_it(webhooks: Webhooks) -> None:
    webhooks.send(github(an_issue()))
    context = Context(webhooks.services, Caller(Identity(), owns_system=True))
    views = {one.name: one.last for one in list_webhooks(context, ListWebhooks()).webhooks}
    assert views["github"] == last_of(webhooks, "github")
    assert views["pager"] is None


def test_records_of_a_stream_are_noted(tmp_path: Path) -> None:
    system = SystemUnderTest(tmp_path)
    with system.services as services:
        system.consume(from_kinesis([an_incident()]))
        assert services.part(capability.arrivals).last(STREAM, [a_stream().name])[a_stream().name].accepted
        context = Context(services, Caller(Identity(), owns_system=True))
        assert list_streams(context, ListStreams()).last == {}  # it isn't declared


# -- cost


class CountingTable:
    """Counts writes; fails while it is down."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.writes = 0
        self.is_down = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def put(self, item: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        if self.is_down:
            raise StoreUnavailableError("down")
        self.writes += 1
        self._table.put(item, condition=condition)


class Noted:
    """Arrivals in an embedded table, with a clock that is set by hand."""

    def __init__(self, table: Table) -> None:
        self.now = 1_000_000.0
        self.table = CountingTable(table)
        self.arrivals = Arrivals(cast("Table", self.table), lambda: self.now)

    def note(self, times: int = 1, state: ArrivalState = ArrivalState.ACCEPTED) -> None:
        for _ in range(times):
            self.arrivals.note(WEBHOOK, "pager", state)

    def counts(self) -> dict[str, int]:
        found = to_json(self.arrivals.last(WEBHOOK, ["pager"])["pager"])
        return {state: one["count"] for state, one in found.items() if one}


@pytest.fixture
def noted(webhooks: Webhooks) -> Noted:
    return Noted(webhooks.services.tables.table(DELIVERIES))


def test_many_deliveries_are_one_write_a_minute(noted: Noted) -> None:
    noted.note(50)
    assert (noted.table.writes, noted.counts()) == (1, {"accepted": 1})
    noted.now += WRITE_SECONDS
    noted.note()
    assert (noted.table.writes, noted.counts()) == (2, {"accepted": 51})


def test_a_refusal_is_written_although_a_delivery_was_just_accepted(noted: Noted) -> None:
    noted.note()
    noted.note(state=ArrivalState.REFUSED)
    assert noted.counts() == {"accepted": 1, "refused": 1}


def test_two_processes_add_to_one_count(noted: Noted, webhooks: Webhooks) -> None:
    other = Noted(webhooks.services.tables.table(DELIVERIES))
    noted.note()
    other.note()
    assert noted.counts() == {"accepted": 2}


def test_a_store_that_is_down_delays_nothing(noted: Noted) -> None:
    noted.table.is_down = True
    noted.note()
    noted.table.is_down = False
    noted.now += WRITE_SECONDS
    noted.note()
    assert noted.counts()["accepted"] >= 1
