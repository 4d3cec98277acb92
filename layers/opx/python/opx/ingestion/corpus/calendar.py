"""Calendar of documents: expiry, review and replacement of versions, indexed by day.

The rows are an index, and the catalog is authoritative: a row that disagrees with its version is out of date. Entries of a
day are listed by scope, too (`days#<scope>`), so that they are found whatever the policy was when they were written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from opx.domain.documents import DocumentKey, KnowledgeDocument, expiry_day
from opx.domain.ids import day_text
from opx.domain.knowledge import KnowledgeModel
from opx.domain.scopes import scope_of_key
from opx.ports import Clock, Item, KeyRange, Table

_VERSION_DIGITS = 8


class CalendarEntry(Struct, frozen=True):
    """A version of a document, and the day or time (ISO 8601) of its entry."""

    key: DocumentKey
    document_id: str
    version: int
    category: str
    at: str


class Calendar:
    """Reads and writes the rows of the calendar. Writes are idempotent."""

    def __init__(self, table: Table, knowledge: KnowledgeModel, clock: Clock) -> None:
        self._table = table
        self._knowledge = knowledge
        self._clock = clock

    def enter(self, document: KnowledgeDocument, known: KnowledgeDocument | None = None) -> None:
        """Enters a version, replacing the entries of the `known` state. An expired version is entered for today: earlier days
        may have been pruned for the last time."""
        new = {(row["place"], row["entry"]): row for row in self._days(document, self._today)}
        self._table.put_many(new.values())
        if known:
            self._remove(row for row in self._days(known) if (row["place"], row["entry"]) not in new)

    def replaced(self, document: KnowledgeDocument) -> None:
        """Enters a superseded or deleted version by its `superseded_at`, and removes it from reviews."""
        self._table.put(_replaced_row(document))
        self._remove(row for row in self._days(document) if row["place"].startswith("review#"))

    def forget(self, document: KnowledgeDocument) -> None:
        """Removes all entries of a version, out-of-date ones included."""
        self._remove(self._days(document))
        listed = self._table.query(
            days_partition(document.key.scope.key), where=KeyRange(begins_with=f"{_name(document)}#")
        )
        self._remove(row for one in list(listed) for row in _both(one))
        if document.superseded_at:
            entry = f"{document.superseded_at}#{_name(document)}"
            self._table.delete({"place": replaced_partition(document.key.scope.key), "entry": entry})

    def drop(self, entry: CalendarEntry) -> None:
        """Removes an out-of-date expiry entry; the row by which the day finds it is deleted last."""
        listed = {"place": days_partition(entry.key.scope.key), "entry": f"{_name(entry)}#{entry.at}"}
        self._table.delete(listed)
        self._table.delete({"place": f"expiry#{entry.at}", "entry": _name(entry)})

    def leave(self, document: KnowledgeDocument) -> None:
        """Removes the entries of a version, but for its expiry: by that pruning finds the version until it is gone."""
        review = (row for row in self._days(document) if row["place"].startswith("review#"))
        self._remove([*review, *([_replaced_row(document)] if document.superseded_at else ())])

    def day_of(self, document: KnowledgeDocument) -> str:
        """The day under which the expiry of a version is entered; "" for none."""
        expires = expiry_day(document, self._knowledge)
        return _entered_for(document, expires) if expires else ""

    def redate(self, document: KnowledgeDocument) -> str:
        """Enters a version under the expiry day of the current policy, replacing all other days, and completes its other
        entries. Returns that day, "" for none."""
        rows = self._expected(document)
        self._table.put_many(rows)
        here = days_partition(document.key.scope.key)
        day = next((str(row["at"]) for row in rows if row["place"] == here), "")
        listed = self._table.query(here, where=KeyRange(begins_with=f"{_name(document)}#"))
        self._remove(row for one in list(listed) if one["at"] != day for row in _both(one))
        return day

    def postpone(self, entry: CalendarEntry, day: str) -> None:
        """Moves the expiry entry of a version to a later day."""
        self._table.put_many(_expiry_rows(entry, day))
        self.drop(entry)

    def lacks(self, document: KnowledgeDocument) -> bool:
        """True if an entry of a version is missing."""
        if not self._misses(self._expected(document)):
            return False
        where = KeyRange(begins_with=f"{_name(document)}#")
        listed = self._table.query(days_partition(document.key.scope.key), where=where, reverse=True, limit=1)
        later = next((str(row["at"]) for row in listed), "")  # it may have been entered after it had expired
        return not later or self._misses(self._expected(document, later))

    def complete(self, document: KnowledgeDocument) -> None:
        """Writes all entries of a version, current or not; under today, if it has expired already."""
        self._table.put_many(self._expected(document, self._today))

    def rows_of(self, scope_key: str) -> Iterator[Item]:
        """All rows of a scope: each before the row by which it is found."""
        for listed in self._table.query(days_partition(scope_key)):
            yield from _both(listed)
        for partition in (review_partition(scope_key), replaced_partition(scope_key)):
            yield from self._table.query(partition)

    def expiring(self, day: str, *, after: CalendarEntry | None = None) -> Iterator[CalendarEntry]:
        """Expiry entries of a day, `after` one of them. Read page by page during the iteration."""
        where = KeyRange(low=_name(after) + "\0") if after else None
        return map(_entry, self._table.query(f"expiry#{day}", where=where))

    def to_review(self, scope_key: str, until: str) -> Iterator[CalendarEntry]:
        """Versions of a scope that are to be reviewed by a day up to `until`, that one included, the earliest first."""
        return map(_entry, self._table.query(review_partition(scope_key), where=KeyRange(high=f"{until}#~")))

    def replaced_since(self, scope_key: str, at: str) -> Iterator[CalendarEntry]:
        """Versions of a scope that were superseded or deleted after a time, in that order."""
        found = self._table.query(replaced_partition(scope_key), where=KeyRange(low=at))
        return (entry for entry in map(_entry, found) if entry.at > at)

    @property
    def _today(self) -> str:
        return day_text(int(self._clock() // 86400))

    def _days(self, document: KnowledgeDocument, earliest: str = "") -> Iterator[Item]:
        """Expiry rows of a version, under `earliest` if that is later, and its review row."""
        if expires := expiry_day(document, self._knowledge):
            yield from _expiry_rows(document, max(_entered_for(document, expires), earliest))
        if document.review_by:
            partition, entry = review_partition(document.key.scope.key), f"{document.review_by}#{_name(document)}"
            yield _row(partition, entry, document, document.review_by)

    def _misses(self, rows: Sequence[Item]) -> bool:
        return len(self._table.get_many([{"place": row["place"], "entry": row["entry"]} for row in rows])) < len(rows)

    def _expected(self, document: KnowledgeDocument, earliest: str = "") -> list[Item]:
        rows = list(self._days(document, earliest))
        if not document.superseded_at:
            return rows
        return [*(row for row in rows if not row["place"].startswith("review#")), _replaced_row(document)]

    def _remove(self, rows: Iterable[Item]) -> None:
        for row in list(rows):
            self._table.delete({"place": row["place"], "entry": row["entry"]})


def _entered_for(document: KnowledgeDocument, expires: str) -> str:
    """The expiry day; the day of ingestion for a version that had expired before."""
    return max(expires, document.current_since[: len("2026-03-31")])


def days_partition(scope_key: str) -> str:
    return f"days#{scope_key}"


def review_partition(scope_key: str) -> str:
    return f"review#{scope_key}"


def replaced_partition(scope_key: str) -> str:
    return f"replaced#{scope_key}"


def _both(listed: Item) -> tuple[Item, Item]:
    """Key of the day's row, and the row that lists it by scope."""
    return {"place": f"expiry#{listed['at']}", "entry": _name(_entry(listed))}, listed


def _replaced_row(document: KnowledgeDocument) -> Item:
    entry = f"{document.superseded_at}#{_name(document)}"
    return _row(replaced_partition(document.key.scope.key), entry, document, document.superseded_at)


def _name(version: KnowledgeDocument | CalendarEntry) -> str:
    return f"{version.key.id}#{version.version:0{_VERSION_DIGITS}d}#{version.document_id}"


def _expiry_rows(version: KnowledgeDocument | CalendarEntry, day: str) -> Iterator[Item]:
    """The row of the day, and the one that lists it by scope."""
    yield _row(f"expiry#{day}", _name(version), version, day)
    yield _row(days_partition(version.key.scope.key), f"{_name(version)}#{day}", version, day)


def _row(partition: str, entry: str, version: KnowledgeDocument | CalendarEntry, at: str) -> Item:
    return {
        "place": partition,
        "entry": entry,
        "scopeKey": version.key.scope.key,
        "source": version.key.source,
        "documentId": version.document_id,
        "version": version.version,
        "category": version.category,
        "at": at,
    }


def _entry(row: Item) -> CalendarEntry:
    key = DocumentKey(scope_of_key(row["scopeKey"]), row["source"])
    return CalendarEntry(key, row["documentId"], int(row["version"]), row["category"], row["at"])
