"""Crawls after the first: unchanged pages are named, and an interrupted crawl resumes at its cursor."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from infra.sources import PULL_SOURCES
from lambdas.pull_sources.handler import RESERVE_MS
from opx.adapters.web import MAX_WAIT_SECONDS, TIMEOUT_SECONDS, TRIES
from opx.domain.sources import Page, PullRequest
from opx.errors import SourceUnavailableError
from opx_connectors.web.crawling import BATCH_SECONDS
from tests.doubles.misbehaving_site import MisbehavingSite
from tests.support.web_support import Pulls, crawl_of, documents, html, sitemap, unchanged, visited

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
