"""Counts stored documents by category and by client, in as many runs as that takes.

Reading millions of items takes longer than a function may run. A run that is out of time stores what it has counted, and the
position behind it; the next one goes on from there. What counts are the versions that were current when the first run
began, so that documents which change in between are neither missed nor counted twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

from msgspec import Struct

from opx.domain.documents import DocumentState
from opx.domain.ids import iso_time
from opx.lifecycle.usage import UsageTally
from opx.ports import Clock, Item, Table

_SUBJECT = "holdings"
_POSITION = {"subject": _SUBJECT, "entry": "position"}

_KEPT_SECONDS = 7 * 86_400
"""A count that no run continued for so long begins anew."""

Position = tuple[str, Item | None]
"""A category, and the position in it; None at its beginning."""


@dataclass
class Holdings:
    """The documents and chunks of each category, and the use of each client, as of `moment` (ISO 8601)."""

    moment: str
    usage: UsageTally
    categories: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))

    def add(self, category: str, sizes: Sequence[VersionSize]) -> None:
        """Counts versions of a category that were current at the moment."""
        counted = self.categories[category]
        for size in sizes:
            if size.was_current(self.moment):
                counted[0] += 1
                counted[1] += size.chunks
                self.usage.add(size.client_id, size.chunks, size.tokens, size.since)


@dataclass(eq=False)
class HoldingsCount:
    """Counts the documents of `categories`. `table` has the progress of a count that isn't finished. Methods raise
    `StoreUnavailableError`."""

    sizes: DocumentSizes
    table: Table
    _: KW_ONLY
    categories: Callable[[], Sequence[str]]
    clock: Clock

    def is_begun(self) -> bool:
        """True if a run has to be continued."""
        return self.table.get(_POSITION) is not None

    def run(self, usage: UsageTally, *, seconds: float) -> Holdings | None:
        """Continues the count that was begun, or begins one with `usage`. None if it isn't finished after `seconds`: the
        next run goes on. A failed run is repeated by the next one from where it began."""
        end = self.clock() + seconds
        stored = self.table.get(_POSITION)
        found = self._stored_count(stored) if stored else Holdings(iso_time(self.clock()), usage)
        position = (stored["category"], stored["next"]) if stored else self._first()
        while position:
            position = self._counted(found, position)
            if position and self.clock() >= end:
                self._store(found, position, number=stored["run"] + 1 if stored else 1)
                return None
        return found

    def end(self) -> None:
        """Forgets the progress of a count whose result is recorded. Without this, the last run is repeated."""
        self.table.delete(_POSITION)

    def all(self, usage: UsageTally) -> Holdings:
        """Counts in one run, however long it takes, beside one that was begun."""
        found = Holdings(iso_time(self.clock()), usage)
        position = self._first()
        while position:
            position = self._counted(found, position)
        return found

    def _counted(self, found: Holdings, position: Position) -> Position | None:
        """Counts a page, and returns the position of the next one."""
        category, begin = position
        page = self.sizes.page(category, begin)
        found.add(category, page.sizes)
        return (category, page.next) if page.next else self._first(after=category)

    def _first(self, *, after: str = "") -> Position | None:
        following = sorted(path for path in self.categories() if path > after)
        return (following[0], None) if following else None

    # -- progress

    def _store(self, found: Holdings, position: Position, *, number: int) -> None:
        """Stores the counts first, each run in a partition of its own: until the position is written, the last one and its
        counts are valid."""
        expires = int(self.clock()) + _KEPT_SECONDS
        subject = _run_subject(found.moment, number)
        kinds = {"category": found.categories, "client": found.usage.counts}
        self.table.put_many(
            {"subject": subject, "entry": f"{kind}#{name}", "counts": counts, "expiresAt": expires}
            for kind, counted in kinds.items()
            for name, counts in counted.items()
        )
        progress = {"moment": found.moment, "day": found.usage.day, "run": number, "expiresAt": expires}
        self.table.put({**_POSITION, **progress, "category": position[0], "next": position[1]})

    def _stored_count(self, stored: Item) -> Holdings:
        found = Holdings(stored["moment"], UsageTally(stored["day"]))
        kinds = {"category": found.categories, "client": found.usage.counts}
        for item in self.table.query(_run_subject(stored["moment"], stored["run"])):
            kind, _, name = item["entry"].partition("#")
            kinds[kind][name] = item["counts"]
        return found


def _run_subject(moment: str, number: int) -> str:
    return f"{_SUBJECT}#{moment}#{number}"


_FIELDS = ("clientId", "chunkCount", "tokenCount", "createdAt", "currentSince", "supersededAt", "state")


class VersionSize(NamedTuple):
    """The size of a version, and from when until when it was the current one of its document (ISO 8601; "" if it still
    is)."""

    client_id: str
    chunks: int
    tokens: int
    since: str
    until: str

    def was_current(self, at: str) -> bool:
        """True if it was the current version at the end of that second."""
        return self.since <= at and (not self.until or self.until > at)


class SizesPage(Struct, frozen=True):
    """Sizes, and the position behind them; None at the end of the category."""

    sizes: list[VersionSize]
    next: Item | None


class DocumentSizes:
    """Reads sizes of versions of all scopes from the documents table."""

    def __init__(self, documents: Table) -> None:
        self._documents = documents

    def page(self, category: str, begin: Item | None = None) -> SizesPage:
        """The versions of a category behind the position `begin`, by their time of update. Raises `StoreUnavailableError`."""
        found = self._documents.page(category, index="category-lastUpdated-index", fields=_FIELDS, begin=begin)
        return SizesPage([_size(item) for item in found.items], found.next)


def _size(item: Item) -> VersionSize:
    since = item.get("currentSince") or item["createdAt"]
    until = item.get("supersededAt") or ("" if item["state"] == DocumentState.CURRENT else since)
    return VersionSize(item["clientId"], item.get("chunkCount", 0), item.get("tokenCount", 0), since, until)
