"""Pulls web sites: the connector `crawl` follows links from start addresses, and reads the pages of sitemaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from opx.connectors.connector import Connector, Options, SourceTools, Texts
from opx.domain.record import about
from opx.domain.sources import Page, PullRequest, RateLimit, SourceDefinition
from opx.errors import InvalidInputError, SourceRefusedError
from opx.hygiene.addresses import shown_address
from opx.ports.sources import PageMemory
from opx_connectors.web.crawling import Crawl, CrawlingWeb, CrawlLimits, Frontier, Visit
from opx_connectors.web.robots import Robots, listed_pages
from opx_connectors.web.urls import CrawlScope, crawl_scope, page_url

_NO_PAGES = "the sitemaps list no page within `include`, `exclude` and the hosts"


class CrawlOptions(Options, frozen=True, kw_only=True):
    """Start addresses, scope and limits of a crawl, which stays on the hosts of these addresses and on `hosts`."""

    start: Annotated[Texts, about("Addresses to start at; links on their pages are followed.")] = ()
    sitemaps: Annotated[
        Texts,
        about(
            "Sitemaps whose pages are read: also indexes, compressed ones, or one address per line. "
            "Links in the pages are not followed."
        ),
    ] = ()
    include: Annotated[
        Texts, about("Paths to stay within, as in robots.txt: the beginning of the path, with * and $.")
    ] = ()
    exclude: Annotated[Texts, about("Paths to leave out, as in robots.txt.")] = ()
    hosts: Annotated[Texts, about("Further hosts that the crawl may visit.")] = ()
    depth: Annotated[int, about("How many links to follow in a row.")] = 3
    max_pages: Annotated[
        int, about("Addresses that are visited, at most; a crawl that has more withdraws nothing.")
    ] = 2_000
    max_bytes: Annotated[int, about("Larger pages are reported, not read.")] = 8 * 1024 * 1024
    requests_per_second: Annotated[float, about("Requests a second, at most.")] = 1.0

    def __post_init__(self) -> None:
        if not self.start and not self.sitemaps:
            raise InvalidInputError("a crawl needs a start address: set `start` or `sitemaps`")
        for address in (*self.start, *self.sitemaps):
            if not page_url(address, ""):
                raise InvalidInputError(
                    f"not an address on the web: {shown_address(address)!r}; write https://host/path"
                )
        if self.requests_per_second <= 0 or self.max_pages < 1 or self.max_bytes < 1 or self.depth < 0:
            raise InvalidInputError("requests_per_second, max_pages and max_bytes must be above 0, depth at least 0")


class WebCrawl(Connector[CrawlOptions]):
    """Pulls the main content of pages as Markdown, and files of supported formats.

    A page's key is its address. Robots rules, canonical addresses, `noindex` and `nofollow` are followed.
    """

    about = "a web site: from addresses or sitemaps, within its robots.txt"
    web: CrawlingWeb

    def __init__(self, definition: SourceDefinition, options: CrawlOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        if not isinstance(tools.web, PageMemory):
            raise TypeError("a crawl needs a client that remembers pages")

    @classmethod
    def rate_limit(cls, options: CrawlOptions) -> RateLimit:
        return RateLimit(1, 1 / options.requests_per_second)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        options, scope = self.options, self._scope()
        frontier = Frontier(options.max_pages)
        for visit in self._seeds(scope):
            frontier.seed(visit)
        if frontier.empty:
            raise SourceRefusedError(_NO_PAGES)
        crawl = Crawl(
            web=self.web,
            frontier=frontier,
            scope=scope,
            robots=Robots(self.web),
            limits=CrawlLimits(options.depth, options.max_pages, options.max_bytes),
            request=request,
            known=self.known,
            clock=self.clock,
        )
        yield from crawl.pages()

    def probe(self) -> None:
        first = next(self._seeds(self._scope()), None)
        if first is None:
            raise SourceRefusedError(_NO_PAGES)
        if not Robots(self.web).allows(first.url):
            raise SourceRefusedError(f"robots.txt forbids {first.url}")
        if self.web.get(first.url, limit=self.options.max_bytes).gone:
            raise SourceRefusedError(f"there is no page at {first.url}; correct the address", 404)

    def _seeds(self, scope: CrawlScope) -> Iterator[Visit]:
        for address in self.options.start:
            yield Visit(page_url(address, ""), 0)
        for sitemap in self.options.sitemaps:
            for listed in listed_pages(self.web, sitemap):
                if not scope.has(listed.url):  # the cheap check first: some sites list a million pages
                    continue
                url = page_url(sitemap, listed.url)
                if url and scope.has(url):
                    yield Visit(url, self.options.depth, listed.changed)

    def _scope(self) -> CrawlScope:
        options = self.options
        return crawl_scope((*options.start, *options.sitemaps), options.hosts, options.include, options.exclude)
