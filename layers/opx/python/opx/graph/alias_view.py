"""What the aliases of some scopes say together, the narrowest scope first."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from opx.graph.alias_rows import alias_key
from opx.graph.names import canonical_form
from opx.ports import Table

log = logging.getLogger(__name__)

MAX_STEPS = 50
"""Of one name to the next. A longer way is as good as a loop."""

MAX_MEMBERS = 200
"""Names of one thing. What is said under further ones is not found under this one."""


class AreaNames(Protocol):
    """The aliases of one scope. Raises `StoreUnavailableError`."""

    def canonicals(self, keys: Collection[str]) -> Mapping[str, str]:
        """The next name of those keys that are aliases."""

    def aliases(self, keys: Collection[str]) -> Iterable[str]:
        """The names whose next name is one of the keys."""


class LoadedNames:
    """Aliases of a scope that are in memory."""

    def __init__(self, canonicals: Mapping[str, str]) -> None:
        self._canonicals = canonicals
        self._aliases: dict[str, list[str]] = {}
        for alias, canonical in canonicals.items():
            self._aliases.setdefault(canonical, []).append(alias)

    def __len__(self) -> int:
        return len(self._canonicals)

    def canonicals(self, keys: Collection[str]) -> Mapping[str, str]:
        if not self._canonicals:
            return {}
        return {key: self._canonicals[key] for key in keys if key in self._canonicals}

    def aliases(self, keys: Collection[str]) -> Iterable[str]:
        return [alias for key in keys for alias in self._aliases.get(key, ())] if self._aliases else ()


class StoredNames:
    """Aliases of a scope that has too many to load. `only_set` leaves out those that documents alone say."""

    def __init__(self, table: Table, area: str, *, only_set: bool = False) -> None:
        self._table = table
        self._area = area
        self._canonical = "setTo" if only_set else "canonicalKey"

    def canonicals(self, keys: Collection[str]) -> Mapping[str, str]:
        items = self._table.get_many([alias_key(self._area, key) for key in keys]) if keys else []
        return {item["aliasKey"]: item[self._canonical] for item in items if item[self._canonical]}

    def aliases(self, keys: Collection[str]) -> Iterable[str]:
        for key in keys:
            for item in self._table.query(f"{self._area}|{key}", index="canonical-index"):
                yield item["aliasKey"]


class AliasView:
    """Names as those understand them who may see these scopes. Never more than they may see."""

    def __init__(self, areas: Sequence[AreaNames]) -> None:
        self._areas = areas

    def canonical(self, keys: Iterable[str]) -> dict[str, str]:
        """The references that are meant, of those keys for which it is another one; to the end of chains. Of names that
        stand for each other in a loop, the first by alphabet is meant."""
        forms = {key: canonical_form(key) for key in dict.fromkeys(keys)}
        meant = {key: form for key, form in forms.items() if form != key}
        next_names = self._next(set(forms.values()))
        ways = {key: [form] for key, form in forms.items() if form in next_names}  # most keys have no other name
        going = ways
        for _ in range(MAX_STEPS):
            for way in going.values():
                way.append(canonical_form(next_names[way[-1]]))
            going = {key: way for key, way in going.items() if way[-1] not in way[:-1]}
            next_names = self._next({way[-1] for way in going.values()})
            going = {key: way for key, way in going.items() if way[-1] in next_names}
            if not going:
                break
        meant.update({key: _end(way) for key, way in ways.items()})
        return {key: end for key, end in meant.items() if end != key}

    def one(self, key: str) -> str:
        """The reference that is meant by this one."""
        return self.canonical([key]).get(key, key)

    @property
    def is_empty(self) -> bool:
        """Whether there are no aliases at all."""
        return all(isinstance(area, LoadedNames) and not len(area) for area in self._areas)

    def leads_to(self, start: str, end: str) -> bool:
        """Whether the one name stands for the other, however many are in between."""
        way = {start}
        name = start
        for _ in range(MAX_STEPS):
            if name == end:
                return True
            name = self._next([name]).get(name, "")
            if not name or name in way:
                return False
            way.add(name)
        return False

    def members(self, keys: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """For each canonical reference, all keys that stand for it; itself first, the others by alphabet."""
        wanted = tuple(dict.fromkeys(keys))
        found, fresh = set(wanted), set(wanted)
        while fresh:
            fresh = {alias for area in self._areas for alias in area.aliases(fresh)} - found
            found |= fresh
        others = sorted(found - set(wanted))
        meant = self.canonical(others)
        members: dict[str, list[str]] = {key: [key] for key in wanted}
        for alias in others:
            if (end := meant.get(alias, alias)) in members:
                members[end].append(alias)
        return {key: _bounded(names) for key, names in members.items()}

    def _next(self, keys: Collection[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for area in self._areas if keys else ():
            left = [key for key in keys if key not in found]
            found.update(area.canonicals(left))
        return found


def _bounded(names: list[str]) -> tuple[str, ...]:
    if len(names) > MAX_MEMBERS:
        log.warning("a thing has %d names, of which %d are followed", len(names), MAX_MEMBERS)
    return tuple(names[:MAX_MEMBERS])


def _end(way: list[str]) -> str:
    last = way[-1]
    if last in way[:-1]:
        return min(way[way.index(last) : -1])
    return last
