"""Sizes of the catalog's versions, read a page at a time without the rest of their items."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from opx.domain.documents import DocumentState
from opx.ports import Item, Table

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
