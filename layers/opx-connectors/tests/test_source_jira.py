"""Issues of Jira."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx.formats.metadata import MAX_ITEMS, validated
from tests.doubles.jira import CLOUD, SERVER, Jira, a_text, an_issue
from tests.doubles.misbehaving_site import Answer, MisbehavingSite
from tests.support.workplace_support import documents_of, named, pulled, resumed_after_each, text_of


@pytest.fixture(params=["Cloud", "Server"])
def jira(request: pytest.FixtureRequest) -> Iterator[Jira]:
    with MisbehavingSite() as site:
        yield Jira(site, request.param)


@pytest.fixture
def cloud() -> Iterator[Jira]:
    with MisbehavingSite() as site:
        yield Jira(site)


@pytest.fixture
def server() -> Iterator[Jira]:
    with MisbehavingSite() as site:
        yield Jira(site, "Server")


def test_every_issue_becomes_a_document_with_any_number_of_pages(jira: Jira) -> None:
    jira.issues = [an_issue(number) for number in range(250)]
    pages = pulled(jira.connector())
    assert set(documents_of(pages)) == {f"OPS-{number}" for number in range(250)}
    assert [page.complete for page in pages].count(True) == 1
    assert pages[-1].complete


def test_a_pull_that_stops_after_any_page_resumes_there(jira: Jira) -> None:
    jira.issues = [an_issue(number) for number in range(330)]
    for rest, both in resumed_after_each(jira.connector()):
        assert len(rest) < 4
        assert both == {f"OPS-{number}" for number in range(330)}


def test_issues_that_change_meanwhile_hide_no_others(server: Jira) -> None:
    server.issues = [an_issue(number) for number in range(300)]

    def change() -> None:
        for issue in server.issues[10:60]:
            issue["fields"]["updated"] = "2024-03-01T00:00:00.000+0000"

    server.between = [change]
    assert len(documents_of(pulled(server.connector()))) == 300


def test_many_issues_of_the_same_moment_are_all_read(server: Jira) -> None:
    moment = "2024-01-02T15:00:00.000+0000"
    server.issues = [an_issue(number, updated=moment) for number in range(350)]
    assert len(documents_of(pulled(server.connector()))) == 350


def test_issues_that_change_in_a_crowd_hide_no_others(server: Jira) -> None:
    server.issues = [an_issue(number, updated="2024-01-02T15:00:00.000+0000") for number in range(350)]

    def change() -> None:
        for issue in server.issues[:5]:
            issue["fields"]["updated"] = "2024-03-01T00:00:00.000+0000"

    server.between = [lambda: None, change]
    assert len(documents_of(pulled(server.connector()))) == 350


def test_changes_are_requested_by_milliseconds(jira: Jira) -> None:
    jira.issues = [an_issue(1), an_issue(100)]
    pages = pulled(jira.connector(), since="2024-01-02T15:01:00Z")
    assert set(documents_of(pages)) == {"OPS-100"}
    assert "updated >= 1704207660000 ORDER BY updated ASC" in jira.bodies[0]["jql"]
    assert pages[0].seen_until == "2024-01-02T15:01:40Z"
    assert not any(page.complete for page in pages)


def test_projects_and_condition_are_one_query(jira: Jira) -> None:
    pulled(jira.connector(projects=["OPS", 'A"B'], jql="status = Done OR labels = x"))
    assert jira.bodies[0]["jql"] == (
        'project in ("OPS", "A\\"B") AND (status = Done OR labels = x) ORDER BY updated ASC, key ASC'
    )


def test_a_listing_of_all_keys_notices_deleted_issues(jira: Jira) -> None:
    jira.issues = [an_issue(number) for number in range(3)]
    pages = pulled(jira.connector(list_all=True), since="2024-02-01T00:00:00Z")
    assert not documents_of(pages)
    assert named(pages) == {"OPS-0", "OPS-1", "OPS-2"}
    assert pages[-1].complete
    assert jira.bodies[-1]["fields"] == ["key"]


def test_a_listing_of_keys_that_stops_resumes_there(jira: Jira) -> None:
    jira.issues = [an_issue(number % 3600) | {"key": f"OPS-{number}"} for number in range(5_500)]
    connector = jira.connector(list_all=True)
    for rest, both in resumed_after_each(connector, since="2025-01-01T00:00:00Z"):
        assert len(both) == 5_500
        assert [page.complete for page in rest] == [False] * (len(rest) - 1) + [True]


def test_a_token_that_expired_starts_again(cloud: Jira) -> None:
    cloud.issues = [an_issue(number) for number in range(150)]
    cloud.site.fail(CLOUD, status=400)
    pages = pulled(cloud.connector(), cursor={"from": "", "token": "token-100"})
    assert len(documents_of(pages)) == 150


def test_a_token_of_the_listing_that_expired_begins_it_anew(cloud: Jira) -> None:
    cloud.issues = [an_issue(number) for number in range(3)]
    cloud.site.fail(CLOUD, status=400)
    cursor = {"phase": "keys", "token": "token-2"}
    pages = pulled(cloud.connector(list_all=True), since="2024-02-01T00:00:00Z", cursor=cursor)
    assert named(pages) == {"OPS-0", "OPS-1", "OPS-2"}


def test_a_token_is_not_forgotten_because_of_something_else(cloud: Jira) -> None:
    cloud.site.fail(CLOUD, status=403)
    with pytest.raises(SourceRefusedError, match="403"):
        pulled(cloud.connector(), cursor={"from": "", "token": "token-100"})


def test_a_refused_query_is_reported(jira: Jira) -> None:
    jira.site.fail(CLOUD, status=400)
    jira.site.fail(SERVER, status=400)
    with pytest.raises(SourceRefusedError, match="status 400"):
        pulled(jira.connector())


def test_a_user_logs_in_with_a_token_and_a_token_alone_is_a_bearer(cloud: Jira) -> None:
    pulled(cloud.connector(user="ann@example.org", token_secret="jira"))
    pulled(cloud.connector(token_secret="jira"))
    sent = {request.headers.get("authorization") for request in cloud.site.requests}
    assert sent == {"Basic YW5uQGV4YW1wbGUub3JnOmppcmEtdmFsdWU=", "Bearer jira-value"}


def test_a_resolved_issue_begins_with_how_it_was_resolved(cloud: Jira) -> None:
    comments = [
        {"author": {"displayName": "Ann"}, "created": f"2024-01-0{day}T10:00:00.000+0000", "body": a_text(words)}
        for day, words in ((1, "It hangs"), (3, "Raised the limit"))
    ]
    fields = {
        "resolution": {"name": "Fixed"},
        "resolutiondate": "2024-01-03T11:00:00.000+0000",
        "description": a_text("The queue is full"),
        "comment": {"comments": comments, "total": 2},
    }
    cloud.issues = [an_issue(1, **fields)]
    text = text_of(documents_of(pulled(cloud.connector()))["OPS-1"])
    order = [
        "# OPS-1: Problem 1",
        "## Resolution",
        "Fixed (2024-01-03)",
        "Raised the limit",
        "## Description",
        "It hangs",
    ]
    assert sorted(order, key=text.index) == order
    assert text.count("Raised the limit") == 1


def test_fields_become_metadata(cloud: Jira) -> None:
    fields = {
        "labels": ["disk"],
        "components": [{"name": "Storage"}],
        "priority": {"name": "High"},
        "reporter": {"displayName": "Bob  B"},
        "updated": "2024-01-02T15:30:00.000+0100",
    }
    cloud.issues = [an_issue(7, **fields)]
    assert documents_of(pulled(cloud.connector()))["OPS-7"].metadata == {
        "title": "OPS-7: Problem 7",
        "source_uri": cloud.site.url("/browse/OPS-7"),
        "tags": ["disk", "Storage"],
        "created_at": "2024-01-01T10:00:00Z",
        "last_updated": "2024-01-02T14:30:00Z",
        "author": "Bob B",
        "severity": "High",
    }


def test_relations_are_lines_at_the_end(cloud: Jira) -> None:
    blocks = {"name": "Blocks", "inward": "is blocked by", "outward": "blocks"}
    own = {"name": "Tests", "inward": "is tested by", "outward": "tests"}
    mention = {"type": "mention", "attrs": {"id": "1", "text": "@Cy D"}}
    fields = {
        "assignee": {"displayName": "Ann|x]"},
        "parent": {"key": "OPS-9"},
        "subtasks": [{"key": "OPS-12"}],
        "issuelinks": [
            {"type": blocks, "outwardIssue": {"key": "OPS-2"}},
            {"type": blocks, "inwardIssue": {"key": "OPS-3"}},
            {"type": own, "outwardIssue": {"key": "OPS-4"}},
            {"outwardIssue": {}},
        ],
        "description": {"type": "doc", "version": 1, "content": [{"type": "paragraph", "content": [mention]}]},
    }
    cloud.issues = [an_issue(1, **fields)]
    text = text_of(documents_of(pulled(cloud.connector()))["OPS-1"])
    assert text.endswith(
        "\n\nrelationships:\n"
        "- jira:OPS-1|ASSIGNED_TO|user:Ann x\n"
        "- jira:OPS-1|PARENT|jira:OPS-9\n"
        "- jira:OPS-12|PARENT|jira:OPS-1\n"
        "- jira:OPS-1|BLOCKS|jira:OPS-2\n"
        "- jira:OPS-3|BLOCKS|jira:OPS-1\n"
        "- jira:OPS-1|TESTS|jira:OPS-4\n"
        "- jira:OPS-1|MENTIONS|user:Cy D\n"
    )


def test_of_many_comments_the_last_are_requested(jira: Jira) -> None:
    path = f"/rest/api/{3 if jira.kind == 'Cloud' else 2}/issue/OPS-1/comment"
    body: Any = a_text("newest") if jira.kind == "Cloud" else "newest"
    jira.site.page(path, {"comments": [{"created": "2024-01-09T00:00:00.000+0000", "body": body}]})
    jira.issues = [an_issue(1, comment={"comments": [], "total": 70})]
    text = text_of(documents_of(pulled(jira.connector(max_comments=1)))["OPS-1"])
    assert "newest" in text
    assert "69 older comments are left out" in text
    assert jira.site.requests[-1].parameters == {"orderBy": "-created", "maxResults": "1"}


def test_wiki_markup_is_read_in_house(server: Jira) -> None:
    server.issues = [an_issue(1, description="h1. Cause\n{code:java}\nint *a*;\n{code}\n* one\n** two")]
    text = text_of(documents_of(pulled(server.connector()))["OPS-1"])
    assert "## Description\n\n### Cause\n\n```java\nint *a*;\n```\n\n- one\n  - two\n" in text


def test_extra_fields_are_sections(cloud: Jira) -> None:
    cloud.issues = [an_issue(1, customfield_10050=a_text("A full disk"))]
    connector = cloud.connector(extra_fields=["customfield_10050=Root cause"])
    assert "## Root cause\n\nA full disk" in text_of(documents_of(pulled(connector))["OPS-1"])
    assert "customfield_10050" in cloud.bodies[0]["fields"]


EXTRA = "customfield_1"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([{"value": "Disk"}, {"value": "Network"}], "- Disk\n- Network"),
        ([{"value": "Disk"}], "Disk"),
        (["slow", "down"], "- slow\n- down"),
        ([{"name": "2.1"}], "2.1"),
        (42, "42"),
        (8.0, "8"),
        (0.5, "0.5"),
        (True, "yes"),
        ({"displayName": "Ann", "accountId": "1"}, "Ann"),
        ({"value": "Storage", "child": {"value": "Disk"}}, "Storage > Disk"),
        ("2024-01-01", "2024-01-01"),
    ],
)
def test_extra_fields_of_every_kind_are_read(cloud: Jira, given: Any, expected: str) -> None:
    cloud.issues = [an_issue(1, **{EXTRA: given})]
    text = text_of(documents_of(pulled(cloud.connector(extra_fields=[f"{EXTRA}=Own"])))["OPS-1"])
    assert text.endswith(f"## Own\n\n{expected}\n")


@pytest.mark.parametrize("nothing", [None, [], ""])
def test_an_extra_field_that_is_empty_is_left_out(cloud: Jira, nothing: Any) -> None:
    cloud.issues = [an_issue(1, **{EXTRA: nothing})]
    assert "Own" not in text_of(documents_of(pulled(cloud.connector(extra_fields=[f"{EXTRA}=Own"])))["OPS-1"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("description", each) for each in (5, ["words"], {"version": 1, "content": []}, {"raw": "words"})),
        ("environment", True),
        *(("comment", each) for each in (True, "x", [{"body": "words"}], {"comments": "x"})),
        ("comment", {"comments": [], "total": "3"}),
        ("comment", {"comments": [{"created": "2024-01-01T00:00:00.000+0000", "body": 5}]}),
        *((EXTRA, each) for each in ({}, {"raw": "x"}, [None], [["x"]], {"value": "a", "child": {"raw": "x"}})),
    ],
)
def test_a_text_of_another_shape_does_not_disappear(cloud: Jira, field: str, value: Any) -> None:
    cloud.issues = [an_issue(1), an_issue(2, **{field: value})]
    pages = pulled(cloud.connector(extra_fields=[f"{EXTRA}=Own"]))
    assert set(documents_of(pages)) == {"OPS-1"}
    (refused,) = [each for page in pages for each in page.refused]
    assert refused.key == "OPS-2"
    assert re.match("expected |the field '[a-z.]+' (is missing|should be )", refused.reason)


def test_an_issue_with_hundreds_of_labels_keeps_as_many_as_it_may(cloud: Jira) -> None:
    cloud.issues = [an_issue(1, labels=[f"label-{number}" for number in range(200)] + ["x" * 300])]
    metadata = documents_of(pulled(cloud.connector()))["OPS-1"].metadata
    assert len(validated(metadata, name="OPS-1").tags) == MAX_ITEMS


def test_an_odd_issue_is_refused_and_the_others_are_read(jira: Jira) -> None:
    odd = an_issue(2)
    del odd["fields"]["summary"]
    jira.issues = [an_issue(1), odd, an_issue(3)]
    pages = pulled(jira.connector())
    assert set(documents_of(pages)) == {"OPS-1", "OPS-3"}
    (refused,) = [each for page in pages for each in page.refused]
    assert (refused.key, refused.reason.partition(";")[0]) == ("OPS-2", "the field 'fields.summary' is missing")


@pytest.mark.parametrize("summary", ["", "  ", None])
def test_an_issue_without_a_summary_is_called_by_its_key(jira: Jira, summary: str | None) -> None:
    issue = an_issue(2)
    issue["fields"]["summary"] = summary
    jira.issues = [an_issue(1), issue]
    text = str(documents_of(pulled(jira.connector()))["OPS-2"].content)
    assert text.startswith("# OPS-2\n")


def test_a_renamed_field_ingests_nothing(cloud: Jira) -> None:
    cloud.issues = [an_issue(1), an_issue(2)]
    for issue in cloud.issues:
        issue["fields"]["title"] = issue["fields"].pop("summary")
    with pytest.raises(SourceShapeError, match="summary"):
        pulled(cloud.connector())


@pytest.mark.parametrize("reply", [{"values": []}, [], {"issues": {}}])
def test_a_reply_without_issues_states_the_expected_format(cloud: Jira, reply: Any) -> None:
    cloud.site.once(CLOUD, Answer(200, reply))
    with pytest.raises(SourceShapeError, match="'issues'"):
        pulled(cloud.connector())


def test_truncated_json_is_reported(cloud: Jira) -> None:
    cloud.site.once(CLOUD, Answer(200, json.dumps({"issues": [an_issue(1)]})[:40]))
    with pytest.raises(SourceShapeError, match="not JSON"):
        pulled(cloud.connector())


def test_requests_to_a_failing_server_are_retried(jira: Jira) -> None:
    jira.issues = [an_issue(1)]
    jira.site.fail(CLOUD, status=503, times=2)
    jira.site.fail(SERVER, status=429, retry_after="2", times=2)
    assert set(documents_of(pulled(jira.connector()))) == {"OPS-1"}


def test_a_server_that_is_down_keeps_earlier_pages(cloud: Jira) -> None:
    cloud.issues = [an_issue(number) for number in range(150)]
    cloud.between = [lambda: cloud.site.fail(CLOUD, status=500, times=9)]
    from opx.domain.sources import PullRequest

    pages = cloud.connector().pull(PullRequest())
    first = next(pages)
    cloud.site.fail(CLOUD, status=500, times=9)
    assert len(first.documents) == 100
    with pytest.raises(SourceUnavailableError):
        next(pages)


def test_the_same_page_again_and_again_is_no_endless_pull(cloud: Jira) -> None:
    reply = Answer(200, {"issues": [an_issue(1)], "nextPageToken": "same"})
    cloud.site.on(CLOUD, reply)
    with pytest.raises(SourceShapeError, match="same page"):
        pulled(cloud.connector())


def test_wrong_credentials_show_in_the_health(cloud: Jira) -> None:
    cloud.site.fail(CLOUD, status=401)
    health = cloud.connector().check()
    assert not health.ok
    assert "credentials" in health.reason


def test_health_reports_a_site_without_jira(cloud: Jira) -> None:
    cloud.site.page("/rest/api/2/serverInfo", {"hello": "world"})
    health = cloud.connector().check()
    assert "deploymentType" in health.reason


def test_a_jira_that_answers_is_well(jira: Jira) -> None:
    assert jira.connector().health_check()


def test_an_invalid_start_of_changes_is_refused(cloud: Jira) -> None:
    with pytest.raises(InvalidInputError, match="since must be"):
        pulled(cloud.connector(), since="yesterday")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"projects": []}, "give projects"),
        ({"jql": "project = A ORDER BY key"}, "ORDER BY"),
        ({"extra_fields": ["customfield_1"]}, "customfield_10050=Root cause"),
        ({"base_url": "jira.example.org"}, "base_url"),
    ],
)
def test_wrong_options_are_refused(cloud: Jira, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        cloud.connector(**options)
