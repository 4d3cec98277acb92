"""Stores patterns and their counts of success and failure: each entry is counted exactly once, despite crashes and races.

There are no transactions over rows. A head names the entries that its last write counted (`lastBatch`), before each has a
row of its own. So an entry has been counted if it has a row or is named in the head; the next writer first adds the rows
that are missing. A head is read before the rows are, and written with an optimistic lock: a concurrent write makes the
write fail, and all is read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import Any
from uuid import uuid4

from opx.domain.ids import day_number, iso_time
from opx.domain.learning import Pattern, PatternOccurrence
from opx.domain.record import replace
from opx.errors import StoreUnavailableError
from opx.learning.pattern_rows import (
    FRESH_SECONDS,
    MERGED_INTO,
    fresh_in,
    fresh_partition,
    fresh_row,
    head_row,
    heads_partition,
    key_row,
    keys_partition,
    lock_partition,
    occurrence_row,
    occurrences_partition,
    pattern_id_of,
    pattern_in,
)
from opx.ports import Clock, Equals, Item, KeyAbsent, KeyRange, Table
from opx.ports.tables import delete_if, put_if, put_revision, readable

MOST_COUNTED = 50
"""Maximum of entries that one write of a head counts: the head names them all."""

MOST_FRESH = 500

MOST_MERGES = 20
"""Merges of merged patterns that are followed."""

LOCK_SECONDS = 2.0
"""Time after which a lock that one process holds is taken over. It is held for about 30 ms."""

LOCK_POLL_SECONDS = 0.02

MOST_KEPT = 20
"""Latest projects, agent types, task types and evidence ids that a head names. All are in the occurrences."""

REFRESH_DAYS = 30
"""Age at which a confirmed pattern's document is put again, so that it is retained as long as the pattern is in use."""

_ATTEMPTS = 50
"""Each failed attempt means that another writer succeeded."""

PutDocument = Callable[[Pattern], None]


@dataclass(frozen=True, slots=True)
class CountedEntry:
    """The updated pattern, the number of newly counted entries, whether its first document was put, and whether a pattern
    with a document worked again."""

    pattern: Pattern
    entries: int = 0
    is_new: bool = False
    is_confirmed: bool = False


@dataclass(eq=False)
class PatternStore:
    """The only writer of patterns. All partition keys begin with the scope."""

    table: Table
    clock: Clock
    _: KW_ONLY
    unit_of_work: Callable[[], AbstractContextManager[Any]] = nullcontext

    # -- reading

    def head(self, scope_key: str, pattern_id: str) -> Pattern | None:
        """A pattern with its counts, or the one that it was merged into; None if there is none in this scope."""
        row = self._followed(scope_key, pattern_id)
        return pattern_in(row) if row else None

    def heads(self, scope_keys: Sequence[str], ids: Sequence[str]) -> list[Pattern]:
        """The patterns of these ids in these scopes, in one read, in the order of the ids. A merged pattern is
        replaced by the one that it was merged into."""
        keys = [{"place": heads_partition(scope), "entry": one} for one in ids for scope in scope_keys]
        rank = {one: at for at, one in reversed(list(enumerate(ids)))}
        rows = sorted(self.table.get_many(keys) if keys else [], key=lambda row: (rank[row["entry"]], row["place"]))
        followed = (self._followed(row["place"], row["entry"]) if row.get(MERGED_INTO) else row for row in rows)
        found = list(readable(pattern_in, filter(None, followed)))
        return list({(one.scope_key, one.pattern_id): one for one in found}.values())

    def patterns(self, scope_key: str, limit: int | None = None, after: str = "") -> Iterator[Pattern]:
        """A scope's patterns by id, `after` the one of that id."""
        where = KeyRange(low=after + "\0") if after else None
        rows = self.table.query(heads_partition(scope_key), where=where)
        return islice(readable(pattern_in, (row for row in rows if not row.get(MERGED_INTO))), limit)

    def occurrences(self, scope_key: str, pattern_id: str, limit: int | None = None) -> Iterator[PatternOccurrence]:
        """Occurrences of a pattern, ordered by entry id."""
        found = self.table.query(occurrences_partition(scope_key, pattern_id))
        head = self._head(scope_key, pattern_id)
        unwritten = {str(fact["entryId"]): fact for fact in (head or {}).get("lastBatch", ())}
        for row in islice(found, limit):
            unwritten.pop(str(row["entryId"]), None)
            yield PatternOccurrence.from_json(row)
        if limit is None:
            yield from map(PatternOccurrence.from_json, unwritten.values())

    def fresh(self, scope_key: str) -> Iterator[Pattern]:
        """The patterns of the last day, the newest first, as they were when they were new: without counts."""
        return readable(fresh_in, self.table.query(fresh_partition(scope_key), reverse=True, limit=MOST_FRESH))

    @staticmethod
    def pattern_id_of_source(source: str) -> str:
        """Pattern id of a pattern's document; "" for another document."""
        return pattern_id_of(source)

    # -- deciding

    def decided(self, scope_key: str, keys: Sequence[str]) -> dict[str, str]:
        """Pattern ids by key, of the keys that were decided before."""
        wanted = [{"place": keys_partition(scope_key), "entry": key} for key in dict.fromkeys(keys)]
        return {str(row["entry"]): str(row["patternId"]) for row in self.table.get_many(wanted)} if wanted else {}

    def add_fresh(self, pattern: Pattern) -> None:
        """Publishes a pattern that is about to be created, so that concurrent checkpoints compare with it."""
        self.table.put(fresh_row(pattern, self._now(), int(self.clock()) + FRESH_SECONDS))

    @contextmanager
    def creating(self, scope_key: str) -> Iterator[None]:
        """Excludes other processes that are about to create a pattern in the scope, for the time of a few reads and writes.

        A process that died with the lock, or is that slow, loses it after `LOCK_SECONDS`. Then two patterns may be alike;
        counts are right without the lock.
        """
        lock, holder = {"place": lock_partition(scope_key), "entry": "creating"}, uuid4().hex
        self._acquire({**lock, "holder": holder})
        try:
            yield
        finally:
            delete_if(self.table, lock, Equals("holder", holder))  # unless another process has taken it over

    def _acquire(self, wanted: Item) -> None:
        seen, since = "", time.monotonic()
        while True:
            held = self.table.get({"place": wanted["place"], "entry": wanted["entry"]})
            by = str(held["holder"]) if held else ""
            if by != seen:
                seen, since = by, time.monotonic()
            free = not by or time.monotonic() - since >= LOCK_SECONDS
            if free and put_if(self.table, wanted, Equals("holder", by) if by else KeyAbsent()):
                return
            time.sleep(LOCK_POLL_SECONDS)

    def decide(self, scope_key: str, key: str, pattern_id: str) -> str:
        """Assigns a key to this pattern unless it has one; returns the id of the pattern that it belongs to."""
        if put_if(self.table, key_row(scope_key, key, pattern_id), KeyAbsent()):
            return pattern_id
        return self.decided(scope_key, [key]).get(key, pattern_id)

    # -- counting

    def count(self, seed: Pattern, found: Sequence[PatternOccurrence], put_document: PutDocument) -> CountedEntry:
        """Counts entries for a pattern, each exactly once; `seed` is the pattern where there is none yet.

        `put_document` is called before the head is written, if the pattern's document is missing or outdated. Raises
        `StoreUnavailableError`, and any error of `put_document`: then the remaining entries were not counted.
        """
        counted = CountedEntry(seed)
        for start in range(0, max(len(found), 1), MOST_COUNTED):
            step = self._count_some(seed, found[start : start + MOST_COUNTED], put_document)
            counted = CountedEntry(
                step.pattern,
                counted.entries + step.entries,
                counted.is_new or step.is_new,
                counted.is_confirmed or step.is_confirmed,
            )
        return counted

    def _count_some(self, seed: Pattern, found: Sequence[PatternOccurrence], put_document: PutDocument) -> CountedEntry:
        for _ in range(_ATTEMPTS):
            head = self._head(seed.scope_key, seed.pattern_id)
            if head and head.get(MERGED_INTO):
                seed = replace(seed, pattern_id=str(head[MERGED_INTO]))
                continue
            known = pattern_in(head) if head else None
            new = self._uncounted(seed, head or {}, found)
            if not new:
                return CountedEntry(known or seed)
            pattern = advanced(known or seed, new, seed, self._now())
            documented = str((head or {}).get("documentAt", ""))
            needed = pattern.success_count > 0 and not pattern.retired and is_due(documented, known, pattern)
            if needed:
                put_document(pattern)
            if self._written(head, pattern, new, pattern.embedded_at if needed else documented):
                worked = any(one.worked for one in new)
                return CountedEntry(pattern, len(new), needed and not documented, worked and bool(documented))
        raise StoreUnavailableError(f"pattern {seed.pattern_id} can't be changed: too many concurrent writers")

    def _uncounted(self, seed: Pattern, head: Item, found: Sequence[PatternOccurrence]) -> list[PatternOccurrence]:
        """Occurrences that were not counted yet. Writes the missing rows of the last batch."""
        last = {str(fact["entryId"]): fact for fact in head.get("lastBatch", ())}
        partition = occurrences_partition(seed.scope_key, seed.pattern_id)
        ids = dict.fromkeys([*last, *(one.entry_id for one in found)])
        rows = self.table.get_many([{"place": partition, "entry": one} for one in ids])
        written = {str(row["entry"]) for row in rows}
        missing = [fact for one, fact in last.items() if one not in written]
        if missing:
            self.table.put_many(occurrence_row(seed.scope_key, seed.pattern_id, fact) for fact in missing)
        each = {one.entry_id: one for one in found}
        return [one for name, one in each.items() if name not in written and name not in last]

    def _written(self, head: Item | None, pattern: Pattern, new: Sequence[PatternOccurrence], documented: str) -> bool:
        """Writes the head, then the rows of the entries it counts; False if the head was changed since it was read."""
        facts = [one.to_json() for one in new]
        row = {**head_row(pattern), "lastBatch": facts, "documentAt": documented}
        with self.unit_of_work():
            if not put_revision(self.table, row, head):
                return False
            self.table.put_many(occurrence_row(pattern.scope_key, pattern.pattern_id, fact) for fact in facts)
        return True

    # -- retiring

    def retire(self, scope_key: str, pattern_id: str, because: str) -> Pattern | None:
        """Sets the reason why a pattern is not used any more, "" for one that is used again. Its entries are counted on. None
        for an unknown pattern. Raises `StoreUnavailableError` if others write all the time."""
        for _ in range(_ATTEMPTS):
            row = self._followed(scope_key, pattern_id)
            if row is None:
                return None
            changed = {**row, "retired": because}
            if put_revision(self.table, changed, row):
                return pattern_in(changed)
        raise StoreUnavailableError(f"pattern {pattern_id} can't be changed: too many concurrent writers")

    # -- removing

    def forget(self, scope_key: str, pattern_id: str) -> bool:
        """Deletes a pattern with its occurrences and keys, also those that an interrupted removal left. False if the head was
        changed meanwhile: then it stays."""
        head = self._head(scope_key, pattern_id) or {}
        rows = self.table.query(occurrences_partition(scope_key, pattern_id))
        facts = {str(fact["entryId"]): fact for fact in (*rows, *head.get("lastBatch", ()))}.values()
        if head and not delete_if(self.table, _key_of(head), Equals("revision", head["revision"])):
            return False
        for key in dict.fromkeys(str(fact["key"]) for fact in facts):
            self._forget_key(scope_key, key, pattern_id)
        for fact in facts:
            self.table.delete(_key_of(occurrence_row(scope_key, pattern_id, fact)))
        return True

    def _forget_key(self, scope_key: str, key: str, pattern_id: str) -> None:
        where = {"place": keys_partition(scope_key), "entry": key}
        delete_if(self.table, where, Equals("patternId", pattern_id))  # unless it belongs to another pattern

    def _followed(self, scope_key: str, pattern_id: str) -> Item | None:
        """The head of a pattern, or of the one that it was merged into."""
        row = self._head(scope_key, pattern_id)
        for _ in range(MOST_MERGES):
            if row is None or not row.get(MERGED_INTO):
                return row
            row = self._head(scope_key, str(row[MERGED_INTO]))
        return None

    def _head(self, scope_key: str, pattern_id: str) -> Item | None:
        return self.table.get({"place": heads_partition(scope_key), "entry": pattern_id})

    def _now(self) -> str:
        return iso_time(self.clock())


def _key_of(row: Item) -> dict[str, str]:
    return {"place": str(row["place"]), "entry": str(row["entry"])}


def advanced(known: Pattern, new: Sequence[PatternOccurrence], seed: Pattern, now: str) -> Pattern:
    """Applies newly counted occurrences to a pattern; their agents, tasks and error message are those of `seed`."""
    worked = sum(one.worked for one in new)
    return replace(
        known,
        error_message=known.error_message or seed.error_message,
        agent_types=_latest(known.agent_types, seed.agent_types),
        task_types=_latest(known.task_types, seed.task_types),
        technologies=tuple(dict.fromkeys((*known.technologies, *seed.technologies)))[:MOST_KEPT],
        success_count=known.success_count + worked,
        failure_count=known.failure_count + len(new) - worked,
        embedded_at=max(now, known.embedded_at),
        first_seen=min(filter(None, (known.first_seen, *(one.at for one in new)))),
        projects=_latest(known.projects, [one.project_id for one in new]),
        evidence=_latest(known.evidence, [one.entry_id for one in new]),
    )


def _latest(known: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """The last `MOST_KEPT` distinct values, the newest last."""
    fresh = tuple(dict.fromkeys(one for one in new if one))
    return (*(one for one in known if one not in fresh), *fresh)[-MOST_KEPT:]


def is_due(documented: str, known: Pattern | None, pattern: Pattern) -> bool:
    """True if the pattern's document has to be put: for the first time, with new tags, or to refresh its age."""
    if not documented or known is None:
        return True
    if _tags(known) != _tags(pattern):
        return True
    now, then = day_number(pattern.embedded_at), day_number(documented)
    return now is None or then is None or now - then > REFRESH_DAYS


def _tags(pattern: Pattern) -> frozenset[str]:
    return frozenset((*pattern.agent_types, *pattern.task_types, *pattern.technologies))
