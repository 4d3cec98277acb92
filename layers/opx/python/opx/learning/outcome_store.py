"""Stores outcomes and their counts per document and tenant scope. None is lost or counted twice, whenever a writer dies.

The counts of a document are one item, which also holds the outcome that was counted last; that outcome's own item is
written after it. The next writer first writes the own item of the last outcome, so that it exists before the counts drop
it. An outcome is counted if and only if it is the last one or has an item of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from opx.domain.outcomes import Counted, DocumentOutcomes, RecordedOutcome, Tally
from opx.domain.record import replace
from opx.errors import StoreUnavailableError
from opx.ports import AnyOf, Clock, Equals, Item, KeyAbsent, LessThan, Table
from opx.ports.tables import put_if, readable

log = logging.getLogger(__name__)

MAX_SECTIONS = 50
"""Sections of a document with counts of their own; outcomes of others count for the document alone."""

KEPT_DAYS = 3 * 365
"""Days for which single outcomes are kept; the counts stay."""

_ATTEMPTS = 100
"""Each failed attempt means that another writer succeeded."""

_DAY_SECONDS = 86_400


class DocumentStanding(Struct, frozen=True):
    """Outcome counts of a document, how an outcome was counted, and the outcome that counts: the one recorded first under
    the same id, if it had the same result."""

    known: DocumentOutcomes
    counted: Counted
    outcome: RecordedOutcome


class OutcomeStore:
    """The only writer of counts and outcomes."""

    def __init__(self, table: Table, known: KnownScopes, clock: Clock) -> None:
        self._table = table
        self._known = known
        self._clock = clock

    def count(self, scope_key: str, key_id: str, outcome: RecordedOutcome, title: str) -> DocumentStanding:
        """Counts an outcome of the document with this key. Idempotent; another result replaces the first. Raises
        `StoreUnavailableError`."""
        self._known.note(scope_key, OUTCOMES)  # first: readers skip scopes that aren't noted
        for _ in range(_ATTEMPTS):
            item = self._table.get(head_key(scope_key, key_id))
            before = self._before(scope_key, key_id, outcome.outcome_id, item)
            known = (
                DocumentOutcomes.from_json(item)
                if item
                else DocumentOutcomes(outcome.document_id, outcome.version, title)
            )
            if before is not None and before.result is outcome.result:
                return DocumentStanding(known, Counted.KNOWN, before)
            changed = counted(known, outcome, before, title)
            revision = int(item["revision"]) if item else 0
            head = head_item(scope_key, key_id, changed, outcome, revision + 1)
            if put_if(self._table, head, Equals("revision", revision) if item else KeyAbsent()):
                self._write(scope_key, key_id, outcome, revision + 1)
                return DocumentStanding(changed, Counted.CORRECTED if before else Counted.NEW, outcome)
        raise StoreUnavailableError(
            "the outcome can't be counted: too many outcomes of the document are recorded at once"
        )

    def _before(self, scope_key: str, key_id: str, outcome_id: str, item: Item | None) -> RecordedOutcome | None:
        """The outcome recorded before under this id, after the last outcome got an item of its own."""
        if item:
            self._write(scope_key, key_id, RecordedOutcome.from_json(item["last"]), int(item["revision"]))
        found = self._table.get(outcome_key(scope_key, key_id, outcome_id))
        return RecordedOutcome.from_json(found) if found else None

    def _write(self, scope_key: str, key_id: str, outcome: RecordedOutcome, revision: int) -> None:
        """Writes the own item of the outcome that was counted with this revision, unless a later revision wrote it."""
        expires_at = int(self._clock()) + KEPT_DAYS * _DAY_SECONDS
        item = outcome_item(scope_key, key_id, outcome, revision, expires_at)
        put_if(self._table, item, AnyOf((KeyAbsent(), LessThan("revision", revision))))

    def heads(self, scopes: Sequence[str], key_ids: Iterable[str]) -> list[tuple[str, str, DocumentOutcomes]]:
        """Scope, key id and outcome counts of those documents that have any."""
        keys = [head_key(scope, key_id) for key_id in key_ids for scope in scopes]
        return list(readable(read_head, self._table.get_many(keys))) if keys else []

    def outcomes(self, scope_key: str, key_id: str) -> Iterator[RecordedOutcome]:
        """Single outcomes of a document, in no particular order."""
        return readable(RecordedOutcome.from_json, self._table.query(outcome_partition(scope_key, key_id)))


def read_head(item: Item) -> tuple[str, str, DocumentOutcomes]:
    """Scope, key id and outcome counts of an item."""
    return head_scope(item), str(item["entry"]), DocumentOutcomes.from_json(item)


def counted(
    known: DocumentOutcomes, outcome: RecordedOutcome, before: RecordedOutcome | None, title: str
) -> DocumentOutcomes:
    """Outcome counts with `outcome` added, which replaces `before`. The first outcome of a later version moves the counts so
    far to earlier versions."""
    if outcome.document_id != known.document_id and outcome.version >= known.version:
        known = replace(known.seen_from(outcome.document_id), version=outcome.version, title=title)
    now = outcome.document_id == known.document_id
    tally, sections = known.tally, dict(known.sections)
    if before is not None:
        tally = _without(tally, before)
        if before.section in sections:
            sections[before.section] = _without(sections[before.section], before)
    if outcome.section and _has_room(sections, outcome.section):
        sections[outcome.section] = sections.get(outcome.section, Tally()).moved(outcome.result, 1, now=now)
    tally = tally.moved(outcome.result, 1, now=now)
    at = max(known.updated_at, outcome.at)
    return replace(known, now=tally.now, earlier=tally.earlier, sections=sections, updated_at=at)


def _without(tally: Tally, before: RecordedOutcome) -> Tally:
    """The tally without an outcome, subtracted where it is counted now."""
    return tally.moved(before.result, -1, now=getattr(tally.now, before.result.value) > 0)


def _has_room(sections: Mapping[str, Tally], name: str) -> bool:
    if name in sections or len(sections) < MAX_SECTIONS:
        return True
    log.warning("a document has outcomes of %d sections: those of more count for the document alone", MAX_SECTIONS)
    return False


# -- items of the table of outcomes


# Every partition key names its scope:
#
# `scores#<scope>` has an item for each document with counts, by the id of its key; the partition `_OUTCOMES` of scope and
# key id one for each outcome of the document; `warnings#<scope>` one for each captured warning of a step; `resolved#<scope>`
# one for each outcome that words were learnt from; `known#<scope>` one for each kind of these items that exists, so that
# queries in scopes without any needn't look.

OUTCOMES, WARNINGS, LEARNT = "outcomes", "warnings", "learnt"
"""Kinds of items that a scope may have."""

_HEADS, _OUTCOMES, _WARNED, _RESOLVED, _KNOWN = "scores#", "told#", "warnings#", "resolved#", "known#"


def head_key(scope_key: str, key_id: str) -> dict[str, str]:
    """Key of a document's outcome counts."""
    return {"place": _HEADS + scope_key, "entry": key_id}


def outcome_key(scope_key: str, key_id: str, outcome_id: str) -> dict[str, str]:
    return {"place": outcome_partition(scope_key, key_id), "entry": outcome_id}


def outcome_partition(scope_key: str, key_id: str) -> str:
    return f"{_OUTCOMES}{scope_key}#{key_id}"


def warned_partition(scope_key: str) -> str:
    return _WARNED + scope_key


def resolved_key(scope_key: str, outcome_id: str) -> dict[str, str]:
    return {"place": resolved_partition(scope_key), "entry": outcome_id}


def resolved_partition(scope_key: str) -> str:
    return _RESOLVED + scope_key


def known_key(scope_key: str, kind: str) -> dict[str, str]:
    return {"place": _KNOWN + scope_key, "entry": kind}


def known_scope(item: Item) -> str:
    """Scope of an item with a `known_key`."""
    return str(item["place"]).removeprefix(_KNOWN)


def head_scope(item: Item) -> str:
    """Scope of an item with a `head_key`."""
    return str(item["place"]).removeprefix(_HEADS)


def head_item(scope_key: str, key_id: str, head: DocumentOutcomes, last: RecordedOutcome, revision: int) -> Item:
    """Item of a document's counts. `last` is the outcome that this write counts: its own item is written after it."""
    return {
        **head_key(scope_key, key_id),
        **_state(head),
        "last": last.to_json(),
        "revision": revision,
    }


def _state(head: DocumentOutcomes) -> dict[str, Any]:
    facts = head.to_json()
    return {name: facts[name] for name in ("documentId", "version", "title", "now", "earlier", "sections", "updatedAt")}


def outcome_item(scope_key: str, key_id: str, outcome: RecordedOutcome, revision: int, expires_at: int) -> Item:
    """Item of a single outcome. `revision` is that of the counts with it."""
    key = outcome_key(scope_key, key_id, outcome.outcome_id)
    return {**key, **outcome.to_json(), "revision": revision, "expiresAt": expires_at}


def rows_of(table: Table, scope_key: str) -> Iterator[Item]:
    """All items of a scope, page by page; items may be deleted during the iteration."""
    for head in table.query(_HEADS + scope_key):
        yield from table.query(outcome_partition(scope_key, head["entry"]))
        yield head
    yield from table.query(warned_partition(scope_key))
    yield from table.query(resolved_partition(scope_key))
    yield from table.query(_KNOWN + scope_key)


LOOKED_AGAIN_SECONDS = 60.0
"""Interval at which a process checks if another one has written the first outcome, warning or learnt words of a scope."""

KINDS = (OUTCOMES, WARNINGS, LEARNT)


class KnownScopes:
    """Caches the kinds of items that scopes have: existing ones for good, missing ones for `LOOKED_AGAIN_SECONDS`."""

    def __init__(self, table: Table, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._table = table
        self._monotonic = monotonic
        self._found: set[tuple[str, str]] = set()
        self._looked: dict[str, float] = {}

    def note(self, scope_key: str, kind: str, mark: str = "") -> None:
        """Records that a scope has items of a kind; a new `mark` makes readers read them again."""
        if mark or (scope_key, kind) not in self._found:
            self._table.put({**known_key(scope_key, kind), "mark": mark})
            self._found.add((scope_key, kind))

    def of(self, scopes: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Scopes with outcomes, with warnings and with learnt words, by kind. One read a minute at most. Raises
        `StoreUnavailableError`."""
        self._look(scopes)
        return {kind: [scope for scope in scopes if (scope, kind) in self._found] for kind in KINDS}

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
        return (kind for kind in KINDS if (scope, kind) not in self._found)
