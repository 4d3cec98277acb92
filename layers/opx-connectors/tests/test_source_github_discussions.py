"""Pulls of a repository's discussions over GraphQL."""

from __future__ import annotations

from typing import Any

import pytest

from opx.adapters.web import HttpWeb
from opx.connectors.connector import Connector
from opx.domain.sources import PullRequest
from opx.errors import SourceRefusedError, SourceShapeError, SourceUnavailableError
from tests.doubles.github_api import REPOSITORY, GitHubDouble, a_discussion
from tests.doubles.misbehaving_site import MisbehavingSite
from tests.support.feed_support import Corpus, a_connector

SINCE = "2026-02-01T00:00:04Z"


def connector(github: GitHubDouble, web: HttpWeb, **options: Any) -> Connector[Any]:
    given = {"repository": REPOSITORY, "base_url": github.site.url(), "token_secret": "token", **options}
    return a_connector("github_discussions", web, given, token="the-token")


def six(github: GitHubDouble) -> list[str]:
    for number in range(1, 7):
        github.discussions[number] = a_discussion(number)
    github.most = 2
    return [f"discussions/{number}" for number in range(1, 7)]


def test_first_pull_reads_all_and_is_complete(github: GitHubDouble, web: HttpWeb) -> None:
    keys = six(github)
    corpus = Corpus().pull(connector(github, web))
    assert list(corpus.documents) == keys
    assert corpus.last.complete
    assert corpus.last.seen_until == "2026-02-01T00:00:06Z"
    assert set(github.tokens) == {"Bearer the-token"}


def test_next_pull_stops_where_the_last_one_was(github: GitHubDouble, web: HttpWeb) -> None:
    six(github)
    corpus = Corpus().pull(connector(github, web), since=SINCE)
    assert list(corpus.documents) == ["discussions/6", "discussions/5", "discussions/4"]
    assert not corpus.last.complete
    assert len(github.listings) == 2
    assert corpus.last.seen_until == "2026-02-01T00:00:06Z"


def test_change_during_the_first_pull_is_not_missed(github: GitHubDouble, web: HttpWeb) -> None:
    keys = six(github)

    def change(parameters: dict[str, str]) -> None:
        if len(github.listings) == 2:
            github.discussions[6] = a_discussion(6, updated="2026-02-02T00:00:00Z", body="Later.")

    github.before = change
    corpus = Corpus().pull(connector(github, web))
    assert set(corpus.documents) == set(keys)
    assert "Later." in corpus.text("discussions/6")


@pytest.mark.parametrize("since", ["", "2026-01-01T00:00:00Z"])
def test_interrupted_pull_resumes_where_it_was(github: GitHubDouble, web: HttpWeb, since: str) -> None:
    keys = six(github)
    corpus = Corpus()
    cursor = corpus.interrupted(connector(github, web), after=1, since=since)
    corpus.pull(connector(github, web), cursor=cursor, since=since)
    assert sorted(corpus.documents) == keys
    assert corpus.last.complete == (not since)
    assert corpus.last.seen_until == "2026-02-01T00:00:06Z"


def test_accepted_answer_comes_first_and_once(github: GitHubDouble, web: HttpWeb) -> None:
    answer = {"id": "c2", "body": "Restart it.", "author": {"login": "eve"}}
    comments = [
        {"id": "c1", "body": "Me too.", "author": None, "isMinimized": False},
        {**answer, "replies": {"nodes": [{"body": "Thanks!", "author": {"login": "ann"}}]}},
        {"id": "c3", "body": "buy pills", "author": {"login": "spam"}, "isMinimized": True},
    ]
    github.discussions[1] = a_discussion(1, answer=answer, comments={"nodes": comments})
    corpus = Corpus().pull(connector(github, web))
    assert corpus.text("discussions/1") == (
        "# Question 1\n\nCategory: Q&A. Answered.\n\nHow?\n\n"
        "## Accepted answer by eve\n\nRestart it.\n\n"
        "## Comment by somebody\n\nMe too.\n\n"
        "## Reply by ann to eve\n\nThanks!\n"
    )
    assert corpus.documents["discussions/1"].metadata["tags"] == ["network", "Q&A"]


def test_reply_that_was_accepted_comes_once(github: GitHubDouble, web: HttpWeb) -> None:
    answer = {"id": "r1", "body": "So.", "author": {"login": "eve"}}
    replies = {"nodes": [answer, {"id": "r2", "body": "So.", "author": {"login": "bob"}}]}
    comment = {"id": "c1", "body": "How?", "author": {"login": "ann"}, "replies": replies}
    github.discussions[1] = a_discussion(1, answer=answer, comments={"nodes": [comment]})
    text = Corpus().pull(connector(github, web)).text("discussions/1")
    assert text.count("by eve") == 1
    assert "## Reply by bob to ann" in text


def test_changes_are_given_only_when_all_are(github: GitHubDouble, web: HttpWeb) -> None:
    six(github)
    pages = list(connector(github, web).pull(PullRequest(SINCE)))
    assert [page.seen_until for page in pages] == ["", "2026-02-01T00:00:06Z"]


def test_only_chosen_categories_and_answered_ones(github: GitHubDouble, web: HttpWeb) -> None:
    answer = {"id": "c", "body": "So.", "author": None}
    github.discussions[1] = a_discussion(1, answer=answer)
    github.discussions[2] = a_discussion(2)
    github.discussions[3] = a_discussion(3, answer=answer, category={"name": "Show and tell"})
    corpus = Corpus().pull(connector(github, web, categories=("Q&A",), answered_only=True))
    assert list(corpus.documents) == ["discussions/1"]
    assert corpus.withdrawn == ["discussions/2", "discussions/3"]


def test_odd_discussion_is_reported_and_the_rest_read(github: GitHubDouble, web: HttpWeb) -> None:
    github.discussions[1] = a_discussion(1, comments={"nodes": "none"})
    github.discussions[2] = a_discussion(2)
    corpus = Corpus().pull(connector(github, web))
    assert list(corpus.documents) == ["discussions/2"]
    assert "nodes" in corpus.refused["discussions/1"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"data": None, "errors": [{"type": "NOT_FOUND", "message": "Could not resolve"}]}, SourceRefusedError),
        ({"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}, SourceUnavailableError),
        ({"errors": [{"message": "Something went wrong"}]}, SourceUnavailableError),
        ({"errors": [{"type": "undefinedField", "message": "Field 'x'"}]}, SourceShapeError),
        ({"data": {"repository": None}}, SourceRefusedError),
        ({"data": {"repository": {"discussions": {"nodes": []}}}}, SourceShapeError),
        ({"data": {"repository": {"discussions": {"pageInfo": {"hasNextPage": True}, "nodes": []}}}}, SourceShapeError),
        ([], SourceShapeError),
    ],
)
def test_errors_are_distinguished(
    github: GitHubDouble, web: HttpWeb, site: MisbehavingSite, body: Any, error: type[Exception]
) -> None:
    site.page("/graphql", body)
    with pytest.raises(error):
        Corpus().pull(connector(github, web))


def test_page_that_leads_to_itself_ends_the_pull(github: GitHubDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    page = {"pageInfo": {"hasNextPage": True, "endCursor": "again"}, "nodes": [a_discussion(1)]}
    site.page("/graphql", {"data": {"repository": {"discussions": page}}})
    with pytest.raises(SourceShapeError, match="leads to itself"):
        Corpus().pull(connector(github, web))


def test_missing_graphql_api_is_reported(github: GitHubDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    site.remove("/graphql")
    health = connector(github, web).check()
    assert not health.ok
    assert "no GraphQL API" in health.reason


def test_enterprise_server_has_graphql_beside_rest(github: GitHubDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    site.on("/api/graphql", github._graphql)
    assert connector(github, web, base_url=site.url("/api/v3")).check().ok
