"""Finds expired versions: keeps the cursor of pruning and the known policies, and judges entries of the calendar.

The calendar only names candidates. The verdict depends on the version itself, today's policy and legal holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument, expiry_day, expiry_of
from opx.domain.ids import batched, day_number, day_text
from opx.domain.knowledge import PATTERNS_CATEGORY, KnowledgeModel, is_shorter_policy
from opx.domain.record import replace
from opx.ingestion.corpus.calendar import Calendar, CalendarEntry
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.corpus.uses import UseLog
from opx.lifecycle.report import PruneRun
from opx.lifecycle.retention.holds import Hold, covering
from opx.ports import Table

if TYPE_CHECKING:
    from opx.learning.patterns import PatternStore


AT_ONCE = 200
"""Versions that are judged and removed from the index in one batch."""

OVERLAP_DAYS = 2
"""Days before the cursor that are read again: a writer whose clock is behind may have added entries for them."""

GRACE_DAYS = 1
"""Days between expiry and removal, so that a clock that is an hour ahead removes nothing that is still valid."""

FIRST_DAYS = 400
"""Days that a dry run looks back if there was no earlier run."""

_SUBJECT, _CURSOR = "retention", "cursor"


class DueVerdict(Enum):
    """Verdict on an entry of the calendar."""

    GONE = "gone"
    """The version no longer exists."""
    LATER = "later"
    """By today's policy, or its own present expiry, the version expires later or never."""
    HELD = "held"
    DUE = "due"


@dataclass(frozen=True, slots=True)
class DueVersion:
    """An entry of the calendar with its version and the verdict. `leaving`: its removal has begun. `used_until`: the day
    until which its last use keeps it, where that is later than its entry."""

    entry: CalendarEntry
    verdict: DueVerdict
    document: KnowledgeDocument | None = None
    hold: Hold | None = None
    leaving: bool = False
    used_until: str = ""


class RetentionState:
    """Stores the cursor of past runs, the day up to which nothing is left, and each category's retention known to them."""

    def __init__(self, table: Table, knowledge: KnowledgeModel) -> None:
        self._table = table
        self._knowledge = knowledge

    def cursor(self) -> tuple[str, str]:
        """The first day that may have entries left, and the time of the run that recorded it; empty before the first run."""
        item = self._table.get({"subject": _SUBJECT, "entry": _CURSOR}) or {}
        return str(item.get("day", "")), str(item.get("ran", ""))

    def write_cursor(self, day: str, ran: str) -> None:
        self._table.put({"subject": _SUBJECT, "entry": _CURSOR, "day": day, "ran": ran})

    def shortened(self) -> dict[str, str]:
        """Categories whose retention is shorter than in the last run, with the retention then; "" for unknown categories."""
        known = self._known()
        found = {}
        for path, category in sorted(self._knowledge.categories.items()):
            before = known.get(path, "")
            if not before or is_shorter_policy(category.policy, before):
                found[path] = before
        return found

    def changed(self) -> list[str]:
        """Categories whose retention differs from the last run's, or that it didn't know. If retention became longer, the
        expiry of versions is recomputed when their former day has come."""
        known = self._known()
        now = self._knowledge.categories
        return [path for path, category in now.items() if known.get(path) != category.policy]

    def before_and_now(self) -> dict[str, tuple[str, str]]:
        """Each category's retention in the last run (today's, if unknown) and today."""
        known = self._known()
        now = {path: category.policy for path, category in self._knowledge.categories.items()}
        return {path: (known.get(path, text), text) for path, text in sorted(now.items())}

    def note_policy(self, category: str) -> None:
        """Record the category's present retention as known."""
        text = self._knowledge.categories[category].policy
        self._table.put({**self._key(category), "category": category, "retention": text})

    def redated_until(self, category: str) -> tuple[str, str]:
        """Cursor of recomputing the expiry of a category's versions, the last updated first, and the earliest day among
        those done; empty if it has not begun."""
        item = self._table.get(self._key(category)) or {}
        if item.get("redatingFor") != self._knowledge.categories[category].policy:
            return "", ""
        return str(item.get("redatedUntil", "")), str(item.get("earliest", ""))

    def note_redated(self, category: str, before: str, until: str, earliest: str) -> None:
        to = self._knowledge.categories[category].policy
        progress = {"redatingFor": to, "redatedUntil": until, "earliest": earliest}
        self._table.put({**self._key(category), "category": category, "retention": before, **progress})

    def _known(self) -> dict[str, str]:
        items = self._table.query(_SUBJECT)
        return {item["category"]: item["retention"] for item in items if item["entry"] != _CURSOR}

    def _key(self, category: str) -> dict[str, str]:
        return {"subject": _SUBJECT, "entry": f"category#{category}"}


@dataclass(eq=False)
class DueVersions:
    """Finds and judges versions due up to a day, inclusive."""

    catalog: Catalog
    calendar: Calendar
    knowledge: KnowledgeModel
    uses: UseLog
    _: KW_ONLY
    until: str
    holds: Sequence[Hold]

    def entries(self, since: str) -> Iterator[tuple[str, Iterator[CalendarEntry]]]:
        """Entries of each day from `since` on, read page by page. A document that had expired before it was ingested is
        entered for the day of its ingestion, which may be today."""
        first, last = day_number(since), day_number(self.until)
        if first is None or last is None:
            raise ValueError(f"not days: {since!r}, {self.until!r}")
        for day in range(first, last + 1 + GRACE_DAYS):
            text = day_text(day)
            yield text, self.calendar.expiring(text)

    def judged(self, entries: Sequence[CalendarEntry]) -> list[DueVersion]:
        """The verdict on each entry, in order."""
        known = self.catalog.leaving(entries)
        used = self.uses.last_used([document for document, _ in known.values() if document])
        return [self._judge(entry, known.get(entry, (None, False)), used) for entry in entries]

    def hold_on(self, entry: CalendarEntry) -> Hold | None:
        return covering(self.holds, entry.key, entry.category)

    def by_policy(self, category: str) -> Iterator[KnowledgeDocument]:
        """Versions of a category that are due by its retention and not by an expiry of their own, except held ones."""
        days = self.knowledge.categories[category].retention_days
        last = day_number(self.until)
        if days is None or last is None:
            return
        documents = self.catalog.in_category(category, current_only=False, until=day_text(last - days) + "~")
        for batch in batched((one for one in documents if not one.expires), AT_ONCE):
            used = self.uses.last_used(batch)
            for document in batch:
                day = expiry_day(document, self.knowledge, used=used.get(document.key.id, ""))
                if day and day <= self.until and not covering(self.holds, document.key, category):
                    yield document

    def _judge(
        self, entry: CalendarEntry, known: tuple[KnowledgeDocument | None, bool], used: Mapping[str, str]
    ) -> DueVersion:
        document, leaving = known
        if document is None:
            return DueVersion(entry, DueVerdict.GONE)
        day = used.get(document.key.id, "") if document.state is DocumentState.CURRENT else ""
        expires = expiry_day(document, self.knowledge, used=day)
        if not leaving and (not expires or expires > self.until):
            return DueVersion(entry, DueVerdict.LATER, document, used_until=expires if day else "")
        hold = covering(self.holds, document.key, document.category)
        return DueVersion(entry, DueVerdict.HELD if hold else DueVerdict.DUE, document, hold, leaving)


# -- recomputing expiry


_AT_ONCE = 500


@dataclass(eq=False)
class Redating:
    """Recomputes the expiry of versions in categories whose retention became shorter, or was never recorded. If it became
    longer, that is done when the former day has come."""

    catalog: Catalog
    calendar: Calendar
    state: RetentionState
    unit_of_work: Callable[[], AbstractContextManager[Any]]

    def run(self, run: PruneRun, since: str, is_over: Callable[[], bool]) -> str:
        """Recompute, and return the first day to prune. If time `is_over`, it is unfinished and the next run continues."""
        done = []
        for category, before in self.state.shortened().items():
            earliest = self._redated(category, before, run, is_over)
            if run.unfinished:
                break
            since = min(since, earliest or since)
            done.append(category)
        known = done if run.unfinished else self.state.changed()
        if known:
            with self.unit_of_work():
                self.state.write_cursor(since, run.started)
                for category in known:
                    self.state.note_policy(category)
        return since

    def _redated(self, category: str, before: str, run: PruneRun, is_over: Callable[[], bool]) -> str:
        """Recompute a category; returns the earliest day for which one of its versions is entered."""
        until, earliest = self.state.redated_until(category)
        documents = self.catalog.in_category(category, current_only=False, until=until)
        for batch in batched(documents, _AT_ONCE):
            with self.unit_of_work():
                days = [day for day in map(self.calendar.redate, batch) if day]
                earliest = min([*days, *([earliest] if earliest else [])], default="")
                self.state.note_redated(category, before, batch[-1].last_updated, earliest)
            if before:  # else there is nothing to compare with
                run.redated[category] += sum(1 for document in batch if not document.expires)
            if is_over():
                run.unfinished = True
                break
        return earliest


# -- patterns


class PatternKeeper:
    """Looks up the expiry of patterns, and removes patterns together with their documents."""

    def __init__(self, patterns: Callable[[], PatternStore], knowledge: KnowledgeModel) -> None:
        self._patterns = patterns
        self._knowledge = knowledge

    def day_of(self, found: DueVersion, until: str) -> str:
        """Expiry of the pattern of a due document, if later than `until`; "" otherwise and for any other document."""
        document = found.document
        if found.verdict is not DueVerdict.DUE or document is None or document.state is not DocumentState.CURRENT:
            return ""
        pattern_id = self._pattern_id(document.key, document.category)
        head = self._patterns().head(document.key.scope.key, pattern_id) if pattern_id else None
        expires = expiry_of(PATTERNS_CATEGORY, head.embedded_at, self._knowledge) if head else ""
        return expires if expires > until else ""

    def judged(self, due: DueVersions, entries: Sequence[CalendarEntry]) -> Iterator[DueVersion]:
        """The verdict on each entry; a pattern that was used since expires later than its document."""
        for found in due.judged(entries):
            yield replace(found, verdict=DueVerdict.LATER) if self.day_of(found, due.until) else found

    def forget_unless_used(self, found: DueVersion) -> bool:
        """Remove a pattern before its document is removed, as a head without a document would not be found again. False if
        an occurrence was counted meanwhile, so that it stays. True for any other document."""
        document = found.document
        if document is None or document.state is not DocumentState.CURRENT:
            return True
        pattern_id = self._pattern_id(document.key, document.category)
        return not pattern_id or self._patterns().forget(document.key.scope.key, pattern_id)

    def forget(self, key: DocumentKey, category: str) -> None:
        """Remove the counts of a pattern whose document has no versions left."""
        pattern_id = self._pattern_id(key, category)
        if pattern_id:
            self._patterns().forget(key.scope.key, pattern_id)

    def _pattern_id(self, key: DocumentKey, category: str) -> str:
        return self._patterns().pattern_id_of_source(key.source) if category == PATTERNS_CATEGORY else ""
