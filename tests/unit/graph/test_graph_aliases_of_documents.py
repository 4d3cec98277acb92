"""Aliases that documents state: replaced and removed with them, limited, and apart from those that people set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from opx.adapters.embedded.database import Database, open_database
from opx.errors import InvalidInputError
from opx.graph.alias_rows import MAX_DOCUMENTS, AliasRow
from opx.graph.aliases import MAX_OF_A_DOCUMENT, AliasRegistry
from opx.ports.tables import ALIASES
from tests.doubles.fake_time import FakeTime
from tests.support.alias_support import ACME, CHECKOUT, OLD, READER, SHOP, SHORT, CountedTable


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = open_database(tmp_path / "opx.db")
    yield database
    database.close()


@pytest.fixture
def table(database: Database) -> CountedTable:
    return CountedTable(ALIASES, database)


@pytest.fixture
def registry(table: CountedTable, time: FakeTime) -> AliasRegistry:
    return AliasRegistry(table, clock=time.clock)


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


# -- documents that use an alias


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
