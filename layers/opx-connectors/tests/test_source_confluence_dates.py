"""Pages of a Confluence listing without a date, or with a malformed one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.doubles.confluence_wiki import Wiki, Written
from tests.doubles.http_double import Request
from tests.doubles.misbehaving_site import Answer, MisbehavingSite
from tests.support.workplace_support import documents_of, pulled


class Undated(Wiki):
    """Lists some pages without the date of their version."""

    undated: dict[str, Any]

    def _cloud(self, page: Written, *, body: bool = False) -> dict[str, Any]:
        return self._without(super()._cloud(page, body=body))

    def _server(self, page: Written, *, body: bool = False) -> dict[str, Any]:
        return self._without(super()._server(page, body=body))

    def _without(self, facts: dict[str, Any]) -> dict[str, Any]:
        return {**facts, "version": self.undated[facts["id"]]} if facts["id"] in self.undated else facts


@pytest.fixture(params=["cloud", "server"])
def wiki(request: pytest.FixtureRequest) -> Iterator[Undated]:
    with MisbehavingSite() as site:
        yield Undated(site, request.param)


@pytest.mark.parametrize("version", [None, {}, {"createdAt": "soon", "when": "soon"}])
def test_a_page_without_a_date_is_refused_alone(wiki: Undated, version: Any) -> None:
    wiki.undated = {"2": version, "4": version}
    wiki.add(*(Written(str(number)) for number in range(1, 6)))
    wiki.start()
    pages = pulled(wiki.connector())
    assert set(documents_of(pages)) == {"1", "3", "5"}
    assert [one.key for page in pages for one in page.refused] == ["2", "4"]


def test_one_that_is_known_is_read_again(wiki: Undated) -> None:
    wiki.undated = {}
    wiki.add(Written("1"), Written("2"))
    wiki.start()
    listed = wiki._cloud_listing if wiki.kind == "cloud" else wiki._server_listing

    def without_dates(request: Request) -> Answer:
        wiki.undated = {"2": {}}
        try:
            return listed(request)
        finally:
            wiki.undated = {}

    wiki.site.on("/wiki/api/v2/pages" if wiki.kind == "cloud" else "/rest/api/content", without_dates)
    connector = wiki.connector(known=("1", "2"))
    assert set(documents_of(pulled(connector, since="2030-01-01T00:00:00Z"))) == {"2"}
