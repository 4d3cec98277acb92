from __future__ import annotations

import gzip
from contextlib import closing
from typing import Any

import pytest

from opx.domain.sources import Health, RateLimit
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx_connectors.web.crawl import CrawlOptions, WebCrawl
from tests.doubles.misbehaving_site import Answer, MisbehavingSite, a_web
from tests.support.web_support import Pulls, a_source, crawl_of, documents, html, refused, sitemap, visited

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


def test_page_with_a_noindex_header_is_no_document(site: MisbehavingSite) -> None:
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
