"""Categories that age by use: retention counts from the last time that a document came, was found, opened, or helped."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from opx.domain.knowledge import Ageing
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.edges.calling import LocalClient
from opx.errors import StoreUnavailableError
from opx.ingestion.corpus.uses import UseLog
from opx.lifecycle.retention.holds import Hold
from opx.operations.context import Caller, Context
from opx.operations.reading import ReadDocument, read_document
from opx.ports.tables import USES
from tests.e2e.systems import SystemUnderTest

DAY = 86_400
TWO_YEARS = 730
INCIDENT = "documents/operations/incidents/pool.md"
TEXT = "---\nlast_updated: 2015-03-01\n---\n# Pool exhausted\n\nThe pool of db-7 was exhausted; it was enlarged.\n"


@pytest.fixture
def system(either: SystemUnderTest, monkeypatch: pytest.MonkeyPatch) -> SystemUnderTest:
    services = either.services
    now = partial(datetime.fromtimestamp, tz=UTC)
    monkeypatch.setattr("moto.s3.models.utcnow", lambda: now(either.time.clock()).replace(tzinfo=None))
    services.lifecycle.pruning().run()
    table, knowledge = services.tables.table(USES), services.installation.knowledge
    services.corpus.uses = UseLog(table, lambda: services.corpus.catalog, knowledge, services.clock)  # at once on both
    either.put(INCIDENT, TEXT)
    either.work()
    return either


def later(system: SystemUnderTest, days: float) -> None:
    system.time.sleep(days * DAY)


def pruned(system: SystemUnderTest) -> int:
    removed = system.services.lifecycle.pruning().prune_old_knowledge()
    system.work()
    return removed


def ask(system: SystemUnderTest, question: str = "pool of db-7 exhausted") -> list[str]:
    answer = system.services.questions.for_reader().search(question, QueryConfig(min_confidence=0.0))
    return [one.metadata["title"] for one in answer.results]


def test_an_old_incident_is_found_on_the_day_it_comes(system: SystemUnderTest) -> None:
    assert ask(system) == ["Pool exhausted"]
    assert not system.document(INCIDENT).remarks


def test_an_unused_one_is_removed_when_its_retention_has_passed_since_it_came(system: SystemUnderTest) -> None:
    later(system, TWO_YEARS)
    assert pruned(system) == 0
    later(system, 1)
    assert pruned(system) == 1
    assert ask(system) == []


def test_one_that_was_found_stays_so_long_after_that(system: SystemUnderTest) -> None:
    later(system, 700)
    assert ask(system)
    later(system, 40)
    assert pruned(system) == 0
    later(system, TWO_YEARS - 41)
    assert pruned(system) == 0
    later(system, 3)
    assert pruned(system) == 1


def test_one_that_was_opened_stays(system: SystemUnderTest) -> None:
    later(system, 700)
    client = LocalClient(Context(system.services, Caller(system.services.installation.identity_of(None))))
    client.call(read_document, ReadDocument(document=system.document(INCIDENT).document_id))
    later(system, 40)
    assert pruned(system) == 0


def test_one_whose_outcome_was_recorded_stays(system: SystemUnderTest) -> None:
    service = system.services.questions.for_reader()
    answer = service.search("pool of db-7 exhausted", QueryConfig(min_confidence=0.0))
    later(system, 300)
    receipt = (answer.receipt or {})["receiptId"]
    system.services.learning.outcomes().record(receipt, answer.results[0].document_id, "resolved")
    later(system, 700)
    assert pruned(system) == 0


def test_a_question_about_the_past_is_no_use(system: SystemUnderTest) -> None:
    later(system, 700)
    config = QueryConfig(min_confidence=0.0, as_of="2023-11-20")
    system.services.questions.for_reader().search("pool of db-7 exhausted", config)
    later(system, 40)
    assert pruned(system) == 1


def test_a_day_of_questions_writes_once(system: SystemUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    table = system.services.tables.table(USES)
    written: list[int] = []
    put_many = table.put_many

    def counted(items: Any) -> None:
        written.append(1)
        put_many(items)

    monkeypatch.setattr(table, "put_many", counted)
    monkeypatch.setattr(system.services.corpus.uses, "table", table)
    for _ in range(3):
        assert ask(system)
    system.services.corpus.uses._noted.clear()  # another process
    assert ask(system)
    assert len(written) == 1
    later(system, 1)
    assert ask(system)
    assert len(written) == 2


def test_other_categories_are_not_written(system: SystemUnderTest) -> None:
    system.put("documents/runbooks/pool.md", "# Pool runbook\n\nEnlarge the pool of db-9 kestrel.\n")
    system.work()
    found = system.services.questions.for_reader().search(
        "db-9 kestrel", QueryConfig(categories=("runbooks/procedures",))
    )
    assert [one.metadata["title"] for one in (*found.results, *found.unconfirmed)] == ["Pool runbook"]
    assert not list(system.services.tables.table(USES).query("global"))


def test_a_question_is_answered_although_its_use_can_t_be_noted(
    system: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> list[Any]:
        raise StoreUnavailableError("down")

    monkeypatch.setattr(system.services.corpus.uses, "table", type("T", (), {"get_many": fails})())
    assert ask(system) == ["Pool exhausted"]


def test_a_hold_keeps_an_unused_one(system: SystemUnderTest) -> None:
    system.services.lifecycle.holds.add(Hold("case 7", "ann", within="global"))
    later(system, TWO_YEARS + 5)
    assert pruned(system) == 0


def test_back_to_ageing_by_edit_is_a_shorter_policy_that_the_guard_sees(system: SystemUnderTest) -> None:
    for number in range(30):
        system.put(INCIDENT.replace("pool", f"pool-{number}"), TEXT.replace("db-7", f"db-{number}"))
    system.work()
    categories = system.services.installation.knowledge.categories
    categories["operations/incidents"] = replace(categories["operations/incidents"], ages_by=Ageing.EDIT)
    report = system.services.lifecycle.pruning().run()
    assert report.stopped
    assert "2y by use and is 2y" in report.stop_message()
    assert report.versions == 0
