"""Schema of the table of aliases, and resolution of aliases within scopes: one partition per client.

The sort key (`aliasArea`) identifies the kind of an item:

    <scope>|<alias>                 an alias; `canonicalPlace` is <scope>|<canonical>
    ~document|<scope>|<key id>      the aliases that a document may have stated, to be deleted with it
    ~merge|<scope>|<merge id>       a recorded merge

Neither a scope's key nor a normalised reference contains a `|`, so that sort keys are unambiguous.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import field

from opx.domain.graph import Alias
from opx.domain.record import Record, replace
from opx.domain.scopes import GLOBAL_KEY, Scope
from opx.errors import AliasTakenError, InvalidScopeError
from opx.graph.names import canonical_form
from opx.ports import Item, KeyRange, Table

log = logging.getLogger(__name__)

MAX_DOCUMENTS = 200
"""Documents that are recorded of an alias. More may state it; it is deleted with the last of these."""

_AREA = re.compile(r"client:([^/|]+)(?:/(group|project):([^/|]+))?\Z")
_WIDTH = {"project": 0, "group": 1, None: 2}


class AliasRow(Record, frozen=True):
    """An alias in one scope: the value that a person set, and those that documents state, in the order of arrival.

    Until the statements of the scope are filed again after a person's change, `unmoved` lists the other references under
    which they may be: the alias itself, or its earlier values. `used_by` are documents that use the alias without stating
    it.
    `revision` differs after each change, also if the row was deleted meanwhile; "" is for a row that doesn't exist.
    """

    area: str
    alias: str = field(name="aliasKey")
    set_to: str = ""
    set_by: str = ""
    stated: tuple[tuple[str, str], ...] = ()
    seen: int = field(name="seenCount", default=0)
    last_seen: str = field(name="lastSeenAt", default="")
    unmoved: tuple[str, ...] = ()
    used_by: tuple[str, ...] = ()
    revision: str = ""

    @property
    def canonical(self) -> str:
        """The value in force: a person's, else the first document's; "" without any."""
        return self.set_to or (self.stated[0][1] if self.stated else "")

    def with_set(self, canonical: str, by: str, at: str) -> AliasRow:
        """The row with a person's value. Raises `AliasTakenError` if it has another value."""
        if self.canonical not in ("", canonical):
            raise AliasTakenError(
                f"{self.alias} is an alias of {self.canonical} already: remove that alias first, or merge "
                f"{self.canonical} into {canonical}"
            )
        unmoved = self.unmoved if self.set_to else _also(self.unmoved, self.alias)
        return self._seen(replace(self, set_to=canonical, set_by=by, unmoved=unmoved), at)

    def with_stated(self, key_id: str, canonical: str, at: str) -> AliasRow:
        known = dict(self.stated)
        if key_id not in known and len(known) >= MAX_DOCUMENTS:
            return self._seen(self, at)
        return self._seen(replace(self, stated=tuple({**known, key_id: canonical}.items())), at)

    def with_use(self, key_id: str, at: str) -> AliasRow:
        """The row with a document that uses the alias; each counts once, `MAX_DOCUMENTS` at most."""
        known = key_id in self.used_by or any(key_id == one for one, _ in self.stated)
        if known or not self.canonical or len(self.used_by) >= MAX_DOCUMENTS:
            return self
        return self._seen(replace(self, used_by=(*self.used_by, key_id)), at)

    def without_set(self) -> AliasRow:
        unmoved = _also(self.unmoved, self.set_to) if self.set_to else self.unmoved
        return replace(self, set_to="", set_by="", unmoved=unmoved)

    def settled(self) -> AliasRow:
        """The row after all statements were filed again."""
        return replace(self, unmoved=())

    @property
    def next_names(self) -> set[str]:
        """References under which statements of this alias may be filed, one step further."""
        return {self.set_to, *self.unmoved} - {"", self.alias}

    @property
    def is_empty(self) -> bool:
        return not self.canonical and not self.unmoved

    def without_stated(self, key_id: str) -> AliasRow:
        return replace(self, stated=tuple(one for one in self.stated if one[0] != key_id))

    def _seen(self, changed: AliasRow, at: str) -> AliasRow:
        return replace(changed, seen=self.seen + 1, last_seen=max(at, self.last_seen))

    def shown(self) -> Alias:
        return Alias(
            alias=self.alias,
            canonical=self.canonical,
            area=self.area,
            seen_count=self.seen,
            last_seen_at=self.last_seen,
            is_set=bool(self.set_to),
            set_by=self.set_by,
            documents=len(self.stated),
        )

    def to_item(self) -> Item:
        indexed = {"canonicalPlace": f"{self.area}|{self.canonical}"} if self.canonical else {}
        return {**alias_key(self.area, self.alias), **self.to_json(), "canonicalKey": self.canonical, **indexed}


def _also(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*names, name)))


def partition_of(area: str) -> str:
    """The partition with the aliases of this scope key. Raises `InvalidScopeError` for an invalid key."""
    if area == GLOBAL_KEY:
        return GLOBAL_KEY
    match = _AREA.match(area)
    if not match:
        raise InvalidScopeError(
            f"{area[:100]!r} is not the key of a scope, such as client:acme or client:acme/project:shop"
        )
    client, kind, name = match.groups()
    Scope(client, **({f"{kind}_id": name} if kind else {}))
    return client


def alias_key(area: str, alias: str) -> dict[str, str]:
    return {"clientId": partition_of(area), "aliasArea": f"{area}|{alias}"}


def statement_key(area: str, key_id: str) -> dict[str, str]:
    return {"clientId": partition_of(area), "aliasArea": f"~document|{area}|{key_id}"}


def merge_key(area: str, merge_id: str) -> dict[str, str]:
    return {"clientId": partition_of(area), "aliasArea": f"~merge|{area}|{merge_id}"}


def aliases_in(area: str) -> KeyRange:
    """All aliases of the scope, within its partition."""
    return KeyRange(begins_with=f"{area}|")


def narrowest_first(scopes: Iterable[str]) -> tuple[str, ...]:
    """Scopes in the order in which their aliases win: projects, the group, the client, global. Raises
    `InvalidScopeError`, also for scopes of two clients: no reader may see both."""
    areas = tuple(dict.fromkeys(scopes))
    clients = {partition_of(area) for area in areas if area != GLOBAL_KEY}
    if len(clients) > 1:
        raise InvalidScopeError("aliases of two clients can't be used together: query each client separately")
    return tuple(sorted(areas, key=_width))


def owner_areas(scope: Scope) -> tuple[str, ...]:
    """The scopes whose aliases each owner of a document in this scope can see."""
    return narrowest_first((scope.key, Scope(scope.client_id).key, GLOBAL_KEY))


def _width(area: str) -> int:
    match = _AREA.match(area)
    return _WIDTH[match.group(2)] if match else len(_WIDTH)


# -- resolution

MAX_STEPS = 50
"""Steps from one name to the next. A longer chain counts as a loop."""

MAX_MEMBERS = 200
"""Names of one node. Statements under further names are not found."""


class AreaNames(Protocol):
    """The aliases of one scope. Raises `StoreUnavailableError`."""

    def canonicals(self, keys: Collection[str]) -> Mapping[str, str]:
        """The next name of those keys that are aliases."""

    def aliases(self, keys: Collection[str]) -> Iterable[str]:
        """The names whose next name is one of the keys."""


class LoadedNames:
    """The aliases of a scope, held in memory."""

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
    """The aliases of a scope with too many to load, read from the table. `only_set` leaves out those that only documents
    state."""

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
    """Resolves names by the aliases of the given scopes, and no others."""

    def __init__(self, areas: Sequence[AreaNames]) -> None:
        self._areas = areas

    def canonical(self, keys: Iterable[str]) -> dict[str, str]:
        """Canonical references of the keys that have another one, at the end of their chain; names in a loop resolve to the
        first of them in sort order."""
        forms = {key: canonical_form(key) for key in dict.fromkeys(keys)}
        resolved = {key: form for key, form in forms.items() if form != key}
        next_names = self._next(set(forms.values()))
        chains = {key: [form] for key, form in forms.items() if form in next_names}  # most keys have no other name
        unfinished = chains
        for _ in range(MAX_STEPS):
            for chain in unfinished.values():
                chain.append(canonical_form(next_names[chain[-1]]))
            unfinished = {key: chain for key, chain in unfinished.items() if chain[-1] not in chain[:-1]}
            next_names = self._next({chain[-1] for chain in unfinished.values()})
            unfinished = {key: chain for key, chain in unfinished.items() if chain[-1] in next_names}
            if not unfinished:
                break
        resolved.update({key: _end(chain) for key, chain in chains.items()})
        return {key: end for key, end in resolved.items() if end != key}

    def one(self, key: str) -> str:
        """The canonical reference of one key."""
        return self.canonical([key]).get(key, key)

    @property
    def is_empty(self) -> bool:
        """True if all scopes are in memory and have no aliases."""
        return all(isinstance(area, LoadedNames) and not len(area) for area in self._areas)

    def leads_to(self, start: str, end: str) -> bool:
        """True if `start` resolves to `end` in any number of steps up to `MAX_STEPS`."""
        chain = {start}
        name = start
        for _ in range(MAX_STEPS):
            if name == end:
                return True
            name = self._next([name]).get(name, "")
            if not name or name in chain:
                return False
            chain.add(name)
        return False

    def members(self, keys: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """For each canonical reference, all keys that resolve to it: itself first, the others sorted."""
        wanted = tuple(dict.fromkeys(keys))
        found, fresh = set(wanted), set(wanted)
        while fresh:
            fresh = {alias for area in self._areas for alias in area.aliases(fresh)} - found
            found |= fresh
        others = sorted(found - set(wanted))
        resolved = self.canonical(others)
        members: dict[str, list[str]] = {key: [key] for key in wanted}
        for alias in others:
            if (end := resolved.get(alias, alias)) in members:
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
        log.warning("a node has %d names, of which %d are followed", len(names), MAX_MEMBERS)
    return tuple(names[:MAX_MEMBERS])


def _end(chain: list[str]) -> str:
    last = chain[-1]
    if last in chain[:-1]:
        return min(chain[chain.index(last) : -1])
    return last
