"""Searches the web: Brave, Google's Programmable Search Engine, and wrappers that cache and limit a search.

Microsoft retired the Bing Search APIs on 11 August 2025; their replacement works only within its agents.
"""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from opx.domain.ids import Clock, shortened, stable_hash
from opx.errors import SourceRefusedError, SourceShapeError, SourceUnavailableError, StoreUnavailableError
from opx.ports.sources import WebClient, WebReply
from opx.ports.tables import Item, Table
from opx.runtime.threads import within

log = logging.getLogger(__name__)


class WebResult(Struct, frozen=True):
    """A page found by a web search. `text` is a passage of it, plain; `published` is ISO 8601, "" if unknown."""

    title: str
    url: str
    text: str
    published: str = ""


class WebSearch(Protocol):
    """A web search engine; `name` is used in notes and cache keys."""

    @property
    def name(self) -> str: ...

    def search(self, query: str, limit: int) -> list[WebResult]:
        """Up to `limit` (1-10) pages, the best first, each address once; `[]` if there are none. Raises
        `SourceUnavailableError`, `SourceRefusedError`, `SourceShapeError`, `ForbiddenAddressError`, and
        `SecretNotFoundError` if there is no key."""


MAX_TEXT = 1500
MAX_TITLE = 300
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*(?:\s[^<>]*)?/?>")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")


def plain_text(markup: str, limit: int = MAX_TEXT) -> str:
    """Text without tags and entities, in one line, cut to `limit` characters."""
    text = html.unescape(_TAG.sub("", markup[: 4 * limit]))
    return shortened(" ".join(_CONTROL.sub(" ", text).split()), limit)


BRAVE = "brave"
GOOGLE = "google"
PROVIDERS = (BRAVE, GOOGLE)
MAX_RESULTS = 10
BRAVE_URL = "https://api.search.brave.com/res/v1"
GOOGLE_URL = "https://customsearch.googleapis.com"
_MAX_URL = 2000
_REPLY_BYTES = 4 * 1024 * 1024


class BraveWebSearch:
    """Brave's own index. A question has 400 characters and 50 words at most. Source: Brave Search API documentation,
    "Web search"."""

    name = BRAVE

    def __init__(self, web: WebClient, key: str, base_url: str = BRAVE_URL) -> None:
        self._web = web
        self._key = key
        self._base = base_url.rstrip("/")

    def search(self, query: str, limit: int) -> list[WebResult]:
        words = " ".join(query.split()[:50])[:400]
        reply = self._web.get(
            f"{self._base}/web/search",
            query={"q": words, "count": limit, "text_decorations": "false", "result_filter": "web"},
            headers={"accept": "application/json", "x-subscription-token": self._key},
            limit=_REPLY_BYTES,
        )
        found = _mapping(_answer(reply, "Brave"), "Brave")
        if "web" not in found and found.get("type") != "search":
            raise SourceShapeError("Brave: the reply is no search; the API's format may have changed")
        listing = _mapping(found.get("web", {"results": []}), "Brave: web")
        return _results(
            (
                (item.get("title"), item.get("url"), item.get("description"), item.get("page_age"))
                for item in _items(listing.get("results"), "Brave: web.results")
            ),
            limit,
        )


class GoogleWebSearch:
    """A Programmable Search Engine, whose id is `engine`. 10 results at most. New customers can't get the API, and it
    ends on 1 January 2027. Source: Google's documentation, "Custom Search JSON API"."""

    name = GOOGLE

    def __init__(self, web: WebClient, key: str, engine: str, base_url: str = GOOGLE_URL) -> None:
        self._web = web
        self._key = key
        self._engine = engine
        self._base = base_url.rstrip("/")

    def search(self, query: str, limit: int) -> list[WebResult]:
        reply = self._web.get(
            f"{self._base}/customsearch/v1",
            query={"key": self._key, "cx": self._engine, "q": " ".join(query.split())[:1500], "num": min(limit, 10)},
            headers={"accept": "application/json"},
            limit=_REPLY_BYTES,
        )
        found = _mapping(_answer(reply, "Google"), "Google")
        if "kind" not in found and "items" not in found:
            raise SourceShapeError("Google: the reply has neither kind nor items; the API's format may have changed")
        return _results(
            (
                (item.get("title"), item.get("link"), item.get("snippet"), None)
                for item in _items(found.get("items", []), "Google: items")
            ),
            limit,
        )


def _answer(reply: WebReply, engine: str) -> Any:
    if reply.gone:
        raise SourceRefusedError(
            f"{engine}: there is no search API at this address (HTTP {reply.status})", reply.status
        )
    return reply.json()


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SourceShapeError(f"{what}: expected an object; the API's format may have changed")
    return value


def _items(value: Any, what: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise SourceShapeError(f"{what}: expected a list; the API's format may have changed")
    return [_mapping(item, what) for item in value]


def _results(found: Iterable[tuple[Any, Any, Any, Any]], limit: int) -> list[WebResult]:
    """Results with an address, each address once; one without a title is named after its host. Raises `SourceShapeError`
    if none has an address, or none has a field for its title."""
    results: dict[str, WebResult] = {}
    count = named = 0
    for title, url, text, published in found:
        count += 1
        if not (isinstance(url, str) and url.startswith(("https://", "http://")) and len(url) <= _MAX_URL):
            continue
        named += isinstance(title, str)
        called = plain_text(title, MAX_TITLE) if isinstance(title, str) else ""
        shown = plain_text(text) if isinstance(text, str) else ""
        moment = published if isinstance(published, str) else ""
        results.setdefault(url, WebResult(called or _host(url), url, shown, moment[:40]))
    if count and not named:
        raise SourceShapeError("no search result has a title and an address; the API's format may have changed")
    return list(results.values())[:limit]


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2]


class CachedWebSearch:
    """Caches the results of an engine for `seconds`: questions that differ only in case and white space are the same.
    Failures are not cached. Without its table the engine is queried each time. Each client has a separate cache: response
    times would else reveal other clients' questions."""

    def __init__(self, search: WebSearch, table: Table, *, seconds: float, clock: Clock, client_id: str = "") -> None:
        self._search = search
        self._table = table
        self._seconds = seconds
        self._clock = clock
        self._client_id = client_id

    @property
    def name(self) -> str:
        return self._search.name

    def search(self, query: str, limit: int) -> list[WebResult]:
        key = stable_hash("web search", self.name, self._client_id, " ".join(query.casefold().split()), str(limit))
        item = self._kept(key)
        if item is not None:
            return [WebResult(*each) for each in item["results"]]
        results = self._search.search(query, limit)
        self._keep(key, results)
        return results

    def _kept(self, key: str) -> Item | None:
        try:
            item = self._table.get({"cacheKey": key})
        except StoreUnavailableError:
            log.warning("the cache of web searches can't be read")
            return None
        return item if item and item["until"] > self._clock() else None

    def _keep(self, key: str, results: list[WebResult]) -> None:
        until = self._clock() + self._seconds
        kept: list[Any] = [[each.title, each.url, each.text, each.published] for each in results]
        try:
            self._table.put({"cacheKey": key, "results": kept, "until": until, "expiresAt": int(until) + 1})
        except StoreUnavailableError:
            log.warning("the cache of web searches can't be written")


Opened = Callable[[], AbstractContextManager[WebSearch]]


class LimitedWebSearch:
    """Queries an engine that is opened for each question, with a timeout of `seconds`."""

    def __init__(self, name: str, opened: Opened, *, seconds: float) -> None:
        self._name = name
        self._opened = opened
        self._seconds = seconds

    @property
    def name(self) -> str:
        return self._name

    def search(self, query: str, limit: int) -> list[WebResult]:
        engine = self._opened()  # here: what it reads of the system is not for another thread

        def work() -> list[WebResult]:
            with engine as opened:
                return opened.search(query, limit)

        return within(self._seconds, work, self._name, late=SourceUnavailableError)
