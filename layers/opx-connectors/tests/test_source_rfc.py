"""RFCs: their selection, the metadata of the index, and conditional requests of texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from opx.adapters.web import HttpWeb
from opx.connectors.connector import Connector
from opx.domain.sources import Page, PullRequest
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError
from opx_connectors.web import rfc
from opx_testing.fake_time import FakeTime
from tests.doubles.misbehaving_site import Answer, MemoryValidators, MisbehavingSite, a_web
from tests.doubles.rfc_editor import RfcEditor
from tests.support.feed_support import Corpus, a_connector


@pytest.fixture
def web(site: MisbehavingSite) -> Iterator[HttpWeb]:
    with closing(a_web(site, validators=MemoryValidators())) as client:
        yield client


@pytest.fixture
def editor(site: MisbehavingSite) -> RfcEditor:
    return RfcEditor(site)


def connector(site: MisbehavingSite, web: HttpWeb, corpus: Corpus | None = None, **options: Any) -> Connector[Any]:
    return a_connector("rfc", web, {"base_url": site.url(), **options}, known=(corpus or Corpus()).known)


def texts_sent(site: MisbehavingSite) -> list[str]:
    return [request.path for request in site.requests if request.path.startswith("/rfc/")]


# -- documents


def test_document_has_text_and_what_the_index_knows(editor: RfcEditor, site: MisbehavingSite, web: HttpWeb) -> None:
    editor.rfc(
        2822, "Internet Message Format", updates=("RFC1123",), updated_by=("RFC5335", "RFC5336"), is_also=("STD0011",)
    )
    editor.publish()
    corpus = Corpus().pull(connector(site, web))
    rendered = corpus.text("rfc2822")
    assert "- **Updates**: RFC 1123\n- **Updated by**: RFC 5335, RFC 5336" in rendered
    assert "- **Also**: STD 11" in rendered
    assert "## Abstract\n\nThis is about RFC 2822.\n\n## 1. Introduction\n\nThe protocol does something." in rendered
    assert "What the index says." not in rendered
    assert "Network Working Group" not in rendered
    assert corpus.last.complete


def test_metadata_state_title_address_and_dates(editor: RfcEditor, site: MisbehavingSite, web: HttpWeb) -> None:
    editor.rfc(2822, "Mail & More", keywords=("SMTP",))
    editor.publish()
    metadata = Corpus().pull(connector(site, web)).documents["rfc2822"].metadata
    assert metadata == {
        "title": "RFC 2822: Mail & More",
        "source_uri": site.url("/info/rfc2822"),
        "tags": ["proposed standard", "SMTP"],
        "author": "A. Author, B. Editor",
        "created_at": "1996-05-01",
        "last_updated": "1996-05-01",
    }


def test_metadata_of_many_authors_and_keywords_stay_small(
    editor: RfcEditor, site: MisbehavingSite, web: HttpWeb
) -> None:
    words = tuple(f"a keyword with many words in it, number {number}" for number in range(60))
    editor.rfc(1, keywords=words, authors=tuple(f"A. Author the {number}." for number in range(60)))
    editor.publish()
    metadata = Corpus().pull(connector(site, web)).documents["rfc1"].metadata
    assert len(json.dumps(metadata)) < 1400
    assert metadata["author"].endswith(". and others")


def test_obsolete_rfc_stays_and_names_its_replacement(editor: RfcEditor, site: MisbehavingSite, web: HttpWeb) -> None:
    editor.rfc(2616, "HTTP/1.1", obsoleted_by=("RFC7230", "RFC7231"))
    editor.publish()
    document = Corpus().pull(connector(site, web)).documents["rfc2616"]
    assert str(document.content).startswith("**Obsolete: RFC 2616 was replaced by RFC 7230, RFC 7231.**")
    assert document.metadata["tags"] == [
        "proposed standard",
        "obsolete",
        "obsoleted-by:RFC7230",
        "obsoleted-by:RFC7231",
    ]


def test_historic_rfc_is_marked(editor: RfcEditor, site: MisbehavingSite, web: HttpWeb) -> None:
    editor.rfc(1, status="HISTORIC", first_status="PROPOSED STANDARD")
    editor.publish()
    rendered = Corpus().pull(connector(site, web)).text("rfc1")
    assert rendered.startswith("**Historic:")
    assert "- **Published as**: PROPOSED STANDARD" in rendered


def test_rfc_without_plain_text_has_the_data_of_the_index(
    editor: RfcEditor, site: MisbehavingSite, web: HttpWeb
) -> None:
    editor.rfc(8, formats=("PDF",))
    editor.publish()
    rendered = Corpus().pull(connector(site, web)).text("rfc8")
    assert "## Abstract\n\nWhat the index says." in rendered
    assert "no plain text" in rendered
    assert not texts_sent(site)


# -- which


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, [791, 2616, 9110, 9111]),
        ({"numbers": ["9110"]}, [9110]),
        ({"numbers": ["RFC 791", "9000-9110"]}, [791, 9110]),
        ({"statuses": ["internet standard"]}, [791, 9110]),
        ({"topics": ["HTTP"]}, [2616, 9110]),
        ({"topics": ["cach"]}, []),
        ({"topics": ["caching"], "statuses": ["PROPOSED STANDARD"]}, [9111]),
        ({"topics": ["http"], "obsolete": False}, [9110]),
    ],
)
def test_options_choose_rfcs(
    editor: RfcEditor, site: MisbehavingSite, web: HttpWeb, options: dict[str, Any], chosen: list[int]
) -> None:
    editor.rfc(791, "Internet Protocol", status="INTERNET STANDARD")
    editor.rfc(2616, "HTTP/1.1", obsoleted_by=("RFC9110",))
    editor.rfc(9110, "Semantics", status="INTERNET STANDARD", keywords=("HTTP",))
    editor.rfc(9111, "Caching")
    editor.publish()
    corpus = Corpus().pull(connector(site, web, **options))
    assert list(corpus.documents) == [f"rfc{number}" for number in chosen]
    assert corpus.last.complete


@pytest.mark.parametrize("number", ["", "http", "1-2-3", "999999"])
def test_number_that_is_none_is_refused(editor: RfcEditor, site: MisbehavingSite, web: HttpWeb, number: str) -> None:
    editor.publish()
    with pytest.raises(InvalidInputError):
        Corpus().pull(connector(site, web, numbers=[number]))


# -- conditional requests


def test_an_unchanged_index_is_the_only_request(editor: RfcEditor, site: MisbehavingSite, web: HttpWeb) -> None:
    editor.rfc(1)
    editor.publish(etag='"1"')
    corpus = Corpus().pull(connector(site, web))
    web.commit_validators()
    site.requests.clear()
    pages = list(connector(site, web, corpus).pull(PullRequest(left=corpus.last.cursor)))
    assert [(page.documents, page.complete) for page in pages] == [((), False)]
    assert not texts_sent(site)


def test_changed_index_has_only_new_and_changed_rfcs_read(
    editor: RfcEditor, site: MisbehavingSite, web: HttpWeb
) -> None:
    for number in (1, 2, 3):
        editor.rfc(number)
    editor.publish()
    corpus = Corpus().pull(connector(site, web))
    web.commit_validators()
    editor.rfc(2, obsoleted_by=("RFC4",))
    editor.rfc(4, obsoletes=("RFC0002",))
    editor.publish()
    pages = list(connector(site, web, corpus).pull(PullRequest(left=corpus.last.cursor)))
    assert [document.key for page in pages for document in page.documents] == ["rfc2", "rfc4"]
    assert [key for page in pages for key in page.unchanged] == ["rfc1", "rfc3"]
    assert pages[-1].complete


def again(site: MisbehavingSite, web: HttpWeb, corpus: Corpus, **options: Any) -> list[Page]:
    """The pages of the next pull, after which the corpus has what they name."""
    pages = list(connector(site, web, corpus, **options).pull(PullRequest(left=corpus.last.cursor)))
    web.commit_validators()
    corpus.store(pages)
    if pages[-1].complete:
        named = {key for page in pages for key in (*page.unchanged, *(document.key for document in page.documents))}
        corpus.documents = {key: document for key, document in corpus.documents.items() if key in named}
    return pages


def test_other_rfcs_are_chosen_though_the_index_did_not_change(
    editor: RfcEditor, site: MisbehavingSite, web: HttpWeb
) -> None:
    for number in (1, 2, 3):
        editor.rfc(number)
    editor.publish(etag='"1"')
    corpus = Corpus()
    again(site, web, corpus, numbers=["1-2"])
    pages = again(site, web, corpus, numbers=["2-3"])
    assert pages[-1].complete
    assert sorted(corpus.documents) == ["rfc2", "rfc3"]


def test_rfc_that_was_left_out_for_a_while_is_read_again(
    editor: RfcEditor, site: MisbehavingSite, web: HttpWeb
) -> None:
    for number in (1, 2):
        editor.rfc(number)
    editor.publish()
    corpus = Corpus()
    for numbers in (["1-2"], ["1"]):
        again(site, web, corpus, numbers=numbers)
    pages = again(site, web, corpus, numbers=["1-2"])
    assert [key for page in pages for key in page.unchanged] == ["rfc1"]
    assert [document.key for page in pages for document in page.documents] == ["rfc2"]


def test_an_unchanged_index_can_be_found_any_number_of_times(
    editor: RfcEditor, site: MisbehavingSite, web: HttpWeb
) -> None:
    editor.rfc(1)
    editor.publish(etag='"1"')
    corpus = Corpus()
    again(site, web, corpus)
    site.requests.clear()
    for _ in range(3):
        again(site, web, corpus)
    assert len(site.requests) == 3


def test_pull_that_is_stopped_after_an_unchanged_index_names_everything_when_it_goes_on(
    editor: RfcEditor, site: MisbehavingSite, web: HttpWeb
) -> None:
    editor.rfc(1)
    editor.publish(etag='"1"')
    corpus = Corpus()
    again(site, web, corpus)
    (stopped,) = again(site, web, corpus)
    pages = list(connector(site, web, corpus).pull(PullRequest(cursor=stopped.cursor)))
    assert [page.unchanged for page in pages if page.complete] == [("rfc1",)]


def test_place_of_an_interrupted_pull_is_not_one_among_other_rfcs(
    editor: RfcEditor, site: MisbehavingSite, web: HttpWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rfc, "PAGE_DOCUMENTS", 2)
    for number in range(1, 6):
        editor.rfc(number)
    editor.publish()
    cursor = Corpus().interrupted(connector(site, web, numbers=["1-4"]), after=1)
    corpus = Corpus().pull(connector(site, web, numbers=["2-5"]), cursor=cursor)
    assert sorted(corpus.documents) == ["rfc2", "rfc3", "rfc4", "rfc5"]


def test_interrupted_pull_resumes_where_it_was(
    editor: RfcEditor, site: MisbehavingSite, web: HttpWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rfc, "PAGE_DOCUMENTS", 2)
    for number in range(1, 6):
        editor.rfc(number)
    editor.publish(etag='"1"')
    corpus = Corpus()
    cursor = corpus.interrupted(connector(site, web), after=1)
    web.commit_validators()
    site.requests.clear()
    corpus.pull(connector(site, web), cursor=cursor)
    assert sorted(corpus.documents) == [f"rfc{number}" for number in range(1, 6)]
    assert texts_sent(site) == ["/rfc/rfc3.txt", "/rfc/rfc4.txt", "/rfc/rfc5.txt"]
    assert corpus.last.complete


def test_pull_interrupted_after_its_last_page_still_ends_complete(
    editor: RfcEditor, site: MisbehavingSite, web: HttpWeb
) -> None:
    editor.rfc(1)
    editor.publish()
    cursor = Corpus().interrupted(connector(site, web), after=1)
    assert Corpus().pull(connector(site, web), cursor=cursor).last.complete


def test_index_that_changed_during_an_interruption_is_gone_through_anew(
    editor: RfcEditor, site: MisbehavingSite, web: HttpWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rfc, "PAGE_DOCUMENTS", 1)
    for number in (1, 2, 3):
        editor.rfc(number)
    editor.publish()
    corpus = Corpus()
    cursor = corpus.interrupted(connector(site, web), after=2)
    web.commit_validators()
    editor.rfc(1, obsoleted_by=("RFC9",))
    editor.publish()
    corpus.pull(connector(site, web), cursor=cursor)
    assert corpus.text("rfc1").startswith("**Obsolete")
    assert sorted(corpus.documents) == ["rfc1", "rfc2", "rfc3"]


# -- what goes wrong


def test_missing_text_is_refused_and_the_others_are_read(
    editor: RfcEditor, site: MisbehavingSite, web: HttpWeb
) -> None:
    editor.rfc(1)
    editor.rfc(2)
    editor.publish()
    site.remove("/rfc/rfc1.txt")
    corpus = Corpus().pull(connector(site, web))
    assert list(corpus.documents) == ["rfc2"]
    assert "no text" in corpus.refused["rfc1"]


def test_cut_index_gives_no_document(editor: RfcEditor, site: MisbehavingSite, web: HttpWeb) -> None:
    editor.rfc(1)
    editor.publish()
    site.cut_quietly("/rfc-index.xml")
    corpus = Corpus()
    with pytest.raises(SourceShapeError, match="cut"):
        corpus.pull(connector(site, web))
    assert not corpus.documents


@pytest.mark.parametrize(
    "body",
    [
        "<html></html>",
        "<rfc-index></rfc-index>",
        "<rfc-index><rfc-entry><doc-id>RFC0001</doc-id></rfc-entry></rfc-index>",
        "<rfc-index><rfc-entry><title>A</title></rfc-entry></rfc-index>",
        "RFC INDEX",
    ],
)
def test_index_of_another_shape_is_refused(site: MisbehavingSite, web: HttpWeb, body: str) -> None:
    site.page("/rfc-index.xml", body)
    with pytest.raises(SourceShapeError, match="index"):
        Corpus().pull(connector(site, web))


def test_index_that_declares_entities_is_not_read(site: MisbehavingSite, web: HttpWeb) -> None:
    entry = "<rfc-entry><doc-id>RFC0001</doc-id><title>&b;</title><format><file-format>PDF</file-format></format></rfc-entry>"
    site.page("/rfc-index.xml", f"<!DOCTYPE a [<!ENTITY b 'c'>]><rfc-index>{entry}</rfc-index>")
    with pytest.raises(SourceShapeError, match="document type"):
        Corpus().pull(connector(site, web))


def test_missing_index_names_the_option_to_set(site: MisbehavingSite, web: HttpWeb) -> None:
    with pytest.raises(SourceRefusedError, match="base_url"):
        Corpus().pull(connector(site, web))


def test_429_is_retried_after_the_given_pause(editor: RfcEditor, site: MisbehavingSite) -> None:
    editor.rfc(1)
    editor.publish()
    site.fail("/rfc/rfc1.txt", status=429, retry_after="5")
    time = FakeTime()
    with closing(a_web(site, time=time)) as web:
        assert Corpus().pull(connector(site, web)).documents
    assert 5 in time.slept


def test_health_is_checked_with_a_short_rfc(editor: RfcEditor, site: MisbehavingSite, web: HttpWeb) -> None:
    assert "base_url" in connector(site, web).check().reason
    editor.rfc(2119)
    assert connector(site, web).check().ok


def test_text_in_latin_1_is_read_as_it_is_declared(editor: RfcEditor, site: MisbehavingSite, web: HttpWeb) -> None:
    editor.rfc(1)
    editor.publish()
    headers = {"Content-Type": "text/plain; charset=iso-8859-1"}
    site.on("/rfc/rfc1.txt", Answer(200, "Abstract\n\n   Größe.\n".encode("iso-8859-1"), headers))
    assert "Größe." in Corpus().pull(connector(site, web)).text("rfc1")


@pytest.mark.parametrize("body", [b"", b" \n", b"<html>moved</html>", b"PK\x03\x04\0\0"])
def test_a_reply_without_text_is_refused(editor: RfcEditor, site: MisbehavingSite, web: HttpWeb, body: bytes) -> None:
    editor.rfc(1)
    editor.publish()
    site.on("/rfc/rfc1.txt", Answer(200, body))
    corpus = Corpus().pull(connector(site, web))
    assert (list(corpus.documents), "not a plain text" in corpus.refused["rfc1"]) == ([], True)
