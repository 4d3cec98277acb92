"""Aliases: visibility by scope, resolution, loops, concurrent changes, filing, and the cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.graph import Alias
from opx.domain.scopes import Scope
from opx.errors import AliasLoopError, AliasTakenError, InvalidInputError, InvalidReferenceError, InvalidScopeError
from opx.graph import aliases
from opx.graph.alias_rows import MAX_DOCUMENTS, MAX_MEMBERS, AliasRow, AliasView, LoadedNames, alias_key
from opx.graph.aliases import MAX_OF_A_DOCUMENT, AliasCache, AliasRegistry
from opx.ports import Condition, Item
from opx.ports.tables import ALIASES
from opx_testing.fake_time import FakeTime
from tests.support.fakes import at_once

ALL, ACME = Scope(), Scope("acme")
GROUP, SHOP, BLOG = Scope("acme", group_id="web"), Scope("acme", project_id="shop"), Scope("acme", project_id="blog")
OTHER = Scope("other")
READER = [one.key for one in (ALL, ACME, GROUP, SHOP)]

CHECKOUT, SHORT, OLD = "service:checkout", "service:co", "service:checkout-old"


class CountedTable(SqliteTable):
    """Counts reads, and can fail at the n-th write."""

    reads = 0
    writes_left = 10**9

    def get_many(self, keys: Sequence[Mapping[str, Any]]) -> list[Item]:
        self.reads += 1
        return super().get_many(keys)

    def query(self, *arguments: Any, **named: Any) -> Iterator[Item]:
        self.reads += 1
        return super().query(*arguments, **named)

    def put(self, item: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        self._count()
        super().put(item, condition=condition)

    def delete(self, key: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        self._count()
        super().delete(key, condition=condition)

    def _count(self) -> None:
        if self.writes_left <= 0:
            raise InterruptedError
        self.writes_left -= 1


@pytest.fixture
def table(database: Database) -> CountedTable:
    return CountedTable(ALIASES, database)


@pytest.fixture
def registry(table: CountedTable, time: FakeTime) -> AliasRegistry:
    return AliasRegistry(table, clock=time.clock)


# -- visibility


@pytest.mark.parametrize("area", [ALL, ACME, GROUP, SHOP])
def test_an_alias_is_visible_to_readers_of_its_scope(registry: AliasRegistry, area: Scope) -> None:
    registry.register(area, SHORT, CHECKOUT)
    assert registry.view(READER).canonical([SHORT, CHECKOUT, "host:a"]) == {SHORT: CHECKOUT}
    assert registry.aliases_of(READER, CHECKOUT) == (SHORT,)


@pytest.mark.parametrize("area", [BLOG, OTHER, Scope("acm"), Scope("acme", group_id="shop")])
def test_an_alias_of_another_scope_is_invisible(registry: AliasRegistry, area: Scope) -> None:
    registry.register(area, SHORT, CHECKOUT)
    assert registry.view(READER).canonical([SHORT]) == {}
    assert registry.aliases_of(READER, CHECKOUT) == ()
    assert registry.aliases(READER) == []
    assert registry.canonical(SHOP, [SHORT]) == {}


def test_the_alias_of_the_narrowest_scope_wins(registry: AliasRegistry) -> None:
    for area, meant in ((ALL, "a:all"), (ACME, "a:client"), (GROUP, "a:group"), (SHOP, "a:project")):
        registry.register(area, "a:x", meant)
    visible = list(READER)
    for meant in ("a:project", "a:group", "a:client", "a:all"):
        assert registry.view(visible).canonical(["a:x"]) == {"a:x": meant}
        assert registry.aliases_of(visible, meant) == ("a:x",)
        visible.pop()


def test_scopes_of_two_clients_are_never_used_together(registry: AliasRegistry) -> None:
    with pytest.raises(InvalidScopeError, match="two clients"):
        registry.view(["client:acme", "client:other"]).canonical([SHORT])


@pytest.mark.parametrize(
    "area", ["client:*", "client:", "", "acme", "client:acme/project:", "client:a/team:b", "client:a|b"]
)
def test_an_invalid_scope_is_refused(registry: AliasRegistry, area: str) -> None:
    with pytest.raises(InvalidScopeError):
        registry.view([area]).canonical([SHORT])


# -- resolution


def test_chains_lead_to_their_end_over_all_scopes(registry: AliasRegistry) -> None:
    registry.register(ALL, "a:3", "a:4")
    registry.register(ACME, "a:2", "a:3")
    registry.register(SHOP, "a:1", "a:2")
    assert registry.view(READER).canonical(["a:1", "a:2", "a:3", "a:4"]) == dict.fromkeys(("a:1", "a:2", "a:3"), "a:4")
    assert registry.aliases_of(READER, "a:4") == ("a:1", "a:2", "a:3")
    assert registry.aliases_of(READER, "a:3") == ()


def test_names_are_normalised_and_identifiers_in_their_short_form(registry: AliasRegistry) -> None:
    registry.register(ACME, " Order:ORDER_5 ", "Service:Check  Out,")
    assert registry.view(READER).canonical(["order:order_5", "order:5"]) == {
        "order:order_5": "service:check out",
        "order:5": "service:check out",
    }
    assert registry.view(READER).canonical(["order:order_6"]) == {"order:order_6": "order:6"}


def test_a_name_is_no_alias_of_itself(registry: AliasRegistry) -> None:
    assert registry.register(ACME, "Service:CO", SHORT) is None
    assert registry.aliases(READER) == []


def test_an_invalid_reference_is_refused(registry: AliasRegistry) -> None:
    with pytest.raises(InvalidReferenceError):
        registry.register(ACME, "checkout", CHECKOUT)


def test_an_alias_with_another_value_is_refused(registry: AliasRegistry) -> None:
    registry.register(ACME, SHORT, CHECKOUT)
    with pytest.raises(AliasTakenError, match="an alias of service:checkout already"):
        registry.register(ACME, SHORT, "service:cola")
    assert registry.view(READER).canonical([SHORT]) == {SHORT: CHECKOUT}


def test_an_alias_is_described(registry: AliasRegistry, time: FakeTime) -> None:
    registry.register(ACME, SHORT, CHECKOUT, by="bob")
    time.sleep(60)
    registry.register(ACME, SHORT, CHECKOUT, by="eve")
    registry.state("k1", ACME, [(SHORT, CHECKOUT)])
    expected = Alias(SHORT, CHECKOUT, "client:acme", 3, "2023-11-14T22:14:20Z", is_set=True, set_by="eve", documents=1)
    assert registry.aliases(READER) == [expected]
    assert registry.find(ACME, SHORT) == expected
    assert Alias.from_json(expected.to_json()) == expected
    assert registry.find(SHOP, SHORT) is None


# -- loops


@pytest.mark.parametrize("length", [2, 3, 10])
def test_a_loop_is_refused(registry: AliasRegistry, length: int) -> None:
    names = [f"a:{number}" for number in range(length)]
    for alias, canonical in pairwise(names):
        registry.register(ACME, alias, canonical)
    with pytest.raises(AliasLoopError):
        registry.register(ACME, names[-1], names[0])
    assert set(registry.view(READER).canonical(names).values()) == {names[-1]}


def test_a_refused_loop_is_never_written(registry: AliasRegistry, table: CountedTable) -> None:
    registry.register(ACME, "a:1", "a:2")
    table.writes_left = 0
    with pytest.raises(AliasLoopError):
        registry.register(ACME, "a:2", "a:1")


def test_a_loop_by_way_of_a_wider_scope_is_refused(registry: AliasRegistry) -> None:
    registry.register(ALL, "a:1", "a:2")
    with pytest.raises(AliasLoopError):
        registry.register(SHOP, "a:2", "a:1")


def test_names_in_a_loop_resolve_to_the_first_of_them(registry: AliasRegistry, table: CountedTable) -> None:
    for alias, canonical in (("a:in", "a:3"), ("a:1", "a:2"), ("a:2", "a:3"), ("a:3", "a:1")):
        table.put(AliasRow(ACME.key, alias, set_to=canonical, revision="r").to_item())
    assert registry.view(READER).canonical(["a:1", "a:2", "a:3", "a:in"]) == dict.fromkeys(
        ("a:2", "a:3", "a:in"), "a:1"
    )
    assert registry.aliases_of(READER, "a:1") == ("a:2", "a:3", "a:in")


def test_reverse_aliases_of_two_scopes_resolve_to_one_reference(registry: AliasRegistry) -> None:
    registry.register(SHOP, "a:1", "a:2")
    registry.register(ACME, "a:2", "a:1")  # accepted: the client must not learn of aliases in its projects
    assert registry.view(READER).canonical(["a:1", "a:2"]) == {"a:2": "a:1"}
    assert registry.view([ACME.key]).canonical(["a:1", "a:2"]) == {"a:2": "a:1"}


@settings(max_examples=60)
@given(
    st.dictionaries(st.integers(0, 8), st.integers(0, 8), max_size=9),
    st.dictionaries(st.integers(0, 8), st.integers(0, 8)),
)
def test_any_aliases_part_names_into_classes(narrow: dict[int, int], wide: dict[int, int]) -> None:
    areas = [
        LoadedNames({f"a:{one}": f"a:{two}" for one, two in given.items() if one != two}) for given in (narrow, wide)
    ]
    view = AliasView(areas)
    names = [f"a:{number}" for number in range(9)]
    meant = {name: view.one(name) for name in names}
    assert {view.one(one) for one in meant.values()} == set(meant.values())
    members = view.members(meant.values())
    assert sorted(one for names in members.values() for one in names) == names
    assert all(meant[one] == key for key, found in members.items() for one in found)


# -- concurrency


def test_workers_that_register_the_same_alias_are_all_counted(registry: AliasRegistry) -> None:
    at_once(6, lambda _: registry.register(ACME, SHORT, CHECKOUT))
    (alias,) = registry.aliases(READER)
    assert (alias.canonical, alias.seen_count) == (CHECKOUT, 6)


def test_of_concurrent_workers_with_different_values_one_wins(registry: AliasRegistry) -> None:
    results = at_once(4, lambda number: registry.register(ACME, SHORT, f"service:{number}"))
    (won,) = [one for one in results if isinstance(one, Alias)]
    assert sum(isinstance(one, AliasTakenError) for one in results) == 3
    assert registry.aliases(READER) == [won]


def test_documents_that_state_one_alias_at_once_are_all_known(registry: AliasRegistry) -> None:
    at_once(6, lambda number: registry.state(f"k{number}", ACME, [(SHORT, CHECKOUT)]))
    (alias,) = registry.aliases(READER)
    assert (alias.documents, alias.seen_count) == (6, 6)


def test_concurrent_halves_of_a_loop_leave_no_loop(registry: AliasRegistry) -> None:
    pairs = [("a:1", "a:2"), ("a:2", "a:1")]
    results = at_once(2, lambda number: registry.register(ACME, *pairs[number]))
    assert any(isinstance(one, AliasLoopError) for one in results)
    assert len(registry.aliases(READER)) <= 1


def test_a_loop_is_found_again_after_the_write(database: Database, time: FakeTime) -> None:
    class Overtaken(SqliteTable):
        def put(self, item: Mapping[str, Any], *, condition: Condition | None = None) -> None:
            if item["aliasKey"] == "a:1":
                super().put(AliasRow(ACME.key, "a:2", set_to="a:1", revision="r").to_item())
            super().put(item, condition=condition)

    registry = AliasRegistry(Overtaken(ALIASES, database), clock=time.clock)
    with pytest.raises(AliasLoopError, match="at the same time"):
        registry.register(ACME, "a:1", "a:2")
    assert registry.view(READER).canonical(["a:1", "a:2"]) == {"a:2": "a:1"}


# -- filing


def test_statements_are_filed_by_aliases_that_people_set_in_the_same_scope(registry: AliasRegistry) -> None:
    registry.register(SHOP, "a:1", "a:2")
    registry.register(SHOP, "a:2", "a:3")
    registry.register(ACME, "a:4", "a:5")
    registry.state("k1", SHOP, [("a:6", "a:7")])
    references = ["a:1", "a:2", "a:4", "a:6", "order:order_5"]
    assert registry.canonical(SHOP, references) == {"a:1": "a:3", "a:2": "a:3", "order:order_5": "order:5"}


def test_filing_reads_few_keys_in_one_call_and_many_in_one_range(registry: AliasRegistry, table: CountedTable) -> None:
    registry.register(SHOP, "a:1", "b:1")
    registry.state("k1", SHOP, [("a:2", "b:2")])
    for count in (5, 500):
        table.reads = 0
        assert registry.canonical(SHOP, [f"a:{number}" for number in range(count)]) == {"a:1": "b:1"}
        assert table.reads <= 2
    table.reads = 0
    assert registry.canonical(SHOP, []) == {}
    assert table.reads == 0


def test_statements_may_be_under_former_references_until_they_are_filed_again(registry: AliasRegistry) -> None:
    def filed(*keys: str) -> dict[str, tuple[str, ...]]:
        many = [f"b:{number}" for number in range(200)]
        found = registry.filed(SHOP, keys)
        assert registry.filed(SHOP, [*keys, *many]) == found
        return found

    assert filed("a:1") == {}
    registry.register(SHOP, "a:1", "a:2")
    registry.register(SHOP, "a:2", "a:3")
    assert filed("a:1", "a:2", "a:3") == {"a:1": ("a:1", "a:2", "a:3"), "a:2": ("a:2", "a:3")}
    registry.forget(SHOP, "a:2")
    registry.settle(SHOP, "a:2", "a:3")  # by the process that set it; the removal is settled by another one
    assert filed("a:1", "a:2") == {"a:1": ("a:1", "a:2", "a:3"), "a:2": ("a:2", "a:3")}
    registry.settle(SHOP, "a:2", "")
    assert filed("a:1", "a:2") == {"a:1": ("a:1", "a:2")}
    assert filed("order:order_5") == {"order:order_5": ("order:5",)}


def test_filing_uses_aliases_of_other_processes_at_once(
    registry: AliasRegistry, table: CountedTable, time: FakeTime
) -> None:
    assert registry.canonical(SHOP, ["a:1"]) == {}
    AliasRegistry(table, clock=time.clock).register(SHOP, "a:1", "a:2")
    assert registry.canonical(SHOP, ["a:1"]) == {"a:1": "a:2"}


# -- cache


def test_readers_are_answered_from_memory_for_a_short_while(
    registry: AliasRegistry, table: CountedTable, time: FakeTime
) -> None:
    registry.view(READER).canonical([SHORT])
    AliasRegistry(table, clock=time.clock).register(ACME, SHORT, CHECKOUT)
    table.reads = 0
    assert registry.view(READER).canonical([SHORT]) == {}
    assert table.reads == 0
    assert registry.view(READER, fresh=True).one(SHORT) == CHECKOUT
    time.sleep(31)
    assert registry.view(READER).canonical([SHORT]) == {SHORT: CHECKOUT}
    assert table.reads == 2 * len(READER)


def test_changes_of_this_process_are_visible_at_once(registry: AliasRegistry) -> None:
    assert registry.view(READER).canonical([SHORT]) == {}
    registry.state("k1", ACME, [(SHORT, CHECKOUT)])
    assert registry.view(READER).canonical([SHORT]) == {SHORT: CHECKOUT}
    registry.state("k1", ACME, [])
    assert registry.view(READER).canonical([SHORT]) == {}


def test_names_that_were_read_before_a_change_are_not_cached(time: FakeTime) -> None:
    stored = {"a:1": "a:2"}

    def load(area: str) -> LoadedNames:
        names = LoadedNames(dict(stored))
        if not stored.pop("changed", ""):
            stored.update({"a:1": "a:3", "changed": "x"})
            cache.invalidate(area)
        return names

    cache = AliasCache(load, clock=time.clock)
    cache.names("global")
    names = cache.names("global")
    assert names is not None
    assert names.canonicals(["a:1"]) == {"a:1": "a:3"}


def test_the_cache_is_bounded_in_scopes_and_in_aliases(time: FakeTime) -> None:
    loaded: list[str] = []

    def load(area: str) -> LoadedNames:
        loaded.append(area)
        return LoadedNames({f"a:{number}": "b:b" for number in range(int(area))})

    cache = AliasCache(load, clock=time.clock, max_scopes=2, max_aliases=10)
    for area in ("1", "2", "1", "3", "1", "2", "9", "9", "1"):
        cache.names(area)
    assert loaded == ["1", "2", "3", "2", "9", "1"]


def test_aliases_of_a_scope_with_too_many_are_read_one_by_one(
    registry: AliasRegistry, table: CountedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aliases, "MAX_LOADED", 2)
    for number in range(4):
        registry.register(ACME, f"a:{number}", f"a:{number + 1}")
    assert registry.view(READER).canonical(["a:0"]) == {"a:0": "a:4"}
    assert registry.aliases_of(READER, "a:4") == ("a:0", "a:1", "a:2", "a:3")
    assert registry.canonical(ACME, [f"a:{number}" for number in range(101)])["a:0"] == "a:4"


def test_names_of_one_node_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    view = AliasView([LoadedNames({f"a:{number}": "b:b" for number in range(MAX_MEMBERS)})])
    assert len(view.members(["b:b"])["b:b"]) == MAX_MEMBERS
    assert "201 names" in caplog.text


def test_keys_of_aliases_are_unambiguous_across_scopes() -> None:
    assert alias_key("client:a/project:b", "c:d")["aliasArea"] != alias_key("client:a", "/project:b|c:d")["aliasArea"]


# -- aliases that documents state: replaced and removed with them, limited, and apart from those that people set


def test_an_alias_is_deleted_with_the_last_document_that_states_it(registry: AliasRegistry) -> None:
    registry.state("k1", SHOP, [(SHORT, CHECKOUT), (OLD, CHECKOUT)])
    registry.state("k2", SHOP, [(SHORT, CHECKOUT)])
    registry.state("k1", SHOP, [])
    assert registry.aliases_of(READER, CHECKOUT) == (SHORT,)
    registry.state("k2", SHOP, [])
    assert registry.aliases_of(READER, CHECKOUT) == ()


def test_a_new_version_of_a_document_replaces_its_aliases(registry: AliasRegistry) -> None:
    registry.state("k1", SHOP, [(SHORT, CHECKOUT), (OLD, CHECKOUT)])
    registry.state("k1", SHOP, [(OLD, "service:cola")])
    assert registry.view(READER).canonical([SHORT, OLD]) == {OLD: "service:cola"}


def test_an_alias_that_a_person_set_stays_when_the_document_is_removed(registry: AliasRegistry) -> None:
    registry.state("k1", SHOP, [(SHORT, CHECKOUT)])
    registry.register(SHOP, SHORT, CHECKOUT)
    registry.state("k1", SHOP, [])
    assert registry.view(READER).canonical([SHORT]) == {SHORT: CHECKOUT}
    assert registry.forget(SHOP, SHORT)
    assert not registry.forget(SHOP, SHORT)
    assert registry.view(READER).canonical([SHORT]) == {}


def test_an_alias_that_a_document_states_stays_when_a_person_removes_theirs(registry: AliasRegistry) -> None:
    registry.register(SHOP, SHORT, CHECKOUT)
    registry.state("k1", SHOP, [(SHORT, CHECKOUT)])
    assert registry.forget(SHOP, SHORT)
    with pytest.raises(InvalidInputError, match="because 1 documents state it"):
        registry.forget(SHOP, SHORT)
    assert registry.view(READER).canonical([SHORT]) == {SHORT: CHECKOUT}


def test_a_persons_alias_wins_over_that_of_a_document(registry: AliasRegistry) -> None:
    registry.register(SHOP, SHORT, CHECKOUT)
    registry.state("k1", SHOP, [(SHORT, "service:cola")])
    assert registry.view(READER).canonical([SHORT]) == {SHORT: CHECKOUT}
    registry.forget(SHOP, SHORT)
    assert registry.view(READER).canonical([SHORT]) == {SHORT: "service:cola"}


def test_of_documents_that_disagree_the_first_wins_until_it_is_removed(
    registry: AliasRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    registry.state("k1", SHOP, [(SHORT, CHECKOUT)])
    registry.state("k2", SHOP, [(SHORT, "service:cola")])
    assert registry.view(READER).canonical([SHORT]) == {SHORT: CHECKOUT}
    assert "document k2 states an alias that has another value already" in caplog.text
    assert "cola" not in caplog.text
    registry.state("k1", SHOP, [])
    assert registry.view(READER).canonical([SHORT]) == {SHORT: "service:cola"}


def test_a_loop_in_documents_is_left_out(registry: AliasRegistry, caplog: pytest.LogCaptureFixture) -> None:
    registry.state("k1", SHOP, [("a:2", "a:3")])
    registry.state("k2", SHOP, [("a:1", "a:2")])
    registry.state("k1", SHOP, [("a:2", "a:1")])
    assert "would close a loop" in caplog.text
    assert registry.view(READER).canonical(["a:1", "a:2"]) == {"a:1": "a:2"}


def test_aliases_can_be_removed_after_an_interruption_at_any_write(
    registry: AliasRegistry, table: CountedTable
) -> None:
    for writes in range(8):
        table.writes_left = writes
        with suppress(InterruptedError):
            registry.state("k1", SHOP, [(SHORT, CHECKOUT), (OLD, CHECKOUT)])
            registry.state("k1", SHOP, [(f"a:{writes}", "a:b")])
        assert table.writes_left == 0
        table.writes_left = 10**9
        registry.state("k1", SHOP, [])
        assert list(table.query("acme")) == []


def test_a_document_without_aliases_costs_one_get(registry: AliasRegistry, table: CountedTable) -> None:
    table.writes_left = 0
    registry.state("k1", SHOP, [])
    assert table.reads == 0


def test_aliases_of_a_document_are_limited(registry: AliasRegistry, caplog: pytest.LogCaptureFixture) -> None:
    registry.state("k1", SHOP, [(f"a:{number}", "b:b") for number in range(MAX_OF_A_DOCUMENT + 1)])
    assert "101 aliases: 100 are kept" in caplog.text
    assert len(registry.aliases(READER)) == 100
    assert len(registry.aliases(READER, limit=7)) == 7


def test_documents_of_an_alias_are_limited() -> None:
    row = AliasRow("global", "a:a")
    for number in range(MAX_DOCUMENTS + 1):
        row = row.with_stated(f"k{number}", "a:b", "")
    assert (len(row.stated), row.seen) == (MAX_DOCUMENTS, MAX_DOCUMENTS + 1)
    assert len(row.with_stated("k0", "a:c", "").stated) == MAX_DOCUMENTS


def test_the_format_of_rows_is_stable() -> None:
    item = {
        "clientId": "acme",
        "aliasArea": "client:acme|a:1",
        "aliasKey": "a:1",
        "canonicalKey": "a:2",
        "canonicalPlace": "client:acme|a:2",
        "area": "client:acme",
        "seenCount": 2,
        "lastSeenAt": "2026-11-01T00:00:00Z",
        "setTo": "",
        "setBy": "",
        "stated": [["k1", "a:2"], ["k2", "a:3"]],
        "unmoved": ["a:1"],
        "usedBy": [],
        "revision": "r",
    }
    row = AliasRow(
        ACME.key,
        "a:1",
        stated=(("k1", "a:2"), ("k2", "a:3")),
        seen=2,
        last_seen="2026-11-01T00:00:00Z",
        unmoved=("a:1",),
        revision="r",
    )
    assert row.to_item() == item
    assert AliasRow.from_json(item) == row


def seen(registry: AliasRegistry) -> int:
    (alias,) = registry.aliases(READER)
    return alias.seen_count


def test_another_document_that_uses_an_alias_counts_once(registry: AliasRegistry, time: FakeTime) -> None:
    registry.state("k1", SHOP, [(SHORT, CHECKOUT)])
    before = seen(registry)
    time.sleep(60)
    registry.note_uses("k2", SHOP, [SHORT, "service:other"])
    registry.note_uses("k2", SHOP, [SHORT])
    assert seen(registry) == before + 1
    registry.note_uses("k3", SHOP, [SHORT])
    assert seen(registry) == before + 2


def test_the_document_that_states_it_and_one_that_uses_the_other_name_do_not_count(registry: AliasRegistry) -> None:
    registry.state("k1", SHOP, [(SHORT, CHECKOUT)])
    before = seen(registry)
    registry.note_uses("k1", SHOP, [SHORT, CHECKOUT])
    registry.note_uses("k2", SHOP, [CHECKOUT])
    assert seen(registry) == before


def test_an_alias_of_the_client_counts_uses_in_its_projects(registry: AliasRegistry) -> None:
    registry.register(ACME, SHORT, CHECKOUT)
    before = seen(registry)
    registry.note_uses("k2", SHOP, [SHORT])
    assert seen(registry) == before + 1
    assert registry.view(READER).canonical([SHORT]) == {SHORT: CHECKOUT}


def test_documents_without_aliases_write_nothing(registry: AliasRegistry, table: CountedTable) -> None:
    registry.state("k1", SHOP, [(SHORT, CHECKOUT)])
    left = table.writes_left
    registry.note_uses("k2", SHOP, ["service:other"])
    assert table.writes_left == left
    assert seen(registry) == 1
