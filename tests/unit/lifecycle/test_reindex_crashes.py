"""Reindexing is interrupted at any moment, and the next process resumes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from opx.lifecycle.reindex.reindexing import Reindexer
from opx.operations.system import System
from opx.ports import Table
from opx.ports.tables import LIFECYCLE, TableSpec
from opx_testing.entries import EVERYONE
from tests.doubles.hooked_table import HookedTable
from tests.support.reindex_support import World, services_at

EVERY = 5
"""Of the writes: all of them take a while."""


class Died(BaseException):
    """The process is gone."""


def die() -> None:
    raise Died


def hooked(services: System) -> HookedTable:
    """The table of what is noted of indexes, for tests to end the process at one of its writes."""
    made = services.tables.table
    table = HookedTable(made(LIFECYCLE))

    def choose(spec: TableSpec) -> Table:
        return table if spec is LIFECYCLE else made(spec)

    services.tables.table = choose  # type: ignore[method-assign]
    return table


def goes_on(world: World) -> None:
    reindexer = world.reindexer
    if reindexer.is_under_way:
        world.finish(reindexer)


def work(home: Path, number: int, begin: Callable[[Reindexer], object]) -> bool:
    """Do it, and die at the write with this number, while a document changes; then go on. False if there are not so many
    writes."""
    with services_at(home) as services:
        table, world = hooked(services), World(services)
        table.arm(number, die)
        try:
            begin(world.reindexer)
            world.ingest(b=f"Bravo {number}")
            world.finish()
        except Died:
            pass
        died = not table.is_armed
        table.disarm()
    with services_at(home) as services:
        world = World(services)
        world.drain()
        goes_on(world)
        assert world.titles() == ["Alpha", f"Bravo {number}"] or not died
        assert services.index.count(EVERYONE) == 2
    return died


def test_a_new_index_is_whole_wherever_its_making_was_interrupted(tmp_path: Path) -> None:
    with services_at(tmp_path) as services:
        World(services).ingest(a="Alpha", b="Bravo")
    number = 2
    while work(tmp_path, number, lambda it: it.start(model="16")):
        number += EVERY
        with services_at(tmp_path) as services:
            services.lifecycle.reindexer.discard()
    assert number > 10


def test_going_back_is_whole_wherever_it_was_interrupted(tmp_path: Path) -> None:
    with services_at(tmp_path) as services:
        world = World(services)
        world.ingest(a="Alpha", b="Bravo")
        world.reindex()
    number = 2
    while work(tmp_path, number, lambda it: it.roll_back()):
        number += EVERY
    assert number > 5
