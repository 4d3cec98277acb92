"""Aliases as they are stored, changed by many at once and never into a loop."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.errors import AliasLoopError, ConditionFailedError, StoreUnavailableError
from opx.graph.alias_rows import AliasRow, alias_key, aliases_in, owner_areas, partition_of
from opx.graph.alias_view import AliasView, LoadedNames, StoredNames
from opx.graph.names import canonical_form
from opx.ports import Absent, Equals, Item, Table

MAX_LOADED = 5_000
"""Aliases of a scope that are held in memory. Those of a scope that has more are looked up one by one."""

KEYS_A_READ = 100
"""As many as one call may read. For more names, all aliases of a scope are read."""

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
        return AliasRow.from_json(item) if item else AliasRow(area, alias)

    def load(self, area: str, *, only_set: bool = False) -> LoadedNames | None:
        """All aliases of a scope, or those that people have set; None if it has more than `MAX_LOADED`."""
        field = "setTo" if only_set else "canonicalKey"
        items = self._all(area)
        if items is None:
            return None
        return LoadedNames({item["aliasKey"]: item[field] for item in items if item[field]})

    def places(self, area: str, keys: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """All references under which statements of these keys may be filed just now, by what people have set in this scope
        and what has not been filed anew since. Keys that can be filed under themselves alone are left out."""
        asked = {key: canonical_form(key) for key in keys}
        following = self._following(area, set(asked.values()))
        ways = {key: _all_from(form, following) for key, form in asked.items()}
        return {key: places for key, places in ways.items() if places != (key,)}

    def _following(self, area: str, names: set[str]) -> dict[str, set[str]]:
        """For each of the names, and each that these lead to: which names are next."""
        found: dict[str, set[str]] = {}
        items = self._all(area) if len(names) > KEYS_A_READ else None
        if items is not None:
            return {row.alias: row.next_names for row in map(AliasRow.from_json, items)}
        while names:
            rows = [
                AliasRow.from_json(item) for item in self._table.get_many([alias_key(area, name) for name in names])
            ]
            found.update({row.alias: row.next_names for row in rows})
            names = {name for row in rows for name in row.next_names} - found.keys()
        return found

    def _all(self, area: str) -> list[Item] | None:
        items = list(islice(self._table.query(partition_of(area), where=aliases_in(area)), MAX_LOADED + 1))
        return items if len(items) <= MAX_LOADED else None

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
        if not changed.is_empty:
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


def _all_from(start: str, following: dict[str, set[str]]) -> tuple[str, ...]:
    seen, ways = {start}, [start]
    while ways:
        further = following.get(ways.pop(), set()) - seen
        seen |= further
        ways.extend(further)
    return tuple(sorted(seen))
