"""No outcome is lost or counted twice, whenever a writer dies or another one comes first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.outcomes import Counted, Counts, DocumentOutcomes, OutcomeResult, RecordedOutcome
from opx.errors import StoreUnavailableError
from opx.learning.outcome_store import LEARNT, LOOKED_AGAIN_SECONDS, WARNINGS, KnownScopes, OutcomeStore, rows_of
from opx.learning.outcome_store import OUTCOMES as OUTCOMES_KIND
from opx.ports.tables import OUTCOMES
from opx_testing.fake_time import FakeTime
from tests.doubles.hooked_table import HookedTable

RESOLVED, NO_EFFECT, MADE_WORSE = OutcomeResult
SCOPE, KEY = "client:acme", "k1"


class DiedError(Exception):
    """A process ends here."""


@pytest.fixture
def table(tmp_path: Path) -> Iterator[HookedTable]:
    database = Database(tmp_path / "tables.sqlite")
    yield HookedTable(SqliteTable(OUTCOMES, database, clock=lambda: 1_000.0))
    database.close()


def a_store(table: HookedTable) -> OutcomeStore:
    """The store of another process."""
    return OutcomeStore(table, KnownScopes(table), lambda: 1_000.0)


def an_outcome(number: int, result: OutcomeResult = RESOLVED) -> RecordedOutcome:
    return RecordedOutcome(f"o{number}", result, "d1", 1, f"r{number}", "2026-11-22T10:00:00Z")


def count(table: HookedTable, outcome: RecordedOutcome) -> Counted:
    return a_store(table).count(SCOPE, KEY, outcome, "Disk full").counted


def known(table: HookedTable) -> DocumentOutcomes:
    [(_, _, head)] = a_store(table).heads([SCOPE], [KEY])
    return head


def own_items(table: HookedTable) -> dict[str, OutcomeResult]:
    return {one.outcome_id: one.result for one in a_store(table).outcomes(SCOPE, KEY)}


class TestCounting:
    def test_each_outcome_counts_once(self, table: HookedTable) -> None:
        for number in (1, 2, 3, 2, 1):
            count(table, an_outcome(number))
        assert known(table).tally.now == Counts(resolved=3)
        assert own_items(table).keys() == {"o1", "o2", "o3"}

    def test_an_outcome_recorded_again_is_known(self, table: HookedTable) -> None:
        assert [count(table, an_outcome(1)) for _ in range(3)] == [Counted.NEW, Counted.KNOWN, Counted.KNOWN]

    def test_another_result_corrects_it(self, table: HookedTable) -> None:
        count(table, an_outcome(1))
        count(table, an_outcome(2))
        assert count(table, an_outcome(1, MADE_WORSE)) is Counted.CORRECTED
        assert known(table).tally.now == Counts(resolved=1, made_worse=1)
        assert own_items(table) == {"o1": MADE_WORSE, "o2": RESOLVED}

    def test_counts_go_past_a_million(self, table: HookedTable) -> None:
        count(table, an_outcome(0))
        [head] = [row for row in rows_of(table, SCOPE) if row["entry"] == KEY]
        table.put({**head, "now": Counts(10**6 + 5, 3, 2).to_json()})
        count(table, an_outcome(1))
        assert known(table).tally.now == Counts(10**6 + 6, 3, 2)

    def test_scopes_know_nothing_of_each_other(self, table: HookedTable) -> None:
        count(table, an_outcome(1))
        assert a_store(table).heads(["client:other", "client:acme2"], [KEY]) == []
        assert list(rows_of(table, "client:acm")) == []


class TestDeaths:
    @pytest.mark.parametrize("outcome", [an_outcome(3), an_outcome(2, NO_EFFECT)], ids=["new", "correction"])
    @pytest.mark.parametrize("write", range(5))
    def test_a_retry_after_a_crash_at_any_write_counts_once(
        self, table: HookedTable, write: int, outcome: RecordedOutcome
    ) -> None:
        count(table, an_outcome(1))
        count(table, an_outcome(2))
        table.arm(write, _die)
        try:
            count(table, outcome)
        except DiedError:
            count(table, an_outcome(4))  # another process writes first
        table.disarm()
        count(table, an_outcome(4))
        count(table, outcome)
        expected = {"o1": RESOLVED, "o2": RESOLVED, "o4": RESOLVED} | {outcome.outcome_id: outcome.result}
        assert own_items(table) == expected
        assert known(table).tally.now == _counts(expected)

    @pytest.mark.parametrize("write", range(4))
    def test_two_concurrent_outcomes_both_count(self, table: HookedTable, write: int) -> None:
        count(table, an_outcome(1))
        table.arm(write, lambda: _quietly(lambda: count(table, an_outcome(2))))
        count(table, an_outcome(3))
        assert known(table).tally.now == Counts(resolved=3)
        assert own_items(table).keys() == {"o1", "o2", "o3"}

    def test_the_own_item_of_a_slow_writer_does_not_undo_a_correction(self, table: HookedTable) -> None:
        def others() -> None:
            count(table, an_outcome(1, MADE_WORSE))
            count(table, an_outcome(2))

        table.arm(2, others)  # after the note and the counts, before the own item
        count(table, an_outcome(1))
        assert own_items(table)["o1"] is MADE_WORSE

    def test_endless_conflicts_are_reported(self, table: HookedTable) -> None:
        count(table, an_outcome(1))
        with pytest.raises(StoreUnavailableError, match="too many"):
            count(cast("HookedTable", Overtaken(table)), an_outcome(2))


class TestKnown:
    def test_missing_kinds_are_looked_up_once_a_minute(self, table: HookedTable) -> None:
        reads = Reads(table)
        time = FakeTime()
        known = KnownScopes(cast("HookedTable", reads), monotonic=time.clock)
        for _ in range(5):
            assert known.of([SCOPE, "global"]) == {OUTCOMES_KIND: [], WARNINGS: [], LEARNT: []}
        assert reads.count == 1
        time.sleep(LOOKED_AGAIN_SECONDS)
        known.of([SCOPE])
        assert reads.count == 2

    def test_writes_of_another_process_are_seen_after_a_minute(self, table: HookedTable) -> None:
        time = FakeTime()
        known = KnownScopes(table, monotonic=time.clock)
        known.of([SCOPE])
        count(table, an_outcome(1))
        assert known.of([SCOPE])[OUTCOMES_KIND] == []
        time.sleep(LOOKED_AGAIN_SECONDS)
        assert known.of([SCOPE])[OUTCOMES_KIND] == [SCOPE]

    def test_writes_of_this_process_are_seen_at_once(self, table: HookedTable) -> None:
        known = KnownScopes(table)
        known.of([SCOPE])
        OutcomeStore(table, known, lambda: 1_000.0).count(SCOPE, KEY, an_outcome(1), "")
        assert known.of([SCOPE])[OUTCOMES_KIND] == [SCOPE]


def test_every_row_of_a_scope_is_found_by_it(table: HookedTable) -> None:
    for number in range(3):
        count(table, an_outcome(number))
        a_store(table).count("client:other", KEY, an_outcome(number), "")
    rows = list(rows_of(table, SCOPE))
    assert len(rows) == 3 + 1 + 1
    for row in rows:
        table.delete({"place": row["place"], "entry": row["entry"]})
    assert not own_items(table)
    assert len(list(rows_of(table, "client:other"))) == 5


class Reads:
    """A table, and how often it is read."""

    def __init__(self, table: HookedTable) -> None:
        self._table = table
        self.count = 0

    def __getattr__(self, name: str) -> Callable[..., object]:
        if name in ("get", "get_many", "query"):
            self.count += 1
        found: Callable[..., object] = getattr(self._table, name)
        return found


class Overtaken:
    """A table whose counts another process changes before every write."""

    def __init__(self, table: HookedTable) -> None:
        self._table = table
        self._others = 100

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def put(self, item: Mapping[str, Any], **options: Any) -> None:
        if item["entry"] == KEY:
            self._others += 1
            stored = self._table.get({"place": item["place"], "entry": KEY})
            self._table.put({**(stored or item), "revision": self._others})
        self._table.put(item, **options)


def _counts(results: dict[str, OutcomeResult]) -> Counts:
    found = Counts()
    for result in results.values():
        found = found.moved(result, 1)
    return found


def _die() -> None:
    raise DiedError


def _quietly(work: Callable[[], object]) -> None:
    work()
