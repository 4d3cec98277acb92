"""Validates rows of an archive against their tables: each is one that the program writes, with the keys that follow from it.

A table holds several kinds of rows, recognised by their keys. A kind reads a row with its record, which checks types,
enumerations and required fields, and returns the attributes that the program derives from it: keys of the table and of its
indexes, scopes, hashes. A row that has others could never have been exported, and would be found under another owner.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from opx.connectors.repository import REGISTERED, SWITCH, definition_of
from opx.connectors.states import PullState
from opx.connectors.streams.definitions import REGISTERED as STREAMS
from opx.connectors.streams.definitions import stream_of
from opx.domain.graph import Merge
from opx.domain.knowledge import KnowledgeModel
from opx.domain.record import Record
from opx.domain.record import from_json as read
from opx.domain.scopes import Scope, scope_of_key, scope_of_object
from opx.errors import InvalidInputError, UnknownCategoryError
from opx.graph.alias_rows import AliasRow, alias_key, merge_key, statement_key
from opx.ingestion.corpus.clients import CLIENTS, Client, client_key, project_item
from opx.lifecycle.retention.holds import HOLDS, LIFTED, Hold
from opx.lifecycle.usage import DayUsage, usage_key
from opx.ports import Item
from opx.ports.tables import ALIASES, LIFECYCLE, PROJECTS, USAGE, USES, TableSpec

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

Count = Annotated[int, Meta(ge=0)]
Revision = Annotated[int, Meta(ge=1)]
R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class RowKind:
    """A kind of row. `derived` returns the attributes that follow from a row's record; raises one of `REFUSALS`. `expires`:
    the program gives each a time at which it is deleted. `times` names attributes that are times in ISO 8601."""

    recognises: Callable[[Item], bool]
    derived: Callable[[Item], Mapping[str, Any]]
    expires: bool = False
    times: tuple[str, ...] = ()


def check_row(spec: TableSpec, item: Item, kinds: tuple[RowKind, ...]) -> None:
    """Raises one of `REFUSALS` for a row of none of these kinds, and for one whose attributes contradict each other."""
    kind = next((kind for kind in kinds if kind.recognises(item)), None)
    if kind is None:
        raise InvalidInputError("its key is of no kind of row that the program writes")
    derived = kind.derived(item)
    for name, value in derived.items():
        if name not in item or not _equal(item[name], value):
            raise InvalidInputError(f"{name} does not follow from the rest of the row")
    for index in spec.indexes:
        for name in {index.partition, index.sort} - {"", spec.partition, spec.sort}:
            if name in item and name not in derived and name not in kind.times:
                raise InvalidInputError(f"it is in the index {index.name}, where the program wouldn't enter it")
    if spec.ttl and (kind.expires or spec.ttl in item):
        require_number(item[spec.ttl], spec.ttl)
    for name in kind.times:
        require_time(item.get(name, ""), name)


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


KINDS: dict[str, tuple[RowKind, ...]] = {}
"""Kinds of rows by the name of their table."""


# -- clients and projects


class _ClientRow(Record, frozen=True):
    """A client as its row must have it: the program reads one without a state as active, an archive has none."""

    project_id: str
    state: str


def _client(item: Item) -> Mapping[str, Any]:
    row = read(_ClientRow, item)
    client = read(Client, {**item, "clientId": row.project_id})
    if not Scope(client.client_id).client_id:
        raise InvalidInputError("a client without an id")
    return {**client_key(client.client_id), "state": client.state.value}


class _ProjectRow(Record, frozen=True):
    client_id: str
    project_id: str
    group_id: str


def _project(item: Item) -> Mapping[str, Any]:
    row = read(_ProjectRow, item)
    return project_item(row.client_id, row.project_id, row.group_id)


KINDS[PROJECTS.name] = (
    RowKind(lambda item: item["clientId"] == CLIENTS, _client, times=("since",)),
    RowKind(lambda item: not item["clientId"].startswith("#"), _project),
)


# -- sources and streams


class _StateRow(Record, frozen=True):
    state: PullState
    owner: str
    lease_until: float
    revision: Revision


class _SwitchRow(Record, frozen=True):
    enabled: bool


class _ItemRow(Record, frozen=True):
    digest: str
    object_key: str
    run: str


class _PageRow(Record, frozen=True):
    url: str
    validators: dict[str, str]


def source_kinds(knowledge: KnowledgeModel) -> tuple[RowKind, ...]:
    """Definitions of a category that this installation lacks are accepted: they are left out until it has the category."""

    def defined(define: Callable[[str, Any, KnowledgeModel], object]) -> Callable[[Item], Mapping[str, Any]]:
        def derived(item: Item) -> Mapping[str, Any]:
            if not isinstance(item["definition"], dict):
                raise InvalidInputError("definition must be a mapping")
            try:
                define(item["entry"], item["definition"], knowledge)
            except UnknownCategoryError:
                require_text(item["definition"]["category"], "category")
            return {}

        return derived

    return (
        RowKind(lambda item: item["sourceId"] == REGISTERED, defined(definition_of)),
        RowKind(lambda item: item["sourceId"] == STREAMS, defined(stream_of)),
        RowKind(lambda item: item["entry"] == "state", _pull_state),
        RowKind(lambda item: item["entry"] == SWITCH, lambda item: whole(_SwitchRow, item).to_json()),
        RowKind(lambda item: item["entry"].startswith("item#"), _source_item),
        RowKind(lambda item: item["entry"].startswith("page#"), lambda item: whole(_PageRow, item).to_json()),
    )


def _pull_state(item: Item) -> Mapping[str, Any]:
    row = read(_StateRow, item)
    for name in ("started", "last_attempt", "last_success"):
        require_time(getattr(row.state, name), name)
    return {"sourceId": row.state.source_id, "owner": row.state.owner, "leaseUntil": row.state.lease_until}


def _source_item(item: Item) -> Mapping[str, Any]:
    row = whole(_ItemRow, item)
    scope_of_object(row.object_key)
    return {}


# -- aliases and merges


class _StatementRow(Record, frozen=True):
    area: str
    aliases: tuple[str, ...]


def _alias_statement(item: Item) -> Mapping[str, Any]:
    row = read(_StatementRow, item)
    return statement_key(row.area, item["aliasArea"].removeprefix(f"~document|{row.area}|"))


def _merge(item: Item) -> Mapping[str, Any]:
    merge = read(Merge, item)
    return merge_key(scope_key(merge.area), merge.merge_id)


def _alias(item: Item) -> Mapping[str, Any]:
    row = read(AliasRow, item)
    found = row.to_item()
    names = ("clientId", "aliasArea", "canonicalKey", "canonicalPlace", "setTo", "revision")
    alias_key(scope_key(row.area), row.alias)
    return {name: found[name] for name in names if name in found}


KINDS[ALIASES.name] = (
    RowKind(lambda item: item["aliasArea"].startswith("~document|"), _alias_statement),
    RowKind(lambda item: item["aliasArea"].startswith("~merge|"), _merge, times=("at", "undoneAt")),
    RowKind(lambda item: not item["aliasArea"].startswith("~"), _alias, times=("lastSeenAt",)),
)


# -- holds, use


def _hold(item: Item) -> Mapping[str, Any]:
    hold = read(Hold, item)
    if hold.within:
        scope_of_key(hold.within)
    return {"entry": hold.id if item["subject"] == HOLDS else f"{hold.lifted}#{hold.id}", "within": hold.within}


KINDS[LIFECYCLE.name] = (RowKind(lambda item: item["subject"] in (HOLDS, LIFTED), _hold, times=("since", "lifted")),)


def _usage(item: Item) -> Mapping[str, Any]:
    usage = read(DayUsage, item)
    Scope(usage.client_id)
    return usage_key(usage)


KINDS[USAGE.name] = (RowKind(lambda _: True, _usage, expires=True, times=("day",)),)


class _UseRow(Record, frozen=True):
    scope_key: str
    document_key: str
    day: str


def _use(item: Item) -> Mapping[str, Any]:
    return {"scopeKey": scope_key(whole(_UseRow, item).scope_key)}


KINDS[USES.name] = (RowKind(lambda _: True, _use, times=("day",)),)
