from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest

from infra.sources import PULL_SOURCES
from lambdas.pull_sources.handler import RESERVE_MS
from opx.adapters.web import MAX_WAIT_SECONDS, TIMEOUT_SECONDS, TRIES
from opx.connectors.web.crawl import CrawlOptions, WebCrawl
from opx.connectors.web.crawling import BATCH_SECONDS
from opx.domain.sources import Health, Page, PullRequest, RateLimit
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError, SourceUnavailableError
from tests.doubles.misbehaving_site import Answer, MisbehavingSite, a_web
from tests.support.web_support import Pulls, a_source, documents, html, refused, sitemap, unchanged


@pytest.fixture
def site() -> Iterator[MisbehavingSite]:
    with MisbehavingSite() as site:
        yield site


def crawl_of(site: MisbehavingSite, start: str = "/", **options: object) -> Pulls:
    return Pulls(site, "crawl", start=(site.url(start),), **options)


def visited(site: MisbehavingSite) -> list[str]:
    return [request.target for request in site.requests if request.path != "/robots.txt"]


# -- what is found


def test_pages_become_markdown_with_title_and_address(site: MisbehavingSite) -> None:
    site.page("/", html("Guide", body="<h2>Steps</h2><pre><code class='language-sh'>ls</code></pre>"))
    found = documents(crawl_of(site).pull())["/"]
    assert found.content == "# Guide\n\nAbout Guide.\n\n## Steps\n\n```sh\nls\n```\n"
    assert found.metadata == {"title": "Guide", "source_uri": site.url("/")}


def test_the_metadata_of_a_page_become_those_of_its_document(site: MisbehavingSite) -> None:
    head = (
        "<meta name=author content='Ann'><meta property='article:published_time' content='2024-01-02'>"
        '<script type=\'application/ld+json\'>{"dateModified": "2024-05-06T07:08:09+02:00"}</script>'
    )
    site.page("/", html("Guide", head=head).replace("<html>", "<html lang=de>"))
    metadata = documents(crawl_of(site).pull())["/"].metadata
    assert (metadata["author"], metadata["language"]) == ("Ann", "de")
    assert (metadata["created_at"], metadata["last_updated"]) == ("2024-01-02", "2024-05-06T05:08:09Z")


def test_links_are_followed_as_deep_as_allowed(site: MisbehavingSite) -> None:
    for number in range(4):
        site.page(f"/{number}", html(f"Page {number}", f"/{number + 1}"))
    assert [*documents(crawl_of(site, "/0", depth=2).pull())] == ["/0", "/1", "/2"]


def test_pages_are_visited_breadth_first_and_once(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a", "/b"))
    site.page("/a", html("A", "/", "/c", "/b"))
    site.page("/b", html("B", "/a#part", "/b/"))
    site.page("/c", html("C"))
    crawl_of(site).pull()
    assert visited(site) == ["/", "/a", "/b", "/c"]


def test_tracking_parameters_and_session_ids_make_no_other_page(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a?utm_source=x", "/a?gclid=1#y", "/a;jsessionid=9", "/a"))
    site.page("/a", html("A"))
    crawl_of(site).pull()
    assert visited(site) == ["/", "/a"]


def test_other_parameters_do_in_any_order(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a?x=1&y=2", "/a?y=2&x=1", "/a?x=2"))
    site.page("/a?x=1&y=2", html("One"))
    site.page("/a?x=2", html("Two"))
    assert [*documents(crawl_of(site).pull())] == ["/", "/a?x=1&y=2", "/a?x=2"]


def test_other_sites_pictures_and_archives_are_not_requested(site: MisbehavingSite) -> None:
    links = ("http://elsewhere.example/x", "/p.png", "/v.mp4", "/s.css", "/d.zip", "mailto:a@e.org", "javascript:x()")
    site.page("/", html("Home", *links, "http://[bad/"))
    crawl_of(site).pull()
    assert visited(site) == ["/"]


def test_include_and_exclude_choose_paths_as_robots_rules_do(site: MisbehavingSite) -> None:
    site.page("/docs/", html("Home", "/docs/a", "/docs/old/b", "/docs/x.pdf", "/blog/c", "/docs/d?lang=fr"))
    for path in ("/docs/a", "/docs/old/b", "/blog/c", "/docs/d", "/docs/x.pdf"):
        site.page(path, html(path))
    pulls = crawl_of(site, "/docs/", include=("/docs/",), exclude=("/docs/old/", "/*.pdf$", "*lang="))
    assert [*documents(pulls.pull())] == ["/docs", "/docs/a"]


def test_files_of_known_formats_are_given_as_bytes(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a.txt", "/download?id=7", "/data.json"))
    site.page("/a.txt", b"plain", kind="text/plain")
    site.page("/download", b"# Notes", kind="text/markdown")
    site.page("/data.json", {"a": 1})
    found = documents(crawl_of(site).pull())
    assert {key: found[key].content for key in found if key != "/"} == {
        "/a.txt": b"plain",
        "/download?id=7.md": b"# Notes",
    }


def test_a_page_whose_address_ends_like_a_file_is_read_as_markdown(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/guide.html"))
    site.page("/guide.html", html("Guide"))
    assert [*documents(crawl_of(site).pull())] == ["/", "/guide.html.md"]


def test_a_base_element_moves_relative_links(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "a", head="<base href='/docs/'>"))
    crawl_of(site).pull()
    assert visited(site) == ["/", "/docs/a"]


# -- the same page at several addresses


def test_the_same_text_at_two_addresses_is_ingested_once(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a", "/b"))
    site.page("/a", html("Same"))
    site.page("/b", html("Same"))
    assert [*documents(crawl_of(site).pull())] == ["/", "/a"]


def test_a_page_is_ingested_at_its_canonical_address(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a?view=print"))
    site.page("/a?view=print", html("A, printed", head="<link rel=canonical href='/a'>"))
    site.page("/a", html("A", head="<link rel=canonical href='/a/'>"))
    assert [*documents(crawl_of(site).pull())] == ["/", "/a"]


@pytest.mark.parametrize("canonical", ["/", "http://elsewhere.example/a", "http://[bad"])
def test_a_canonical_address_that_can_not_be_meant_is_ignored(site: MisbehavingSite, canonical: str) -> None:
    site.page("/", html("Home", "/a"))
    site.page("/a", html("A", head=f"<link rel=canonical href='{canonical}'>"))
    assert [*documents(crawl_of(site).pull())] == ["/", "/a"]


def test_of_two_pages_that_name_each_other_one_is_ingested(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a"))
    site.page("/a", html("A", head="<link rel=canonical href='/b'>"))
    site.page("/b", html("B", head="<link rel=canonical href='/a'>"))
    assert [*documents(crawl_of(site).pull())] == ["/", "/b"]


def test_a_page_that_is_redirected_to_is_ingested_once(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/old", "/new"))
    site.redirect("/old", "/new")
    site.page("/new", html("New"))
    pages = crawl_of(site).pull()
    assert [*documents(pages)] == ["/", "/new"]
    assert visited(site) == ["/", "/old", "/new", "/new"]


def test_the_target_of_a_redirect_is_not_requested_again(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/old", "/a"))
    site.redirect("/old", "/new")
    site.page("/new", html("New"))
    site.page("/a", html("A", "/new"))
    crawl_of(site).pull()
    assert visited(site) == ["/", "/old", "/new", "/a"]


# -- instructions to crawlers


def test_forbidden_pages_are_not_fetched_and_reported(site: MisbehavingSite) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /private", kind="text/plain")
    site.page("/", html("Home", "/private/x", "/a"))
    site.page("/a", html("A"))
    pages = crawl_of(site).pull()
    assert [*refused(pages)] == ["/private/x"]
    assert "robots.txt" in refused(pages)["/private/x"]
    assert site.request_count("/private/x") == 0
    assert pages[-1].complete


def test_a_site_that_forbids_everything_is_left_alone(site: MisbehavingSite) -> None:
    site.page("/robots.txt", "User-agent: opx-knowledge\nDisallow: /", kind="text/plain")
    site.page("/", html("Home"))
    pages = crawl_of(site).pull()
    assert [*refused(pages)] == ["/"]
    assert visited(site) == []


def test_rules_are_requested_once(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a", "/b"))
    crawl_of(site).pull()
    assert site.request_count("/robots.txt") == 1


@pytest.mark.parametrize("status", [401, 403, 404])
def test_without_rules_everything_is_allowed(site: MisbehavingSite, status: int) -> None:
    site.page("/robots.txt", "", status=status)
    site.page("/", html("Home"))
    assert [*documents(crawl_of(site).pull())] == ["/"]


def test_while_the_rules_can_not_be_read_nothing_is_fetched(site: MisbehavingSite) -> None:
    site.page("/robots.txt", "", status=503)
    site.page("/", html("Home"))
    with pytest.raises(SourceUnavailableError, match=r"robots\.txt"):
        crawl_of(site).pull()
    assert visited(site) == []


def test_the_delay_that_a_site_wants_is_kept(site: MisbehavingSite) -> None:
    site.page("/robots.txt", "User-agent: *\nCrawl-delay: 5", kind="text/plain")
    site.page("/", html("Home", "/a", "/b"))
    pulls = crawl_of(site, requests_per_second=10.0)
    pulls.pull()
    assert pulls.time.slept == [5.0, 5.0]


def test_a_site_that_wants_to_be_crawled_for_years_is_refused(site: MisbehavingSite) -> None:
    site.page("/robots.txt", "User-agent: *\nCrawl-delay: 3600", kind="text/plain")
    site.page("/", html("Home"))
    with pytest.raises(SourceRefusedError, match="too slow to crawl"):
        crawl_of(site).pull()


def test_our_own_pace_is_the_client_s_rate() -> None:
    options = CrawlOptions(start=("http://e.org/",), requests_per_second=0.5)
    assert WebCrawl.rate_limit(options) == RateLimit(1, 2.0)


@pytest.mark.parametrize("head", ["<meta name=robots content='noindex'>", "<meta name='ROBOTS' content='NONE'>"])
def test_a_page_that_is_not_to_be_indexed_is_no_document(site: MisbehavingSite, head: str) -> None:
    site.page("/", html("Home", "/a"))
    site.page("/a", html("A", head=head))
    assert [*documents(crawl_of(site).pull())] == ["/"]


def test_a_header_can_ask_for_it_as_well(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a", "/b.txt"))
    site.page("/a", html("A"), headers={"X-Robots-Tag": "noindex"})
    assert [*documents(crawl_of(site).pull())] == ["/"]


def test_links_that_are_not_to_be_followed_are_not(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a", body="<a rel='nofollow' href='/no'>x</a>"))
    site.page("/a", html("A", "/b", head="<meta name=robots content='index, nofollow'>"))
    site.page("/b", html("B"))
    crawl_of(site).pull()
    assert visited(site) == ["/", "/a"]


# -- sitemaps


def test_pages_of_a_sitemap_are_read_and_links_in_them_are_not(site: MisbehavingSite) -> None:
    site.page("/sitemap.xml", sitemap(site.url("/a"), site.url("/b?utm_source=x")))
    site.page("/a", html("A", "/c"))
    site.page("/b", html("B"))
    pulls = Pulls(site, "crawl", sitemaps=(site.url("/sitemap.xml"),))
    pages = pulls.pull()
    assert [*documents(pages)] == ["/a", "/b"]
    assert pages[-1].complete


def test_an_index_of_packed_sitemaps_is_followed(site: MisbehavingSite) -> None:
    site.page("/index.xml", sitemap(site.url("/1.xml.gz"), site.url("/2.xml"), index=True))
    site.page("/1.xml.gz", gzip.compress(sitemap((site.url("/a"), "2024-01-02"))), kind="application/gzip")
    site.page("/2.xml", sitemap(site.url("/b")))
    site.page("/a", html("A"))
    site.page("/b", html("B"))
    found = documents(Pulls(site, "crawl", sitemaps=(site.url("/index.xml"),)).pull())
    assert [*found] == ["/a", "/b"]
    assert found["/a"].metadata["last_updated"] == "2024-01-02"


def test_a_sitemap_that_lists_itself_ends(site: MisbehavingSite) -> None:
    site.page("/index.xml", sitemap(site.url("/index.xml"), site.url("/1.xml"), index=True))
    site.page("/1.xml", sitemap(site.url("/a")))
    site.page("/a", html("A"))
    assert [*documents(Pulls(site, "crawl", sitemaps=(site.url("/index.xml"),)).pull())] == ["/a"]
    assert site.request_count("/index.xml") == 1


def test_pages_of_other_sites_and_paths_in_a_sitemap_are_left_out(site: MisbehavingSite) -> None:
    listed = (site.url("/docs/a"), site.url("/blog/b"), "http://elsewhere.example/docs/c")
    site.page("/sitemap.xml", sitemap(*listed))
    site.page("/docs/a", html("A"))
    pulls = Pulls(site, "crawl", sitemaps=(site.url("/sitemap.xml"),), include=("/docs/",))
    assert [*documents(pulls.pull())] == ["/docs/a"]


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>not found</body></html>",
        b"<urlset><url><loc>http://e.org/",
        b"",
        b"some words",
        b"<?xml version='1.0' encoding='U-8'?><urlset/>",
        b"<!DOCTYPE x [<!ENTITY a 'b'>]><urlset><url><loc>&a;</loc></url></urlset>",
    ],
    ids=["a page", "cut", "empty", "text", "encoding", "entities"],
)
def test_an_invalid_sitemap_is_a_shape_error(site: MisbehavingSite, body: bytes) -> None:
    site.page("/sitemap.xml", body, kind="application/xml")
    with pytest.raises(SourceShapeError, match=r"sitemap"):
        Pulls(site, "crawl", sitemaps=(site.url("/sitemap.xml"),)).pull()


def test_an_odd_entry_of_a_sitemap_is_left_out(site: MisbehavingSite) -> None:
    site.page("/map.xml", sitemap("http://[bad/", "mailto:a@e.org", "", site.url("/a")))
    site.page("/a", html("A"))
    assert [*documents(Pulls(site, "crawl", sitemaps=(site.url("/map.xml"),)).pull())] == ["/a"]


def test_a_packed_sitemap_that_is_cut_is_of_a_wrong_shape(site: MisbehavingSite) -> None:
    site.page("/sitemap.xml", gzip.compress(sitemap(site.url("/a")))[:-12])
    with pytest.raises(SourceShapeError, match="unpacked"):
        Pulls(site, "crawl", sitemaps=(site.url("/sitemap.xml"),)).pull()


def test_a_sitemap_that_is_not_there_is_an_error(site: MisbehavingSite) -> None:
    with pytest.raises(SourceRefusedError, match="no sitemap"):
        Pulls(site, "crawl", sitemaps=(site.url("/sitemap.xml"),)).pull()


def test_a_sitemap_without_pages_of_the_crawl_is_an_error(site: MisbehavingSite) -> None:
    site.page("/sitemap.xml", sitemap("http://elsewhere.example/"))
    with pytest.raises(SourceRefusedError, match="list no page"):
        Pulls(site, "crawl", sitemaps=(site.url("/sitemap.xml"),)).pull()


def test_addresses_a_line_are_a_sitemap(site: MisbehavingSite) -> None:
    site.page("/urls.txt", f"{site.url('/a')}\n\n{site.url('/b')}\n".encode())
    site.page("/a", html("A"))
    site.page("/b", html("B"))
    assert [*documents(Pulls(site, "crawl", sitemaps=(site.url("/urls.txt"),)).pull())] == ["/a", "/b"]


# -- what goes wrong


def test_a_page_that_fails_is_reported_and_the_crawl_is_not_complete(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a", "/b"))
    site.page("/a", "", status=500)
    site.page("/b", html("B"))
    pages = crawl_of(site).pull()
    assert [*documents(pages)] == ["/", "/b"]
    assert "500" in refused(pages)["/a"]
    assert not pages[-1].complete


def test_a_site_that_serves_nothing_any_more_ends_the_pull(site: MisbehavingSite) -> None:
    site.page("/", html("Home", *(f"/{number}" for number in range(9))))
    for number in range(9):
        site.page(f"/{number}", "", status=500)
    with pytest.raises(SourceUnavailableError):
        crawl_of(site).pull()
    assert site.request_count("/5") == 0


def test_a_site_that_wants_to_be_left_alone_ends_the_pull_at_once(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a", "/b"))
    site.fail("/a", status=429, retry_after="600")
    with pytest.raises(SourceUnavailableError) as failure:
        crawl_of(site).pull()
    assert failure.value.retry_after == 600
    assert site.request_count("/b") == 0


@pytest.mark.parametrize("status", [401, 403])
def test_a_start_page_that_is_refused_is_an_error(site: MisbehavingSite, status: int) -> None:
    site.page("/", "", status=status)
    with pytest.raises(SourceRefusedError):
        crawl_of(site).pull()


def test_a_start_page_that_leads_elsewhere_is_reported(site: MisbehavingSite) -> None:
    with MisbehavingSite() as other:
        other.page("/", html("Other"))
        site.redirect("/", other.url("/"))
        site.redirect("/docs", "/en/docs")
        site.page("/en/docs", html("English"))
        pages = crawl_of(site, "/docs", include=("/docs",)).pull()
    assert "does not belong to the crawl" in refused(pages)["/docs"]
    assert documents(pages) == {}


def test_a_page_that_is_gone_for_good_is_withdrawn(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a", "/b"))
    site.page("/a", "", status=410)
    pages = crawl_of(site).pull()
    assert [key.partition("/")[2] for page in pages for key in page.withdrawn] == ["a"]
    assert pages[-1].complete


def test_a_page_that_scripts_draw_is_reported(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a"))
    site.page("/a", "<html><title>App</title><body><div id=root></div><script>x</script></body></html>")
    assert "scripts" in refused(crawl_of(site).pull())["/a"]


def test_a_page_that_is_too_large_or_too_deep_is_reported(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/large", "/deep", "/b"))
    site.page("/large", html("Large", body="z" * 20_000))
    site.page("/deep", "<html><body>" + "<div>" * 500 + "x")
    site.page("/b", html("B"))
    pages = crawl_of(site, max_bytes=10_000).pull()
    assert [*documents(pages)] == ["/", "/b"]
    assert "larger" in refused(pages)["/large"]
    assert "deeper" in refused(pages)["/deep"]


def test_a_crawl_ends_at_its_limit_and_is_not_complete(site: MisbehavingSite) -> None:
    site.on("/", lambda request: Answer(200, html("Home", "/?n=1"), {"Content-Type": "text/html"}))
    endless = 0

    def another(request: object) -> Answer:
        nonlocal endless
        endless += 2
        links = (f"/trap?n={endless}", f"/trap?n={endless + 1}")
        return Answer(200, html(f"Trap {endless}", *links), {"Content-Type": "text/html"})

    site.on("/", another)
    site.on("/trap", another)
    pages = crawl_of(site, depth=99, max_pages=30).pull()
    assert len(visited(site)) == 30
    assert not pages[-1].complete


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "start"),
        ({"start": ("e.org",)}, "not an address"),
        ({"sitemaps": ("file:///x",)}, "not an address"),
        ({"start": ("http://e.org",), "requests_per_second": 0.0}, "requests_per_second"),
        ({"start": ("http://e.org",), "depth": -1}, "depth"),
    ],
)
def test_options_that_make_no_crawl_are_refused(
    site: MisbehavingSite, options: dict[str, object], problem: str
) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        Pulls(site, "crawl", **options).pull()


# -- the next pull


def test_unchanged_pages_are_named_and_their_links_followed(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a"), etag='"h"')
    site.page("/a", html("A", "/b"), etag='"a"')
    site.page("/b", html("B"))
    pulls = crawl_of(site)
    pulls.pull()
    site.page("/b", html("B, changed"))
    pages = pulls.pull()
    assert unchanged(pages) == ["/", "/a"]
    assert [*documents(pages)] == ["/b"]
    assert pages[-1].complete


def test_a_page_that_was_another_one_s_copy_is_given_when_that_changes(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a", "/b"), etag='"h"')
    site.page("/a", html("Same"), etag='"a"')
    site.page("/b", html("Same"), etag='"b"')
    pulls = crawl_of(site)
    pulls.pull()
    site.page("/a", html("Other"), etag='"a2"')
    assert [*documents(pulls.pull())] == ["/a", "/b"]
    assert unchanged(pulls.pull()) == ["/", "/a", "/b"]


def test_a_page_that_became_another_one_s_copy_is_not_named(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a", "/b"), etag='"h"')
    site.page("/a", html("A"), etag='"a"')
    site.page("/b", html("B"), etag='"b"')
    pulls = crawl_of(site)
    pulls.pull()
    site.page("/a", html("B"), etag='"a2"')
    pages = pulls.pull()
    assert [*documents(pages)] == ["/a"]
    assert unchanged(pages) == ["/"]
    site.page("/a", html("A"), etag='"a"')
    assert [*documents(pulls.pull())] == ["/a", "/b"]


def test_a_failed_page_is_read_when_it_is_served_again(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a"), etag='"h"')
    site.page("/a", html("A", "/b"), etag='"a"')
    site.page("/b", html("B"), etag='"b"')
    pulls = crawl_of(site)
    pulls.pull()
    site.fail("/a", status=500, times=4)
    assert unchanged(pulls.pull()) == ["/"]
    assert unchanged(pulls.pull()) == ["/", "/a", "/b"]


def test_pages_that_are_old_by_their_sitemap_are_not_requested(site: MisbehavingSite) -> None:
    site.page("/map.xml", sitemap((site.url("/a"), "2024-01-02"), (site.url("/b"), "2025-06-07T08:00:00Z")))
    site.page("/a", html("A"))
    site.page("/b", html("B"))
    pulls = Pulls(site, "crawl", sitemaps=(site.url("/map.xml"),))
    pulls.pull()
    site.requests.clear()
    pages = pulls.pull(PullRequest(since="2025-01-01T00:00:00Z"))
    assert unchanged(pages) == ["/a"]
    assert [*documents(pages)] == ["/b"]
    assert site.request_count("/a") == 0


def test_a_page_of_the_day_of_the_last_pull_is_requested(site: MisbehavingSite) -> None:
    site.page("/map.xml", sitemap((site.url("/a"), "2025-01-01")))
    site.page("/a", html("A"))
    pulls = Pulls(site, "crawl", sitemaps=(site.url("/map.xml"),))
    pulls.pull()
    assert [*documents(pulls.pull(PullRequest(since="2025-01-01T12:00:00Z")))] == ["/a"]


def test_a_page_that_is_no_longer_kept_is_read_whole_though_it_did_not_change(site: MisbehavingSite) -> None:
    site.page("/", html("Home", "/a"), etag='"h"')
    site.page("/a", html("A", "/b"), etag='"a"')
    site.page("/b", html("B"), etag='"b"')
    pulls = crawl_of(site)
    pulls.pull()
    pulls.taken = {key for key in pulls.taken if not key.endswith("/a")}
    pages = pulls.pull()
    assert [*documents(pages)] == ["/a"]
    assert unchanged(pages) == ["/", "/b"]
    assert unchanged(pulls.pull()) == ["/", "/a", "/b"]


def a_listed_page_that_is_not_kept(site: MisbehavingSite) -> Pulls:
    site.page("/map.xml", sitemap((site.url("/a"), "2024-01-02")))
    site.page("/a", html("A"))
    pulls = Pulls(site, "crawl", sitemaps=(site.url("/map.xml"),))
    pulls.pull()
    pulls.taken.clear()
    return pulls


def test_a_page_without_notes_is_requested_though_it_is_old_by_its_sitemap(site: MisbehavingSite) -> None:
    pulls = a_listed_page_that_is_not_kept(site)
    assert [*documents(pulls.pull(PullRequest(since="2025-01-01T00:00:00Z")))] == ["/a"]


@pytest.mark.parametrize("status", [404, 410])
def test_an_error_page_in_its_place_is_no_document(site: MisbehavingSite, status: int) -> None:
    pulls = a_listed_page_that_is_not_kept(site)
    site.page("/a", html("Not found"), status=status)
    pages = pulls.pull(PullRequest(since="2025-01-01T00:00:00Z"))
    assert (documents(pages), unchanged(pages)) == ({}, [])


# -- interruptions


def many(site: MisbehavingSite, count: int = 30, *, etags: bool = True) -> None:
    site.page("/", html("Home", *(f"/{number}" for number in range(count))), etag='"h"' if etags else "")
    for number in range(count):
        deeper = html(f"Page {number}", f"/{number}/more")
        site.page(f"/{number}", deeper, etag=f'"{number}"' if etags else "")
        site.page(f"/{number}/more", html(f"More {number}"), etag=f'"{number}m"' if etags else "")


@pytest.mark.parametrize("etags", [True, False])
@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_an_interrupted_crawl_resumes_and_is_whole(site: MisbehavingSite, stop_after: int, etags: bool) -> None:
    many(site, etags=etags)
    pulls = crawl_of(site)
    first = pulls.pull(stop_after=stop_after)
    rest = pulls.pull(PullRequest(cursor=first[-1].cursor))
    assert sorted(visited(site)) == sorted(set(visited(site)))
    assert len(documents([*first, *rest])) == len(documents(first)) + len(documents(rest)) == 61
    assert rest[-1].complete


def test_a_crawl_can_be_interrupted_after_every_page(site: MisbehavingSite) -> None:
    many(site)
    pulls = crawl_of(site)
    cursor: dict[str, Any] = {}
    pages: list[Page] = []
    for _ in range(20):
        pages += pulls.pull(PullRequest(cursor=cursor), stop_after=1)
        cursor = dict(pages[-1].cursor)
        if pages[-1].complete:
            break
    assert len(documents(pages)) == 61
    assert len(visited(site)) == 61


def test_a_crawl_that_failed_in_between_does_not_become_complete_by_going_on(site: MisbehavingSite) -> None:
    many(site)
    site.page("/3", "", status=500)
    pulls = crawl_of(site)
    first = pulls.pull(stop_after=2)
    assert not pulls.pull(PullRequest(cursor=first[-1].cursor))[-1].complete


def test_documents_found_before_a_failure_are_returned(site: MisbehavingSite) -> None:
    many(site)
    site.fail("/20", status=503, retry_after="900")
    pulls = crawl_of(site)
    pages: list[Page] = []
    with pytest.raises(SourceUnavailableError):
        pages.extend(pulls.pull_lazily())
    assert len(documents(pages)) == 21
    rest = pulls.pull(PullRequest(cursor=pages[-1].cursor))
    assert len(documents(rest)) == 40
    assert rest[-1].complete


def test_a_crawl_whose_memory_is_lost_begins_again(site: MisbehavingSite) -> None:
    many(site)
    pulls = crawl_of(site)
    first = pulls.pull(stop_after=2)
    pulls.validators.kept.clear()
    rest = pulls.pull(PullRequest(cursor=first[-1].cursor))
    assert len(documents(rest)) == 61
    assert rest[-1].complete


def test_a_crawl_whose_sitemap_changed_meanwhile_begins_again(site: MisbehavingSite) -> None:
    addresses = [site.url(f"/{number}") for number in range(40)]
    for number in range(41):
        site.page(f"/{number}", html(f"Page {number}"), etag=f'"{number}"')
    site.page("/map.xml", sitemap(*addresses))
    pulls = Pulls(site, "crawl", sitemaps=(site.url("/map.xml"),))
    first = pulls.pull(stop_after=1)
    site.page("/map.xml", sitemap(site.url("/40"), *addresses))
    rest = pulls.pull(PullRequest(cursor=first[-1].cursor))
    assert len(documents(rest)) + len(unchanged(rest)) == 41
    assert rest[-1].complete


def test_pages_that_another_order_moves_behind_the_place_are_not_missed(site: MisbehavingSite) -> None:
    """All are known from a pull before, so that nothing else would show that the position refers to other pages now."""
    addresses = [site.url(f"/{number}") for number in range(40)]
    for number in range(40):
        site.page(f"/{number}", html(f"Page {number}"), etag=f'"{number}"')
    site.page("/map.xml", sitemap(*addresses))
    pulls = Pulls(site, "crawl", sitemaps=(site.url("/map.xml"),))
    pulls.pull()
    first = pulls.pull(stop_after=1)
    site.page("/map.xml", sitemap(*reversed(addresses)))
    rest = pulls.pull(PullRequest(cursor=first[-1].cursor))
    assert len({*unchanged(first), *unchanged(rest)}) == 40
    assert rest[-1].complete


def test_a_slow_site_s_pages_are_given_away_every_minute(site: MisbehavingSite) -> None:
    site.page("/robots.txt", "User-agent: *\nCrawl-delay: 60", kind="text/plain")
    site.page("/map.xml", sitemap(*(site.url(f"/{number}") for number in range(6))))
    for number in range(6):
        site.page(f"/{number}", html(f"Page {number}"))
    pulls = Pulls(site, "crawl", sitemaps=(site.url("/map.xml"),))
    given = [pulls.time.elapsed for _ in pulls.pull_lazily()]
    assert given[0] <= 60
    assert max(late - early for early, late in pairwise(given)) <= 120


def test_pages_that_come_at_once_are_given_away_together(site: MisbehavingSite) -> None:
    many(site)
    assert [len(page.documents) for page in crawl_of(site, requests_per_second=1_000.0).pull()] == [20, 20, 20, 1]


def test_a_function_leaves_time_for_a_batch_and_one_request_that_is_tried_as_often_as_may_be() -> None:
    request = TRIES * TIMEOUT_SECONDS + (TRIES - 1) * MAX_WAIT_SECONDS
    assert BATCH_SECONDS + request <= RESERVE_MS / 1000 <= PULL_SOURCES.timeout / 2 + BATCH_SECONDS


def test_cursors_are_small(site: MisbehavingSite) -> None:
    many(site)
    assert all(len(str(page.cursor)) < 100 for page in crawl_of(site).pull())


# -- health


def health(site: MisbehavingSite, **options: Any) -> Health:
    with closing(a_web(site)) as web:
        return a_source("crawl", web, **options).check()


def test_a_site_that_can_be_crawled_is_well(site: MisbehavingSite) -> None:
    site.page("/", html("Home"))
    site.page("/map.xml", sitemap(site.url("/")))
    assert health(site, start=site.url("/")) == Health(ok=True)
    assert health(site, sitemaps=site.url("/map.xml")) == Health(ok=True)


@pytest.mark.parametrize(
    ("robots", "status", "problem"),
    [("", 404, "no page"), ("", 403, "status 403"), ("User-agent: *\nDisallow: /", 200, "robots.txt forbids")],
)
def test_health_reports_why_a_site_can_not_be_crawled(
    site: MisbehavingSite, robots: str, status: int, problem: str
) -> None:
    site.page("/robots.txt", robots, kind="text/plain")
    site.page("/", html("Home"), status=status)
    found = health(site, start=site.url("/"))
    assert not found.ok
    assert problem in found.reason
