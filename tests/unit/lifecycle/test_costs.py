"""Estimates of costs from the use that was counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.scopes import Identity, Scope
from opx.lifecycle.cost_estimate import MonthCosts, Rates, UsedMonth
from opx.lifecycle.costs import COHERE, HOURS, TITAN, Scenario, monthly
from opx.lifecycle.usage import DayUsage
from opx.operations.context import Caller, Context
from opx.operations.system import System
from opx.operations.usage import Costs, GetCosts, get_costs
from opx_testing.fake_time import FakeTime
from tests.support.tenants_support import services_at

DAY = 86_400.0
BILLED = Rates(is_billed=True)
TEXT = "# Disk full\n\nDelete rotated logs."


def a_day(client: str, day: int = 1, questions: int | None = 100, new: int = 10) -> DayUsage:
    return DayUsage(
        client_id=client,
        day=f"2026-11-{day:02}",
        questions=questions,
        documents=100,
        chunks=400,
        tokens=120_000,
        ingested_documents=new,
        ingested_chunks=4 * new,
        ingested_tokens=1_200 * new,
    )


def costs(*days: DayUsage, rates: Rates = BILLED, clients: int = 10) -> MonthCosts:
    return UsedMonth.of("2026-11", days).costs(rates, clients)


def by_service(found: MonthCosts) -> dict[str, float]:
    return {one.service: one.dollars for one in found.services}


@pytest.fixture
def services(tmp_path: Path, time: FakeTime) -> Iterator[System]:
    with services_at(tmp_path / "home", time, monthly_budget=50) as system:
        yield system


def of(services: System) -> Costs:
    return get_costs(Context(services, Caller(Identity(), owns_system=True)), GetCosts())


def test_part_of_a_month_costs_its_part() -> None:
    month = Scenario("a month", documents=100, chunks=400, new_documents=60, questions=600, search_hours=40)
    half = Scenario(
        "half", documents=100, chunks=400, new_documents=30, questions=300, search_hours=20, hours=HOURS / 2
    )
    whole = monthly(month)
    for service, dollars in monthly(half).items():
        assert dollars == pytest.approx(whole[service] / 2), service


def test_a_month_of_counted_days_costs_as_the_formulas_have_it() -> None:
    found = costs(*(a_day("acme", day) for day in range(1, 31)))
    month = Scenario(
        "november",
        documents=100,
        chunks=400,
        new_documents=300,
        new_tokens=360_000,
        questions=3_000,
        search_hours=600,
        index_hours=15,
        hours=720,
    )
    expected = monthly(month)
    assert by_service(found) == pytest.approx(expected, abs=0.0001)
    assert found.dollars == pytest.approx(sum(expected.values()), abs=0.0001)
    assert found.days == 30


def test_clients_and_what_no_use_causes_are_the_whole() -> None:
    found = costs(a_day("acme"), a_day("beta", questions=300), a_day("", questions=0, new=0))
    parts = sum(one.dollars for one in found.clients) + found.unused
    assert parts == pytest.approx(found.dollars, abs=0.001)
    assert [one.client_id for one in found.clients] == ["beta", "acme", ""]
    assert found.clients[-1].dollars > 0  # its documents are stored


def test_clients_beyond_the_limit_are_summed() -> None:
    days = [a_day(f"client-{number}", questions=number) for number in range(5)]
    every, some = costs(*days), costs(*days, clients=2)
    assert some.clients == every.clients[:2]
    assert some.other_clients == pytest.approx(sum(one.dollars for one in every.clients[2:]), abs=0.001)


def test_embedding_is_paid_by_the_tokens_that_came_in_and_by_the_model() -> None:
    found = {
        model: by_service(costs(a_day("acme"), rates=Rates(True, model)))["Embedding"] for model in (TITAN, COHERE)
    }
    assert found[TITAN] == pytest.approx((12_000 + 100 * 30) * 0.02 / 1e6, abs=0.0001)
    assert found[COHERE] == pytest.approx(6 * found[TITAN], abs=0.0002)


def test_a_collection_that_stays_awake_is_paid_at_all_hours() -> None:
    found = costs(a_day("acme", questions=0), rates=Rates(True, stays_awake=True))
    assert by_service(found)["OpenSearch Serverless"] == pytest.approx(2 * 24 * 0.24, abs=0.01)
    assert Rates.of("aws", "cohere.embed-v4:0", "classic") == Rates(True, COHERE, stays_awake=True)


def test_questions_without_an_audit_log_are_unknown() -> None:
    (client,) = costs(a_day("acme", questions=None)).clients
    assert client.questions is None
    assert client.dollars > 0


def test_nothing_counted_costs_nothing() -> None:
    found = costs()
    assert (found.days, found.dollars, found.clients) == (0, 0, ())


def test_a_system_on_this_machine_shows_its_use_and_costs_nothing(services: System, time: FakeTime) -> None:
    manager = services.ingestion.manager_of(Scope("acme"))
    manager.ingest_document("internal", "runbooks/procedures", TEXT, {"source": "disk"})
    services.questions.for_reader(Identity("acme")).query("disk full")
    time.now += DAY
    services.lifecycle.measure_usage()
    found = of(services)
    this = next(one for one in found.months if one.days)
    assert not found.is_billed
    assert found.budget == 50
    assert (this.dollars, this.unused) == (0, 0)
    assert [(one.client_id, one.questions, one.documents, one.new_documents, one.dollars) for one in this.clients] == [
        ("acme", 1, 1, 1, 0.0)
    ]
    assert this.clients[0].new_tokens > 0


def test_it_has_this_month_and_the_last_one(services: System, time: FakeTime) -> None:
    names = [one.month for one in of(services).months]
    assert len(names) == 2
    assert names == sorted(names, reverse=True)
    time.now += 31 * DAY
    assert of(services).months[1].month == names[0]
