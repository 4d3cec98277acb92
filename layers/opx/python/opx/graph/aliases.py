"""The registry of aliases: other names of things, each known to one scope and to nobody else."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import islice

from opx.domain.aliases import Alias
from opx.domain.scopes import Scope
from opx.domain.times import iso_time
from opx.errors import AliasLoopError, InvalidInputError
from opx.graph.alias_cache import SECONDS, AliasCache
from opx.graph.alias_changes import KEYS_A_READ, AliasRows, Change, Guard
from opx.graph.alias_rows import AliasRow, aliases_in, narrowest_first, partition_of, statement_key
from opx.graph.alias_view import AliasView, AreaNames, StoredNames
from opx.graph.names import canonical_form, normalised
from opx.ports import Clock, Table

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
        guard = Guard(scope, AliasRow.without_set)
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

    def _change(self, area: str, alias: str, change: Change, guard: Guard | None = None) -> AliasRow:
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
                scope.key, alias, lambda row: row.with_stated(key_id, canonical, at), Guard(scope, withdraw)
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
