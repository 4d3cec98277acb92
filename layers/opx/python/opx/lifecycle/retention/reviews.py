"""Reports documents due for review by their owners, from `review_by`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import field

from opx.domain.documents import DocumentState, KnowledgeDocument
from opx.domain.ids import day_number, day_text
from opx.domain.record import Record, about, derive, like
from opx.ingestion.corpus.calendar import Calendar, CalendarEntry
from opx.ingestion.corpus.catalog import Catalog
from opx.ports import Clock

SOON_DAYS = 30
NOBODY = "(nobody)"
_AT_ONCE = 100


class ReviewItem(Record, frozen=True):
    """A current document that is due for review by `review_by`; `overdue` is the number of days past that date, negative
    for days left."""

    document_id: str
    title: str
    category: str
    source: str
    scope_key: str = field(name="scope")
    owner: str
    review_by: str
    last_updated: str
    overdue: Annotated[int, about("Days past the review date; negative: days left.")] = field(name="overdueDays")


class OwnedReviews(Record, frozen=True):
    """Number of an owner's documents due for review, and of the overdue ones among them."""

    owner: str
    overdue: int
    items: int


class ReviewReport(Record, frozen=True):
    """Documents to review, the most overdue first. `more` if the list was cut. `owners` is sorted by the number of overdue
    documents, the highest first."""

    items: tuple[ReviewItem, ...]
    more: bool = False
    owners: tuple[OwnedReviews, ...] = ()

    def __post_init__(self) -> None:
        overdue = Counter(item.owner or NOBODY for item in self.items if item.overdue > 0)
        every = Counter(item.owner or NOBODY for item in self.items)
        order = sorted(every, key=lambda owner: (-overdue[owner], owner))
        derive(self, owners=tuple(OwnedReviews(owner, overdue[owner], every[owner]) for owner in order))


class Reviews:
    """Finds documents due for review by their day in the calendar; reads only the given scopes.

    `owners` maps services and categories to the owners of documents that don't name one.
    """

    def __init__(self, catalog: Catalog, calendar: Calendar, owners: Mapping[str, str], clock: Clock) -> None:
        self._catalog = catalog
        self._calendar = calendar
        self._owners = owners
        self._clock = clock

    def report(
        self, scopes: Sequence[str], *, days: int = SOON_DAYS, owner: str = "", limit: int = 500
    ) -> ReviewReport:
        """Documents that are overdue or will be within `days`; with `owner`, only that owner's."""
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
        return like(
            ReviewItem,
            document,
            source=document.source_uri,
            scope_key=document.key.scope.key,
            owner=document.owner or self._owner_of(document),
            last_updated=document.last_updated,
            overdue=today - (day_number(document.review_by) or today),
        )

    def _owner_of(self, document: KnowledgeDocument) -> str:
        """The owner of one of its services, or of its category or the longest beginning of that, or else its author."""
        names = document.category.split("/")
        beginnings = ("/".join(names[:count]) for count in range(len(names), 0, -1))
        known = (self._owners.get(name, "") for name in (*map(str.casefold, document.services), *beginnings))
        return next(filter(None, known), document.author)
