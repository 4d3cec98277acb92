"""Entries of RSS and Atom feeds as documents. The parser is feedparser's, which also takes feeds that aren't well formed."""

from __future__ import annotations

import calendar
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from opx.domain.ids import stable_hash
from opx.domain.times import iso_time
from opx.errors import SourceShapeError, UnparsableDocumentError
from opx.ports.sources import WebReply
from opx.sources.web.urls import page_key, page_url

MAX_TITLE = 500
MAX_TAGS = 50
MAX_TAG = 128
_ROOT = re.compile(rb"<(?:\w+:)?(?:rss|feed|rdf)\b", re.IGNORECASE)
_ENDS = (b"</rss>", b"</feed>", b"</rdf:rdf>")


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """An entry. `link` is the address of its article, "" without; `text` is what the feed has of it, as Markdown;
    `changed` is ISO 8601, "" for an entry without dates."""

    key: str
    link: str
    text: str
    changed: str
    metadata: dict[str, Any] = field(default_factory=dict)


def feed_entries(reply: WebReply, *, limit: int) -> Iterator[FeedEntry]:
    """The entries of a feed in its order, each key once, `limit` at most. Raises `SourceShapeError` for what is no feed,
    and for one that breaks off."""
    import feedparser

    prolog = _ROOT.split(reply.body.replace(b"\0", b""), maxsplit=1)[0]  # without the zeros of UTF-16
    if b"<!entity" in prolog.lower():
        raise SourceShapeError(f"{reply.url}: the feed declares entities, which may grow beyond measure")
    try:
        parsed = feedparser.parse(
            io.BytesIO(reply.body),
            response_headers={"content-location": reply.url, "content-type": reply.headers.get("content-type", "")},
            resolve_relative_uris=False,
            sanitize_html=False,  # scripts and styles are left out where it becomes Markdown
        )
    except (ValueError, LookupError, RecursionError) as exc:
        raise SourceShapeError(f"{reply.url}: not readable as a feed: {exc}") from exc
    if not parsed.get("version"):
        raise SourceShapeError(f"{reply.url}: RSS or Atom was expected; is it the address of the feed?")
    if parsed.get("bozo") and not reply.body.rstrip().lower().endswith(_ENDS):
        raise SourceShapeError(f"{reply.url}: the feed breaks off")
    return _entries(parsed["entries"][:limit], reply.url)


def _entries(found: list[Mapping[str, Any]], url: str) -> Iterator[FeedEntry]:
    seen = set()
    for entry in found:
        key = _key(entry, url)
        if key not in seen:
            seen.add(key)
            yield _entry(entry, key, url)


def _key(entry: Mapping[str, Any], feed: str) -> str:
    """From the entry's id, which stays when its article moves; or else from its link, or what is written in it."""
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
    """Media type and text of the longest that the entry has: its content, or its summary."""
    parts = [*entry.get("content", ()), entry.get("summary_detail") or {}]
    values = [(str(part.get("type") or "text/html"), str(part.get("value") or "")) for part in parts]
    return max(values, key=lambda value: len(value[1]))


def _text(entry: Mapping[str, Any], key: str) -> str:
    from opx.ingestion.parsing.html import read_fragment

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
    """feedparser gives times in UTC; "" for none, and for one that nobody wrote an entry at."""
    parsed = entry[name] if name in entry else None  # noqa: SIM401 - `get` falls back to another name, and warns
    try:
        return iso_time(calendar.timegm(parsed)) if parsed and 1970 < parsed[0] < 2100 else ""
    except (ValueError, OverflowError, OSError):
        return ""
