"""Builders for tests of what reads the web."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from opx.adapters.web import HttpWeb
from opx.connectors.connector import Connector, SourceTools, nothing_known
from opx.connectors.registry import checked_options, connector_type
from opx.domain.knowledge import Tier
from opx.domain.sources import Page, PullRequest, SourceDefinition, SourceDocument
from opx_testing.fake_time import FakeTime
from tests.doubles.misbehaving_site import MemoryValidators, MisbehavingSite, a_web


class NoSecrets:
    def get(self, name: str) -> str:
        raise AssertionError(name)


def a_source(
    kind: str,
    web: HttpWeb,
    *,
    known: Callable[[Sequence[str]], Collection[str]] = nothing_known,
    time: FakeTime | None = None,
    **options: Any,
) -> Connector[Any]:
    definition = SourceDefinition("any", kind, "cloud", Tier.SPECIALIZED, options=options)
    tools = SourceTools(web, NoSecrets(), (time or FakeTime()).clock, known)
    return connector_type(kind)(definition, checked_options(definition), tools)


def a_directory(path: Path, **options: Any) -> Connector[Any]:
    return a_source("directory", None, path=str(path), **options)  # type: ignore[arg-type]


class Pulls:
    """Pulls of a source from one site, with what a puller keeps in between, once a page is stored: validators, and the
    keys that it ingested."""

    def __init__(self, site: MisbehavingSite, kind: str, **options: Any) -> None:
        self.site = site
        self.time = FakeTime()
        self.validators = MemoryValidators()
        self.taken: set[str] = set()
        self._kind = kind
        self._options = options

    def pull(self, request: PullRequest = PullRequest(), *, stop_after: int = 0) -> list[Page]:  # noqa: B008
        """The pages of a pull; of one that is interrupted after so many."""
        found = []
        for page in self.pull_lazily(request):
            found.append(page)
            if len(found) == stop_after:
                break
        return found

    def pull_lazily(self, request: PullRequest = PullRequest()) -> Iterator[Page]:  # noqa: B008
        """A page is stored before it is given."""
        with closing(a_web(self.site, time=self.time, validators=self.validators)) as web:
            source = a_source(self._kind, web, known=self.taken.intersection, time=self.time, **self._options)
            for page in source.pull(request):
                assert self.taken.issuperset(page.unchanged)
                self.taken.update(document.key for document in page.documents)
                self.taken.difference_update(page.withdrawn)
                web.commit_validators()
                yield page


def crawl_of(site: MisbehavingSite, start: str = "/", **options: object) -> Pulls:
    return Pulls(site, "crawl", start=(site.url(start),), **options)


def visited(site: MisbehavingSite) -> list[str]:
    """Targets of the requests to a site, without those for its rules."""
    return [request.target for request in site.requests if request.path != "/robots.txt"]


def documents(pages: Iterable[Page]) -> dict[str, SourceDocument]:
    """By key, without the host."""
    return {short(document.key): document for page in pages for document in page.documents}


def unchanged(pages: Iterable[Page]) -> list[str]:
    return [short(key) for page in pages for key in page.unchanged]


def refused(pages: Iterable[Page]) -> dict[str, str]:
    return {short(one.key): one.reason for page in pages for one in page.refused}


def short(key: str) -> str:
    return "/" + key.partition("/")[2]


def html(title: str, *links: str, head: str = "", body: str = "") -> str:
    linked = "".join(f'<p><a href="{link}">to {link}</a></p>' for link in links)
    return (
        f"<html><head><title>{title} | Site</title>{head}</head><body><nav>Menu</nav>"
        f"<main><h1>{title}</h1><p>About {title}.</p>{body}{linked}</main></body></html>"
    )


def sitemap(*entries: str | tuple[str, str], index: bool = False) -> bytes:
    """A sitemap of addresses, or of addresses with their time of change; or an index of sitemaps."""
    outer, inner = ("sitemapindex", "sitemap") if index else ("urlset", "url")
    pairs = [(entry, "") if isinstance(entry, str) else entry for entry in entries]
    listed = "".join(
        f"<{inner}><loc>{url}</loc>{f'<lastmod>{when}</lastmod>' if when else ''}</{inner}>" for url, when in pairs
    )
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{outer} xmlns="{space}">{listed}</{outer}>'.encode()


def rss(items: Sequence[str]) -> str:
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>Blog</title>{"".join(items)}</channel></rss>'


def rss_item(number: int, *, text: str = "", extra: str = "") -> str:
    return (
        f"<item><title>Post {number}</title><guid isPermaLink='false'>post-{number}</guid>"
        f"<description>{text or f'About {number}.'}</description>{extra}</item>"
    )
