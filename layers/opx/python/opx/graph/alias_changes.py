"""Aliases as they are stored, changed by many at once and never into a loop."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

from opx.domain.scopes import Scope
from opx.errors import AliasLoopError, ConditionFailedError, StoreUnavailableError
from opx.graph.alias_rows import AliasRow, alias_key, aliases_in, owner_areas, partition_of, row_of
from opx.graph.alias_view import AliasView, LoadedNames, StoredNames
from opx.ports import Absent, Equals, Table

MAX_LOADED = 5_000
"""Aliases of a scope that are held in memory. Those of a scope that has more are looked up one by one."""

ATTEMPTS = 100
"""Each failed one means that another writer got through."""

Change = Callable[[AliasRow], AliasRow]


@dataclass(frozen=True, slots=True)
class Guard:
    """Against loops, for those who may see what this scope may; `withdraw` takes the change back."""

    scope: Scope
    withdraw: Change


class AliasRows:
    """The aliases in their table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def read(self, area: str, alias: str) -> AliasRow:
        """What is known of the alias in this scope (its key) now; a row without revision if nothing is."""
        item = self._table.get(alias_key(area, alias))
        return row_of(item) if item else AliasRow(area, alias)

    def load(self, area: str, *, only_set: bool = False) -> LoadedNames | None:
        """All aliases of a scope, or those that people have set; None if it has more than `MAX_LOADED`."""
        field = "setTo" if only_set else "canonicalKey"
        items = list(islice(self._table.query(partition_of(area), where=aliases_in(area)), MAX_LOADED + 1))
        if len(items) > MAX_LOADED:
            return None
        return LoadedNames({item["aliasKey"]: item[field] for item in items if item[field]})

    def change(self, area: str, alias: str, change: Change, guard: Guard | None = None) -> AliasRow:
        """Change a row however many others do, and return it as it is then; a row that says nothing any more is gone.
        With a guard, raises `AliasLoopError` rather than make a loop. Raises `StoreUnavailableError`."""
        for _ in range(ATTEMPTS):
            row = self.read(area, alias)
            changed = change(row)
            if changed == row:
                return row
            against = guard if changed.canonical != row.canonical else None
            if against and self._is_loop(against.scope, changed):
                raise AliasLoopError(
                    f"{changed.canonical} is another name of {alias} already: the reverse can't be true"
                )
            changed = replace(changed, revision=secrets.token_hex(8))
            try:
                self._write(row, changed)
            except ConditionFailedError:
                continue
            if against:
                self._recheck(against, changed)
            return changed
        raise StoreUnavailableError(f"alias {alias} can't be changed: too many others do at the same time")

    def _write(self, row: AliasRow, changed: AliasRow) -> None:
        condition = Equals("revision", row.revision) if row.revision else Absent()
        if changed.canonical:
            self._table.put(changed.to_item(), condition=condition)
        elif row.revision:
            self._table.delete(alias_key(row.area, row.alias), condition=condition)

    def _recheck(self, guard: Guard, row: AliasRow) -> None:
        """Two who write the halves of a loop at once can't see each other's before they have written."""
        if self._is_loop(guard.scope, row):
            self.change(row.area, row.alias, guard.withdraw)
            raise AliasLoopError(
                f"somebody else made {row.canonical} another name of {row.alias} at the same time: look at the aliases, "
                "and try again"
            )

    def _is_loop(self, scope: Scope, row: AliasRow) -> bool:
        areas = [StoredNames(self._table, area) for area in owner_areas(scope)]
        return AliasView(areas).leads_to(row.canonical, row.alias)
