"""Pages of Confluence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx.formats.metadata import MAX_ITEMS, validated
from opx_connectors.atlassian import confluence
from tests.doubles.confluence_wiki import Wiki, Written
from tests.doubles.http_double import Request
from tests.doubles.misbehaving_site import Answer, MisbehavingSite
from tests.support.workplace_support import a_connector, documents_of, named, pulled, resumed_after_each, text_of


@pytest.fixture(params=["cloud", "server"])
def wiki(request: pytest.FixtureRequest) -> Iterator[Wiki]:
    with MisbehavingSite() as site:
        yield Wiki(site, request.param)


def test_a_page_becomes_a_document_with_its_place(wiki: Wiki) -> None:
    wiki.add(
        Written("1", "Operations"),
        Written("2", "Disks > all", parent="1"),
        Written("3", "Replace\na disk", "<h1>Steps</h1><p>Pull it</p>", parent="2", labels=("runbook", "disk")),
    )
    wiki.start()
    found = documents_of(pulled(wiki.connector()))["3"]
    text = text_of(found)
    assert text.startswith(
        "# Replace a disk\n\n- **Space**: OPS\n- **Path**: Operations > Disks > all > Replace a disk\n"
    )
    assert "## Steps\n\nPull it" in text
    assert text.endswith("relationships:\n- confluence:3|PARENT|confluence:2\n")
    assert found.metadata["tags"] == ["runbook", "disk", "OPS", "Operations", "Disks > all"]
    assert found.metadata["last_updated"] == "2024-01-02T10:00:00Z"
    assert found.metadata["source_uri"].startswith(wiki.site.url())
    assert "/OPS/" in found.metadata["source_uri"]


def test_every_page_is_read_with_any_number_of_listings(wiki: Wiki) -> None:
    wiki.limit = 30
    wiki.add(*(Written(str(number)) for number in range(1, 100)))
    wiki.start()
    pages = pulled(wiki.connector())
    assert len(documents_of(pages)) == 99
    assert [page.complete for page in pages].count(True) == 1
    assert pages[-1].complete


def test_a_pull_that_stops_after_any_page_resumes_there(wiki: Wiki) -> None:
    wiki.limit = 30
    wiki.add(*(Written(str(number)) for number in range(1, 70)))
    wiki.start()
    for _, both in resumed_after_each(wiki.connector()):
        assert len(both) == 69


def test_only_changed_pages_are_read_again_and_all_are_listed(wiki: Wiki) -> None:
    wiki.add(Written("1"), Written("2", changed="2024-02-02T10:00:00.000Z"), Written("3"))
    wiki.start()
    pages = pulled(wiki.connector(known=["1", "2", "3"]), since="2024-02-01T00:00:00Z")
    assert set(documents_of(pages)) == {"2"}
    assert named(pages) == {"1", "2", "3"}
    assert pages[-1].complete
    assert max(page.seen_until for page in pages) == "2024-02-02T10:00:00Z"


def test_an_old_page_that_was_restored_is_read(wiki: Wiki) -> None:
    wiki.add(Written("1"), Written("2"))
    wiki.start()
    assert set(documents_of(pulled(wiki.connector(known=["1"]), since="2024-02-01T00:00:00Z"))) == {"2"}


def test_a_page_that_is_deleted_meanwhile_is_not_named(wiki: Wiki) -> None:
    wiki.add(Written("1"), Written("2"))
    wiki.start()
    wiki.site.remove("/wiki/api/v2/pages/2" if wiki.kind == "cloud" else "/rest/api/content/2")
    assert named(pulled(wiki.connector())) == {"1"}


def test_pages_that_leave_the_listing_meanwhile_hide_no_others() -> None:
    with MisbehavingSite() as site:
        wiki = Wiki(site, "server", limit=20)
        wiki.add(*(Written(str(number)) for number in range(1, 61)))
        wiki.start()
        from opx.domain.sources import PullRequest

        pages = wiki.connector().pull(PullRequest())
        found = [next(pages)]
        for number in range(1, 6):
            del wiki.pages[str(number)]
        found += pages
        assert {str(number) for number in range(6, 61)} <= named(found)


def test_comments_are_read_if_that_is_wanted(wiki: Wiki) -> None:
    wiki.add(Written("1", comments=("<p>Works <em>too</em></p>",)))
    wiki.start()
    assert "Works" not in text_of(documents_of(pulled(wiki.connector()))["1"])
    assert "### Comment" in (text := text_of(documents_of(pulled(wiki.connector(comments=True)))["1"]))
    assert "2024-01-02\n\nWorks *too*" in text


def a_comment(words: str, **fields: Any) -> dict[str, Any]:
    when = {"createdAt": "2024-03-01T00:00:00Z", "when": "2024-03-01T00:00:00Z"}
    return {"id": words, "version": when, "body": {"storage": {"value": f"<p>{words}</p>"}}, **fields}


def serve_comments(wiki: Wiki, count: int) -> None:
    """Two comments a reply."""
    cloud = wiki.kind == "cloud"
    path = "/wiki/api/v2/pages/1/footer-comments" if cloud else "/rest/api/content/1/child/comment"

    def answer(request: Request) -> Answer:
        start = int(request.parameters.get("cursor" if cloud else "start") or 0)
        found = [a_comment(f"Word {number}.") for number in range(start, min(start + 2, count))]
        links = {"next": f"{path}?cursor={start + 2}"} if start + 2 < count else {}
        return Answer(200, {"results": found, "_links": links})

    wiki.site.on(path, answer)


def test_comments_are_read_reply_by_reply(wiki: Wiki) -> None:
    wiki.add(Written("1"))
    wiki.start()
    serve_comments(wiki, 5)
    text = text_of(documents_of(pulled(wiki.connector(comments=True)))["1"])
    assert [text.count(f"Word {number}.") for number in range(5)] == [1] * 5
    assert "left out" not in text


def test_comments_beyond_the_limit_are_left_out_with_a_note(wiki: Wiki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluence, "MAX_COMMENTS", 3)
    wiki.add(Written("1"))
    wiki.start()
    serve_comments(wiki, 9)
    text = text_of(documents_of(pulled(wiki.connector(comments=True)))["1"])
    assert "Word 2." in text
    assert "Word 3." not in text
    assert "Further comments are left out." in text
    assert sum("comment" in request.target for request in wiki.site.requests) == 2


def test_a_comment_without_a_version_has_the_time_of_its_creation() -> None:
    with MisbehavingSite() as site:
        wiki = Wiki(site, "cloud")
        wiki.add(Written("1"))
        wiki.start()
        old = a_comment("Hello", version={"number": 1}, createdAt="2023-05-06T00:00:00Z")
        site.page("/wiki/api/v2/pages/1/footer-comments", {"results": [old]})
        text = text_of(documents_of(pulled(wiki.connector(comments=True)))["1"])
    assert "### Comment, 2023-05-06\n\nHello" in text


def test_a_page_with_hundreds_of_labels_keeps_as_many_as_it_may(wiki: Wiki) -> None:
    wiki.add(Written("1", labels=(*(f"label-{number}" for number in range(200)), "x" * 300)))
    wiki.start()
    metadata = documents_of(pulled(wiki.connector()))["1"].metadata
    assert len(validated(metadata, name="1").tags) == MAX_ITEMS


def test_attachments_of_formats_that_are_read_are_ingested(wiki: Wiki) -> None:
    wiki.add(Written("1", files={"guide.html": b"<p>hello</p>", "film.mp4": b"0"}))
    wiki.start()
    pages = pulled(wiki.connector(attachments=True))
    assert named(pages) == {"1", "1/attachments/guide.html"}
    found = documents_of(pages)["1/attachments/guide.html"]
    assert found.content == b"<p>hello</p>"
    assert found.metadata["title"] == "guide"


def test_attachments_that_did_not_change_are_named_but_not_read(wiki: Wiki) -> None:
    wiki.add(Written("1", files={"guide.html": b"<p>hello</p>"}))
    wiki.start()
    known = ["1", "1/attachments/guide.html"]
    pages = pulled(wiki.connector(attachments=True, known=known), since="2024-02-01T00:00:00Z")
    assert not documents_of(pages)
    assert named(pages) == set(known)


def test_an_attachment_that_is_too_large_is_refused(wiki: Wiki) -> None:
    wiki.add(Written("1", files={"a.html": b"<p>x</p>"}, file_size=10_000_000_000))
    wiki.start()
    pages = pulled(wiki.connector(attachments=True))
    assert [each.key for page in pages for each in page.refused] == ["1/attachments/a.html"]
    assert set(documents_of(pages)) == {"1"}


def test_an_odd_page_is_refused_and_the_others_are_read(wiki: Wiki) -> None:
    wiki.add(Written("1"), Written("2", "<p>" * 3), Written("3", body="<div>" * 400))
    wiki.start()
    pages = pulled(wiki.connector())
    assert set(documents_of(pages)) == {"1", "2"}
    assert [each.key for page in pages for each in page.refused] == ["3"]


def test_a_page_without_its_text_is_refused(wiki: Wiki) -> None:
    wiki.add(Written("1"))
    wiki.start()
    whole = (
        wiki._cloud(wiki.pages["1"])
        if wiki.kind == "cloud"
        else wiki._server(wiki.pages["1"], body=True) | {"body": {}}
    )
    wiki.site.page("/wiki/api/v2/pages/1" if wiki.kind == "cloud" else "/rest/api/content/1", whole)
    pages = pulled(wiki.connector())
    (reason,) = [each.reason for page in pages for each in page.refused]
    assert reason.startswith(
        "the field 'body' is missing" if wiki.kind == "cloud" else "the field 'body.storage' is missing"
    )


def test_an_empty_page_is_a_document(wiki: Wiki) -> None:
    wiki.add(Written("1", body=""))
    wiki.start()
    assert "1" in documents_of(pulled(wiki.connector()))


@pytest.mark.parametrize("reply", [{"pages": []}, [], {"results": [{"title": "no id"}]}])
def test_a_listing_of_another_shape_states_the_expected_format(wiki: Wiki, reply: Any) -> None:
    wiki.start()
    wiki.site.page("/wiki/api/v2/pages" if wiki.kind == "cloud" else "/rest/api/content", reply)
    with pytest.raises(SourceShapeError, match=r"'results'|'id'"):
        pulled(wiki.connector())


def test_a_missing_space_is_reported() -> None:
    with MisbehavingSite() as site:
        wiki = Wiki(site, "cloud")
        wiki.start()
        with pytest.raises(SourceRefusedError, match="no space NOPE"):
            pulled(wiki.connector(spaces=["OPS", "NOPE"]))


def test_the_next_page_is_only_requested_from_the_same_site() -> None:
    with MisbehavingSite() as site, MisbehavingSite() as other:
        wiki = Wiki(site, "cloud")
        wiki.add(Written("1"))
        wiki.start()
        link = {"next": other.url("/wiki/api/v2/pages?cursor=c9")}
        site.once("/wiki/api/v2/pages", Answer(200, {"results": [], "_links": link}))
        pulled(wiki.connector())
        assert not other.requests
        assert site.requests[-1].parameters.get("cursor") == "c9"


def test_the_same_listing_again_and_again_is_no_endless_pull() -> None:
    with MisbehavingSite() as site:
        wiki = Wiki(site, "cloud")
        wiki.start()
        site.page("/wiki/api/v2/pages", {"results": [], "_links": {"next": "/wiki/api/v2/pages?cursor=c1"}})
        with pytest.raises(SourceShapeError, match="same page"):
            pulled(wiki.connector())


def test_a_page_that_is_listed_twice_is_read_once() -> None:
    with MisbehavingSite() as site:
        wiki = Wiki(site, "server", limit=20)
        wiki.add(*(Written(str(number)) for number in range(1, 61)))
        wiki.start()
        pulled(wiki.connector())
        assert max(site.request_count(f"/rest/api/content/{number}") for number in range(1, 61)) == 1


def test_a_server_that_is_down_is_reported(wiki: Wiki) -> None:
    wiki.start()
    wiki.site.fail("/wiki/api/v2/pages" if wiki.kind == "cloud" else "/rest/api/content", status=502, times=9)
    with pytest.raises(SourceUnavailableError):
        pulled(wiki.connector())


def test_health_reports_the_problem(wiki: Wiki) -> None:
    wiki.start()
    assert wiki.connector().health_check()
    wiki.site.fail("/wiki/api/v2/spaces" if wiki.kind == "cloud" else "/rest/api/content", status=401)
    assert "credentials" in wiki.connector().check().reason


def test_an_address_in_the_cloud_may_end_with_wiki() -> None:
    from opx_connectors.atlassian.confluence import ConfluenceConnector

    connector = a_connector("confluence", base_url="https://x.atlassian.net/wiki/", spaces=["A"])
    assert isinstance(connector, ConfluenceConnector)
    assert (connector._root, connector._cloud) == ("https://x.atlassian.net", True)


@pytest.mark.parametrize("options", [{"deployment": "moon"}, {"spaces": []}, {"base_url": "x.example"}])
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        a_connector("confluence", **{"base_url": "https://x.example", "spaces": ["A"], **options})


class Undated(Wiki):
    """Lists some pages without the date of their version."""

    undated: dict[str, Any]

    def _cloud(self, page: Written, *, body: bool = False) -> dict[str, Any]:
        return self._without(super()._cloud(page, body=body))

    def _server(self, page: Written, *, body: bool = False) -> dict[str, Any]:
        return self._without(super()._server(page, body=body))

    def _without(self, facts: dict[str, Any]) -> dict[str, Any]:
        return {**facts, "version": self.undated[facts["id"]]} if facts["id"] in self.undated else facts


class TestDates:
    """Pages of a listing without a date, or with a malformed one."""

    @pytest.fixture(params=["cloud", "server"])
    def wiki(self, request: pytest.FixtureRequest) -> Iterator[Undated]:
        with MisbehavingSite() as site:
            yield Undated(site, request.param)

    @pytest.mark.parametrize("version", [None, {}, {"createdAt": "soon", "when": "soon"}])
    def test_a_page_without_one_is_refused_alone(self, wiki: Undated, version: Any) -> None:
        wiki.undated = {"2": version, "4": version}
        wiki.add(*(Written(str(number)) for number in range(1, 6)))
        wiki.start()
        pages = pulled(wiki.connector())
        assert set(documents_of(pages)) == {"1", "3", "5"}
        assert [one.key for page in pages for one in page.refused] == ["2", "4"]

    def test_one_that_is_known_is_read_again(self, wiki: Undated) -> None:
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
