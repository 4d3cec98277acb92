"""Runs one crawl: visits addresses breadth first, and returns documents in batches after which it can be resumed.

A page that did not change is not sent again, yet its links have to be followed: they are noted with the page's
validators. The notes also let an interrupted crawl return to its position without a request. They outlive the page's
document, which is withdrawn while nothing links to it: then it is read whole again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Protocol
from urllib.parse import urlsplit

from opx.connectors.connector import Batch
from opx.domain.ids import Clock, stable_hash
from opx.domain.record import replace
from opx.domain.sources import Page, PullRequest, SourceDocument
from opx.errors import ForbiddenAddressError, SourceRefusedError, SourceUnavailableError, UnparsableDocumentError
from opx.ports.sources import PageMemory, WebClient, WebReply
from opx_connectors.web.pages import iso_date, read_page
from opx_connectors.web.robots import Robots
from opx_connectors.web.urls import (
    HTML,
    CrawlScope,
    extension_of,
    file_key,
    identity,
    may_be_document,
    page_key,
    page_url,
)

MAX_UNPACKED = 16 * 1024 * 1024


class State(StrEnum):
    """Result of the last visit."""

    READ = ""
    NOTHING = "nothing"
    """Not a page of this crawl: it is gone, redirects elsewhere, or could not be read."""


@dataclass(frozen=True, slots=True)
class PageNotes:
    """Notes on a visited page. `url` is the target of redirects, "" without; `digest` is of the text, "" for a page without
    a document; `put`: its document was returned."""

    url: str = ""
    canonical: str = ""
    key: str = ""
    digest: str = ""
    put: bool = False
    links: tuple[str, ...] = ()
    state: State = State.READ

    def to_texts(self) -> dict[str, str]:
        put, links = "1" if self.put else "", _packed(self.links)
        return {**asdict(self), "put": put, "links": links, "state": self.state.value}


NOTHING = {"state": State.NOTHING.value}


def notes_of(texts: Mapping[str, str]) -> PageNotes | None:
    """Parses the notes of a page; None if there are none, or none that can be read."""
    if "links" not in texts:
        return PageNotes(state=State.NOTHING) if texts.get("state") == State.NOTHING else None
    try:
        url, canonical, key, digest = (texts[name] for name in ("url", "canonical", "key", "digest"))
        put, links, state = bool(texts["put"]), _unpacked(texts["links"]), State(texts["state"])
        return PageNotes(url, canonical, key, digest, put, links, state)
    except (KeyError, ValueError, binascii.Error, zlib.error):
        return None


def _packed(links: tuple[str, ...]) -> str:
    return base64.b85encode(zlib.compress("\n".join(links).encode(), 9)).decode("ascii") if links else ""


def _unpacked(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    data = zlib.decompressobj().decompress(base64.b85decode(text), MAX_UNPACKED)
    return tuple(data.decode().split("\n"))


BATCH_VISITS = 20
BATCH_BYTES = 4 * 1024 * 1024
BATCH_SECONDS = 60.0
"""With a site that requires a minute between two pages, a batch would else take longer than a function may run."""


@dataclass(slots=True)
class CrawlBatch(Batch):
    """A batch of a crawl. `visits` counts addresses, with and without a document; it `began` with the first."""

    began: float = 0.0
    visits: int = 0

    def full(self, now: float) -> bool:
        """True if the batch should be returned; `now` is by the same clock as `began`."""
        return self.visits >= BATCH_VISITS or self.size >= BATCH_BYTES or now - self.began >= BATCH_SECONDS


@dataclass(frozen=True, slots=True)
class Visit:
    """An address to visit. `depth`: number of links from a start page; `changed` is from the sitemap, "" without."""

    url: str
    depth: int
    changed: str = ""


class Frontier:
    """Queue of addresses, first in, first out. Accepts `size` addresses in all; `overflowed` once there were more.

    The same pages give the same order, so that a position in it is enough to resume.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._waiting: deque[Visit] = deque()
        self._seen: set[int] = set()
        self._digest = hashlib.sha256()
        self.overflowed = False

    def add(self, visit: Visit) -> None:
        """Adds an address to visit, unless it was added before."""
        if not self.claim(visit.url):
            return
        if len(self._seen) > self._size:
            self.overflowed = True
            return
        self._waiting.append(visit)

    def seed(self, visit: Visit) -> None:
        """Adds a start address."""
        self._digest.update(f"{visit.url} {visit.depth}\n".encode())
        self.add(visit)

    def knows(self, url: str) -> bool:
        """True if the address was added or claimed before."""
        return hash(identity(url)) in self._seen

    def claim(self, url: str) -> bool:
        """Claims an address; False if it was added or claimed before. Beyond the size, claims aren't kept: a site may have
        no end."""
        mark = hash(identity(url))
        if mark in self._seen:
            return False
        if len(self._seen) <= self._size:
            self._seen.add(mark)
        return True

    def seeds(self) -> str:
        """Hash of the start addresses in their order."""
        return self._digest.hexdigest()[:16]

    @property
    def empty(self) -> bool:
        """True if no address is left."""
        return not self._waiting

    def next(self) -> Visit | None:
        return self._waiting.popleft() if self._waiting else None


MAX_FAILURES = 5
"""Failed pages in a row after which a whole site counts as unavailable."""


class CrawlingWeb(WebClient, PageMemory, Protocol):
    """HTTP client of a crawl, which remembers pages."""


@dataclass(frozen=True, slots=True)
class CrawlLimits:
    depth: int
    max_pages: int
    max_bytes: int


class Crawl:
    """A crawl from the seeds in `frontier`. `whole`: no reachable page was missed so far."""

    def __init__(
        self,
        *,
        web: CrawlingWeb,
        frontier: Frontier,
        scope: CrawlScope,
        robots: Robots,
        limits: CrawlLimits,
        request: PullRequest,
        known: Callable[[Sequence[str]], Collection[str]],
        clock: Clock,
    ) -> None:
        self._web = web
        self._frontier = frontier
        self._scope = scope
        self._robots = robots
        self._limits = limits
        self._since = request.since
        self._known = known
        self._clock = clock
        self._mark = stable_hash("crawl", frontier.seeds(), repr(limits), repr(scope))[:16]
        same = request.cursor.get("mark") == self._mark
        self._done = int(request.cursor.get("done", 0)) if same else 0
        self._whole = bool(request.cursor.get("whole", True)) if same else True
        self._visited = 0
        self._failures = 0
        self._digests: set[int] = set()
        self._deferred: set[int] = set()
        self._batch = CrawlBatch(began=clock())

    def pages(self) -> Iterator[Page]:
        """Returns documents in batches. Raises as `Connector.pull`, after returning those found until then."""
        while visit := self._frontier.next():
            if self._visited < self._done and not self._retraced(visit):
                self._done = self._visited  # its notes are gone: continue reading from here
            if self._visited >= self._done:
                if not self._batch.visits:
                    self._batch.began = self._clock()
                try:
                    self._visit(visit)
                except SourceUnavailableError:
                    yield self._flushed()
                    raise
                self._batch.visits += 1
            self._visited += 1
            if self._batch.full(self._clock()):
                yield self._flushed()
        yield self._flushed(complete=self._whole and not self._frontier.overflowed)

    def _flushed(self, *, complete: bool = False) -> Page:
        batch, self._batch = self._batch, CrawlBatch(began=self._clock())
        done = max(self._visited, self._done)
        return batch.page({"done": done, "mark": self._mark, "whole": self._whole}, complete=complete)

    def _retraced(self, visit: Visit) -> bool:
        """Follows the noted links of a visit from before the crawl was interrupted; False without notes."""
        notes = notes_of(self._web.recall(visit.url))
        if notes is not None and notes.state is State.READ:
            self._follow(visit, notes)
        return notes is not None

    # -- a visit

    def _visit(self, visit: Visit) -> None:
        notes = notes_of(self._web.recall(visit.url))
        known = notes.key if notes and notes.key else page_key(visit.url)
        try:
            self._request(visit, notes, known)
        except (SourceRefusedError, ForbiddenAddressError, UnparsableDocumentError) as exc:
            if not self._visited and self._frontier.empty and not isinstance(exc, UnparsableDocumentError):
                raise
            self._refuse(visit, known, str(exc))
        except SourceUnavailableError as exc:
            self._failures += 1
            if exc.retry_after or self._failures >= MAX_FAILURES or not self._visited:
                raise
            self._whole = False
            self._refuse(visit, known, str(exc))
        else:
            self._failures = 0

    def _request(self, visit: Visit, notes: PageNotes | None, known: str) -> None:
        if not self._robots.allows(visit.url):
            self._batch.refuse(known, f"robots.txt of {urlsplit(visit.url).netloc} forbids {visit.url}")
            self._web.note(visit.url, NOTHING)
            return
        if notes and self._is_listed_as_before(visit, notes):
            self._unchanged(visit, notes)
            return
        reply = self._web.get(visit.url, conditional=True, limit=self._limits.max_bytes)
        if reply.not_modified and notes and "links" in self._web.recall(visit.url):
            self._unchanged(visit, notes)
        elif reply.not_modified:
            self._read(visit, self._web.get(visit.url, limit=self._limits.max_bytes))
        elif reply.gone:
            self._gone(visit, known, reply)
        else:
            self._read(visit, reply)

    def _gone(self, visit: Visit, key: str, reply: WebReply) -> None:
        self._batch.withdrawn += [key] if reply.status == 410 else []
        self._web.note(visit.url, NOTHING)

    def _refuse(self, visit: Visit, key: str, reason: str) -> None:
        """Reports a page that can't be read. Its links are unknown, so that pages may be missed if they were to be
        followed."""
        if visit.depth < self._limits.depth:
            self._whole = False
        self._batch.refuse(key, reason)
        self._web.note(visit.url, NOTHING)

    def _is_listed_as_before(self, visit: Visit, notes: PageNotes) -> bool:
        """True if the page is older than the last pull, according to the sitemap."""
        changed = iso_date(visit.changed)
        return bool(changed and self._since and notes.state is State.READ and changed < self._since[: len(changed)])

    def _unchanged(self, visit: Visit, notes: PageNotes) -> None:
        wanted = self._follow(visit, notes)
        if wanted and not (notes.put and self._known([notes.key])):
            # another page had the same text, this one named another address, or its document was withdrawn
            reply = self._web.get(visit.url, limit=self._limits.max_bytes)
            if reply.gone:
                self._gone(visit, notes.key, reply)
            else:
                self._store(visit, *self._parsed(visit, reply))
            return
        if wanted:
            self._batch.unchanged.append(notes.key)
        if notes.put is not wanted or notes.state is not State.READ:
            self._web.note(visit.url, {**replace(notes, put=wanted).to_texts(), "state": State.READ.value})

    def _read(self, visit: Visit, reply: WebReply) -> None:
        notes, document = self._parsed(visit, reply)
        self._store(visit, notes, document if self._follow(visit, notes) else None)

    def _store(self, visit: Visit, notes: PageNotes, document: SourceDocument | None) -> None:
        if document is not None:
            self._batch.add(document)
        self._web.note(visit.url, replace(notes, put=document is not None).to_texts())

    # -- links and documents of a page

    def _follow(self, visit: Visit, notes: PageNotes) -> bool:
        """Adds the page's links to the frontier; True if its own document is to be stored."""
        if notes.url and not (self._scope.has(notes.url) and self._frontier.claim(notes.url)):
            return False
        if visit.depth < self._limits.depth:
            for link in notes.links:
                if not self._frontier.knows(link) and self._scope.has(link) and may_be_document(link):
                    self._frontier.add(Visit(link, visit.depth + 1))
        address = notes.url or visit.url
        if self._is_elsewhere(address, notes.canonical):
            self._deferred.add(hash(identity(address)))
            self._frontier.add(Visit(notes.canonical, visit.depth))
            return False
        if not notes.digest or int(notes.digest, 16) in self._digests:
            return False
        self._digests.add(int(notes.digest, 16))
        return True

    def _is_elsewhere(self, address: str, canonical: str) -> bool:
        """True if the page's document is at another address. A start page that is named on every page is ignored as an error
        of the site, and of two pages that name each other the second one stays."""
        if not canonical or not self._scope.has(canonical) or hash(identity(canonical)) in self._deferred:
            return False
        return urlsplit(canonical).path not in ("", "/") or urlsplit(address).path in ("", "/")

    def _parsed(self, visit: Visit, reply: WebReply) -> tuple[PageNotes, SourceDocument | None]:
        address = page_url(reply.url, "")
        redirected = address if identity(address) != identity(visit.url) else ""
        if redirected and not (self._scope.has(address) and self._robots.allows(address)):
            if not visit.depth:
                self._batch.refuse(
                    page_key(visit.url), f"{visit.url} redirects to {address}, which does not belong to the crawl"
                )
            return PageNotes(url=redirected), None
        extension = extension_of(reply)
        if extension == HTML:
            return self._page(visit, reply, address, redirected)
        if not extension or not reply.body:
            return PageNotes(url=redirected), None
        key = file_key(address, extension)
        digest = stable_hash("file", hashlib.sha256(reply.body).hexdigest())[:16]
        changed = _changed(visit)
        document = SourceDocument(key, reply.body, {"source_uri": address, **changed})
        return PageNotes(url=redirected, key=key, digest=digest), document

    def _page(
        self, visit: Visit, reply: WebReply, address: str, redirected: str
    ) -> tuple[PageNotes, SourceDocument | None]:
        page = read_page(reply)
        key = page_key(address)
        notes = PageNotes(url=redirected, canonical=page.canonical, key=key, links=page.links)
        if not page.indexed:
            return notes, None
        if not page.text:
            self._batch.refuse(key, f"{address}: the page has no text of its own; do scripts draw it?")
            return notes, None
        metadata = {"source_uri": address, **_changed(visit), **page.metadata}
        digest = stable_hash("page", page.text)[:16]
        document = SourceDocument(key, page.text, metadata)
        return PageNotes(redirected, page.canonical, key, digest, links=page.links), document


def _changed(visit: Visit) -> dict[str, str]:
    changed = iso_date(visit.changed)
    return {"last_updated": changed} if changed else {}
