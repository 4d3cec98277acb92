"""What is to be looked at again, and by whom: `review_by` of documents, as a report for their owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opx.domain.documents import DocumentState, KnowledgeDocument
from opx.domain.times import day_number, day_text
from opx.ingestion.calendar import Calendar, CalendarEntry
from opx.ingestion.catalog import Catalog
from opx.ports import Clock

SOON_DAYS = 30
NOBODY = "(nobody)"
_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A current document that is to be looked at by `review_by`; `overdue` is by how many days that is past, below 0 for
    how many days are left."""

    document_id: str
    title: str
    category: str
    source: str
    scope_key: str
    owner: str
    review_by: str
    last_updated: str
    overdue: int

    def to_json(self) -> dict[str, Any]:
        return {
            "documentId": self.document_id,
            "title": self.title,
            "category": self.category,
            "source": self.source,
            "scope": self.scope_key,
            "owner": self.owner,
            "reviewBy": self.review_by,
            "lastUpdated": self.last_updated,
            "overdueDays": self.overdue,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReviewItem:
        texts = ("title", "category", "source", "owner")
        return cls(
            document_id=data["documentId"],
            scope_key=data["scope"],
            review_by=data["reviewBy"],
            last_updated=data["lastUpdated"],
            overdue=data["overdueDays"],
            **{name: data[name] for name in texts},
        )


@dataclass(frozen=True, slots=True)
class ReviewReport:
    """Documents to review, the most overdue first. `more` if there are others behind them."""

    items: tuple[ReviewItem, ...]
    more: bool = False

    def owners(self) -> dict[str, tuple[int, int]]:
        """Each owner with how much is overdue, and how much there is; who has the most overdue first."""
        overdue = Counter(item.owner or NOBODY for item in self.items if item.overdue > 0)
        every = Counter(item.owner or NOBODY for item in self.items)
        return {owner: (overdue[owner], every[owner]) for owner in sorted(every, key=lambda one: (-overdue[one], one))}

    def to_json(self) -> dict[str, Any]:
        owners = [{"owner": owner, "overdue": late, "items": count} for owner, (late, count) in self.owners().items()]
        return {"items": [item.to_json() for item in self.items], "more": self.more, "owners": owners}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReviewReport:
        return cls(tuple(map(ReviewItem.from_json, data["items"])), bool(data["more"]))


class Reviews:
    """What is to be reviewed in some scopes, found by its day. Nothing of any other scope is read.

    `owner_of` names the owner of a document that doesn't name one.
    """

    def __init__(self, catalog: Catalog, calendar: Calendar, owners: Mapping[str, str], clock: Clock) -> None:
        self._catalog = catalog
        self._calendar = calendar
        self._owners = owners
        self._clock = clock

    def report(
        self, scopes: Sequence[str], *, days: int = SOON_DAYS, owner: str = "", limit: int = 500
    ) -> ReviewReport:
        """What is overdue or will be within `days`; with `owner`, what is that one's."""
        today = int(self._clock() // 86400)
        found = (
            item
            for scope in scopes
            for item in self._items(self._calendar.to_review(scope, day_text(today + days)), today)
            if not owner or item.owner.casefold() == owner.casefold()
        )
        items = sorted(found, key=lambda item: (item.review_by, item.title, item.document_id))
        return ReviewReport(tuple(items[:limit]), more=len(items) > limit)

    def _items(self, entries: Iterator[CalendarEntry], today: int) -> Iterator[ReviewItem]:
        rest = list(entries)
        for at in range(0, len(rest), _AT_ONCE):
            batch = rest[at : at + _AT_ONCE]
            known = self._catalog.leaving(batch)
            for entry in batch:
                document = known[entry][0] if entry in known else None
                if document and document.state is DocumentState.CURRENT and document.review_by == entry.at:
                    yield self._item(document, today)

    def _item(self, document: KnowledgeDocument, today: int) -> ReviewItem:
        return ReviewItem(
            document_id=document.document_id,
            title=document.title,
            category=document.category,
            source=document.source_uri,
            scope_key=document.key.scope.key,
            owner=document.owner or self._owner_of(document),
            review_by=document.review_by,
            last_updated=document.last_updated,
            overdue=today - (day_number(document.review_by) or today),
        )

    def _owner_of(self, document: KnowledgeDocument) -> str:
        """The owner of one of its services, or of its category or the longest beginning of that, or else its author."""
        names = document.category.split("/")
        beginnings = ("/".join(names[:count]) for count in range(len(names), 0, -1))
        known = (self._owners.get(name, "") for name in (*map(str.casefold, document.services), *beginnings))
        return next(filter(None, known), document.author)
