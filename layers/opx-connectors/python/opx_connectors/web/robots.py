"""Reads the instructions of sites to crawlers: robots.txt and sitemaps.

robots.txt declares the allowed pages (RFC 9309, "Robots Exclusion Protocol"; the parser is protego's). Sitemaps are lists of
pages, and indexes of such lists (sitemaps.org, "Sitemaps XML format").
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from opx.domain.sources import RateLimit
from opx.errors import SourceRefusedError, SourceShapeError
from opx.ports.sources import PageMemory, WebClient

if TYPE_CHECKING:
    from protego import Protego

ROBOT = "opx-knowledge"
MAX_ROBOTS_BYTES = 2 * 1024 * 1024
MAX_DELAY = 60.0
"""Seconds between two pages; with more, a crawl would not end."""


class Robots:
    """The rules of each host, requested once."""

    def __init__(self, web: WebClient) -> None:
        self._web = web
        self._rules: dict[str, Protego] = {}
        self._delay = 0.0

    def allows(self, url: str) -> bool:
        """True if the page may be fetched. Raises `SourceUnavailableError` if the rules can't be read for now: then no page
        may be fetched."""
        return self._of(url).can_fetch(url, ROBOT)

    def _of(self, url: str) -> Protego:
        parts = urlsplit(url)
        site = f"{parts.scheme}://{parts.netloc}"
        if site not in self._rules:
            self._rules[site] = self._read(site)
            self._slow_down(site)
        return self._rules[site]

    def _read(self, site: str) -> Protego:
        from protego import Protego

        try:
            reply = self._web.get(f"{site}/robots.txt", limit=MAX_ROBOTS_BYTES)
        except SourceRefusedError as exc:
            if 400 <= exc.status < 500:  # "unavailable": the crawler may access any resources
                return Protego.parse("")
            raise
        return Protego.parse("" if reply.gone else reply.text())

    def _slow_down(self, site: str) -> None:
        rules = self._rules[site]
        rate = rules.request_rate(ROBOT)
        delay = max(float(rules.crawl_delay(ROBOT) or 0), rate.seconds / rate.requests if rate else 0.0)
        if delay > MAX_DELAY:
            raise SourceRefusedError(
                f"{site}/robots.txt requires {delay:g} seconds between two pages: too slow to crawl"
            )
        if delay > self._delay and isinstance(self._web, PageMemory):
            self._delay = delay
            self._web.slow_down(RateLimit(1, delay))


MAX_SITEMAP_BYTES = 52 * 1024 * 1024
"""Sitemaps may have 50 MB unpacked; some have a little more."""

MAX_SITEMAPS = 20_000
MAX_DEPTH = 3
_BLOCK = 64 * 1024
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class SitemapPage:
    """A page of a sitemap. `changed` is as the sitemap has it (W3C date or time), "" without."""

    url: str
    changed: str = ""


def listed_pages(web: WebClient, sitemap: str) -> Iterator[SitemapPage]:
    """Returns the pages of a sitemap, and of those that it lists, in order. Sitemaps are read one at a time, none twice.

    Raises `SourceRefusedError` if one is missing, and `SourceShapeError` if one is not a sitemap.
    """
    waiting = [(sitemap, 0)]
    seen = {sitemap}
    while waiting:
        url, depth = waiting.pop(0)
        for tag, page in _entries(_fetched(web, url), url):
            if tag == "url":
                yield page
            elif page.url not in seen and depth < MAX_DEPTH and len(seen) < MAX_SITEMAPS:
                seen.add(page.url)
                waiting.append((page.url, depth + 1))


def _fetched(web: WebClient, url: str) -> bytes:
    reply = web.get(url, limit=MAX_SITEMAP_BYTES)
    if reply.gone:
        raise SourceRefusedError(
            f"{url}: there is no sitemap (status {reply.status}); correct the address", reply.status
        )
    if not reply.body.startswith(_GZIP):
        return reply.body
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(reply.body)) as packed:
            body = packed.read(MAX_SITEMAP_BYTES + 1)
    except (OSError, EOFError, zlib.error) as exc:
        raise SourceShapeError(f"{url}: the sitemap can't be unpacked: {exc}") from exc
    if len(body) > MAX_SITEMAP_BYTES:
        raise SourceRefusedError(f"{url}: the sitemap is larger than {MAX_SITEMAP_BYTES:,} bytes")
    return body


def _entries(body: bytes, url: str) -> Iterator[tuple[str, SitemapPage]]:
    """Returns `url` or `sitemap` with the page that it names."""
    if not body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        yield from _lines(body, url)
        return
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, iterparse

    root = None
    try:
        for event, element in iterparse(io.BytesIO(body.lstrip()), events=("start", "end")):
            tag = element.tag.rpartition("}")[2]
            if root is None:
                root = element
                if tag not in ("urlset", "sitemapindex"):
                    raise SourceShapeError(f"{url}: a sitemap was expected, not <{tag[:50]}>")
            elif event == "end" and tag in ("url", "sitemap"):
                found = {child.tag.rpartition("}")[2]: (child.text or "").strip() for child in element}
                address = _joined(url, found.get("loc", ""))
                if address:
                    yield tag, SitemapPage(address, found.get("lastmod", ""))
                root.clear()
    except (ParseError, DefusedXmlException, ValueError, LookupError) as exc:  # LookupError: an unknown encoding
        raise SourceShapeError(f"{url}: not a readable sitemap: {exc}") from exc
    if root is None:
        raise SourceShapeError(f"{url}: the sitemap is empty")


def _joined(url: str, reference: str) -> str:
    """Resolves an address; "" if it is invalid, as one bad entry doesn't invalidate a sitemap."""
    try:
        return urljoin(url, reference) if reference else ""
    except ValueError:
        return ""


def _lines(body: bytes, url: str) -> Iterator[tuple[str, SitemapPage]]:
    """Reads a plain sitemap: a file with one address per line."""
    found = [line.strip() for line in body.decode("utf-8", errors="replace").splitlines() if line.strip()]
    if not found or not all(line.startswith(("http://", "https://")) for line in found):
        raise SourceShapeError(f"{url}: a sitemap was expected, XML or one address per line")
    for line in found:
        yield "url", SitemapPage(line)
