"""A documentation site and a feed for `source_speed`, served by another process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

from opx.adapters.web import HttpWeb, open_web
from opx.domain.sources import SourceDocument
from tests.doubles.misbehaving_site import MemoryValidators, MisbehavingSite
from tests.support.web_support import a_source, html, rss, rss_item, sitemap

PAGES = 300
ENTRIES = 10_000
MENU = "".join(f"<li><a href='/pages/{number}'>Page {number}</a></li>" for number in range(100))
STEP = (
    "<h2>Step {0}</h2><p>Drain the node, so that its pods move to others and no request is lost on the way.</p>"
    "<pre><code class='language-sh'>kubectl drain node-{0} --ignore-daemonsets</code></pre>"
    "<table><tr><th>Step</th><th>Seconds</th></tr><tr><td>drain</td><td>{0}</td></tr></table>"
)
PACE = 1_000_000.0


def crawled_documents() -> Iterator[SourceDocument]:
    """300 pages of 10 KB, each with a menu of 100 links, found by links."""
    with _served() as site, closing(_client(site)) as web:
        yield from a_source("crawl", web, start=(site + "/",), requests_per_second=PACE).fetch()


def listed_documents() -> Iterator[SourceDocument]:
    """The same pages, by their sitemap."""
    with _served() as site, closing(_client(site)) as web:
        yield from a_source("crawl", web, sitemaps=(site + "/sitemap.xml",), requests_per_second=PACE).fetch()


def feed_documents() -> Iterator[SourceDocument]:
    """10,000 entries of a feed, with HTML and without dates."""
    with _served() as site, closing(_client(site)) as web:
        yield from a_source("feed", web, urls=(site + "/feed",), requests_per_second=PACE).fetch()


def _client(site: str) -> HttpWeb:
    return open_web(allowed_hosts=(site.removeprefix("http://"),), validators=MemoryValidators())


@contextmanager
def _served() -> Iterator[str]:
    """The address of the site in another process."""
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


def _serve() -> None:
    """Serve until the other end of the input is closed."""
    with MisbehavingSite() as site:
        places = [f"/pages/{number}" for number in range(PAGES - 1)]
        site.page("/", html("Home", *places[:150]), etag='"home"')
        for number, place in enumerate(places):
            steps = "".join(STEP.format(step) for step in range(number, number + 20))
            body = f"<nav><ul>{MENU}</ul></nav>{steps}"
            site.page(place, html(f"Page {number}", f"/pages/{number + 150}", body=body), etag=f'"{number}"')
        site.page("/sitemap.xml", sitemap(*map(site.url, places)))
        text = "&lt;p&gt;Text of &lt;b&gt;an entry&lt;/b&gt;.&lt;/p&gt;&lt;pre&gt;code&lt;/pre&gt;"
        site.page("/feed", rss([rss_item(number, text=text) for number in range(ENTRIES)]))
        print(site.url(), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _serve()
