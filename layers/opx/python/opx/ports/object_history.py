"""What an object store still holds of objects that were replaced or removed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class ObjectHistory(Protocol):
    """All that is stored below a prefix, whether or not `ObjectStore.list` shows it: earlier versions, marks of removals,
    uploads in parts that were never completed, notes beside objects. Raises `StoreUnavailableError`."""

    def held(self, prefix: str) -> Iterator[str]:
        """The key of each thing that is stored below a prefix that ends with `/`; a key comes once for each of them."""

    def erase(self, prefix: str) -> int:
        """Remove all of it for good, and tell nobody; how many things it was. Doing so again does no harm."""
