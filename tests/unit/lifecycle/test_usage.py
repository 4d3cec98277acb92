"""Daily counts of each client's use, and the report of a month."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.scopes import Identity, Scope
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.lifecycle.usage import KEPT_DAYS, ClientUsage, UsageLog
from opx.operations.context import Caller, Context
from opx.operations.system import System
from opx.operations.usage import GetUsage, Usage, get_usage
from opx_testing.fake_time import FakeTime
from tests.support.tenants_support import services_at

DAY = 86_400.0
TEXT = "# Disk full\n\nDelete rotated logs. " + "Grow the volume. " * 20


@pytest.fixture
def services(tmp_path: Path, time: FakeTime) -> Iterator[System]:
    with services_at(tmp_path / "home", time) as system:
        yield system


def put(services: System, scope: Scope, source: str = "disk", text: str = TEXT) -> None:
    services.ingestion.manager_of(scope).ingest_document("internal", "runbooks/procedures", text, {"source": source})


def ask(services: System, client: str, project: str = "", times: int = 1) -> None:
    for number in range(times):
        services.questions.for_reader(Identity(client, project)).query(f"disk full {number}")


def of(services: System, client: str = "", **given: object) -> Usage:
    caller = Caller(Identity(client), owns_system=not client)
    return get_usage(Context(services, caller), GetUsage(**given))  # type: ignore[arg-type]


def by_client(found: Usage) -> dict[str, ClientUsage]:
    return {one.client_id: one for one in found.clients}


def test_questions_and_documents_of_the_last_day_are_counted_by_client(services: System, time: FakeTime) -> None:
    put(services, Scope("acme"))
    put(services, Scope("acme", project_id="shop"))
    put(services, Scope())
    ask(services, "acme", times=2)
    ask(services, "acme", "shop")
    ask(services, "acme-b")
    time.now += DAY
    ask(services, "acme", times=5)  # of the next day
    assert services.lifecycle.measure_usage().clients == 3
    found = by_client(of(services))
    assert list(found) == ["acme", "acme-b", ""]
    assert [found[one].questions for one in found] == [3, 1, 0]
    assert [found[one].ingested_documents for one in found] == [2, 0, 1]
    stored = {
        document.scope.client_id: document for document in services.corpus.catalog.in_category("runbooks/procedures")
    }
    assert found["acme"].chunks == found["acme"].chunk_days == 2 * stored["acme"].chunk_count
    assert found["acme"].tokens == found["acme"].ingested_tokens == 2 * stored["acme"].token_count > 0


def test_a_month_sums_its_days_and_shows_what_the_last_one_stored(services: System, time: FakeTime) -> None:
    put(services, Scope("acme"))
    time.now += DAY
    services.lifecycle.measure_usage()
    put(services, Scope("acme"), "cpu", "# High CPU\n\nLook at top.")
    ask(services, "acme")
    time.now += DAY
    services.lifecycle.measure_usage()
    (found,) = of(services).clients
    assert (found.days, found.questions) == (2, 1)
    assert (found.documents, found.ingested_documents) == (2, 2)
    assert found.chunk_days == 1 + 2


def test_counting_a_day_again_replaces_its_count(services: System, time: FakeTime) -> None:
    ask(services, "acme")
    time.now += DAY
    for _ in range(2):
        services.lifecycle.measure_usage()
    (found,) = of(services).clients
    assert (found.days, found.questions) == (1, 1)


def test_a_month_without_counts_is_empty(services: System) -> None:
    assert of(services, month="2025-01").clients == ()


@pytest.mark.parametrize("day", ["tomorrow", "2026-13-01", "2020-01-01"])
def test_only_past_days_can_be_counted(services: System, day: str) -> None:
    with pytest.raises(InvalidInputError):
        services.lifecycle.measure_usage(day)


def test_the_present_day_can_not_be_counted(services: System, time: FakeTime) -> None:
    time.now += DAY
    today = services.lifecycle.measure_usage().day
    time.now -= DAY
    with pytest.raises(InvalidInputError, match="no past day"):
        services.lifecycle.measure_usage(today)


def test_without_an_audit_log_questions_are_unknown(tmp_path: Path, time: FakeTime) -> None:
    with services_at(tmp_path / "silent", time, audit_days=0) as services:
        put(services, Scope("acme"))
        time.now += DAY
        services.lifecycle.measure_usage()
        assert of(services).clients[0].questions is None


class TestTenants:
    @pytest.fixture(autouse=True)
    def _counted(self, services: System, time: FakeTime) -> None:
        for client in ("acme", "acme-b", ""):
            put(services, Scope(client))
            ask(services, client)
        time.now += DAY
        services.lifecycle.measure_usage()

    def test_a_client_sees_its_own_use_alone(self, services: System) -> None:
        assert [one.client_id for one in of(services, "acme").clients] == ["acme"]
        assert of(services, "acm").clients == ()

    def test_pages_follow_each_other(self, services: System) -> None:
        first = of(services, limit=1)
        second = of(services, limit=1, after=first.next)
        third = of(services, limit=1, after=second.next)
        assert [page.clients[0].client_id for page in (first, second, third)] == ["acme", "acme-b", ""]
        assert third.next == ""

    def test_numbers_of_a_removed_client_stay_for_the_operator(self, services: System) -> None:
        services.tenants.administration("ann").remove("acme")
        assert "acme" in by_client(of(services))

    def test_a_client_with_the_id_of_a_removed_one_begins_anew(self, services: System, time: FakeTime) -> None:
        administration = services.tenants.administration("ann")
        administration.remove("acme")
        administration.add("acme")
        assert of(services, "acme").clients == ()

    def test_numbers_expire(self, services: System, time: FakeTime) -> None:
        time.now += (KEPT_DAYS + 1) * DAY
        assert list(services.lifecycle.usage.of_month("2026-11")) == []


class TestDaily:
    def test_a_day_is_counted_once(self, services: System, time: FakeTime) -> None:
        ask(services, "acme")
        time.now += DAY
        for feed in (services.lifecycle.daily_usage(), services.lifecycle.daily_usage()):
            assert feed.poll() == feed.poll() == ()
        assert of(services).clients[0].days == 1

    def test_an_unavailable_store_is_reported(
        self, services: System, time: FakeTime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: object) -> bool:
            raise StoreUnavailableError("can't be reached")

        monkeypatch.setattr(UsageLog, "has", away)
        assert services.lifecycle.daily_usage().poll() == ("use of clients: can't be reached",)
