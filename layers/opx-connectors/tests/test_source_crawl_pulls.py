"""Crawls and feeds through the puller, into the corpus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.connectors.repository import definition_of
from opx.domain.sources import PullReport
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from tests.doubles.misbehaving_site import MisbehavingSite
from tests.support.fakes import WordsEmbedder
from tests.support.web_support import html, rss, rss_item

CATEGORY = "vendor/linux"
COUNT = 24


@pytest.fixture
def site() -> Iterator[MisbehavingSite]:
    with MisbehavingSite() as site:
        listed(site, COUNT)
        for number in range(COUNT):
            site.page(f"/docs/{number}", html(f"Page {number}"), etag=f'"{number}"')
        yield site


@pytest.fixture
def services(site: MisbehavingSite, tmp_path: Path) -> Iterator[System]:
    settings = Settings(home=str(tmp_path / "home"), retry_base_seconds=0.0, allowed_hosts=site.host)
    with bootstrap(settings, embedder=WordsEmbedder()) as services:
        options = {"start": [site.url("/docs/")], "requests_per_second": 100_000.0}
        register(services, "docs", "crawl", options)
        yield services


def register(services: System, name: str, kind: str, options: dict[str, object]) -> None:
    given = {"kind": kind, "category": CATEGORY, "options": options}
    services.connectors.sources.register(definition_of(name, given, services.installation.knowledge))


def listed(site: MisbehavingSite, count: int) -> None:
    site.page("/docs/", html("Docs", *(f"/docs/{number}" for number in range(count))), etag=f'"{count} pages"')


def pull(services: System, name: str = "docs") -> PullReport:
    report = services.connectors.puller().pull(name)
    list(services.manager.work())
    return report


def titles(services: System) -> set[str]:
    return {document.title for document in services.corpus.catalog.in_category(CATEGORY)}


def test_a_site_becomes_knowledge(services: System) -> None:
    assert len(pull(services).put) == COUNT + 1
    assert titles(services) == {"Docs", *(f"Page {number}" for number in range(COUNT))}


def test_an_unchanged_site_is_not_put_again(services: System) -> None:
    pull(services)
    report = pull(services)
    assert (report.put, report.unchanged, report.withdrawn) == ((), COUNT + 1, ())


def test_a_page_that_is_no_longer_linked_is_withdrawn(services: System, site: MisbehavingSite) -> None:
    pull(services)
    listed(site, COUNT - 1)
    pull(services)
    assert f"Page {COUNT - 1}" not in titles(services)
    assert len(titles(services)) == COUNT


def test_a_page_that_is_linked_again_comes_back(services: System, site: MisbehavingSite) -> None:
    pull(services)
    for count in (COUNT - 1, COUNT):
        listed(site, count)
        report = pull(services)
    assert (len(report.put), report.refusals) == (2, ())
    assert f"Page {COUNT - 1}" in titles(services)


def test_nothing_is_withdrawn_when_a_page_fails(services: System, site: MisbehavingSite) -> None:
    pull(services)
    listed(site, COUNT - 1)
    site.page("/docs/3", "", status=403)
    report = pull(services)
    assert report.withdrawn == ()
    assert report.refused == 1


def test_a_pull_that_is_interrupted_resumes_and_still_notices_deleted_pages(
    services: System, site: MisbehavingSite
) -> None:
    pull(services)
    listed(site, COUNT - 1)
    assert services.connectors.puller().pull("docs", stop=lambda: True).more
    assert len(pull(services).withdrawn) == 1


def test_everything_can_be_read_again(services: System, site: MisbehavingSite) -> None:
    pull(services)
    site.requests.clear()
    services.connectors.puller().pull("docs", everything=True)
    assert not any("if-none-match" in request.headers for request in site.requests)


def test_entries_that_scrolled_out_of_a_feed_stay(services: System, site: MisbehavingSite) -> None:
    site.page("/feed", rss([rss_item(number) for number in range(3)]))
    register(services, "blog", "feed", {"urls": [site.url("/feed")], "requests_per_second": 100_000.0})
    pull(services, "blog")
    site.page("/feed", rss([rss_item(9)]))
    pull(services, "blog")
    assert titles(services) == {"Post 0", "Post 1", "Post 2", "Post 9"}
