"""Pulls the entries of RSS and Atom feeds, such as engineering blogs, and the articles behind them.

The parser is feedparser's, which also accepts feeds that aren't well formed.
"""

from __future__ import annotations

import calendar
import io
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain, dropwhile, islice
from typing import Annotated, Any
from urllib.parse import urlsplit

from opx.connectors.connector import Batch, Connector, Options, SourceTools, Texts
from opx.domain.ids import iso_time, stable_hash
from opx.domain.record import about
from opx.domain.sources import Cursor, Page, PullRequest, RateLimit, Refused, SourceDefinition, SourceDocument
from opx.errors import (
    ForbiddenAddressError,
    InvalidInputError,
    SourceRefusedError,
    SourceShapeError,
    SourceUnavailableError,
    UnparsableDocumentError,
)
from opx.formats.sandbox.apart import call_apart
from opx.hygiene.addresses import shown_address
from opx.ports.sources import PageMemory, WebReply
from opx_connectors.web.robots import Robots
from opx_connectors.web.urls import HTML, extension_of, page_key, page_url

MAX_TITLE = 500
MAX_TAGS = 50
MAX_TAG = 128
_ROOT = re.compile(rb"<(?:\w+:)?(?:rss|feed|rdf)\b", re.IGNORECASE)
_ENDS = (b"</rss>", b"</feed>", b"</rdf:rdf>")


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """An entry of a feed. `link` is the address of its article, "" without; `text` is its text in the feed, as Markdown;
    `changed` is ISO 8601, "" for an entry without dates."""

    key: str
    link: str
    text: str
    changed: str
    metadata: dict[str, Any] = field(default_factory=dict)


def feed_entries(reply: WebReply, *, limit: int) -> Iterator[FeedEntry]:
    """Parses the entries of a feed in its order, each key once, `limit` at most; a large feed in the sandbox process.
    Raises `SourceShapeError` if it is not a feed, or is cut off."""
    facts = {"url": reply.url, "type": reply.headers.get("content-type", ""), "limit": limit}
    found = call_apart("opx_connectors.web.feed:entries_of", reply.body, facts, name=reply.url, raises=SourceShapeError)
    return (FeedEntry(**entry) for entry in found)


def entries_of(data: bytes, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fields of the entries. `facts` are the feed's `url` and media `type`, and the `limit`. Raises
    `SourceShapeError`."""
    import feedparser

    url = facts["url"]
    prolog = _ROOT.split(data.replace(b"\0", b""), maxsplit=1)[0]  # without the zeros of UTF-16
    if b"<!entity" in prolog.lower():
        raise SourceShapeError(f"{url}: the feed declares entities, which may grow beyond measure")
    try:
        parsed = feedparser.parse(
            io.BytesIO(data),
            response_headers={"content-location": url, "content-type": facts["type"]},
            resolve_relative_uris=False,
            sanitize_html=False,  # the conversion to Markdown leaves out scripts and styles
        )
    except (ValueError, LookupError, RecursionError) as exc:
        raise SourceShapeError(f"{url}: not readable as a feed: {exc}") from exc
    if not parsed.get("version"):
        raise SourceShapeError(f"{url}: RSS or Atom was expected; is it the address of the feed?")
    if parsed.get("bozo") and not data.rstrip().lower().endswith(_ENDS):
        raise SourceShapeError(f"{url}: the feed breaks off")
    return [asdict(entry) for entry in _entries(parsed["entries"][: facts["limit"]], url)]


def _entries(found: list[Mapping[str, Any]], url: str) -> Iterator[FeedEntry]:
    seen = set()
    for entry in found:
        key = _key(entry, url)
        if key not in seen:
            seen.add(key)
            yield _entry(entry, key, url)


def _key(entry: Mapping[str, Any], feed: str) -> str:
    """Key of an entry: from its id, which stays when its article moves; or else from its link, or its content."""
    name = str(entry.get("id") or entry.get("link") or "").strip()
    if page_url(name, ""):
        return page_key(page_url(name, ""))
    if not name:
        name = stable_hash("entry", str(entry.get("title", "")), str(entry.get("published", "")), _raw(entry)[1])[:24]
    return page_key(f"{urlsplit(feed).scheme}://{urlsplit(feed).netloc}/{name}")


def _entry(entry: Mapping[str, Any], key: str, feed: str) -> FeedEntry:
    link = page_url(feed, str(entry.get("link") or ""))
    created = _moment(entry, "published_parsed")
    changed = _moment(entry, "updated_parsed") or created
    metadata = {
        "title": _plain(str(entry.get("title") or ""))[:MAX_TITLE],
        "source_uri": link or feed,
        "author": _plain(str(entry.get("author") or ""))[:MAX_TITLE],
        "tags": _tags(entry),
        "created_at": created,
        "last_updated": changed,
    }
    return FeedEntry(key, link, _text(entry, key), changed, {name: value for name, value in metadata.items() if value})


def _raw(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Returns media type and text of the longest part of an entry: its content, or its summary."""
    parts = [*entry.get("content", ()), entry.get("summary_detail") or {}]
    values = [(str(part.get("type") or "text/html"), str(part.get("value") or "")) for part in parts]
    return max(values, key=lambda value: len(value[1]))


def _text(entry: Mapping[str, Any], key: str) -> str:
    from opx.formats.markup.html import read_fragment

    kind, value = _raw(entry)
    if kind == "text/plain" or not ("<" in value or "&" in value):
        return value
    try:
        return read_fragment(value, key).strip()
    except UnparsableDocumentError:
        return ""


def _plain(text: str) -> str:
    from bs4 import BeautifulSoup

    found = BeautifulSoup(f"<p>{text}</p>", "html.parser").get_text() if "<" in text or "&" in text else text
    return " ".join(found.split())


def _tags(entry: Mapping[str, Any]) -> list[str]:
    terms = (" ".join(str(tag.get("term") or "").split())[:MAX_TAG] for tag in entry.get("tags", ()))
    return list(dict.fromkeys(term for term in terms if term))[:MAX_TAGS]


def _moment(entry: Mapping[str, Any], name: str) -> str:
    """Returns a time of an entry, which feedparser has in UTC; "" for none, and for an implausible one."""
    parsed = entry[name] if name in entry else None  # noqa: SIM401 - `get` falls back to another name, and warns
    try:
        return iso_time(calendar.timegm(parsed)) if parsed and 1970 < parsed[0] < 2100 else ""
    except (ValueError, OverflowError, OSError):
        return ""


BATCH = 100
BATCH_OF_ARTICLES = 10
BATCH_SECONDS = 60.0
"""With a site that requires a minute between two articles, a batch would else take longer than a function may run."""

_NO_VALIDATORS = {"etag": "", "last-modified": ""}
_NOT_READ = (SourceUnavailableError, SourceRefusedError, SourceShapeError, ForbiddenAddressError)


class FeedOptions(Options, frozen=True, kw_only=True):
    """Addresses and limits of feeds."""

    urls: Annotated[Texts, about("Addresses of RSS and Atom feeds.")]
    full_article: Annotated[
        bool,
        about("Read the page that an entry links to, where robots.txt allows it; else the text of the feed is used."),
    ] = False
    max_entries: Annotated[int, about("Entries of a feed that are read, at most, from its beginning on.")] = 10_000
    max_bytes: Annotated[int, about("Larger feeds and pages are reported, not read.")] = 16 * 1024 * 1024
    requests_per_second: Annotated[float, about("Requests a second, at most.")] = 1.0

    def __post_init__(self) -> None:
        for address in self.urls:
            if not page_url(address, ""):
                raise InvalidInputError(
                    f"not an address on the web: {shown_address(address)!r}; write https://host/path"
                )
        if not self.urls or self.requests_per_second <= 0 or self.max_entries < 1 or self.max_bytes < 1:
            raise InvalidInputError("a feed needs `urls`; max_entries, max_bytes and requests_per_second above 0")


class WebFeed(Connector[FeedOptions]):
    """Pulls entries of feeds, by their ids. Entries that are no longer in a feed stay: they are older, not deleted."""

    about = "entries of RSS and Atom feeds, such as engineering blogs"

    def __init__(self, definition: SourceDefinition, options: FeedOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        self._robots = Robots(self.web)

    @classmethod
    def rate_limit(cls, options: FeedOptions) -> RateLimit:
        return RateLimit(1, 1 / options.requests_per_second)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        """Pulls all feeds. A feed that can't be read is reported, and the others are pulled; raises if none can."""
        first, urls = int(request.cursor.get("feed", 0)), self.options.urls
        failures = 0
        if first >= len(urls):  # the pull was interrupted behind its last page
            yield Page(cursor=request.cursor)
        for number, url in islice(enumerate(urls), first, None):
            try:
                yield from self._pages(number, url, request.cursor if number == first else {}, request.since)
            except _NOT_READ as exc:
                failures += 1
                self._send_whole(url)
                if failures == len(urls):
                    raise
                yield Page(refused=(Refused(page_key(page_url(url, "")), str(exc)),), cursor={"feed": number + 1})

    def probe(self) -> None:
        reply = self.web.get(self.options.urls[0], limit=self.options.max_bytes)
        next(self._entries(reply), None)

    def _pages(self, number: int, url: str, cursor: Cursor, since: str) -> Iterator[Page]:
        """Returns pages of a feed. A resumed feed is requested whole, although its validators are kept since the first
        page."""
        after = str(cursor.get("after", ""))
        reply = self.web.get(url, conditional=not after, limit=self.options.max_bytes)
        if reply.not_modified:
            yield Page(cursor={"feed": number + 1})
            return
        entries = self._entries(reply)
        if after:
            entries = _behind(after, list(entries))
        size = BATCH_OF_ARTICLES if self.options.full_article else BATCH
        while batch := list(islice(entries, size)):
            page, unread = self._page(batch, since, number)
            entries = chain(unread, entries) if unread else entries
            if page.refused and self.options.full_article:
                self._send_whole(url)
            yield page
        yield Page(cursor={"feed": number + 1})

    def _send_whole(self, url: str) -> None:
        """Forgets a feed's validators, so that the next pull gets it even if unchanged, and retries unreadable entries."""
        if isinstance(self.web, PageMemory):
            self.web.note(url, _NO_VALIDATORS)

    def _entries(self, reply: WebReply) -> Iterator[FeedEntry]:
        if reply.gone:
            raise SourceRefusedError(f"{reply.url}: there is no feed (status {reply.status}); correct the address", 404)
        return feed_entries(reply, limit=self.options.max_entries)

    def _page(self, entries: list[FeedEntry], since: str, number: int) -> tuple[Page, Collection[FeedEntry]]:
        """Returns a page of some entries of a feed, and the entries for which there was no time."""
        batch = Batch()
        known = self.known([entry.key for entry in entries]) if self.options.full_article else ()
        began, unread = self.clock(), deque(entries)
        while unread:
            entry = unread.popleft()
            found = self._read(entry, since, known)
            if isinstance(found, SourceDocument):
                batch.add(found)
            elif isinstance(found, Refused):
                batch.refused.append(found)
            else:
                batch.unchanged.append(entry.key)
            if self.clock() - began >= BATCH_SECONDS:
                break
        return batch.page({"feed": number, "after": entry.key}), unread

    def _read(self, entry: FeedEntry, since: str, known: Collection[str]) -> SourceDocument | Refused | None:
        """Returns the entry's document, the reason for its refusal, or None if it is unchanged."""
        if not (self.options.full_article and entry.link):
            return _from_feed(entry)
        if entry.key in known and "" < entry.changed < since:
            return None
        try:
            if not self._robots.allows(entry.link):
                return _from_feed(entry)
            reply = self.web.get(entry.link, conditional=True, limit=self.options.max_bytes)
            if reply.not_modified and entry.key not in known:
                reply = self.web.get(entry.link, limit=self.options.max_bytes)
            return None if reply.not_modified else _from_article(entry, reply)
        except SourceUnavailableError as exc:
            if exc.retry_after:
                raise
            return Refused(entry.key, str(exc))
        except (SourceRefusedError, ForbiddenAddressError, UnparsableDocumentError) as exc:
            return Refused(entry.key, str(exc))


def _behind(key: str, entries: list[FeedEntry]) -> Iterator[FeedEntry]:
    """Returns the entries behind a key; all if it is no longer there."""
    rest = dropwhile(lambda entry: entry.key != key, entries)
    return islice(rest, 1, None) if any(entry.key == key for entry in entries) else iter(entries)


def _from_feed(entry: FeedEntry) -> SourceDocument | Refused:
    if not entry.text.strip():
        return Refused(entry.key, "the entry has no text; `full_article` reads what it links to")
    return SourceDocument(entry.key, entry.text, entry.metadata)


def _from_article(entry: FeedEntry, reply: WebReply) -> SourceDocument | Refused:
    from opx_connectors.web.pages import read_page

    if reply.gone or extension_of(reply) != HTML:
        return _from_feed(entry)
    page = read_page(reply)
    if not page.text:
        return _from_feed(entry)
    return SourceDocument(entry.key, page.text, {**page.metadata, **entry.metadata})
