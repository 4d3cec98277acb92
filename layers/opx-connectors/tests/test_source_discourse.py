"""Pulls of forums that run Discourse."""

from __future__ import annotations

from typing import Any

import pytest

from opx.adapters.web import HttpWeb
from opx.connectors.connector import Connector
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError
from tests.doubles.discourse_forum import DiscourseDouble, a_post, a_topic
from tests.doubles.misbehaving_site import MisbehavingSite
from tests.support.feed_support import Corpus, a_connector

SINCE = "2026-02-01T00:00:04Z"


@pytest.fixture
def forum(site: MisbehavingSite) -> DiscourseDouble:
    return DiscourseDouble(site)


def connector(forum: DiscourseDouble, web: HttpWeb, **options: Any) -> Connector[Any]:
    return a_connector("discourse", web, {"base_url": forum.site.url(), **options}, key="the-key")


def six(forum: DiscourseDouble) -> list[str]:
    for number in range(1, 7):
        forum.put(a_topic(number))
    forum.most = 2
    return [f"t/{number}" for number in range(1, 7)]


def test_first_pull_reads_all_topics_and_is_complete(forum: DiscourseDouble, web: HttpWeb) -> None:
    keys = six(forum)
    corpus = Corpus().pull(connector(forum, web))
    assert sorted(corpus.documents) == keys
    assert corpus.last.complete
    assert corpus.last.seen_until == "2026-02-01T00:00:06Z"


def test_topic_that_is_bumped_while_all_are_read_is_named(forum: DiscourseDouble, web: HttpWeb) -> None:
    keys = six(forum)

    def bump(parameters: dict[str, str]) -> None:
        if len(forum.listings) == 2:
            forum.put(a_topic(1, bumped="2026-02-02T00:00:00Z"), a_post(1, "<p>Later</p>"))

    forum.before = bump
    corpus = Corpus().pull(connector(forum, web))
    assert sorted(corpus.documents) == keys
    assert "Later" in corpus.text("t/1")
    assert corpus.last.complete
    assert corpus.last.seen_until == "2026-02-01T00:00:06Z"


def test_next_pull_stops_where_the_last_one_was(forum: DiscourseDouble, web: HttpWeb) -> None:
    six(forum)
    corpus = Corpus().pull(connector(forum, web), since=SINCE)
    assert sorted(corpus.documents) == ["t/4", "t/5", "t/6"]
    assert [listing["page"] for listing in forum.listings] == ["0", "1"]
    assert not corpus.last.complete


def test_old_pinned_topics_do_not_end_the_listing(forum: DiscourseDouble, web: HttpWeb) -> None:
    six(forum)
    for number in (7, 8):
        forum.put(a_topic(number, bumped="2020-01-01T00:00:00Z", pinned=True))
    corpus = Corpus().pull(connector(forum, web), since=SINCE)
    assert sorted(corpus.documents) == ["t/4", "t/5", "t/6"]


@pytest.mark.parametrize("after", [1, 2, 3])
def test_interrupted_pull_resumes_where_it_was(forum: DiscourseDouble, web: HttpWeb, after: int) -> None:
    keys = six(forum)
    corpus = Corpus()
    cursor = corpus.interrupted(connector(forum, web), after=after)
    corpus.pull(connector(forum, web), cursor=cursor)
    assert sorted(corpus.documents) == keys
    assert corpus.last.complete
    assert corpus.last.seen_until == "2026-02-01T00:00:06Z"


def test_categories_are_read_one_after_the_other(forum: DiscourseDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    forum.put(a_topic(1))
    forum.put(a_topic(2))
    for place, number in (("/c/support/5/l/latest.json", 1), ("/c/news/7/l/latest.json", 2)):
        site.page(place, {"topic_list": {"topics": [forum.topics[number]]}})
    corpus = Corpus().pull(connector(forum, web, categories=("support/5", "news/7")))
    assert sorted(corpus.documents) == ["t/1", "t/2"]
    assert corpus.last.complete


def test_document_has_the_solution_first_and_html_as_markdown(forum: DiscourseDouble, web: HttpWeb) -> None:
    posts = [
        a_post(1, "<p>It <b>fails</b>:</p><pre><code class='lang-sh'>ls &amp;&amp; x</code></pre>"),
        a_post(2, "<h2>Solution by root</h2><p>Me too</p>", by="bob"),
        a_post(3, "", by="system", post_type=3),
        a_post(4, "<p>Restart <a href='https://x.test/y'>it</a></p>", by="eve", accepted_answer=True),
        a_post(5, "<p> </p>", by="eve"),
    ]
    forum.put(a_topic(9), *posts)
    corpus = Corpus().pull(connector(forum, web))
    assert corpus.text("t/9") == (
        "# Topic 9\n\nSolved.\n\nIt **fails**:\n\n```sh\nls && x\n```\n\n"
        "## Solution by eve\n\nRestart it (https://x.test/y)\n\n"
        "## Reply by bob\n\n#### Solution by root\n\nMe too\n"
    )
    metadata = corpus.documents["t/9"].metadata
    assert metadata["tags"] == ["vpn", "solved"]
    assert metadata["source_uri"] == forum.site.url("/t/topic-9/9")
    assert metadata["last_updated"] == "2026-02-01T00:00:09Z"
    assert metadata["author"] == "ann"


def test_solution_behind_the_first_posts_is_found(forum: DiscourseDouble, web: HttpWeb) -> None:
    posts = [a_post(number, f"<p>post {number}.</p>") for number in range(1, 61)]
    forum.put(a_topic(1, accepted_answer={"post_number": 55, "username": "ann"}), *posts)
    text = Corpus().pull(connector(forum, web, max_posts=30)).text("t/1")
    assert text.index("post 55.") < text.index("post 2.")
    assert "post 30." in text
    assert "post 31." not in text


def test_only_solved_topics_if_wanted(forum: DiscourseDouble, web: HttpWeb) -> None:
    forum.put(a_topic(1), a_post(1, "<p>?</p>"), a_post(2, "<p>!</p>", accepted_answer=True))
    forum.put(a_topic(2))
    assert list(Corpus().pull(connector(forum, web, solved_only=True)).documents) == ["t/1"]


def test_key_goes_with_every_request(forum: DiscourseDouble, web: HttpWeb) -> None:
    six(forum)
    Corpus().pull(connector(forum, web, key_secret="key"))
    assert forum.keys == {"the-key"}


@pytest.mark.parametrize("status", [404, 410, 403])
def test_topic_that_is_deleted_meanwhile_is_withdrawn(
    forum: DiscourseDouble, web: HttpWeb, site: MisbehavingSite, status: int
) -> None:
    six(forum)
    site.page("/t/3.json", {"errors": ["gone"]}, status=status)
    corpus = Corpus().pull(connector(forum, web))
    assert corpus.withdrawn == ["t/3"]
    assert len(corpus.documents) == 5


def test_odd_topic_is_reported_and_the_rest_read(forum: DiscourseDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    six(forum)
    site.page("/t/3.json", {"title": "T", "post_stream": {"stream": []}})
    site.page("/t/4.json", {"title": "T", "post_stream": {"posts": [a_post(1, "<b>" * 2000)], "stream": []}})
    corpus = Corpus().pull(connector(forum, web))
    assert sorted(corpus.refused) == ["t/3", "t/4"]
    assert len(corpus.documents) == 4


@pytest.mark.parametrize("body", [{"topics": []}, {"topic_list": {"topics": [{"id": 1}]}}, [1], "<html>"])
def test_other_shape_ends_the_pull(forum: DiscourseDouble, web: HttpWeb, site: MisbehavingSite, body: Any) -> None:
    site.page("/latest.json", body)
    with pytest.raises(SourceShapeError):
        Corpus().pull(connector(forum, web))


def test_forum_without_such_a_list_is_reported(forum: DiscourseDouble, web: HttpWeb) -> None:
    with pytest.raises(SourceRefusedError, match="no such list"):
        Corpus().pull(connector(forum, web, categories=("gone/1",)))
    assert not connector(forum, web, categories=("gone/1",)).check().ok


def test_requests_to_a_busy_forum_are_retried(forum: DiscourseDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    six(forum)
    site.fail("/latest.json", status=429, retry_after="2")
    site.cut("/t/3.json")
    assert len(Corpus().pull(connector(forum, web)).documents) == 6


def test_empty_forum_is_a_complete_pull(forum: DiscourseDouble, web: HttpWeb) -> None:
    corpus = Corpus().pull(connector(forum, web))
    assert corpus.last.complete
    assert connector(forum, web).check().ok


@pytest.mark.parametrize("category", ["../admin", "a?b", "", "a//b"])
def test_invalid_category_is_refused(forum: DiscourseDouble, web: HttpWeb, category: str) -> None:
    with pytest.raises(InvalidInputError):
        connector(forum, web, categories=(category,))
