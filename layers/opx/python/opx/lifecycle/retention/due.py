"""What is past its retention: how far pruning has come, which policies it knows, and what of today's calendar holds.

The calendar only says where to look. What is to go is judged by the version itself, by the policy of today and by holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument, expiry_day, expiry_of
from opx.domain.ids import day_number, day_text
from opx.domain.knowledge import PATTERNS_CATEGORY, KnowledgeModel, retention_days
from opx.domain.record import replace
from opx.ingestion.corpus.calendar import Calendar, CalendarEntry
from opx.ingestion.corpus.catalog import Catalog
from opx.lifecycle.report import PruneRun
from opx.lifecycle.retention.holds import Hold, covering
from opx.ports import Table

if TYPE_CHECKING:
    from opx.learning.patterns import PatternStore


AT_ONCE = 200
"""Versions that are judged, and leave the index, together."""

OVERLAP_DAYS = 2
"""Days that are looked at again: who entered something for them may have had a clock that was behind."""

GRACE_DAYS = 1
"""What expired on a day is removed on the next one: a clock that is an hour ahead removes nothing that is still valid."""

FIRST_DAYS = 400
"""How far a dry run looks back where no run was before."""

_SUBJECT, _CURSOR = "retention", "cursor"
T = TypeVar("T")


class DueVerdict(Enum):
    """What is to become of an entry of the calendar."""

    GONE = "gone"
    """There is no such version any more."""
    LATER = "later"
    """By today's policy, or as it says itself by now, it expires later or never."""
    HELD = "held"
    DUE = "due"


@dataclass(frozen=True, slots=True)
class DueVersion:
    """An entry of the calendar with its version and what is to become of it. `leaving`: its removal has begun."""

    entry: CalendarEntry
    verdict: DueVerdict
    document: KnowledgeDocument | None = None
    hold: Hold | None = None
    leaving: bool = False


class RetentionState:
    """What past runs have noted: up to which day nothing is left, and the retention of each category as they knew it."""

    def __init__(self, table: Table, knowledge: KnowledgeModel) -> None:
        self._table = table
        self._knowledge = knowledge

    def cursor(self) -> tuple[str, str]:
        """The first day that may have something left, and when that was noted; empty before the first run."""
        item = self._table.get({"subject": _SUBJECT, "entry": _CURSOR}) or {}
        return str(item.get("day", "")), str(item.get("ran", ""))

    def note_cursor(self, day: str, ran: str) -> None:
        self._table.put({"subject": _SUBJECT, "entry": _CURSOR, "day": day, "ran": ran})

    def shortened(self) -> dict[str, str]:
        """Categories that keep documents for less than the last run knew, with what it knew; "" for those it didn't."""
        known = self._known()
        changed = {path: known.get(path, "") for path in sorted(self._knowledge.categories)}
        return {path: before for path, before in changed.items() if self._is_shorter(path, before)}

    def changed(self) -> list[str]:
        """Categories whose retention is another than the last run knew, or that it didn't know. Versions of those that keep
        them for longer by now are entered anew when their former day has come."""
        known = self._known()
        now = self._knowledge.categories
        return [path for path, category in now.items() if known.get(path) != category.retention]

    def before_and_now(self) -> dict[str, tuple[str, str]]:
        """Each category's retention as the last run knew it (as it is, where it didn't) and as it is."""
        known = self._known()
        now = {path: category.retention for path, category in self._knowledge.categories.items()}
        return {path: (known.get(path, text), text) for path, text in sorted(now.items())}

    def note_policy(self, category: str) -> None:
        """From now on the category's retention is known as it is."""
        text = self._knowledge.categories[category].retention
        self._table.put({**self._key(category), "category": category, "retention": text})

    def redated_until(self, category: str) -> tuple[str, str]:
        """How far the entering anew of a category's versions for its retention of now has come, the last updated first,
        and the earliest day that any has; empty if it has not begun."""
        item = self._table.get(self._key(category)) or {}
        if item.get("redatingFor") != self._knowledge.categories[category].retention:
            return "", ""
        return str(item.get("redatedUntil", "")), str(item.get("earliest", ""))

    def note_redated(self, category: str, before: str, until: str, earliest: str) -> None:
        to = self._knowledge.categories[category].retention
        progress = {"redatingFor": to, "redatedUntil": until, "earliest": earliest}
        self._table.put({**self._key(category), "category": category, "retention": before, **progress})

    def _known(self) -> dict[str, str]:
        items = self._table.query(_SUBJECT)
        return {item["category"]: item["retention"] for item in items if item["entry"] != _CURSOR}

    def _key(self, category: str) -> dict[str, str]:
        return {"subject": _SUBJECT, "entry": f"category#{category}"}

    def _is_shorter(self, category: str, before: str) -> bool:
        now = self._knowledge.categories[category].retention_days
        if not before:
            return True
        former = retention_days(before)
        return now is not None and (former is None or now < former)


class DueVersions:
    """Finds what is due up to a day, that one included, and judges it."""

    def __init__(
        self, catalog: Catalog, calendar: Calendar, knowledge: KnowledgeModel, *, until: str, holds: Sequence[Hold]
    ) -> None:
        self._catalog = catalog
        self._calendar = calendar
        self._knowledge = knowledge
        self._holds = holds
        self.until = until

    def entries(self, since: str) -> Iterator[tuple[str, Iterator[CalendarEntry]]]:
        """Each day from `since` on with what is entered for it, read page by page. What had expired before it came is
        entered for the day on which it came, and that may be today."""
        first, last = day_number(since), day_number(self.until)
        if first is None or last is None:
            raise ValueError(f"not days: {since!r}, {self.until!r}")
        for day in range(first, last + 1 + GRACE_DAYS):
            text = day_text(day)
            yield text, self._calendar.expiring(text)

    def judged(self, entries: Sequence[CalendarEntry]) -> list[DueVersion]:
        """What is to become of each, in order."""
        known = self._catalog.leaving(entries)
        return [self._judge(entry, *known.get(entry, (None, False))) for entry in entries]

    def hold_on(self, entry: CalendarEntry) -> Hold | None:
        return covering(self._holds, entry.key, entry.category)

    def by_policy(self, category: str) -> Iterator[KnowledgeDocument]:
        """Versions of a category that are due by its retention, and not by a day of their own; but for those held."""
        days = self._knowledge.categories[category].retention_days
        last = day_number(self.until)
        if days is None or last is None:
            return
        for document in self._catalog.in_category(category, current_only=False, until=day_text(last - days) + "~"):
            if not document.expires and not covering(self._holds, document.key, category):
                yield document

    def _judge(self, entry: CalendarEntry, document: KnowledgeDocument | None, leaving: bool) -> DueVersion:
        if document is None:
            return DueVersion(entry, DueVerdict.GONE)
        expires = expiry_day(document, self._knowledge)
        if not leaving and (not expires or expires > self.until):
            return DueVersion(entry, DueVerdict.LATER, document)
        hold = covering(self._holds, document.key, document.category)
        return DueVersion(entry, DueVerdict.HELD if hold else DueVerdict.DUE, document, hold, leaving)


def batches(items: Iterator[T], size: int = 0) -> Iterator[list[T]]:
    """The items, so many at a time; `AT_ONCE` if it isn't said."""
    while batch := list(islice(items, size or AT_ONCE)):
        yield batch


# -- redating


_AT_ONCE = 500


class Redating:
    """Enters the versions of categories for other days whose retention became shorter, or was never noted. Those that are
    kept for longer by now are entered anew when their former day has come."""

    def __init__(
        self,
        catalog: Catalog,
        calendar: Calendar,
        state: RetentionState,
        unit_of_work: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._catalog = catalog
        self._calendar = calendar
        self._state = state
        self._unit_of_work = unit_of_work

    def run(self, run: PruneRun, since: str, is_over: Callable[[], bool]) -> str:
        """The first day to look at then. If the time `is_over`, the report is unfinished, and the next run goes on."""
        done = []
        for category, before in self._state.shortened().items():
            earliest = self._redated(category, before, run, is_over)
            if run.unfinished:
                break
            since = min(since, earliest or since)
            done.append(category)
        noted = done if run.unfinished else self._state.changed()
        if noted:
            with self._unit_of_work():
                self._state.note_cursor(since, run.started)
                for category in noted:
                    self._state.note_policy(category)
        return since

    def _redated(self, category: str, before: str, run: PruneRun, is_over: Callable[[], bool]) -> str:
        """The earliest day for which a version of the category is entered."""
        until, earliest = self._state.redated_until(category)
        documents = self._catalog.in_category(category, current_only=False, until=until)
        for batch in batches(documents, _AT_ONCE):
            with self._unit_of_work():
                days = [day for day in map(self._calendar.redate, batch) if day]
                earliest = min([*days, *([earliest] if earliest else [])], default="")
                self._state.note_redated(category, before, batch[-1].last_updated, earliest)
            if before:  # else there is nothing to compare with
                run.redated[category] += sum(1 for document in batch if not document.expires)
            if is_over():
                run.unfinished = True
                break
        return earliest


# -- patterns


class PatternKeeper:
    """Knows when patterns expire, and has them forgotten with their documents."""

    def __init__(self, patterns: Callable[[], PatternStore], knowledge: KnowledgeModel) -> None:
        self._patterns = patterns
        self._knowledge = knowledge

    def day_of(self, found: DueVersion, until: str) -> str:
        """The day on which a pattern expires whose document is due; "" if that is up to `until`, and for any other."""
        document = found.document
        if found.verdict is not DueVerdict.DUE or document is None or document.state is not DocumentState.CURRENT:
            return ""
        pattern_id = self._pattern_id(document.key, document.category)
        head = self._patterns().head(document.key.scope.key, pattern_id) if pattern_id else None
        expires = expiry_of(PATTERNS_CATEGORY, head.embedded_at, self._knowledge) if head else ""
        return expires if expires > until else ""

    def judged(self, due: DueVersions, entries: Sequence[CalendarEntry]) -> Iterator[DueVersion]:
        """What is to become of each entry, with what is known of patterns."""
        for found in due.judged(entries):
            yield replace(found, verdict=DueVerdict.LATER) if self.day_of(found, due.until) else found

    def let_go(self, found: DueVersion) -> bool:
        """Forget the pattern whose document is to be removed, before it is: a head without one would not be found again.
        False if it was counted for meanwhile, and stays. True for any other document."""
        document = found.document
        if document is None or document.state is not DocumentState.CURRENT:
            return True
        pattern_id = self._pattern_id(document.key, document.category)
        return not pattern_id or self._patterns().forget(document.key.scope.key, pattern_id)

    def forget(self, key: DocumentKey, category: str) -> None:
        """Remove the counts of a pattern of whose document nothing is left."""
        pattern_id = self._pattern_id(key, category)
        if pattern_id:
            self._patterns().forget(key.scope.key, pattern_id)

    def _pattern_id(self, key: DocumentKey, category: str) -> str:
        return self._patterns().pattern_id_of_source(key.source) if category == PATTERNS_CATEGORY else ""
