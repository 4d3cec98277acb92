"""Pulls of Stack Exchange sites."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from opx.adapters.web import HttpWeb
from opx.connectors.connector import Connector
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx_testing.fake_time import FakeTime
from tests.doubles.discourse_forum import BEGAN, StackExchangeDouble, a_question, an_answer, packed
from tests.doubles.misbehaving_site import MisbehavingSite, a_web
from tests.support.feed_support import Corpus, a_connector

SINCE = "2026-02-02T02:40:04Z"
"""BEGAN + 4 seconds."""


@pytest.fixture
def stack(site: MisbehavingSite) -> StackExchangeDouble:
    return StackExchangeDouble(site)


@pytest.fixture
def web(site: MisbehavingSite, time: FakeTime) -> Iterator[HttpWeb]:
    with closing(a_web(site, time=time)) as client:
        yield client


def connector(stack: StackExchangeDouble, web: HttpWeb, time: FakeTime | None = None, **options: Any) -> Connector[Any]:
    given = {"tags": ("nginx",), "base_url": stack.site.url("/2.3"), **options}
    time = time or FakeTime()
    found = a_connector("stack_overflow", web, given, time=time, key="the-key")
    found.sleep = time.sleep  # type: ignore[attr-defined]
    return found


def six(stack: StackExchangeDouble) -> list[str]:
    stack.put(*(a_question(number) for number in range(1, 7)))
    stack.most = 2
    return [f"stackoverflow/{number}" for number in range(1, 7)]


def test_first_pull_reads_all_questions_and_is_complete(stack: StackExchangeDouble, web: HttpWeb) -> None:
    keys = six(stack)
    corpus = Corpus().pull(connector(stack, web))
    assert list(corpus.documents) == keys
    assert corpus.last.complete
    assert "min" not in stack.listings[0]
    assert {listing["page"] for listing in stack.listings} == {"1"}


def test_next_pull_requests_questions_active_since(stack: StackExchangeDouble, web: HttpWeb) -> None:
    six(stack)
    corpus = Corpus().pull(connector(stack, web), since=SINCE)
    assert sorted(corpus.documents) == ["stackoverflow/4", "stackoverflow/5", "stackoverflow/6"]
    assert stack.listings[0]["min"] == str(BEGAN + 4)
    assert not corpus.last.complete


def test_questions_of_one_second_are_all_read(stack: StackExchangeDouble, web: HttpWeb) -> None:
    stack.put(*(a_question(number, at=BEGAN) for number in range(1, 8)))
    stack.most = 2
    assert len(Corpus().pull(connector(stack, web)).documents) == 7


def test_question_that_changes_meanwhile_hides_no_other_one(stack: StackExchangeDouble, web: HttpWeb) -> None:
    keys = six(stack)

    def change(parameters: dict[str, str]) -> None:
        if len(stack.listings) == 2:
            stack.put(a_question(1, at=BEGAN + 100))

    stack.before = change
    assert set(Corpus().pull(connector(stack, web)).documents) == set(keys)


def test_tags_are_pulled_one_after_the_other(stack: StackExchangeDouble, web: HttpWeb) -> None:
    stack.put(
        a_question(1), a_question(2, tags=["tls", "nginx"]), a_question(3, tags=["tls"]), a_question(4, tags=["x"])
    )
    corpus = Corpus()
    cursor = corpus.interrupted(connector(stack, web, tags=("nginx", "tls")), after=1)
    assert sorted(corpus.documents) == ["stackoverflow/1", "stackoverflow/2"]
    named_all = [corpus.last.complete]
    corpus.pull(connector(stack, web, tags=("nginx", "tls")), cursor=cursor)
    assert sorted(corpus.documents) == ["stackoverflow/1", "stackoverflow/2", "stackoverflow/3"]
    assert [*named_all, corpus.last.complete] == [False, True]
    assert [listing["tagged"] for listing in stack.listings] == ["nginx", "tls"]


def test_interrupted_pull_resumes_where_it_was(stack: StackExchangeDouble, web: HttpWeb) -> None:
    keys = six(stack)
    corpus = Corpus()
    cursor = corpus.interrupted(connector(stack, web), after=2)
    stack.listings.clear()
    corpus.pull(connector(stack, web), cursor=cursor)
    assert list(corpus.documents) == keys
    assert stack.listings[0]["min"] == str(BEGAN + 3)


def test_document_has_the_accepted_answer_first_and_no_entities(stack: StackExchangeDouble, web: HttpWeb) -> None:
    answers = [
        an_answer(1, "Try &#39;x&#39;", score=9),
        an_answer(2, "Do `y &amp;&amp; z`", score=0, accepted=True),
        an_answer(3, "spam", score=-2),
    ]
    stack.put(a_question(7, answers=answers, closed_reason="Duplicate"))
    corpus = Corpus().pull(connector(stack, web))
    assert corpus.text("stackoverflow/7") == (
        '# Question "7"\n\nScore 5. Closed: Duplicate.\n\nWhy <7>?\n\n'
        "## Accepted answer by user 2, score 0\n\nDo `y && z`\n\n"
        "## Answer by user 1, score 9\n\nTry 'x'\n"
    )
    metadata = corpus.documents["stackoverflow/7"].metadata
    assert metadata["title"] == 'Question "7"'
    assert metadata["author"] == "Ann & Bob"
    assert metadata["tags"] == ["nginx"]
    assert metadata["source_uri"] == "https://stackoverflow.com/questions/7"
    assert metadata["last_updated"] == "2026-02-02T02:40:07Z"


def test_bad_questions_and_unanswered_ones_are_left_out(stack: StackExchangeDouble, web: HttpWeb) -> None:
    stack.put(a_question(1, score=0), a_question(2), a_question(3, accepted_answer_id=9))
    assert list(Corpus().pull(connector(stack, web)).documents) == ["stackoverflow/2", "stackoverflow/3"]
    corpus = Corpus().pull(connector(stack, web, answered_only=True))
    assert list(corpus.documents) == ["stackoverflow/3"]
    assert corpus.withdrawn == ["stackoverflow/1", "stackoverflow/2"]


def test_filter_is_created_once_with_texts_and_answers(stack: StackExchangeDouble, web: HttpWeb) -> None:
    six(stack)
    Corpus().pull(connector(stack, web))
    assert len(stack.filters) == 1
    assert {"question.body_markdown", "question.answers", ".backoff"} <= set(stack.filters[0]["include"].split(";"))
    assert {listing["filter"] for listing in stack.listings} == {"!made"}
    Corpus().pull(connector(stack, web, filter="!own"))
    assert len(stack.filters) == 1


def test_key_goes_with_every_request(stack: StackExchangeDouble, web: HttpWeb) -> None:
    six(stack)
    Corpus().pull(connector(stack, web, key_secret="key"))
    assert {request.get("key") for request in (*stack.listings, *stack.filters)} == {"the-key"}


def test_a_requested_pause_is_kept(stack: StackExchangeDouble, web: HttpWeb, time: FakeTime) -> None:
    six(stack)
    stack.wrapper["backoff"] = 11
    assert len(Corpus().pull(connector(stack, web, time)).documents) == 6
    assert time.slept.count(11) == len(stack.listings) - 1


def test_long_pause_ends_the_pull(stack: StackExchangeDouble, web: HttpWeb, time: FakeTime) -> None:
    six(stack)
    stack.wrapper["backoff"] = 600
    corpus = Corpus()
    with pytest.raises(SourceUnavailableError) as raised:
        corpus.pull(connector(stack, web, time))
    assert raised.value.retry_after == 600
    assert len(corpus.documents) == 2


def test_used_up_quota_ends_the_pull_until_midnight(stack: StackExchangeDouble, web: HttpWeb, time: FakeTime) -> None:
    six(stack)
    stack.wrapper["quota_remaining"] = 0
    corpus = Corpus()
    with pytest.raises(SourceUnavailableError, match="key_secret") as raised:
        corpus.pull(connector(stack, web, time))
    assert len(corpus.documents) == 2
    assert raised.value.retry_after == 86_400 - time.now % 86_400


def test_last_page_is_ingested_although_the_quota_is_used_up(stack: StackExchangeDouble, web: HttpWeb) -> None:
    stack.put(a_question(1))
    stack.wrapper["quota_remaining"] = 0
    assert Corpus().pull(connector(stack, web)).last.complete


def test_odd_question_is_reported_and_the_rest_read(stack: StackExchangeDouble, web: HttpWeb) -> None:
    stack.put(a_question(1, answers="none"), a_question(2, body_markdown=None), a_question(3))
    corpus = Corpus().pull(connector(stack, web))
    assert list(corpus.documents) == ["stackoverflow/3"]
    assert set(corpus.refused) == {"stackoverflow/1", "stackoverflow/2"}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"items": [{"title": "no id"}]}, SourceShapeError),
        ({"questions": []}, SourceShapeError),
        ([], SourceShapeError),
        ({"error_id": 502, "error_message": "too many requests"}, SourceRefusedError),
    ],
)
def test_other_shape_ends_the_pull(
    stack: StackExchangeDouble, web: HttpWeb, site: MisbehavingSite, body: Any, error: type[Exception]
) -> None:
    site.on("/2.3/questions", packed(body))
    with pytest.raises(error):
        Corpus().pull(connector(stack, web))


def test_refused_request_names_the_options_to_check(
    stack: StackExchangeDouble, web: HttpWeb, site: MisbehavingSite
) -> None:
    site.page("/2.3/questions", {"error_id": 400}, status=400)
    assert "check the options site, tags" in connector(stack, web).check().reason


def test_requests_to_a_busy_server_are_retried(stack: StackExchangeDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    six(stack)
    site.fail("/2.3/questions", status=503)
    site.hang_up("/2.3/questions")
    assert len(Corpus().pull(connector(stack, web)).documents) == 6


def test_healthy_source_is_healthy(stack: StackExchangeDouble, web: HttpWeb) -> None:
    assert connector(stack, web).check().ok


def test_whole_site_is_refused(stack: StackExchangeDouble, web: HttpWeb) -> None:
    with pytest.raises(InvalidInputError, match="at least one tag"):
        connector(stack, web, tags=())
