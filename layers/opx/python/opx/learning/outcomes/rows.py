"""Outcomes as rows of their table. All that is about a scope is in places that name it.

`scores#<scope>` has an item a document, by the id of its key; `told#<scope>#<key id>` one for each outcome that was told
of it; `warnings#<scope>` one for each time that a step was warned of; `known#<scope>` says that there are any, so that
questions of those who have none needn't look.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opx.domain.outcomes import DocumentOutcomes, RecordedOutcome
from opx.ports import Item, Table

OUTCOMES, WARNINGS = "outcomes", "warnings"
"""What may be known of a scope."""

_HEADS, _TOLD, _WARNED, _KNOWN = "scores#", "told#", "warnings#", "known#"


def head_key(scope_key: str, key_id: str) -> dict[str, str]:
    """Of what is known of a document."""
    return {"place": _HEADS + scope_key, "entry": key_id}


def told_key(scope_key: str, key_id: str, outcome_id: str) -> dict[str, str]:
    return {"place": told_partition(scope_key, key_id), "entry": outcome_id}


def told_partition(scope_key: str, key_id: str) -> str:
    return f"{_TOLD}{scope_key}#{key_id}"


def warned_partition(scope_key: str) -> str:
    return _WARNED + scope_key


def known_key(scope_key: str, kind: str) -> dict[str, str]:
    return {"place": _KNOWN + scope_key, "entry": kind}


def known_scope(item: Item) -> str:
    """The scope that an item with a `known_key` is of."""
    return str(item["place"]).removeprefix(_KNOWN)


def head_scope(item: Item) -> str:
    """The scope that an item with a `head_key` is of."""
    return str(item["place"]).removeprefix(_HEADS)


def head_item(scope_key: str, key_id: str, head: DocumentOutcomes, last: RecordedOutcome, revision: int) -> Item:
    """`last` is the outcome that was counted with this writing: its own item is written after it."""
    return {
        **head_key(scope_key, key_id),
        **_state(head),
        "last": last.to_json(),
        "revision": revision,
    }


def _state(head: DocumentOutcomes) -> dict[str, Any]:
    told = head.to_json()
    return {name: told[name] for name in ("documentId", "version", "title", "now", "earlier", "sections", "updatedAt")}


def told_item(scope_key: str, key_id: str, told: RecordedOutcome, revision: int, expires_at: int) -> Item:
    """`revision` is that of the counts with it."""
    place = told_key(scope_key, key_id, told.outcome_id)
    return {**place, **told.to_json(), "revision": revision, "expiresAt": expires_at}


def rows_of(table: Table, scope_key: str) -> Iterator[Item]:
    """Every item of a scope, page by page; items may be deleted on the way."""
    for head in table.query(_HEADS + scope_key):
        yield from table.query(told_partition(scope_key, head["entry"]))
        yield head
    yield from table.query(warned_partition(scope_key))
    yield from table.query(_KNOWN + scope_key)
