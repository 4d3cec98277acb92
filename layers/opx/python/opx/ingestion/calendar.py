"""When versions of documents expire, are to be reviewed, and were replaced: what is due is found by its day.

The rows say where to look, and the catalog what holds: a row whose version says something else by now is out of date.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from opx.domain.documents import DocumentKey, KnowledgeDocument
from opx.domain.knowledge import KnowledgeModel
from opx.domain.scopes import scope_of_key
from opx.domain.times import day_number, day_text
from opx.errors import UnknownCategoryError
from opx.ports import Item, KeyRange, Table

_VERSION_DIGITS = 8


@dataclass(frozen=True, slots=True)
class CalendarEntry:
    """A version of a document, and the day or time (ISO 8601) for which it is entered."""

    key: DocumentKey
    document_id: str
    version: int
    category: str
    at: str


def expiry_day(document: KnowledgeDocument, knowledge: KnowledgeModel) -> str:
    """The day from which on a version is not to be shown: the one that it gives itself, or else the day of its last
    update and what its category keeps documents for. "" for what is kept for good."""
    if document.expires:
        return document.expires
    return expiry_of(document.category, document.last_updated, knowledge)


def expiry_of(category: str, last_updated: str, knowledge: KnowledgeModel) -> str:
    """What the category's retention makes of a document's last update; "" for good, and for a category that is gone."""
    try:
        days = knowledge.category(category).retention.days
    except UnknownCategoryError:
        return ""
    updated = day_number(last_updated)
    return "" if days is None or updated is None else day_text(updated + days)


class Calendar:
    """The rows of the calendar. Writing one again does no harm."""

    def __init__(self, table: Table, knowledge: KnowledgeModel) -> None:
        self._table = table
        self._knowledge = knowledge

    def enter(self, document: KnowledgeDocument, known: KnowledgeDocument | None = None) -> None:
        """Enter a version, in place of how it was `known` before."""
        new = {(row["place"], row["entry"]): row for row in self._days(document)}
        self._table.put_many(new.values())
        if known:
            self._remove(row for row in self._days(known) if (row["place"], row["entry"]) not in new)

    def replaced(self, document: KnowledgeDocument) -> None:
        """Enter that a version was superseded or deleted, which it says itself; it is not to be reviewed any more."""
        place = f"replaced#{document.key.scope.key}"
        self._table.put(_row(place, f"{document.superseded_at}#{_name(document)}", document, document.superseded_at))
        self._remove(row for row in self._days(document) if row["place"].startswith("review#"))

    def forget(self, document: KnowledgeDocument) -> None:
        """Remove all that was entered of a version."""
        self._remove(self._days(document))
        if document.superseded_at:
            entry = f"{document.superseded_at}#{_name(document)}"
            self._table.delete({"place": f"replaced#{document.key.scope.key}", "entry": entry})

    def drop(self, entry: CalendarEntry) -> None:
        """Remove an entry of the day on which it expires, which is out of date."""
        self._table.delete({"place": f"expiry#{entry.at}", "entry": _place_in_day(entry)})

    def expiring(self, day: str, *, after: CalendarEntry | None = None) -> Iterator[CalendarEntry]:
        """What is entered for a day, `after` an entry of it. Read page by page as the caller goes on."""
        where = KeyRange(low=_place_in_day(after) + "\0") if after else None
        return map(_entry, self._table.query(f"expiry#{day}", where=where))

    def to_review(self, scope_key: str, until: str) -> Iterator[CalendarEntry]:
        """Versions of a scope that are to be reviewed by a day up to `until`, that one included, the earliest first."""
        return map(_entry, self._table.query(f"review#{scope_key}", where=KeyRange(high=f"{until}#~")))

    def replaced_since(self, scope_key: str, at: str) -> Iterator[CalendarEntry]:
        """Versions of a scope that were superseded or deleted after a time, in that order."""
        found = self._table.query(f"replaced#{scope_key}", where=KeyRange(low=at))
        return (entry for entry in map(_entry, found) if entry.at > at)

    def _days(self, document: KnowledgeDocument) -> Iterator[Item]:
        if expires := expiry_day(document, self._knowledge):
            yield _row(f"expiry#{expires}", _name(document), document, expires)
        if document.review_by:
            place, entry = f"review#{document.key.scope.key}", f"{document.review_by}#{_name(document)}"
            yield _row(place, entry, document, document.review_by)

    def _remove(self, rows: Iterator[Item]) -> None:
        for row in list(rows):
            self._table.delete({"place": row["place"], "entry": row["entry"]})


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


def _entry(row: Item) -> CalendarEntry:
    key = DocumentKey(scope_of_key(row["scopeKey"]), row["source"])
    return CalendarEntry(key, row["documentId"], int(row["version"]), row["category"], row["at"])
