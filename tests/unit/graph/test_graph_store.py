"""The graph's table after interruptions at any write, and after concurrent writers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.scopes import Scope
from opx.errors import StoreUnavailableError
from opx.graph.store import GraphStore
from opx.ports import Item
from opx.ports.tables import GRAPH
from opx_testing.fake_time import FakeTime
from tests.doubles.hooked_table import HookedTable
from tests.support.graph_support import Renaming, a_node, an_edge, an_origin, settled, stating

OLD = stating(
    an_edge("web", "depends_on", "db", "c1", "c2"),
    an_edge("web", "calls", "cache", "c2"),
    a_node("db", "c1", declared=True),
)
NEW = stating(an_edge("web", "depends_on", "db", "n1"), an_edge("db", "runs", "engine", "n2"))
OTHER = stating(an_edge("web", "depends_on", "db", "o1"))
KEY = "global/k1"
MERGED = {"service:db": "service:database"}
MOST_WRITES = 80


class Died(BaseException):
    """Ends the process: no code catches this."""


@dataclass
class World:
    """A graph, and all rows of its table."""

    hooked: HookedTable
    sqlite: SqliteTable
    names: Renaming
    store: GraphStore

    def rows(self) -> list[Item]:
        connection = self.sqlite._database.connection()
        places = connection.execute(f'SELECT DISTINCT place FROM "{GRAPH.name}"').fetchall()
        return settled([row for (place,) in places for row in self.sqlite.query(place)])

    def old(self) -> None:
        self.store.write(an_origin("other"), OTHER)
        self.store.write(an_origin(), OLD)

    def new(self) -> None:
        self.store.write(an_origin(document="d2"), NEW)

    def remove(self) -> None:
        self.store.remove(KEY, Scope())

    def merge(self) -> None:
        self.names.names = MERGED
        self.store.rewrite(Scope(), "service:db")

    def undo(self) -> None:
        self.names.names = {}
        self.store.rewrite(Scope(), "service:database")

    def clear(self) -> None:
        """Remove all documents, and check that no row is left."""
        self.hooked.disarm()
        for key in (KEY, "global/other"):
            self.store.remove(key, Scope())
        self.names.names = {}
        assert self.rows() == []

    def after(self, *steps: Act) -> list[Item]:
        """The rows after these steps, one after another."""
        for step in steps:
            step(self)
        rows = self.rows()
        self.clear()
        return rows


Act = Callable[[World], None]


@pytest.fixture
def world(tmp_path: Path, time: FakeTime) -> Iterator[World]:
    database = open_database(tmp_path / "opx.sqlite")
    with ExitStack() as stack:
        stack.callback(database.close)
        stack.enter_context(database.transaction())
        sqlite = SqliteTable(GRAPH, database, clock=time.clock)
        hooked, names = HookedTable(sqlite), Renaming()
        yield World(hooked, sqlite, names, GraphStore(hooked, time.clock, aliases=names))  # type: ignore[arg-type]


def die() -> None:
    raise Died


def each_write(world: World, before: Act, act: Act, hook: Callable[[], None]) -> Iterator[int]:
    """Repeat `act`, with `hook` before its first write, its second, and so on."""
    for number in range(MOST_WRITES):
        before(world)
        world.hooked.arm(number, hook)
        with suppress(Died):
            act(world)
        if world.hooked.is_armed:
            assert number > 3
            world.clear()
            return
        yield number
        world.clear()
    pytest.fail("there are more writes than were tried")


# -- interruptions


@pytest.mark.parametrize("act", [World.new, World.remove])
@pytest.mark.parametrize("then", [World.new, World.remove, World.old])
def test_a_write_after_an_interruption_leaves_exactly_its_own_rows(world: World, act: Act, then: Act) -> None:
    expected = world.after(World.old, then)
    for number in each_write(world, World.old, act, die):
        then(world)
        assert world.rows() == expected, f"died at write {number}"


@pytest.mark.parametrize(("before", "act"), [(World.old, World.merge), (World.merge, World.undo)])
def test_a_merge_or_its_undoing_completes_after_an_interruption_at_any_write(
    world: World, before: Act, act: Act
) -> None:
    def start(world: World) -> None:
        before(world)
        world.old()

    expected = world.after(start, act)
    for number in each_write(world, start, act, die):
        act(world)
        assert world.rows() == expected, f"died at write {number}"


def test_a_document_is_removed_completely_after_an_interrupted_merge(world: World) -> None:
    for number in each_write(world, World.old, World.merge, die):
        world.remove()
        left = [row for row in world.rows() if row.get("keyId") == KEY or "cache" in row["place"]]
        assert left == [], f"died at write {number}"


def test_rewriting_deletes_rows_that_an_interruption_left(world: World) -> None:
    world.old()
    for entry in ("c1", "c2"):
        world.sqlite.delete({"place": f"refs#{KEY}", "entry": entry})
    world.store.rewrite(Scope(), "service:web")
    left = [row["entry"] for row in world.rows() if row["place"] == "global|service:web" and row.get("keyId") == KEY]
    assert left == []


def test_statements_of_two_versions_stay_when_one_is_removed(world: World) -> None:
    world.old()
    world.hooked.arm(3, die)
    with suppress(Died):
        world.new()
    assert {row["documentId"] for row in world.sqlite.query(f"refs#{KEY}") if "chunk" in row} == {"k1-d1", "k1-d2"}
    world.store.remove(KEY, Scope(), document_ids=["k1-d1"])
    edges = [
        row["stated"] for row in world.sqlite.query("global|service:web") if row.get("keyId") == KEY and "to" in row
    ]
    assert edges == [["service:web", "service:db"]]


def test_a_first_version_that_was_interrupted_leaves_nothing_when_it_is_removed(world: World) -> None:
    for number in each_write(world, lambda world: None, World.new, die):
        world.remove()
        assert world.rows() == [], f"died at write {number}"


def test_an_interrupted_addition_is_completed_the_next_time(world: World) -> None:
    def add(world: World) -> None:
        world.store.add(
            an_origin(), stating(an_edge("web", "mentions", "queue", "c2"), an_edge("web", "calls", "cache"))
        )

    expected = world.after(World.old, add)
    for number in each_write(world, World.old, add, die):
        add(world)
        assert world.rows() == expected, f"died at write {number}"


# -- concurrent writers


@pytest.mark.parametrize("act", [World.new, World.remove])
def test_a_merge_while_a_document_is_written_or_removed_misses_nothing(world: World, act: Act) -> None:
    expected = world.after(World.old, act, World.merge)
    for number in each_write(world, World.old, act, world.merge):
        assert world.rows() == expected, f"merged before write {number}"


@pytest.mark.parametrize("act", [World.new, World.remove])
def test_a_document_that_changes_while_names_are_merged_leaves_no_old_rows(world: World, act: Act) -> None:
    expected = world.after(World.old, act, World.merge)
    for number in each_write(world, World.old, World.merge, lambda: act(world)):
        assert world.rows() == expected, f"changed before write {number}"


@pytest.mark.parametrize("act", [World.new, World.remove])
def test_a_document_that_changes_while_a_merge_is_undone_leaves_no_old_rows(world: World, act: Act) -> None:
    def merged(world: World) -> None:
        world.old()
        world.merge()

    expected = world.after(World.old, act)
    for number in each_write(world, merged, World.undo, lambda: act(world)):
        assert world.rows() == expected, f"changed before write {number}"


def test_a_head_stays_if_another_document_is_added_while_the_last_one_is_removed(world: World) -> None:
    def other() -> None:
        world.store.write(an_origin("other"), OTHER)

    def alone(world: World) -> None:
        world.store.write(an_origin(), OLD)

    expected = world.after(lambda world: other())
    for number in each_write(world, alone, World.remove, other):
        assert world.rows() == expected, f"came before write {number}"
    for number in each_write(world, alone, lambda world: other(), world.remove):
        assert world.rows() == expected, f"went before write {number}"


def test_a_slow_worker_that_lost_its_claim_deletes_only_its_own_rows(world: World) -> None:
    def slow(world: World) -> None:
        world.store.write(an_origin(document="d3"), stating(an_edge("web", "calls", "ghost", "g1")))
        world.store.remove(KEY, Scope(), document_ids=["k1-d3"])

    expected = world.after(World.old, World.new)
    for number in each_write(world, World.old, slow, world.new):
        assert not [row for row in world.rows() if "ghost" in row["place"]], f"overtaken before write {number}"
        world.new()  # the event comes again
        assert world.rows() == expected, f"overtaken before write {number}"


def test_a_write_gives_up_if_references_change_repeatedly(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter(range(100))
    monkeypatch.setattr("opx.graph.store.StatementWriter._names", lambda *_: {"service:db": f"service:db{next(turns)}"})
    with pytest.raises(StoreUnavailableError, match="merged repeatedly"):
        world.old()
