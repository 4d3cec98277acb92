"""Stores outcomes and their counts per document and tenant scope. None is lost or counted twice, whenever a writer dies.

The counts of a document are one item, which also holds the outcome that was counted last; that outcome's own item is
written after it. Who writes next writes the own item of the last one first, so that it is there before the counts forget
it. An outcome is counted if it is the last one or has an item of its own: nothing else decides.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from opx.domain.outcomes import Counted, DocumentOutcomes, RecordedOutcome, Tally
from opx.domain.record import replace
from opx.errors import ConditionFailedError, StoreUnavailableError
from opx.ports import AnyOf, Clock, Equals, Item, KeyAbsent, LessThan, Table

log = logging.getLogger(__name__)

MAX_SECTIONS = 50
"""Of a document that have counts of their own; outcomes of others count for the document alone."""

KEPT_DAYS = 3 * 365
"""For which outcomes are kept one by one; the counts stay."""

_ATTEMPTS = 100
"""Each failed one means that another writer got through."""

_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class DocumentStanding:
    """What is known of a document, what became of an outcome, and the outcome that counts: the first one that was told
    of the same, if it had the same result."""

    known: DocumentOutcomes
    counted: Counted
    told: RecordedOutcome


class OutcomeStore:
    """The only writer of counts and outcomes."""

    def __init__(self, table: Table, known: KnownScopes, clock: Clock) -> None:
        self._table = table
        self._known = known
        self._clock = clock

    def count(self, scope_key: str, key_id: str, told: RecordedOutcome, title: str) -> DocumentStanding:
        """Count an outcome of the document with this key. Doing it again changes nothing; with another result, that
        counts in place of the first. Raises `StoreUnavailableError`."""
        self._known.note(scope_key, OUTCOMES)  # first: counts that nobody looks for would be lost
        for _ in range(_ATTEMPTS):
            item = self._table.get(head_key(scope_key, key_id))
            before = self._before(scope_key, key_id, told.outcome_id, item)
            known = (
                DocumentOutcomes.from_json(item) if item else DocumentOutcomes(told.document_id, told.version, title)
            )
            if before is not None and before.result is told.result:
                return DocumentStanding(known, Counted.KNOWN, before)
            changed = counted(known, told, before, title)
            revision = int(item["revision"]) if item else 0
            try:
                self._table.put(
                    head_item(scope_key, key_id, changed, told, revision + 1),
                    condition=Equals("revision", revision) if item else KeyAbsent(),
                )
            except ConditionFailedError:
                continue
            self._write(scope_key, key_id, told, revision + 1)
            return DocumentStanding(changed, Counted.CORRECTED if before else Counted.NEW, told)
        raise StoreUnavailableError("the outcome can't be counted: too many others are told of the document at once")

    def _before(self, scope_key: str, key_id: str, outcome_id: str, item: Item | None) -> RecordedOutcome | None:
        """What was told of the same before, once the last outcome has an item of its own."""
        if item:
            self._write(scope_key, key_id, RecordedOutcome.from_json(item["last"]), int(item["revision"]))
        found = self._table.get(told_key(scope_key, key_id, outcome_id))
        return RecordedOutcome.from_json(found) if found else None

    def _write(self, scope_key: str, key_id: str, told: RecordedOutcome, revision: int) -> None:
        """Write the own item of the outcome that was counted with this revision; a slow writer's comes too late."""
        expires_at = int(self._clock()) + KEPT_DAYS * _DAY_SECONDS
        item = told_item(scope_key, key_id, told, revision, expires_at)
        with suppress(ConditionFailedError):
            self._table.put(item, condition=AnyOf((KeyAbsent(), LessThan("revision", revision))))

    def heads(self, scopes: Sequence[str], key_ids: Iterable[str]) -> list[tuple[str, str, DocumentOutcomes]]:
        """Scope, key id and what is known there, of those of which anything is."""
        keys = [head_key(scope, key_id) for key_id in key_ids for scope in scopes]
        return [read_head(item) for item in self._table.get_many(keys)] if keys else []

    def told(self, scope_key: str, key_id: str) -> Iterator[RecordedOutcome]:
        """The outcomes of a document one by one, in no particular order."""
        return map(RecordedOutcome.from_json, self._table.query(told_partition(scope_key, key_id)))


def read_head(item: Item) -> tuple[str, str, DocumentOutcomes]:
    """Scope, key id and what is known, of an item with counts."""
    return head_scope(item), str(item["entry"]), DocumentOutcomes.from_json(item)


def counted(
    known: DocumentOutcomes, told: RecordedOutcome, before: RecordedOutcome | None, title: str
) -> DocumentOutcomes:
    """What is known with `told`, in place of what was told `before` of the same. The first outcome of a later version has
    all others be of earlier ones."""
    if told.document_id != known.document_id and told.version >= known.version:
        known = replace(known.seen_from(told.document_id), version=told.version, title=title)
    now = told.document_id == known.document_id
    tally, sections = known.tally, dict(known.sections)
    if before is not None:
        tally = _without(tally, before)
        if before.section in sections:
            sections[before.section] = _without(sections[before.section], before)
    if told.section and _has_room(sections, told.section):
        sections[told.section] = sections.get(told.section, Tally()).moved(told.result, 1, now=now)
    tally = tally.moved(told.result, 1, now=now)
    at = max(known.updated_at, told.at)
    return replace(known, now=tally.now, earlier=tally.earlier, sections=sections, updated_at=at)


def _without(tally: Tally, before: RecordedOutcome) -> Tally:
    """Taken from where it is counted by now."""
    return tally.moved(before.result, -1, now=getattr(tally.now, before.result.value) > 0)


def _has_room(sections: Mapping[str, Tally], name: str) -> bool:
    if name in sections or len(sections) < MAX_SECTIONS:
        return True
    log.warning("a document has outcomes of %d sections: those of more count for the document alone", MAX_SECTIONS)
    return False


# -- outcome rows


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
