"""Registers aliases of nodes, each visible within one scope, and keeps them free of loops."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import islice

from opx.domain.graph import Alias
from opx.domain.ids import iso_time
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.errors import AliasLoopError, InvalidInputError, StoreUnavailableError
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
from opx.ports.tables import delete_if, put_if

log = logging.getLogger(__name__)

# -- cache

SECONDS = 30.0
"""Seconds until an alias that another process set is seen."""

MAX_SCOPES = 1_000
MAX_ALIASES = 100_000
"""Cached aliases of all scopes together: some 30 MB."""


@dataclass(frozen=True, slots=True)
class _Entry:
    names: LoadedNames | None
    until: float


@dataclass(eq=False)
class AliasCache:
    """Thread-safe LRU cache of the aliases of scopes, with a time to live."""

    load: Callable[[str], LoadedNames | None]
    _: KW_ONLY
    clock: Clock
    seconds: float = SECONDS
    max_scopes: int = MAX_SCOPES
    max_aliases: int = MAX_ALIASES
    _kept: OrderedDict[str, _Entry] = field(init=False, default_factory=OrderedDict)
    _aliases: int = field(init=False, default=0)
    _changes: int = field(init=False, default=0)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def names(self, area: str) -> LoadedNames | None:
        """The aliases of a scope; None if it has too many to keep. Raises `StoreUnavailableError`."""
        now = self.clock()
        with self._lock:
            kept = self._kept.get(area)
            if kept and now < kept.until:
                self._kept.move_to_end(area)
                return kept.names
            changes = self._changes
        names = self.load(area)
        with self._lock:
            if changes == self._changes:  # otherwise the names may have been read before a change
                self._keep(area, _Entry(names, now + self.seconds))
        return names

    def invalidate(self, area: str) -> None:
        """Drop this scope, so that its aliases are loaded again on the next call."""
        with self._lock:
            self._changes += 1
            self._drop(area)

    def _keep(self, area: str, kept: _Entry) -> None:
        self._drop(area)
        self._kept[area] = kept
        self._aliases += _size(kept)
        while len(self._kept) > self.max_scopes or (self._aliases > self.max_aliases and len(self._kept) > 1):
            self._drop(next(iter(self._kept)))

    def _drop(self, area: str) -> None:
        if (kept := self._kept.pop(area, None)) is not None:
            self._aliases -= _size(kept)


def _size(kept: _Entry) -> int:
    return len(kept.names) if kept.names else 0


# -- registry

MAX_OF_A_DOCUMENT = 100
"""Aliases that one document may state."""


class AliasRegistry:
    """Aliases in the table of aliases. Reads come from memory and are at most `cache_seconds` old; writers of documents
    read the table. Several threads and processes may use it."""

    def __init__(self, table: Table, *, clock: Clock, cache_seconds: float = SECONDS) -> None:
        self._table = table
        self._clock = clock
        self._rows = AliasRows(table)
        self._cache = AliasCache(self._rows.load, clock=clock, seconds=cache_seconds)

    # -- reads

    def view(self, scopes: Iterable[str], *, fresh: bool = False) -> AliasView:
        """Aliases as readers of these scopes (their keys) see them; the narrowest scope's alias wins. `fresh` bypasses the
        cache. Raises `InvalidScopeError`, `StoreUnavailableError`."""
        read = self._rows.load if fresh else self._cache.names
        areas: list[AreaNames] = []
        for area in narrowest_first(scopes):
            names = read(area)
            areas.append(StoredNames(self._table, area) if names is None else names)
        return AliasView(areas)

    def aliases_of(self, scopes: Iterable[str], canonical: str) -> tuple[str, ...]:
        """The other references of a node, sorted."""
        return self.view(scopes).members([canonical])[canonical][1:]

    def canonical(self, scope: Scope, keys: Sequence[str]) -> dict[str, str]:
        """References under which statements of this scope's documents are filed, for keys where it is another one.

        Only `canonical_form` and aliases that people set in exactly this scope count. All other aliases apply at read
        time, so that a removed alias or a moved project leaves nothing filed under a reference that isn't its own.
        """
        if not keys:
            return {}
        area = scope.key
        names = self._rows.load(area, only_set=True) if len(keys) > KEYS_A_READ else None
        if names is None:
            return AliasView([StoredNames(self._table, area, only_set=True)]).canonical(keys)
        return AliasView([names]).canonical(keys)

    def filed(self, scope: Scope, keys: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """All references under which statements of this scope's documents may be filed at present: as `canonical`, and
        during a merge or its undoing also as before. Keys that can only be filed under themselves are left out."""
        return self._rows.filed(scope.key, keys) if keys else {}

    def settle(self, scope: Scope, alias: str, canonical: str) -> None:
        """Record that all statements were filed again after a person set this alias to `canonical` (or removed it: ""). If
        it has another value by now, the process that set that will record it."""
        self._change(scope.key, _key(alias), lambda row: row.settled() if row.set_to == canonical else row)

    def aliases(self, scopes: Iterable[str], *, limit: int = 1_000) -> list[Alias]:
        """The aliases of these scopes, sorted by scope and alias, at most `limit`."""
        areas = narrowest_first(scopes)
        found = (item for area in areas for item in self._table.query(partition_of(area), where=aliases_in(area)))
        rows = (row for row in map(AliasRow.from_json, found) if row.canonical)
        return [row.shown() for row in islice(rows, limit)]

    def find(self, scope: Scope, alias: str) -> Alias | None:
        """The alias as this scope itself has it."""
        row = self._rows.read(scope.key, _key(alias))
        return row.shown() if row.canonical else None

    # -- aliases that people set

    def register(self, scope: Scope, alias: str, canonical: str, *, by: str = "") -> Alias | None:
        """Set an alias for readers of this scope. Idempotent; None for an alias of a reference to itself.

        Of concurrent calls the first wins. Raises `AliasTakenError` if the alias has another value in this scope,
        `AliasLoopError`, and `InvalidReferenceError`.
        """
        alias, canonical = _key(alias), _key(canonical)
        if alias == canonical:
            return None
        at = iso_time(self._clock())
        guard = LoopGuard(scope, AliasRow.without_set)
        return self._change(scope.key, alias, lambda row: row.with_set(canonical, by, at), guard).shown()

    def forget(self, scope: Scope, alias: str, canonical: str = "") -> bool:
        """Remove an alias that a person set; with `canonical` only if it has that value. False if none was set.

        Raises `InvalidInputError` if only documents state it.
        """
        alias = _key(alias)
        row = self._rows.read(scope.key, alias)
        if row.stated and not row.set_to and not canonical:
            raise InvalidInputError(
                f"{alias} is an alias of {row.canonical} because {len(row.stated)} documents state it, not because a person "
                "set it: remove it from the documents"
            )
        if not row.set_to or (canonical and row.set_to != _key(canonical)):
            return False
        set_to = row.set_to
        self._change(scope.key, alias, lambda row: row.without_set() if row.set_to == set_to else row)
        return True

    # -- aliases that documents state

    def state(self, key_id: str, scope: Scope, aliases: Iterable[tuple[str, str]]) -> None:
        """Replace the aliases that the document key states. An alias is deleted with the last document that states it,
        unless a person has set it.

        Aliases that would close a loop are left out; where documents disagree, the first statement holds until it is
        removed. Both are logged, without the names. Idempotent, also after an interruption at any step. Raises
        `StoreUnavailableError`.
        """
        area = scope.key
        wanted = _wanted(key_id, aliases)
        key = statement_key(area, key_id)
        item = self._table.get(key)
        before = list(item["aliases"]) if item else []
        if not wanted and not before:
            return
        if set(wanted) - set(before):  # first, so that an interruption leaves no unknown alias
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

    def note_uses(self, key_id: str, scope: Scope, keys: Iterable[str]) -> None:
        """Counts the document for each alias among the keys of its statements, in every scope that its readers share. An
        alias that too many processes change at once is left out, and logged."""
        wanted, at = set(keys), iso_time(self._clock())
        for area in owner_areas(scope) if wanted else ():
            names = self._cache.names(area)
            for alias in (StoredNames(self._table, area) if names is None else names).canonicals(wanted):
                try:
                    self._rows.change(area, alias, lambda row: row.with_use(key_id, at))
                except StoreUnavailableError as exc:
                    log.warning("the use of an alias is not counted: %s", type(exc).__name__)

    def _change(self, area: str, alias: str, change: Change, guard: LoopGuard | None = None) -> AliasRow:
        try:
            return self._rows.change(area, alias, change, guard)
        finally:
            self._cache.invalidate(area)

    def _state_one(self, key_id: str, scope: Scope, alias: str, canonical: str) -> None:
        at = iso_time(self._clock())

        def withdraw(row: AliasRow) -> AliasRow:
            return row.without_stated(key_id)

        try:
            row = self._change(
                scope.key, alias, lambda row: row.with_stated(key_id, canonical, at), LoopGuard(scope, withdraw)
            )
        except AliasLoopError:
            log.warning("document %s states an alias that would close a loop: it is left out", key_id)
            self._change(scope.key, alias, withdraw)  # its earlier statement
            return
        if row.canonical != canonical:
            log.warning("document %s states an alias that has another value already: that value stays", key_id)


def _key(reference: str) -> str:
    return canonical_form(normalised(reference))


def _wanted(key_id: str, aliases: Iterable[tuple[str, str]]) -> dict[str, str]:
    pairs = {_key(alias): _key(canonical) for alias, canonical in aliases}
    wanted = [(alias, canonical) for alias, canonical in pairs.items() if alias != canonical]
    if len(wanted) > MAX_OF_A_DOCUMENT:
        log.warning("document %s states %d aliases: %d are kept", key_id, len(wanted), MAX_OF_A_DOCUMENT)
    return dict(wanted[:MAX_OF_A_DOCUMENT])


# -- changes

MAX_LOADED = 5_000
"""Aliases of a scope that are held in memory. A scope with more has them looked up one by one."""

KEYS_A_READ = 100
"""Keys of one read call. For more names, all aliases of a scope are read."""

ATTEMPTS = 100
"""Attempts at an optimistic write. Each failure means that another writer succeeded."""

Change = Callable[[AliasRow], AliasRow]


@dataclass(frozen=True, slots=True)
class LoopGuard:
    """Prevents loops among the aliases that readers of this scope see; `withdraw` reverts the change."""

    scope: Scope
    withdraw: Change


class AliasRows:
    """Reads and changes rows of the table of aliases."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def read(self, area: str, alias: str) -> AliasRow:
        """The row of the alias in this scope (its key); a row without revision if there is none."""
        item = self._table.get(alias_key(area, alias))
        return AliasRow.from_json(item) if item else AliasRow(area, alias)

    def load(self, area: str, *, only_set: bool = False) -> LoadedNames | None:
        """All aliases of a scope, or those that people have set; None if it has more than `MAX_LOADED`."""
        field = "setTo" if only_set else "canonicalKey"
        items = self._all(area)
        if items is None:
            return None
        return LoadedNames({item["aliasKey"]: item[field] for item in items if item[field]})

    def filed(self, area: str, keys: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """All references under which statements of these keys may be filed at present, by the aliases that people set in
        this scope and those whose statements were not filed again yet. Keys that can only be filed under themselves are
        left out."""
        forms = {key: canonical_form(key) for key in keys}
        following = self._following(area, set(forms.values()))
        reachable = {key: _reachable(form, following) for key, form in forms.items()}
        return {key: references for key, references in reachable.items() if references != (key,)}

    def _following(self, area: str, names: set[str]) -> dict[str, set[str]]:
        """Next names of these names and of all that they lead to."""
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
        """Change a row with an optimistic lock and return the new row; an empty row is deleted. With a guard, raises
        `AliasLoopError` for a change that would close a loop. Raises `StoreUnavailableError`."""
        for _ in range(ATTEMPTS):
            row = self.read(area, alias)
            changed = change(row)
            if changed == row:
                return row
            against = guard if changed.canonical != row.canonical else None
            if against and self._is_loop(against.scope, changed):
                raise AliasLoopError(
                    f"{changed.canonical} is an alias of {alias} already: the reverse can't be set, too"
                )
            changed = replace(changed, revision=secrets.token_hex(8))
            if not self._write(row, changed):
                continue
            if against:
                self._recheck(against, changed)
            return changed
        raise StoreUnavailableError(f"alias {alias} can't be changed: too many concurrent changes, try again later")

    def _write(self, row: AliasRow, changed: AliasRow) -> bool:
        condition = Equals("revision", row.revision) if row.revision else KeyAbsent()
        if not changed.is_empty:
            return put_if(self._table, changed.to_item(), condition)
        return not row.revision or delete_if(self._table, alias_key(row.area, row.alias), condition)

    def _recheck(self, guard: LoopGuard, row: AliasRow) -> None:
        """Check again after the write: two processes that write the halves of a loop can't see each other's half before."""
        if self._is_loop(guard.scope, row):
            self.change(row.area, row.alias, guard.withdraw)
            raise AliasLoopError(
                f"another process made {row.canonical} an alias of {row.alias} at the same time: list the aliases, "
                "and try again"
            )

    def _is_loop(self, scope: Scope, row: AliasRow) -> bool:
        areas = [StoredNames(self._table, area) for area in owner_areas(scope)]
        return AliasView(areas).leads_to(row.canonical, row.alias)


def _reachable(start: str, following: dict[str, set[str]]) -> tuple[str, ...]:
    seen, waiting = {start}, [start]
    while waiting:
        further = following.get(waiting.pop(), set()) - seen
        seen |= further
        waiting.extend(further)
    return tuple(sorted(seen))
