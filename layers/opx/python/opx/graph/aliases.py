"""The registry of aliases: other names of things, each known to one scope and to nobody else."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from opx.domain.graph import Alias
from opx.domain.ids import iso_time
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.errors import AliasLoopError, ConditionFailedError, InvalidInputError, StoreUnavailableError
from opx.graph.alias_rows import (
    AliasRow,
    AliasView,
    AreaNames,
    LoadedNames,
    StoredNames,
    alias_key,
    aliases_in,
    narrowest_first,
    owner_areas,
    partition_of,
    statement_key,
)
from opx.graph.names import canonical_form, normalised
from opx.ports import Clock, Equals, Item, KeyAbsent, Table

# -- alias cache


SECONDS = 30.0
"""How late an alias of another process may be seen."""

MAX_SCOPES = 1_000
MAX_ALIASES = 100_000
"""Of all scopes together: some 30 MB."""


@dataclass(frozen=True, slots=True)
class _Kept:
    names: LoadedNames | None
    until: float


class AliasCache:
    """Keeps at most so many, those used last. Several threads may use it."""

    def __init__(
        self,
        load: Callable[[str], LoadedNames | None],
        *,
        clock: Clock,
        seconds: float = SECONDS,
        max_scopes: int = MAX_SCOPES,
        max_aliases: int = MAX_ALIASES,
    ) -> None:
        self._load = load
        self._clock = clock
        self._seconds = seconds
        self._most = (max_scopes, max_aliases)
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._aliases = 0
        self._changes = 0
        self._lock = threading.Lock()

    def names(self, area: str) -> LoadedNames | None:
        """The aliases of a scope; None if it has too many to keep. Raises `StoreUnavailableError`."""
        now = self._clock()
        with self._lock:
            kept = self._kept.get(area)
            if kept and now < kept.until:
                self._kept.move_to_end(area)
                return kept.names
            changes = self._changes
        names = self._load(area)
        with self._lock:
            if changes == self._changes:  # else it may have been read before the change
                self._keep(area, _Kept(names, now + self._seconds))
        return names

    def forget(self, area: str) -> None:
        """Read this scope again when it is asked for next."""
        with self._lock:
            self._changes += 1
            self._drop(area)

    def _keep(self, area: str, kept: _Kept) -> None:
        self._drop(area)
        self._kept[area] = kept
        self._aliases += _size(kept)
        max_scopes, max_aliases = self._most
        while len(self._kept) > max_scopes or (self._aliases > max_aliases and len(self._kept) > 1):
            self._drop(next(iter(self._kept)))

    def _drop(self, area: str) -> None:
        if (kept := self._kept.pop(area, None)) is not None:
            self._aliases -= _size(kept)


def _size(kept: _Kept) -> int:
    return len(kept.names) if kept.names else 0


# -- aliases


log = logging.getLogger(__name__)

MAX_OF_A_DOCUMENT = 100
"""Aliases that one document may state."""


class AliasRegistry:
    """Aliases in the table of aliases. Readers get them from memory, at most `cache_seconds` late; who writes documents
    gets them as they are. Several threads and processes may use it."""

    def __init__(self, table: Table, *, clock: Clock, cache_seconds: float = SECONDS) -> None:
        self._table = table
        self._clock = clock
        self._rows = AliasRows(table)
        self._cache = AliasCache(self._rows.load, clock=clock, seconds=cache_seconds)

    # -- reading

    def view(self, scopes: Iterable[str], *, fresh: bool = False) -> AliasView:
        """Names as those understand them who may see these scopes (their keys); the narrowest scope's alias counts.
        `fresh` passes the cache by. Raises `InvalidScopeError`, `StoreUnavailableError`."""
        read = self._rows.load if fresh else self._cache.names
        areas: list[AreaNames] = []
        for area in narrowest_first(scopes):
            names = read(area)
            areas.append(StoredNames(self._table, area) if names is None else names)
        return AliasView(areas)

    def resolve(self, scopes: Iterable[str], keys: Iterable[str]) -> dict[str, str]:
        """What is meant by these references, for those that mean another one."""
        return self.view(scopes).canonical(keys)

    def aliases_of(self, scopes: Iterable[str], canonical: str) -> tuple[str, ...]:
        """The other names of a thing, by alphabet."""
        return self.view(scopes).members([canonical])[canonical][1:]

    def canonical(self, scope: Scope, keys: Sequence[str]) -> dict[str, str]:
        """Under which references statements of this scope's documents are filed, for those where it is another one.

        These are the forms of `canonical_form` and what people have set in exactly this scope. All else holds when it is
        read: so an alias that goes, or a project that moves, leaves nothing filed under a name that isn't its own.
        """
        if not keys:
            return {}
        area = scope.key
        names = self._rows.load(area, only_set=True) if len(keys) > KEYS_A_READ else None
        if names is None:
            return AliasView([StoredNames(self._table, area, only_set=True)]).canonical(keys)
        return AliasView([names]).canonical(keys)

    def filed(self, scope: Scope, keys: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """All references under which statements of this scope's documents may be filed just now: as `canonical`, and while
        a merge or its undoing isn't finished as it was before. Keys that can only be filed under themselves are left out."""
        return self._rows.places(scope.key, keys) if keys else {}

    def settle(self, scope: Scope, alias: str, canonical: str) -> None:
        """Everything is filed anew after a person has set this alias to `canonical`, or to nothing: "". If it is set to
        something else by now, who did that sees to it."""
        self._change(scope.key, _key(alias), lambda row: row.settled() if row.set_to == canonical else row)

    def aliases(self, scopes: Iterable[str], *, limit: int = 1_000) -> list[Alias]:
        """The aliases of these scopes, by scope and alphabet, as many as `limit`."""
        areas = narrowest_first(scopes)
        found = (item for area in areas for item in self._table.query(partition_of(area), where=aliases_in(area)))
        rows = (row for row in map(AliasRow.from_json, found) if row.canonical)
        return [row.shown() for row in islice(rows, limit)]

    def find(self, scope: Scope, alias: str) -> Alias | None:
        """The alias as this scope itself has it."""
        row = self._rows.read(scope.key, _key(alias))
        return row.shown() if row.canonical else None

    # -- people

    def register(self, scope: Scope, alias: str, canonical: str, *, by: str = "") -> Alias | None:
        """Set an alias for those who may see this scope. Again does no harm; a name is no alias of itself: None.

        Of several at once the first wins. Raises `AliasTakenError` if the name means something else in this scope,
        `AliasLoopError`, and `InvalidReferenceError`.
        """
        alias, canonical = _key(alias), _key(canonical)
        if alias == canonical:
            return None
        at = iso_time(self._clock())
        guard = LoopGuard(scope, AliasRow.without_set)
        return self._change(scope.key, alias, lambda row: row.with_set(canonical, by, at), guard).shown()

    def forget(self, scope: Scope, alias: str, canonical: str = "") -> bool:
        """Take back what a person has set; with `canonical` only if it was set to that. False if nothing was set.

        Raises `InvalidInputError` if documents alone say it.
        """
        alias = _key(alias)
        row = self._rows.read(scope.key, alias)
        if row.stated and not row.set_to and not canonical:
            raise InvalidInputError(
                f"that {alias} is {row.canonical} is said by {len(row.stated)} documents, and nobody has set it: "
                "take it out of the documents"
            )
        if not row.set_to or (canonical and row.set_to != _key(canonical)):
            return False
        set_to = row.set_to
        self._change(scope.key, alias, lambda row: row.without_set() if row.set_to == set_to else row)
        return True

    # -- documents

    def state(self, key_id: str, scope: Scope, aliases: Iterable[tuple[str, str]]) -> None:
        """Make these the aliases that the document key states, in place of all it stated before. An alias goes with the
        last document that states it, unless a person has set it.

        What would make a loop is left out; where documents disagree, the first one's word holds until it is gone. Both
        are logged, without the names. Writing again does no harm, also after an interruption anywhere. Raises
        `StoreUnavailableError`.
        """
        area = scope.key
        wanted = _wanted(key_id, aliases)
        key = statement_key(area, key_id)
        item = self._table.get(key)
        before = list(item["aliases"]) if item else []
        if not wanted and not before:
            return
        if set(wanted) - set(before):  # so that they are known, wherever this is interrupted
            self._table.put({**key, "area": area, "aliases": list(dict.fromkeys([*before, *wanted]))})
        for alias in before:
            if alias not in wanted:
                self._change(area, alias, lambda row: row.without_stated(key_id))
        for alias, canonical in wanted.items():
            self._state_one(key_id, scope, alias, canonical)
        if not wanted:
            self._table.delete(key)
        elif set(wanted) != set(before):
            self._table.put({**key, "area": area, "aliases": list(wanted)})

    def _change(self, area: str, alias: str, change: Change, guard: LoopGuard | None = None) -> AliasRow:
        try:
            return self._rows.change(area, alias, change, guard)
        finally:
            self._cache.forget(area)

    def _state_one(self, key_id: str, scope: Scope, alias: str, canonical: str) -> None:
        at = iso_time(self._clock())

        def withdraw(row: AliasRow) -> AliasRow:
            return row.without_stated(key_id)

        try:
            row = self._change(
                scope.key, alias, lambda row: row.with_stated(key_id, canonical, at), LoopGuard(scope, withdraw)
            )
        except AliasLoopError:
            log.warning("document %s states an alias that would make a loop: it is left out", key_id)
            self._change(scope.key, alias, withdraw)  # what it stated before
            return
        if row.canonical != canonical:
            log.warning("document %s states an alias that means something else already: that holds", key_id)


def _key(reference: str) -> str:
    return canonical_form(normalised(reference))


def _wanted(key_id: str, aliases: Iterable[tuple[str, str]]) -> dict[str, str]:
    pairs = {_key(alias): _key(canonical) for alias, canonical in aliases}
    wanted = [(alias, canonical) for alias, canonical in pairs.items() if alias != canonical]
    if len(wanted) > MAX_OF_A_DOCUMENT:
        log.warning("document %s states %d aliases: %d are kept", key_id, len(wanted), MAX_OF_A_DOCUMENT)
    return dict(wanted[:MAX_OF_A_DOCUMENT])


# -- alias changes


MAX_LOADED = 5_000
"""Aliases of a scope that are held in memory. Those of a scope that has more are looked up one by one."""

KEYS_A_READ = 100
"""As many as one call may read. For more names, all aliases of a scope are read."""

ATTEMPTS = 100
"""Each failed one means that another writer got through."""

Change = Callable[[AliasRow], AliasRow]


@dataclass(frozen=True, slots=True)
class LoopGuard:
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

    def change(self, area: str, alias: str, change: Change, guard: LoopGuard | None = None) -> AliasRow:
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
        condition = Equals("revision", row.revision) if row.revision else KeyAbsent()
        if not changed.is_empty:
            self._table.put(changed.to_item(), condition=condition)
        elif row.revision:
            self._table.delete(alias_key(row.area, row.alias), condition=condition)

    def _recheck(self, guard: LoopGuard, row: AliasRow) -> None:
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
