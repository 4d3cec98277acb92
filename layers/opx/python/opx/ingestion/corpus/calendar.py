"""When versions of documents expire, are to be reviewed, and were replaced: what is due is found by its day.

The rows say where to look, and the catalog what holds: a row whose version says something else by now is out of date.
What is entered for a day is listed by scope, too (`days#<scope>`): so it is found whatever the policy was at the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from opx.domain.documents import DocumentKey, KnowledgeDocument, expiry_day
from opx.domain.ids import day_text
from opx.domain.knowledge import KnowledgeModel
from opx.domain.scopes import scope_of_key
from opx.ports import Clock, Item, KeyRange, Table

_VERSION_DIGITS = 8


@dataclass(frozen=True, slots=True)
class CalendarEntry:
    """A version of a document, and the day or time (ISO 8601) for which it is entered."""

    key: DocumentKey
    document_id: str
    version: int
    category: str
    at: str


class Calendar:
    """The rows of the calendar. Writing one again does no harm."""

    def __init__(self, table: Table, knowledge: KnowledgeModel, clock: Clock) -> None:
        self._table = table
        self._knowledge = knowledge
        self._clock = clock

    def enter(self, document: KnowledgeDocument, known: KnowledgeDocument | None = None) -> None:
        """Enter a version, in place of how it was `known` before. What has expired already is entered for today: the days
        before may have been looked at for the last time."""
        new = {(row["place"], row["entry"]): row for row in self._days(document, self._today)}
        self._table.put_many(new.values())
        if known:
            self._remove(row for row in self._days(known) if (row["place"], row["entry"]) not in new)

    def replaced(self, document: KnowledgeDocument) -> None:
        """Enter that a version was superseded or deleted, which it says itself; it is not to be reviewed any more."""
        self._table.put(_replaced_row(document))
        self._remove(row for row in self._days(document) if row["place"].startswith("review#"))

    def forget(self, document: KnowledgeDocument) -> None:
        """Remove all that was entered of a version, also for days that are out of date."""
        self._remove(self._days(document))
        listed = self._table.query(
            days_place(document.key.scope.key), where=KeyRange(begins_with=f"{_name(document)}#")
        )
        self._remove(row for one in list(listed) for row in _both(one))
        if document.superseded_at:
            entry = f"{document.superseded_at}#{_name(document)}"
            self._table.delete({"place": replaced_place(document.key.scope.key), "entry": entry})

    def drop(self, entry: CalendarEntry) -> None:
        """Remove an entry of the day on which it expires, which is out of date; last what it is found by on that day."""
        listed = {"place": days_place(entry.key.scope.key), "entry": f"{_place_in_day(entry)}#{entry.at}"}
        self._table.delete(listed)
        self._table.delete({"place": f"expiry#{entry.at}", "entry": _place_in_day(entry)})

    def leave(self, document: KnowledgeDocument) -> None:
        """Remove what was entered of a version, but for the day on which it expires: by that it is found until it is gone."""
        review = (row for row in self._days(document) if row["place"].startswith("review#"))
        self._remove([*review, *([_replaced_row(document)] if document.superseded_at else ())])

    def day_of(self, document: KnowledgeDocument) -> str:
        """The day that a version is to be entered for as one on which it expires; "" for none."""
        expires = expiry_day(document, self._knowledge)
        return _entered_for(document, expires) if expires else ""

    def redate(self, document: KnowledgeDocument) -> str:
        """Enter a version for the day on which it expires by now, in place of all other days, with all else that should be
        entered of it. That day, "" for none."""
        rows = self._expected(document)
        self._table.put_many(rows)
        here = days_place(document.key.scope.key)
        day = next((str(row["at"]) for row in rows if row["place"] == here), "")
        listed = self._table.query(here, where=KeyRange(begins_with=f"{_name(document)}#"))
        self._remove(row for one in list(listed) if one["at"] != day for row in _both(one))
        return day

    def postpone(self, entry: CalendarEntry, day: str) -> None:
        """Look at a version again on a later day, in place of the one that it is entered for."""
        moved = CalendarEntry(entry.key, entry.document_id, entry.version, entry.category, day)
        self._table.put_many([_moved(moved, f"expiry#{day}"), _moved(moved, days_place(entry.key.scope.key))])
        self.drop(entry)

    def lacks(self, document: KnowledgeDocument) -> bool:
        """Whether something that should be entered of a version is not."""
        if not self._misses(self._expected(document)):
            return False
        where = KeyRange(begins_with=f"{_name(document)}#")
        listed = self._table.query(days_place(document.key.scope.key), where=where, reverse=True, limit=1)
        later = next((str(row["at"]) for row in listed), "")  # it may have been entered after it had expired
        return not later or self._misses(self._expected(document, later))

    def complete(self, document: KnowledgeDocument) -> None:
        """Enter all that should be entered of a version, current or not; for today, what has expired already."""
        self._table.put_many(self._expected(document, self._today))

    def rows_of(self, scope_key: str) -> Iterator[Item]:
        """All rows of a scope: each before the one by which it is found."""
        for listed in self._table.query(days_place(scope_key)):
            yield from _both(listed)
        for place in (review_place(scope_key), replaced_place(scope_key)):
            yield from self._table.query(place)

    def expiring(self, day: str, *, after: CalendarEntry | None = None) -> Iterator[CalendarEntry]:
        """What is entered for a day, `after` an entry of it. Read page by page as the caller goes on."""
        where = KeyRange(low=_place_in_day(after) + "\0") if after else None
        return map(_entry, self._table.query(f"expiry#{day}", where=where))

    def to_review(self, scope_key: str, until: str) -> Iterator[CalendarEntry]:
        """Versions of a scope that are to be reviewed by a day up to `until`, that one included, the earliest first."""
        return map(_entry, self._table.query(review_place(scope_key), where=KeyRange(high=f"{until}#~")))

    def replaced_since(self, scope_key: str, at: str) -> Iterator[CalendarEntry]:
        """Versions of a scope that were superseded or deleted after a time, in that order."""
        found = self._table.query(replaced_place(scope_key), where=KeyRange(low=at))
        return (entry for entry in map(_entry, found) if entry.at > at)

    @property
    def _today(self) -> str:
        return day_text(int(self._clock() // 86400))

    def _days(self, document: KnowledgeDocument, earliest: str = "") -> Iterator[Item]:
        """The rows of the days on which a version expires, on `earliest` if that is later, and is to be reviewed."""
        if expires := expiry_day(document, self._knowledge):
            day = max(_entered_for(document, expires), earliest)
            yield _row(f"expiry#{day}", _name(document), document, day)
            yield _row(days_place(document.key.scope.key), f"{_name(document)}#{day}", document, day)
        if document.review_by:
            place, entry = review_place(document.key.scope.key), f"{document.review_by}#{_name(document)}"
            yield _row(place, entry, document, document.review_by)

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
    """The day to look under: what had expired before it came is found on the day on which it came."""
    return max(expires, document.current_since[: len("2026-03-31")])


def days_place(scope_key: str) -> str:
    return f"days#{scope_key}"


def review_place(scope_key: str) -> str:
    return f"review#{scope_key}"


def replaced_place(scope_key: str) -> str:
    return f"replaced#{scope_key}"


def _both(listed: Item) -> tuple[Item, Item]:
    """The row of a day, as far as its key goes, and the one that lists it."""
    return {"place": f"expiry#{listed['at']}", "entry": _place_in_day(_entry(listed))}, listed


def _replaced_row(document: KnowledgeDocument) -> Item:
    entry = f"{document.superseded_at}#{_name(document)}"
    return _row(replaced_place(document.key.scope.key), entry, document, document.superseded_at)


def _name(document: KnowledgeDocument) -> str:
    return f"{document.key.id}#{document.version:0{_VERSION_DIGITS}d}#{document.document_id}"


def _place_in_day(entry: CalendarEntry) -> str:
    return f"{entry.key.id}#{entry.version:0{_VERSION_DIGITS}d}#{entry.document_id}"


def _row(place: str, entry: str, document: KnowledgeDocument, at: str) -> Item:
    return {
        "place": place,
        "entry": entry,
        "scopeKey": document.key.scope.key,
        "source": document.key.source,
        "documentId": document.document_id,
        "version": document.version,
        "category": document.category,
        "at": at,
    }


def _moved(entry: CalendarEntry, place: str) -> Item:
    name = _place_in_day(entry)
    return {
        "place": place,
        "entry": name if place.startswith("expiry#") else f"{name}#{entry.at}",
        "scopeKey": entry.key.scope.key,
        "source": entry.key.source,
        "documentId": entry.document_id,
        "version": entry.version,
        "category": entry.category,
        "at": entry.at,
    }


def _entry(row: Item) -> CalendarEntry:
    key = DocumentKey(scope_of_key(row["scopeKey"]), row["source"])
    return CalendarEntry(key, row["documentId"], int(row["version"]), row["category"], row["at"])
