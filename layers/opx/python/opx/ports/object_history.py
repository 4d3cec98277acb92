"""What an object store still holds of objects that were replaced or removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


class ObjectHistory(Protocol):
    """All that is stored below a prefix, whether or not `ObjectStore.list` shows it: earlier versions, marks of removals,
    uploads in parts that were never completed, notes beside objects. Raises `StoreUnavailableError`."""

    def held(self, prefix: str) -> Iterator[str]:
        """The key of each thing that is stored below a prefix that ends with `/`; a key comes once for each of them."""

    def erase(self, prefix: str) -> int:
        """Remove all of it for good, and tell nobody; how many things it was. Doing so again does no harm."""


@dataclass(frozen=True, slots=True)
class PastObject:
    """What an object was from a time on (ISO 8601): bytes and metadata under a name, or nothing, as it was `removed`."""

    name: str
    stored_at: str
    removed: bool = False


class PastObjects(Protocol):
    """Earlier contents of single objects. Raises `StoreUnavailableError`."""

    def of(self, key: str) -> Iterator[PastObject]:
        """What the object is and was, the newest first; nothing for one that never was."""

    def bring_back(self, key: str, name: str) -> None:
        """Make the object what it was under this name, with its metadata. Raises `ObjectNotFoundError` if that is gone."""
