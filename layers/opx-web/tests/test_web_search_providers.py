"""Search engines: requests to them, and parsing of their replies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from opx.adapters.web import HttpWeb
from opx.errors import SourceRefusedError, SourceShapeError
from opx_web.live.providers import BraveWebSearch, GoogleWebSearch, WebResult, WebSearch, plain_text
from opx_web.live.service import site_kind
from tests.doubles.misbehaving_site import MisbehavingSite, a_web
from tests.support.feed_support import Corpus, a_connector

BRAVE = "/web/search"
GOOGLE = "/customsearch/v1"
PLACES = {"brave": BRAVE, "google": GOOGLE}


@pytest.fixture
def web(site: MisbehavingSite) -> Iterator[HttpWeb]:
    with closing(a_web(site)) as client:
        yield client


def engine(name: str, web: HttpWeb, site: MisbehavingSite) -> WebSearch:
    if name == "google":
        return GoogleWebSearch(web, "the-key", "the-engine", site.url())
    return BraveWebSearch(web, "the-key", site.url())


def brave_page(*items: Any) -> dict[str, Any]:
    return {"type": "search", "query": {"original": "x"}, "web": {"type": "search", "results": list(items)}}


def brave_item(url: str, **fields: Any) -> dict[str, Any]:
    return {"title": f"Page {url[-1]}", "url": url, "description": "Text", **fields}


def google_page(*items: Any) -> dict[str, Any]:
    return {"kind": "customsearch#search", **({"items": list(items)} if items else {})}


def google_item(url: str) -> dict[str, Any]:
    return {"title": f"Page {url[-1]}", "link": url, "snippet": "Text", "htmlSnippet": "<b>Text</b>"}


# -- Brave


def test_brave_is_queried_with_its_token_in_a_header(web: HttpWeb, site: MisbehavingSite) -> None:
    site.page(BRAVE, brave_page())
    engine("brave", web, site).search("pods  restart", 7)
    request = site.requests[0]
    assert request.headers["x-subscription-token"] == "the-key"
    assert "the-key" not in request.target
    assert request.parameters["q"] == "pods restart"
    assert request.parameters["count"] == "7"


def test_brave_gets_no_more_words_than_it_takes(web: HttpWeb, site: MisbehavingSite) -> None:
    site.page(BRAVE, brave_page())
    engine("brave", web, site).search("a " * 100, 5)
    engine("brave", web, site).search("abcdefghi " * 50, 5)
    assert len(site.requests[0].parameters["q"].split()) == 50
    assert len(site.requests[1].parameters["q"]) <= 400


def test_results_of_brave_are_plain_text(web: HttpWeb, site: MisbehavingSite) -> None:
    item = brave_item(
        "https://a.test/1",
        title="Pods &amp; <strong>nodes</strong>",
        description="Set <strong>limits</strong> &lt;1 GB",
        page_age="2026-01-02T03:04:05",
        extra_snippets=["more"],
    )
    site.page(BRAVE, brave_page(item))
    assert engine("brave", web, site).search("x", 5) == [
        WebResult("Pods & nodes", "https://a.test/1", "Set limits <1 GB", "2026-01-02T03:04:05")
    ]


def test_brave_without_web_results_found_nothing(web: HttpWeb, site: MisbehavingSite) -> None:
    site.page(BRAVE, {"type": "search", "query": {}})
    assert engine("brave", web, site).search("x", 5) == []


# -- Google


def test_google_is_queried_with_the_engine(web: HttpWeb, site: MisbehavingSite) -> None:
    site.page(GOOGLE, google_page(google_item("https://a.test/1")))
    found = engine("google", web, site).search("pods", 20)
    assert found == [WebResult("Page 1", "https://a.test/1", "Text")]
    parameters = site.requests[0].parameters
    assert (parameters["key"], parameters["cx"], parameters["num"]) == ("the-key", "the-engine", "10")


def test_google_without_items_found_nothing(web: HttpWeb, site: MisbehavingSite) -> None:
    site.page(GOOGLE, google_page())
    assert engine("google", web, site).search("x", 5) == []


# -- both


@pytest.mark.parametrize("name", ["brave", "google"])
def test_each_address_comes_once_and_others_than_web_pages_not_at_all(
    web: HttpWeb, site: MisbehavingSite, name: str
) -> None:
    item, page = (brave_item, brave_page) if name == "brave" else (google_item, google_page)
    urls = ("https://a.test/1", "javascript:alert(1)", "https://a.test/1", "ftp://a.test/2", "http://a.test/3")
    site.page(PLACES[name], page(*map(item, urls), {"title": 4}))
    found = engine(name, web, site).search("x", 5)
    assert [each.url for each in found] == ["https://a.test/1", "http://a.test/3"]


@pytest.mark.parametrize("title", [{"title": ""}, {"title": "<b> </b>"}, {"title": None}, {}])
@pytest.mark.parametrize("name", ["brave", "google"])
def test_page_without_title_is_called_as_its_host(
    web: HttpWeb, site: MisbehavingSite, name: str, title: dict[str, Any]
) -> None:
    item, page = (brave_item, brave_page) if name == "brave" else (google_item, google_page)
    bare = {field: value for field, value in item("https://b.test:8443/x").items() if field != "title"}
    site.page(PLACES[name], page(item("https://a.test/1"), {**bare, **title}))
    assert [each.title for each in engine(name, web, site).search("x", 5)] == ["Page 1", "b.test:8443"]


@pytest.mark.parametrize("name", ["brave", "google"])
@pytest.mark.parametrize(
    "body",
    [
        [],
        "<html>",
        {},
        {"web": []},
        {"web": {"hits": []}},
        {"web": {"results": {}}, "items": {}},
        {"web": {"results": ["x"]}, "items": ["x"]},
        {"web": {"results": [{"name": "x"}]}, "items": [{"name": "x"}]},
        {
            "web": {"results": [{"name": "x", "url": "https://a.test/1"}]},
            "items": [{"name": "x", "link": "https://a.test/1"}],
        },
    ],
)
def test_reply_of_another_shape_is_refused(web: HttpWeb, site: MisbehavingSite, name: str, body: Any) -> None:
    site.page(PLACES[name], body)
    with pytest.raises(SourceShapeError):
        engine(name, web, site).search("x", 5)


@pytest.mark.parametrize("name", ["brave", "google"])
def test_rejected_key_is_not_in_the_error(web: HttpWeb, site: MisbehavingSite, name: str) -> None:
    site.page(PLACES[name], {"error": "the-key"}, status=403)
    with pytest.raises(SourceRefusedError) as raised:
        engine(name, web, site).search("x", 5)
    assert "the-key" not in str(raised.value)


def test_missing_api_is_reported(web: HttpWeb, site: MisbehavingSite) -> None:
    with pytest.raises(SourceRefusedError, match="no search API"):
        engine("brave", web, site).search("x", 5)


# -- text and sites


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("a<b>c</b>", "ac"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("&lt;script&gt;", "<script>"),
        ("<a href='x' onclick=\"y\">z</a>", "z"),
        ("a\n\x00b\u202ec", "a b c"),
        ("x" * 3000, "x" * 1499 + "…"),
    ],
)
def test_snippets_become_plain_text(markup: str, expected: str) -> None:
    assert plain_text(markup) == expected


@pytest.mark.parametrize(
    ("url", "category", "trust"),
    [
        ("https://github.com/a/b/issues/1", "web/github_issues", 0.75),
        ("https://github.com/a/b/discussions/1", "web/github_issues", 0.75),
        ("https://github.com/a/b", "web/search", 0.60),
        ("https://github.com/issues/issues", "web/search", 0.60),
        ("https://stackoverflow.com/q/1", "web/stack_overflow", 0.70),
        ("https://unix.stackexchange.com/q/1", "web/stack_overflow", 0.70),
        ("https://stackoverflow.com.evil.test/q", "web/search", 0.60),
        ("https://notstackoverflow.com/q", "web/search", 0.60),
        ("https://evil.test/stackoverflow.com", "web/search", 0.60),
        ("https://stackoverflow.com@evil.test/", "web/search", 0.60),
        ("https://repost.aws/questions/1", "web/forums", 0.65),
        ("https://learn.microsoft.com/en-us/answers/questions/1", "web/forums", 0.65),
        ("https://learn.microsoft.com/en-us/azure/x", "web/search", 0.80),
        ("https://kubernetes.io/docs/x", "web/search", 0.80),
        ("https://kubernetes.io/blog/x", "web/blogs", 0.50),
        ("https://KUBERNETES.io:443/docs", "web/search", 0.80),
        ("https://someone.medium.com/x", "web/blogs", 0.50),
        ("https://blog.acme.test/x", "web/blogs", 0.50),
        ("https://acme.test/", "web/search", 0.60),
    ],
)
def test_trust_is_by_site(url: str, category: str, trust: float) -> None:
    found = site_kind(url)
    assert (found.category, found.trust) == (category, trust)


# -- as sources


def test_standing_questions_become_documents(web: HttpWeb, site: MisbehavingSite) -> None:
    site.page(BRAVE, brave_page(brave_item("https://a.test/1", page_age="2026-01-02T03:04:05")))
    options = {"queries": ("one", "two"), "key_secret": "key", "base_url": site.url()}
    source = a_connector("brave_search", web, options, key="k")
    corpus = Corpus()
    cursor = corpus.interrupted(source, after=1)
    corpus.pull(source, cursor=cursor)
    (document,) = corpus.documents.values()
    assert document.content == "# Page 1\n\nText\n"
    assert document.metadata["source_uri"] == "https://a.test/1"
    assert document.metadata["last_updated"] == "2026-01-02"
    assert [request.parameters["q"] for request in site.requests] == ["one", "two"]
    assert source.check().ok


def test_documents_have_neither_tags_nor_entities(web: HttpWeb, site: MisbehavingSite) -> None:
    item = brave_item("https://a.test/1", title="<strong>Pods</strong>", description="I&#x27;ve <strong>pods</strong>")
    site.page(BRAVE, brave_page(item))
    options = {"queries": ("one",), "key_secret": "key", "base_url": site.url()}
    (document,) = Corpus().pull(a_connector("brave_search", web, options, key="k")).documents.values()
    assert document.content == "# Pods\n\nI've pods\n"


def test_google_is_a_source_too(web: HttpWeb, site: MisbehavingSite) -> None:
    site.page(GOOGLE, google_page(google_item("https://a.test/1")))
    options = {"queries": ("one",), "key_secret": "key", "search_engine_id": "cx", "base_url": site.url()}
    assert len(Corpus().pull(a_connector("google_search", web, options, key="k")).documents) == 1
