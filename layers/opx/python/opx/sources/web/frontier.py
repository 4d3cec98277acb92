"""The addresses of a crawl, in the order in which they are visited, each once."""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass

from opx.sources.web.urls import identity


@dataclass(frozen=True, slots=True)
class Visit:
    """`depth`: how many links lie between a start page and this one; `changed` is from the sitemap, "" without."""

    url: str
    depth: int
    changed: str = ""


class Frontier:
    """First in, first out: breadth first. Takes `size` addresses in all; `overflowed` once there were more.

    The same pages give the same order, so that a position in it is enough to go on from.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._waiting: deque[Visit] = deque()
        self._seen: set[int] = set()
        self._digest = hashlib.sha256()
        self.overflowed = False

    def add(self, visit: Visit) -> None:
        """Visit an address, unless it was added before."""
        if not self.claim(visit.url):
            return
        if len(self._seen) > self._size:
            self.overflowed = True
            return
        self._waiting.append(visit)

    def seed(self, visit: Visit) -> None:
        """Add an address that the crawl begins with."""
        self._digest.update(f"{visit.url} {visit.depth}\n".encode())
        self.add(visit)

    def knows(self, url: str) -> bool:
        """Whether the address was added or claimed before."""
        return hash(identity(url)) in self._seen

    def claim(self, url: str) -> bool:
        """Whether nobody added or claimed the address before; from now on somebody has. Beyond the size, it isn't kept:
        a site may have no end."""
        mark = hash(identity(url))
        if mark in self._seen:
            return False
        if len(self._seen) <= self._size:
            self._seen.add(mark)
        return True

    def seeds(self) -> str:
        """A mark of what the crawl begins with, and in which order."""
        return self._digest.hexdigest()[:16]

    @property
    def empty(self) -> bool:
        """Whether no address is left."""
        return not self._waiting

    def next(self) -> Visit | None:
        return self._waiting.popleft() if self._waiting else None
