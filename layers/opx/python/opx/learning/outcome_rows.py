"""Rows of outcomes, warnings and learnt words, and the scopes that have any, so that questions of the others cost nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opx.ports import Item, Table

if TYPE_CHECKING:
    from opx.domain.outcomes import DocumentOutcomes, RecordedOutcome

# All that is about a scope is in places that name it:
#
# `scores#<scope>` has an item a document, by the id of its key; `told#<scope>#<key id>` one for each outcome that was told
# of it; `warnings#<scope>` one for each time that a step was warned of; `resolved#<scope>` one for each outcome that words
# were learnt from; `known#<scope>` says that there are any, so that questions of those who have none needn't look.

OUTCOMES, WARNINGS, LEARNT = "outcomes", "warnings", "learnt"
"""What may be known of a scope."""

_HEADS, _TOLD, _WARNED, _RESOLVED, _KNOWN = "scores#", "told#", "warnings#", "resolved#", "known#"


def head_key(scope_key: str, key_id: str) -> dict[str, str]:
    """Of what is known of a document."""
    return {"place": _HEADS + scope_key, "entry": key_id}


def told_key(scope_key: str, key_id: str, outcome_id: str) -> dict[str, str]:
    return {"place": told_partition(scope_key, key_id), "entry": outcome_id}


def told_partition(scope_key: str, key_id: str) -> str:
    return f"{_TOLD}{scope_key}#{key_id}"


def warned_partition(scope_key: str) -> str:
    return _WARNED + scope_key


def resolved_key(scope_key: str, outcome_id: str) -> dict[str, str]:
    return {"place": resolved_partition(scope_key), "entry": outcome_id}


def resolved_partition(scope_key: str) -> str:
    return _RESOLVED + scope_key


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
    yield from table.query(resolved_partition(scope_key))
    yield from table.query(_KNOWN + scope_key)


LOOKED_AGAIN_SECONDS = 60.0
"""After which a process looks whether another one has written the first outcome, warning or learnt words of a scope."""

_KINDS = (OUTCOMES, WARNINGS, LEARNT)


class KnownScopes:
    """Remembers what there is, which is never taken back, and for a while what there isn't."""

    def __init__(self, table: Table, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._table = table
        self._monotonic = monotonic
        self._found: set[tuple[str, str]] = set()
        self._looked: dict[str, float] = {}

    def note(self, scope_key: str, kind: str, mark: str = "") -> None:
        """Write that there is something; `mark` is another one each time that readers have to look again."""
        if mark or (scope_key, kind) not in self._found:
            self._table.put({**known_key(scope_key, kind), "mark": mark})
            self._found.add((scope_key, kind))

    def of(self, scopes: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """The scopes with outcomes, those with warnings, and those with learnt words. One read a minute at most. Raises
        `StoreUnavailableError`."""
        self._look(scopes)
        return {kind: [scope for scope in scopes if (scope, kind) in self._found] for kind in _KINDS}

    def _look(self, scopes: Sequence[str]) -> None:
        now = self._monotonic()
        unsure = [scope for scope in scopes if self._is_unsure(scope, now)]
        if not unsure:
            return
        keys = [known_key(scope, kind) for scope in unsure for kind in self._missing(scope)]
        self._found.update((known_scope(item), str(item["entry"])) for item in self._table.get_many(keys))
        self._looked.update(dict.fromkeys(unsure, now))

    def _is_unsure(self, scope: str, now: float) -> bool:
        looked = self._looked.get(scope)
        stale = looked is None or now - looked >= LOOKED_AGAIN_SECONDS
        return stale and any(True for _ in self._missing(scope))

    def _missing(self, scope: str) -> Iterable[str]:
        return (kind for kind in _KINDS if (scope, kind) not in self._found)
