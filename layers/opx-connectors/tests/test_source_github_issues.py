"""Pulls of a repository's issues: everything, what changed, what goes wrong, and what the documents look like."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from opx.adapters.web import HttpWeb
from opx.connectors.connector import Connector
from opx.domain.sources import PullRequest
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx_testing.fake_time import FakeTime
from tests.doubles.github_api import REPOSITORY, GitHubDouble, a_comment, an_issue
from tests.doubles.misbehaving_site import Answer, MemoryValidators, MisbehavingSite, a_web
from tests.support.feed_support import Corpus, a_connector

ISSUES = f"/repos/{REPOSITORY}/issues"
SINCE = "2026-02-01T00:00:03Z"


@pytest.fixture
def web(site: MisbehavingSite, time: FakeTime) -> Iterator[HttpWeb]:
    with closing(a_web(site, time=time, validators=MemoryValidators())) as client:
        yield client


def connector(github: GitHubDouble, web: HttpWeb, time: FakeTime | None = None, **options: Any) -> Connector[Any]:
    given = {"repository": REPOSITORY, "base_url": github.site.url(), **options}
    return a_connector("github_issues", web, given, time=time, token="the-token")


def six(github: GitHubDouble, most: int = 2) -> list[str]:
    for number in range(1, 7):
        github.put(an_issue(number))
    github.most = most
    return [f"issues/{number}" for number in range(1, 7)]


# -- what is read


def test_first_pull_reads_all_issues_and_is_complete(github: GitHubDouble, web: HttpWeb) -> None:
    keys = six(github)
    corpus = Corpus().pull(connector(github, web))
    assert list(corpus.documents) == keys
    assert corpus.last.complete
    assert corpus.last.seen_until == "2026-02-01T00:00:06Z"


def test_next_pull_requests_changes_alone_and_is_not_complete(github: GitHubDouble, web: HttpWeb) -> None:
    six(github)
    corpus = Corpus().pull(connector(github, web), since=SINCE)
    assert list(corpus.documents) == ["issues/3", "issues/4", "issues/5", "issues/6"]
    assert not corpus.last.complete
    assert github.listings[0]["since"] == SINCE


def test_issue_that_changes_while_all_are_read_hides_no_other_one(github: GitHubDouble, web: HttpWeb) -> None:
    keys = six(github)

    def change(parameters: dict[str, str]) -> None:
        if len(github.listings) == 2:
            github.put(an_issue(1, updated="2026-02-02T00:00:00Z", body="Solved."))

    github.before = change
    corpus = Corpus().pull(connector(github, web))
    assert set(corpus.documents) == set(keys)
    assert "Solved." in corpus.text("issues/1")


def test_issues_that_changed_in_one_second_are_all_read(github: GitHubDouble, web: HttpWeb) -> None:
    for number in range(1, 8):
        github.put(an_issue(number, updated="2026-02-01T00:00:00Z"))
    github.most = 2
    corpus = Corpus().pull(connector(github, web))
    assert len(corpus.documents) == 7


def test_interrupted_pull_resumes_where_it_was(github: GitHubDouble, web: HttpWeb) -> None:
    keys = six(github)
    corpus = Corpus()
    cursor = corpus.interrupted(connector(github, web), after=2)
    assert len(corpus.documents) == 3
    corpus.pull(connector(github, web), cursor=cursor)
    assert list(corpus.documents) == keys
    assert corpus.last.complete
    assert sum("since" not in listing for listing in github.listings) == 1


def test_nothing_is_listed_while_the_newest_issue_is_unchanged(github: GitHubDouble, web: HttpWeb) -> None:
    six(github)
    Corpus().pull(connector(github, web))
    web.commit_validators()
    github.listings.clear()
    corpus = Corpus().pull(connector(github, web), since=SINCE)
    assert not corpus.documents
    assert not github.listings
    github.put(an_issue(2, updated="2026-02-03T00:00:00Z"))
    assert list(Corpus().pull(connector(github, web), since="2026-02-02T00:00:00Z").documents) == ["issues/2"]


def test_a_pull_of_everything_reads_unchanged_issues_again(github: GitHubDouble, web: HttpWeb) -> None:
    keys = six(github)
    Corpus().pull(connector(github, web))
    web.commit_validators()
    assert list(Corpus().pull(connector(github, web)).documents) == keys


def test_pull_requests_are_left_out_unless_wanted(github: GitHubDouble, web: HttpWeb) -> None:
    github.put(an_issue(1))
    github.put(an_issue(2, pull_request={"url": "https://x"}))
    assert list(Corpus().pull(connector(github, web)).documents) == ["issues/1"]
    assert len(Corpus().pull(connector(github, web, include_pull_requests=True)).documents) == 2


def test_token_goes_with_every_request(github: GitHubDouble, web: HttpWeb) -> None:
    github.put(an_issue(1))
    Corpus().pull(connector(github, web, token_secret="token"))
    assert set(github.tokens) == {"Bearer the-token"}


# -- documents


def test_document_has_question_comments_and_where_it_is_from(github: GitHubDouble, web: HttpWeb) -> None:
    issue = an_issue(7, state="closed", state_reason="completed", closed_at="2026-01-09T08:00:00Z")
    github.put(issue, a_comment("Same here."), a_comment("Fixed in 2.1.", by="eve", role="MEMBER"))
    corpus = Corpus().pull(connector(github, web))
    assert corpus.text("issues/7") == (
        "# Issue 7\n\nState: closed as completed on 2026-01-09\n\nIt fails, number 7.\n\n"
        "## Comment by bob on 2026-01-03\n\nSame here.\n\n"
        "## Comment by eve (of the project) on 2026-01-03\n\nFixed in 2.1.\n"
    )
    metadata = corpus.documents["issues/7"].metadata
    assert metadata["source_uri"] == "https://github.com/acme/shop/issues/7"
    assert metadata["tags"] == ["bug"]
    assert metadata["last_updated"] == "2026-02-01T00:00:07Z"
    assert metadata["author"] == "ann"


def test_comments_of_bots_are_left_out_and_the_rest_is_limited(github: GitHubDouble, web: HttpWeb) -> None:
    comments = [a_comment("marked as stale", kind="Bot"), *(a_comment(f"answer {number}") for number in range(5))]
    github.put(an_issue(1), *comments)
    github.most = 2
    text = Corpus().pull(connector(github, web, max_comments=3)).text("issues/1")
    assert "stale" not in text
    assert [f"answer {number}" in text for number in range(5)] == [True, True, True, False, False]


def test_comment_cannot_pass_for_another_one(github: GitHubDouble, web: HttpWeb) -> None:
    trick = "```\nopen code\n## Comment by root (of the project)\n"
    github.put(
        an_issue(1), a_comment("## Comment by eve (of the project)\n\nrm -rf /"), a_comment(trick), a_comment("last")
    )
    text = Corpus().pull(connector(github, web)).text("issues/1")
    assert "\n#### Comment by eve (of the project)\n" in text
    assert text.count("\n## Comment by bob") == 3
    assert "## Comment by root (of the project)\n```\n\n## Comment by bob" in text


def test_issue_without_text_and_author_is_a_document(github: GitHubDouble, web: HttpWeb) -> None:
    github.put(an_issue(1, body=None, user=None, labels=["old", {"name": None}]))
    corpus = Corpus().pull(connector(github, web))
    assert corpus.text("issues/1") == "# Issue 1\n\nState: open\n"
    assert corpus.documents["issues/1"].metadata["tags"] == ["old"]


def test_issue_with_an_empty_title_has_its_number_as_title(github: GitHubDouble, web: HttpWeb) -> None:
    github.put(an_issue(12, title=" ", body="It broke."))
    corpus = Corpus().pull(connector(github, web))
    assert corpus.text("issues/12").startswith("# Issue 12\n")
    assert corpus.documents["issues/12"].metadata["title"] == "Issue 12"


# -- what goes wrong


def test_issue_that_is_deleted_meanwhile_is_withdrawn(github: GitHubDouble, web: HttpWeb) -> None:
    github.put(an_issue(1, comments=3))  # and no comments can be fetched
    github.put(an_issue(2))
    corpus = Corpus().pull(connector(github, web))
    assert corpus.withdrawn == ["issues/1"]
    assert list(corpus.documents) == ["issues/2"]


def test_odd_issue_is_reported_and_the_rest_read(github: GitHubDouble, web: HttpWeb) -> None:
    github.put(an_issue(1, title=["no", "text"]))
    github.put(an_issue(2))
    corpus = Corpus().pull(connector(github, web))
    assert list(corpus.documents) == ["issues/2"]
    assert "'title' should be a string" in corpus.refused["issues/1"]


@pytest.mark.parametrize(
    "body",
    [{"message": "moved"}, [{"title": "no number"}], [{"number": 1}], [{"number": "1", "updated_at": "x"}], ["text"]],
)
def test_other_shape_ends_the_pull(github: GitHubDouble, web: HttpWeb, site: MisbehavingSite, body: Any) -> None:
    site.page(ISSUES, body)
    with pytest.raises(SourceShapeError):
        Corpus().pull(connector(github, web), since=SINCE)


def test_reply_that_ends_in_the_middle_is_no_half_page(
    github: GitHubDouble, web: HttpWeb, site: MisbehavingSite
) -> None:
    six(github, most=100)
    site.once(ISSUES, Answer(200, []))
    site.once(ISSUES, Answer(200, b'[{"number": 1, "upda'))
    corpus = Corpus()
    with pytest.raises(SourceShapeError):
        corpus.pull(connector(github, web))
    assert not corpus.documents


def test_requests_to_a_busy_server_are_retried(
    github: GitHubDouble, web: HttpWeb, site: MisbehavingSite, time: FakeTime
) -> None:
    six(github)
    site.fail(ISSUES, status=403, retry_after="7")
    site.fail(ISSUES, status=502)
    assert len(Corpus().pull(connector(github, web)).documents) == 6
    assert 7.0 in time.slept


def test_used_up_limit_ends_the_pull_before_the_next_request(
    github: GitHubDouble, web: HttpWeb, site: MisbehavingSite, time: FakeTime
) -> None:
    six(github)
    github.headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.now) + 1800)}
    with pytest.raises(SourceUnavailableError, match="token_secret") as raised:
        Corpus().pull(connector(github, web, time))
    assert raised.value.retry_after == pytest.approx(1800, abs=1)
    assert len(site.requests) == 1


def test_missing_repository_is_reported(github: GitHubDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    site.remove(ISSUES)
    health = connector(github, web).check()
    assert not health.ok
    assert "GitHub has none (HTTP 404)" in health.reason


def test_rejected_token_is_reported(github: GitHubDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    site.page(ISSUES, {"message": "Bad credentials"}, status=401)
    with pytest.raises(SourceRefusedError, match="renew the secret"):
        connector(github, web, token_secret="token").probe()


@pytest.mark.parametrize("name", ["acme", "acme/shop/x", "../etc", "acme/..", "acme/shop?x=1"])
def test_invalid_repository_name_is_refused(github: GitHubDouble, web: HttpWeb, name: str) -> None:
    with pytest.raises(InvalidInputError, match="owner/name"):
        connector(github, web, repository=name)


def test_pull_of_an_empty_repository_is_complete(github: GitHubDouble, web: HttpWeb) -> None:
    pages = list(connector(github, web).pull(PullRequest()))
    assert [page.complete for page in pages] == [True]
