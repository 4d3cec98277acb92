"""Rows of tables, as archives and the removal of clients need to know them; the code that writes rows states them.

A table holds several kinds of rows, recognised by their keys. A kind reads a row with its record, which checks types,
enumerations and required fields, and returns the attributes that the program derives from it: keys of the table and of its
indexes, scopes, hashes. A row that has others could never have been exported, and would be found under another owner.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from opx.domain.knowledge import KnowledgeModel
from opx.domain.record import Record, to_json
from opx.domain.record import from_json as read
from opx.domain.scopes import scope_of_key
from opx.errors import InvalidInputError, UnknownCategoryError
from opx.ports.holdings import HeldItems, Holding, in_table
from opx.ports.tables import Item, Table, TableSpec

REFUSALS = (
    InvalidInputError,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    ArithmeticError,
    struct.error,
)
"""Errors of reading a row that no export writes."""

REVISION = {"revision": Annotated[int, Meta(ge=1)]}
"""Field of rows that are written on the condition that nobody else has."""

R = TypeVar("R", bound=Record)
S = TypeVar("S")
Define = Callable[[str, Any, KnowledgeModel], object]


@dataclass(frozen=True, slots=True)
class RowKind:
    """A kind of row. `derived` returns the attributes that follow from a row's record; raises one of `REFUSALS`. `fields` are
    types of further attributes that each has. `expires`: the program gives each a time at which it is deleted. `times` names
    attributes that are times in ISO 8601. `define` reads the `definition` of the name `entry`; raises `InvalidInputError`."""

    recognises: Callable[[Item], bool]
    derived: Callable[[Item], Mapping[str, Any]] = lambda _: {}
    fields: Mapping[str, Any] = field(default_factory=dict)
    expires: bool = False
    times: tuple[str, ...] = ()
    define: Define | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows that one part of the program keeps in a table.

    `kinds` are those that archives have. `scopes(table, begins_with)` returns the recorded keys of scopes that begin so.
    `items(table, held)` returns a client's rows, those of a scope before the one that records the scope; they count under
    `name` in the report of its removal. `holding(system)` replaces `items` where removing takes more than deleting rows.
    """

    table: TableSpec
    name: str = ""
    kinds: tuple[RowKind, ...] = ()
    scopes: Callable[[Table, str], Iterable[str]] | None = None
    items: Callable[[Table, HeldItems], Iterable[Item]] | None = None
    holding: Callable[[Any], Holding] | None = None

    def holdings(self, system: Any) -> Iterator[Holding]:
        """The holding of a client's rows in a `System`; none if no rows are of clients."""
        if self.holding:
            yield self.holding(system)
        elif self.items:
            table = system.tables.table(self.table)
            yield in_table(system.tables, self.name, self.table, partial(self.items, table))


def of_scopes(items: Callable[[Table, str], Iterable[Item]]) -> Callable[[Table, HeldItems], Iterable[Item]]:
    """The items that are found of each scope of a client."""
    return lambda table, held: chain.from_iterable(items(table, scope) for scope in held.scopes)


def by_client(table: Table, held: HeldItems) -> Iterator[Item]:
    """The items of a table whose partition key is the client."""
    return table.query(held.client_id)


by_scope = of_scopes(lambda table, scope: table.query(scope))
"""The items of a table whose partition key is the scope."""


def check_row(spec: TableSpec, item: Item, kinds: Iterable[RowKind], knowledge: KnowledgeModel) -> None:
    """Raises one of `REFUSALS` for a row of none of these kinds, and for one whose attributes contradict each other."""
    kind = next((kind for kind in kinds if kind.recognises(item)), None)
    if kind is None:
        raise InvalidInputError("its key is of no kind of row that the program writes")
    for name, of in kind.fields.items():
        _check_type(item[name], name, of)
    derived = kind.derived(item)
    for name, value in derived.items():
        if name not in item or not _equal(item[name], value):
            raise InvalidInputError(f"{name} does not follow from the rest of the row")
    _check_indexes(spec, item, {*derived, *kind.times})
    if spec.ttl and (kind.expires or spec.ttl in item):
        require_number(item[spec.ttl], spec.ttl)
    for name in kind.times:
        require_time(item.get(name, ""), name)
    if kind.define:
        _check_definition(item["entry"], item["definition"], knowledge, kind.define)


def _check_indexes(spec: TableSpec, item: Item, known: Set[str]) -> None:
    for index in spec.indexes:
        for name in {index.partition, index.sort} - {"", spec.partition, spec.sort} - known:
            if name in item:
                raise InvalidInputError(f"it is in the index {index.name}, where the program wouldn't enter it")


def _check_type(value: object, name: str, kind: Any) -> None:
    try:
        read(kind, value)
    except InvalidInputError as exc:
        raise InvalidInputError(f"{name}: {exc}") from exc


def _check_definition(name: str, given: object, knowledge: KnowledgeModel, define: Define) -> None:
    """A definition of a category that this installation lacks is accepted: it is left out until it has the category."""
    if not isinstance(given, dict):
        raise InvalidInputError("definition must be a mapping")
    try:
        define(name, given, knowledge)
    except UnknownCategoryError:
        require_text(given["category"], "category")


def _equal(one: object, other: object) -> bool:
    """Equal, and both booleans or neither: for Python, 1 equals True."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


# -- reading parts of rows


def whole(kind: type[R], item: object) -> R:
    """The record in a row that has every field of it, also those with defaults: readers take them for granted."""
    record = read(kind, item)
    missing = set(record.to_json()) - set(item if isinstance(item, Mapping) else ())
    if missing:
        raise InvalidInputError(f"{min(missing)} is missing")
    return record


def checked(record: S) -> S:
    """A data class that was made of a row as it is, if its fields have the declared types. Raises `InvalidInputError`."""
    read(type(record), to_json(record))
    return record


def scope_key(text: object) -> str:
    """The key of a scope. Raises `InvalidScopeError` for anything else."""
    return scope_of_key(require_text(text)).key


def require_text(value: object, name: str = "an attribute") -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} must be a string, not {type(value).__name__}")
    return value


def require_bytes(value: object, name: str) -> bytes:
    if not isinstance(value, bytes):
        raise InvalidInputError(f"{name} must be bytes, not {type(value).__name__}")
    return value


def require_number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise InvalidInputError(f"{name} must be a number of seconds, or a count")
    return value


def require_time(value: object, name: str) -> None:
    """Raises `InvalidInputError` unless it is a date, or a time in ISO 8601, or empty."""
    text = require_text(value, name)
    try:
        if text:
            datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidInputError(f"{name} is not a time: {text[:40]!r}") from exc
