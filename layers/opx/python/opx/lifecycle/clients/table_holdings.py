"""What of a client is in one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from opx.lifecycle.clients.holdings import Counted, Held, Holding
from opx.ports import Item, Table, Tables
from opx.ports.tables_specs import TableSpec


def in_table(tables: Tables, name: str, spec: TableSpec, items: Callable[[Held], Iterator[Item]]) -> Holding:
    """A holding of these items of a table; only their keys are looked at."""

    def remove(held: Held) -> None:
        with tables.unit_of_work():
            delete(tables.table(spec), spec, list(items(held)))

    return Counted(name, lambda held: sum(1 for _ in items(held)), remove)


def delete(table: Table, spec: TableSpec, items: Iterable[Item]) -> None:
    for item in items:
        table.delete(spec.key_of(item))
