"""What sites allow crawlers (RFC 9309, "Robots Exclusion Protocol"). The parser is protego's."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opx.domain.sources import RateLimit
from opx.errors import SourceRefusedError
from opx.ports.sources import PageMemory, WebClient

if TYPE_CHECKING:
    from protego import Protego

ROBOT = "opx-knowledge"
MAX_BYTES = 2 * 1024 * 1024
MAX_DELAY = 60.0
"""Seconds; with more between two pages, a crawl would not end."""


class Robots:
    """The rules of each host, asked for once."""

    def __init__(self, web: WebClient) -> None:
        self._web = web
        self._rules: dict[str, Protego] = {}
        self._delay = 0.0

    def allows(self, url: str) -> bool:
        """Whether the page may be fetched. Raises `SourceUnavailableError` if the rules can't be read for now: then
        nothing may be."""
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
            reply = self._web.get(f"{site}/robots.txt", limit=MAX_BYTES)
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
            raise SourceRefusedError(f"{site}/robots.txt wants {delay:g} seconds between two pages: too slow to crawl")
        if delay > self._delay and isinstance(self._web, PageMemory):
            self._delay = delay
            self._web.slow_down(RateLimit(1, delay))
