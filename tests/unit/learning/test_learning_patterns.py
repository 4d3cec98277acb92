"""Each entry of a pattern is counted exactly once, despite crashes and concurrent writers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opx.domain.learning import EntryType, Pattern, PatternOccurrence
from opx.domain.record import replace
from opx.learning.pattern_rows import head_row, keys_partition, rows_of
from opx.learning.patterns import MOST_COUNTED, MOST_KEPT, REFRESH_DAYS, PatternStore
from opx.ports.tables import PATTERNS
from opx_testing.fake_time import FakeTime
from tests.support.fakes import at_once
from tests.support.lessons import Died, Writes, sqlite_tables

SCOPE = "client:acme"
SEED = Pattern(
    pattern_id="p1",
    scope_key=SCOPE,
    entry_type=EntryType.FAILURE_SOLUTION,
    problem="The disk is full",
    solution="Rotate the logs",
    when_to_try="With linux",
    agent_types=("developer",),
    technology="linux",
)
DAY = 86_400


def occurrences(*names: str, worked: bool = True) -> list[PatternOccurrence]:
    return [
        PatternOccurrence(name, f"project-{name}", worked, "2026-01-02T03:04:05Z", key=f"key-{name}") for name in names
    ]


class Shelf:
    """Takes documents of patterns."""

    def __init__(self) -> None:
        self.put: list[Pattern] = []

    def __call__(self, pattern: Pattern) -> None:
        self.put.append(pattern)


@pytest.fixture
def writes() -> Writes:
    return Writes()


@pytest.fixture
def table(tmp_path: Path, time: FakeTime, writes: Writes) -> Any:
    return writes.watch(sqlite_tables(tmp_path, time)(PATTERNS))


@pytest.fixture
def store(table: Any, time: FakeTime) -> PatternStore:
    return PatternStore(table, time.clock)


def counts(store: PatternStore, pattern_id: str = "p1") -> tuple[int, int, list[str]]:
    head = store.head(SCOPE, pattern_id)
    assert head is not None
    return head.success_count, head.failure_count, sorted(o.entry_id for o in store.occurrences(SCOPE, pattern_id))


def test_entries_are_counted_once_however_often_they_come(store: PatternStore) -> None:
    found = occurrences("a", "b")
    assert store.count(SEED, found, Shelf()).entries == 2
    assert store.count(SEED, [*found, *occurrences("c")], Shelf()).entries == 1
    assert counts(store) == (3, 0, ["a", "b", "c"])


def test_an_entry_that_is_given_twice_at_once_counts_once(store: PatternStore) -> None:
    store.count(SEED, occurrences("a", "a"), Shelf())
    assert counts(store) == (1, 0, ["a"])


def test_failures_are_counted_apart(store: PatternStore) -> None:
    store.count(SEED, [*occurrences("a"), *occurrences("b", worked=False)], Shelf())
    assert counts(store) == (1, 1, ["a", "b"])


def test_more_entries_than_a_head_names_are_counted(store: PatternStore) -> None:
    names = [f"e{number}" for number in range(2 * MOST_COUNTED + 1)]
    assert store.count(SEED, occurrences(*names), Shelf()).entries == len(names)
    assert counts(store) == (len(names), 0, sorted(names))


def test_death_before_any_write_neither_loses_nor_doubles(store: PatternStore, writes: Writes) -> None:
    for step in range(20):
        seed, shelf = replace(SEED, pattern_id=f"p{step}"), Shelf()
        store.count(seed, occurrences("a"), shelf)
        writes.left = step
        try:
            store.count(seed, occurrences("a", "b", "c"), shelf)
            died = False
        except Died:
            died = True
        writes.left = -1
        store.count(seed, occurrences("d"), shelf)  # another process writes first
        store.count(seed, occurrences("a", "b", "c"), shelf)
        assert counts(store, seed.pattern_id) == (4, 0, ["a", "b", "c", "d"]), f"died before write {step}"
        if not died:
            assert step >= 2
            return
    pytest.fail("there are more writes than were tried")


def test_an_entry_whose_row_was_never_written_is_on_record(store: PatternStore, writes: Writes) -> None:
    writes.left = 1  # the head
    with pytest.raises(Died):
        store.count(SEED, occurrences("a"), Shelf())
    writes.left = -1
    assert counts(store) == (1, 0, ["a"])


def test_many_who_count_at_once_lose_and_double_nothing(store: PatternStore) -> None:
    everybodys = [f"e{number}" for number in range(6)]
    at_once(4, lambda number: store.count(SEED, occurrences(*everybodys, f"own-{number}"), Shelf()))
    assert counts(store) == (10, 0, sorted([*everybodys, *(f"own-{number}" for number in range(4))]))


def test_counts_go_on_past_a_million(store: PatternStore, table: Any) -> None:
    many = replace(SEED, success_count=999_999, failure_count=2_000_000_000, embedded_at="2026-01-01T00:00:00Z")
    table.put({**head_row(many), "revision": 7, "lastBatch": [], "documentAt": "2026-01-01T00:00:00Z"})
    found = store.count(SEED, [*occurrences("a", "b"), *occurrences("c", worked=False)], Shelf())
    assert (found.pattern.success_count, found.pattern.failure_count) == (1_000_001, 2_000_000_001)
    assert store.head(SCOPE, "p1") == found.pattern


def test_a_head_names_the_latest_projects_and_evidence_only(store: PatternStore) -> None:
    names = [f"e{number:03d}" for number in range(MOST_KEPT + 5)]
    store.count(SEED, occurrences(*names), Shelf())
    head = store.head(SCOPE, "p1")
    assert head is not None
    assert (head.evidence, len(head.projects)) == (tuple(names[5:]), MOST_KEPT)


def test_a_pattern_has_a_document_as_soon_as_it_worked(store: PatternStore) -> None:
    shelf = Shelf()
    assert not store.count(SEED, occurrences("a", worked=False), shelf).is_new
    assert shelf.put == []
    assert store.count(SEED, occurrences("b"), shelf).is_new
    assert [(one.success_count, one.failure_count) for one in shelf.put] == [(1, 1)]


def test_a_success_more_makes_no_new_document(store: PatternStore) -> None:
    shelf = Shelf()
    store.count(SEED, occurrences("a"), shelf)
    found = store.count(SEED, occurrences("b"), shelf)
    assert (found.is_new, found.is_confirmed, len(shelf.put)) == (False, True, 1)


def test_a_document_is_put_again_when_the_pattern_is_confirmed_much_later(store: PatternStore, time: FakeTime) -> None:
    shelf = Shelf()
    store.count(SEED, occurrences("a"), shelf)
    time.now += REFRESH_DAYS * DAY
    store.count(SEED, occurrences("b"), shelf)
    assert len(shelf.put) == 1
    time.now += DAY
    store.count(SEED, occurrences("c"), shelf)
    assert [one.embedded_at for one in shelf.put] == ["2023-11-14T22:13:20Z", "2023-12-15T22:13:20Z"]


def test_a_document_is_put_again_when_another_kind_of_agent_uses_the_pattern(store: PatternStore) -> None:
    shelf = Shelf()
    store.count(SEED, occurrences("a"), shelf)
    store.count(replace(SEED, agent_types=("operator",)), occurrences("b"), shelf)
    assert [one.agent_types for one in shelf.put] == [("developer",), ("developer", "operator")]


def test_a_clock_that_goes_back_makes_no_pattern_older(store: PatternStore, time: FakeTime) -> None:
    store.count(SEED, occurrences("a"), Shelf())
    time.now -= 3_600
    assert store.count(SEED, occurrences("b"), Shelf()).pattern.embedded_at == "2023-11-14T22:13:20Z"


def test_a_document_that_can_not_be_put_leaves_the_entry_uncounted(store: PatternStore) -> None:
    def refuse(_: Pattern) -> None:
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        store.count(SEED, occurrences("a"), refuse)
    assert store.head(SCOPE, "p1") is None
    assert store.count(SEED, occurrences("a"), Shelf()).entries == 1


def test_a_text_belongs_to_the_pattern_that_was_decided_first(store: PatternStore) -> None:
    assert store.decide(SCOPE, "key", "p1") == "p1"
    assert store.decide(SCOPE, "key", "p2") == "p1"
    assert store.decided(SCOPE, ["key", "other"]) == {"key": "p1"}
    assert store.decided("client:other", ["key"]) == {}


def test_heads_come_in_the_order_of_the_ids_and_from_these_scopes_alone(store: PatternStore) -> None:
    for name, scope in (("p1", SCOPE), ("p2", SCOPE), ("p3", "client:other"), ("p4", "global")):
        store.count(replace(SEED, pattern_id=name, scope_key=scope), occurrences("a"), Shelf())
    found = store.heads([SCOPE, "global"], ["p4", "p2", "p9", "p3", "p1"])
    assert [(one.pattern_id, one.scope_key) for one in found] == [("p4", "global"), ("p2", SCOPE), ("p1", SCOPE)]
    assert store.heads([], ["p1"]) == []


def test_patterns_are_listed_after_one_of_them(store: PatternStore) -> None:
    for name in ("p3", "p1", "p2"):
        store.count(replace(SEED, pattern_id=name), occurrences("a"), Shelf())
    assert [one.pattern_id for one in store.patterns(SCOPE)] == ["p1", "p2", "p3"]
    assert [one.pattern_id for one in store.patterns(SCOPE, limit=1, after="p1")] == ["p2"]


def test_a_new_pattern_is_fresh_for_a_day(store: PatternStore, time: FakeTime) -> None:
    store.add_fresh(SEED)
    time.now += 3_600
    store.add_fresh(replace(SEED, pattern_id="p0"))
    assert list(store.fresh(SCOPE)) == [replace(SEED, pattern_id="p0"), SEED]
    time.now += 23 * 3_600 + 1
    assert [one.pattern_id for one in store.fresh(SCOPE)] == ["p0"]


@pytest.fixture
def forgettable(store: PatternStore) -> Callable[[str], None]:
    def make(name: str) -> None:
        seed = replace(SEED, pattern_id=name)
        for key in ("key-a", "key-b"):
            store.decide(SCOPE, key, name)
        store.count(seed, occurrences("a", "b"), Shelf())

    return make


def test_a_forgotten_pattern_leaves_nothing(
    store: PatternStore, table: Any, time: FakeTime, forgettable: Callable[[str], None]
) -> None:
    forgettable("p1")
    store.decide(SCOPE, "of another", "p2")
    assert store.forget(SCOPE, "p1")
    assert [row["entry"] for row in rows_of(table, SCOPE)] == ["of another"]
    assert store.forget(SCOPE, "p1")


def test_forgetting_that_was_interrupted_goes_on(
    store: PatternStore, table: Any, writes: Writes, time: FakeTime, forgettable: Callable[[str], None]
) -> None:
    forgettable("p1")
    for step in range(20):
        writes.left = step
        try:
            store.forget(SCOPE, "p1")
        except Died:
            continue
        finally:
            writes.left = -1
        break
    assert list(store.occurrences(SCOPE, "p1")) == []
    assert store.head(SCOPE, "p1") is None
    assert list(table.query(keys_partition(SCOPE))) == []


def test_a_pattern_that_worked_again_meanwhile_is_not_forgotten(
    store: PatternStore, table: Any, time: FakeTime, forgettable: Callable[[str], None]
) -> None:
    forgettable("p1")

    class Late:
        """A table where another process counts while occurrences are read."""

        def __getattr__(self, name: str) -> Any:
            return getattr(table, name)

        def query(self, *given: Any, **named: Any) -> Any:
            store.count(SEED, occurrences("late"), Shelf())
            return table.query(*given, **named)

    assert not PatternStore(Late(), time.clock).forget(SCOPE, "p1")
    assert counts(store) == (3, 0, ["a", "b", "late"])
