"""Documents of deliveries of each service: their keys, text and metadata."""

from __future__ import annotations

from typing import Any

import pytest

from opx.connectors.deliveries import MAX_TAGS, DocumentUpdate, PayloadError, document, metadata, moment, part
from opx_connectors.atlassian import jira_webhook as jira
from opx_connectors.atlassian import statuspage_webhook as statuspage
from opx_connectors.github import webhook as github
from opx_streams.alerting import alertmanager, cloudwatch, pagerduty
from tests.support.webhook_support import an_incident, an_issue

REPOSITORY = {"full_name": "acme/shop"}


class TestGitHub:
    def test_an_issue(self) -> None:
        (change,) = github.changes_of("issues", an_issue())
        assert change == DocumentUpdate(
            key="acme/shop/issues/7",
            time="2026-01-02T10:00:00.000Z",
            text=("# Pods restart\n\nState: open\n\nThey run out of memory.\n\n### Cause\n\nA leak.\n"),
            metadata={
                "tags": ["bug"],
                "source_uri": "https://github.com/acme/shop/issues/7",
                "created_at": "2026-01-02T09:00:00.000Z",
                "last_updated": "2026-01-02T10:00:00.000Z",
                "author": "ana",
            },
            posts={},
        )

    @pytest.mark.parametrize("action", ["deleted", "transferred"])
    def test_an_issue_that_is_gone(self, action: str) -> None:
        (change,) = github.changes_of("issues", an_issue(action))
        assert (change.deleted, change.text) == (True, "")

    def test_a_discussion(self) -> None:
        found = {
            "number": 3,
            "title": "How",
            "body": "So.",
            "updated_at": "2026-01-01T00:00:00Z",
            "category": {"name": "Q"},
        }
        (change,) = github.changes_of("discussion", {"discussion": found, "repository": REPOSITORY})
        assert change.key == "acme/shop/discussions/3"
        assert "Category: Q" in change.text

    def test_a_push_names_its_commits(self) -> None:
        commits = [
            {"id": f"{n:040x}", "message": f"Change {n}", "author": {"name": "Ana"}, "modified": ["a.py", "b.py"]}
            for n in range(60)
        ]
        payload: dict[str, Any] = {
            "ref": "refs/heads/fix/leak",
            "after": "c" * 40,
            "commits": commits,
            "head_commit": {"message": "Change 59\n\nMore.", "timestamp": "2026-01-02T12:00:00+02:00"},
            "pusher": {"name": "ana"},
            "compare": "https://github.com/acme/shop/compare/a...b",
            "repository": REPOSITORY,
        }
        (change,) = github.changes_of("push", payload)
        assert change.text.startswith("# Push to acme/shop fix/leak: Change 59\n")
        assert change.text.count("## Commit ") == github.MAX_COMMITS
        assert "- Commits: 60" in change.text
        assert "- modified: `a.py`, `b.py`" in change.text
        assert change.time == "2026-01-02T10:00:00.000Z"
        assert change.key == f"acme/shop/pushes/{part('fix/leak')}/{'c' * 40}"

    def test_a_branch_that_is_removed_changes_nothing(self) -> None:
        payload: dict[str, Any] = {
            "ref": "refs/heads/x",
            "after": "0" * 40,
            "commits": [],
            "head_commit": None,
            "deleted": True,
        }
        assert github.changes_of("push", {**payload, "repository": REPOSITORY}) == []

    def test_a_release(self) -> None:
        release = {
            "id": 5,
            "tag_name": "v2",
            "name": "Two",
            "body": "# New\n\nFast.",
            "created_at": "2026-01-01T00:00:00Z",
            "published_at": "2026-01-02T00:00:00Z",
        }
        (change,) = github.changes_of("release", {"action": "published", "release": release, "repository": REPOSITORY})
        assert (change.key, change.time) == ("acme/shop/releases/5", "2026-01-02T00:00:00.000Z")
        assert change.text.startswith("# acme/shop Two\n")
        (gone,) = github.changes_of("release", {"action": "deleted", "release": release, "repository": REPOSITORY})
        assert gone.deleted
        draft = {"action": "created", "release": {**release, "draft": True}, "repository": REPOSITORY}
        assert github.changes_of("release", draft) == []

    def test_a_deployment_is_one_document_through_its_states(self) -> None:
        def of(state: str, at: str) -> DocumentUpdate:
            status = {"state": state, "environment": "production", "updated_at": at, "log_url": "https://ci.example/1"}
            deployment = {"id": 9, "ref": "main", "sha": "abc", "created_at": "2026-01-02T10:00:00Z"}
            payload = {"deployment_status": status, "deployment": deployment, "repository": REPOSITORY}
            (change,) = github.changes_of("deployment_status", payload)
            return change

        begun, failed = of("in_progress", "2026-01-02T10:00:01Z"), of("failure", "2026-01-02T10:05:00Z")
        assert begun.key == failed.key == "acme/shop/deployments/9"
        assert begun.time < failed.time
        assert "- State: failure" in failed.text
        assert failed.text.startswith("# Deployment of acme/shop to production\n")

    @pytest.mark.parametrize(
        ("event", "payload"),
        [
            ("issues", {"repository": REPOSITORY}),
            ("issues", {"issue": {"number": 1, "title": "x"}, "repository": REPOSITORY}),
            ("issues", {"issue": {"number": True, "title": "x", "updated_at": "x"}, "repository": REPOSITORY}),
            ("issues", {"issue": {"number": 1, "title": "x", "updated_at": "soon"}, "repository": REPOSITORY}),
            ("issues", an_issue(labels="bug")),
            ("issues", {**an_issue(), "comment": {}}),
            ("push", an_issue()),
            ("release", {"action": "x", "release": [], "repository": REPOSITORY}),
        ],
    )
    def test_another_shape_is_refused(self, event: str, payload: dict[str, Any]) -> None:
        with pytest.raises(PayloadError):
            github.changes_of(event, payload)

    def test_a_hostile_repository_stays_in_its_folder(self) -> None:
        (change,) = github.changes_of("issues", {**an_issue(), "repository": {"full_name": "../../x"}})
        assert ".." not in change.key


class TestPagerDuty:
    def test_an_incident(self) -> None:
        (change,) = pagerduty.changes_of(an_incident())
        assert change.key == "PGR0VU2"
        assert change.text == (
            "# Checkout is slow\n\n- Incident: 2\n- Status: triggered\n- Service: Checkout\n- Priority: P1\n"
            "- Assigned to: Ana\n- Triggered: 2026-01-02T09:58:00.000Z\n- Last change: 2026-01-02T10:00:00.100Z\n"
        )
        assert change.metadata["severity"] == "P1"
        assert change.metadata["services"] == ["Checkout"]

    def test_a_note_is_a_document_beside_its_incident(self) -> None:
        data = {
            "type": "incident_note",
            "id": "N1",
            "content": "Restarted it.",
            "incident": {"id": "PGR", "summary": "Slow"},
        }
        payload = {"event": {"event_type": "incident.annotated", "occurred_at": "2026-01-02T10:00:00Z", "data": data}}
        (change,) = pagerduty.changes_of(payload)
        assert change.key == "PGR/incident_note/N1"
        assert change.text.startswith("# Note on Slow\n")
        assert "Restarted it." in change.text

    @pytest.mark.parametrize("kind", ["incident_responder", "service", "ping"])
    def test_the_rest_changes_nothing(self, kind: str) -> None:
        assert pagerduty.changes_of({"event": {"event_type": "x", "data": {"type": kind}}}) == []

    def test_another_shape_is_refused(self) -> None:
        with pytest.raises(PayloadError, match="'event' is missing"):
            pagerduty.event_of({"messages": []})
        with pytest.raises(PayloadError, match=r"'event\.data' is missing"):
            pagerduty.changes_of({"event": {"event_type": "incident.triggered"}})
        with pytest.raises(PayloadError, match="title"):
            pagerduty.changes_of({"event": {"event_type": "x", "data": {"type": "incident", "id": "1"}}})


class TestStatuspage:
    def test_an_incident_lists_its_updates_in_order(self) -> None:
        incident = {
            "id": "abc",
            "name": "Slow logins",
            "status": "monitoring",
            "impact": "minor",
            "updated_at": "2026-01-02T11:00:00Z",
            "incident_updates": [
                {"created_at": "2026-01-02T11:00:00Z", "status": "monitoring", "body": "Fixed."},
                {"created_at": "2026-01-02T10:00:00Z", "status": "investigating", "body": "We look."},
            ],
            "components": [{"name": "Login"}],
        }
        (change,) = statuspage.changes_of({"page": {"id": "p1"}, "incident": incident})
        assert change.key == "p1/abc"
        assert change.text.index("We look.") < change.text.index("Fixed.")
        assert change.metadata["services"] == ["Login"]

    def test_a_component(self) -> None:
        update = {
            "component_id": "c1",
            "new_status": "major_outage",
            "old_status": "operational",
            "created_at": "2026-01-02T10:00:00Z",
        }
        payload = {"page": {"id": "p1"}, "component_update": update, "component": {"name": "Login"}}
        (change,) = statuspage.changes_of(payload)
        assert (statuspage.event_of(payload), change.key) == ("component", "p1/components/c1")
        assert "- Status: major_outage\n- Before: operational" in change.text

    def test_another_shape_is_refused(self) -> None:
        with pytest.raises(PayloadError, match="neither"):
            statuspage.event_of({"page": {}})


class TestAlertmanager:
    GROUP = {  # noqa: RUF012
        "version": "4",
        "status": "firing",
        "alerts": [
            {
                "status": "firing",
                "labels": {"alertname": "PodCrash", "severity": "critical", "service": "cart"},
                "annotations": {"summary": "Cart crashes", "description": "12 restarts", "runbook_url": "https://r"},
                "startsAt": "2026-01-02T10:00:00Z",
                "endsAt": "0001-01-01T00:00:00Z",
                "fingerprint": "c6eadffa33fcdf37",
            },
            {
                "status": "resolved",
                "labels": {"alertname": "DiskFull"},
                "annotations": {},
                "startsAt": "2026-01-02T09:00:00Z",
                "endsAt": "2026-01-02T09:30:00Z",
                "fingerprint": "bc97ff14869b13e3",
            },
        ],
    }

    def test_each_alert_of_a_group_is_a_document(self) -> None:
        crash, disk = alertmanager.changes_of(self.GROUP)
        assert (crash.key, disk.key) == ("c6eadffa33fcdf37", "bc97ff14869b13e3")
        assert crash.text.startswith("# Cart crashes\n")
        assert "runbook_url: https://r" in crash.text
        assert "- severity: `critical`" in crash.text
        assert crash.metadata["labels"] == ["alertname=PodCrash", "service=cart", "severity=critical"]
        assert (crash.metadata["severity"], crash.metadata["services"]) == ("critical", ["cart"])
        assert (crash.time, disk.time) == ("2026-01-02T10:00:00.000Z", "2026-01-02T09:30:00.000Z")

    @pytest.mark.parametrize("version", ["1", "5", ""])
    def test_other_senders_count_their_versions_themselves(self, version: str) -> None:
        found = [change.key for change in alertmanager.changes_of({**self.GROUP, "version": version})]
        assert found == ["c6eadffa33fcdf37", "bc97ff14869b13e3"]

    def test_without_a_fingerprint_the_labels_identify_alerts(self) -> None:
        alerts = [{"labels": {"alertname": "A", "pod": pod}, "annotations": {}} for pod in "xyx"]
        first, second, third = (change.key for change in alertmanager.changes_of({"alerts": alerts}))
        assert first == third != second

    @pytest.mark.parametrize(
        "payload",
        [
            {"version": "4"},
            {"alerts": None},
            {"alerts": "none"},
            {"alerts": [{"labels": {}, "annotations": {}, "fingerprint": "a"}]},
            {"version": "1", "alerts": [{"labels": {"alertname": "A"}}]},
            {"alerts": [{"labels": [], "annotations": {}}]},
            {"alerts": [{"labels": {"alertname": {}}, "annotations": {}}]},
            {"alerts": [{"labels": {"alertname": "A"}, "annotations": {}}] * (alertmanager.MAX_ALERTS + 1)},
        ],
    )
    def test_another_shape_is_refused(self, payload: dict[str, Any]) -> None:
        with pytest.raises(PayloadError):
            alertmanager.changes_of(payload)


class TestCloudWatch:
    ALARM = {  # noqa: RUF012
        "AlarmName": "busy",
        "NewStateValue": "ALARM",
        "StateChangeTime": "2026-01-02T10:00:00.123+0000",
    }

    def of(self, **fields: Any) -> DocumentUpdate:
        (change,) = cloudwatch.changes_of({**self.ALARM, **fields})
        return change

    def test_an_alarm_on_metric_math_has_its_metrics(self) -> None:
        def metric(identity: str, name: str, **row: Any) -> dict[str, Any]:
            dimensions = [{"name": "StreamName", "value": "orders"}]
            of = {"MetricName": name, "Namespace": "AWS/Kinesis", "Dimensions": dimensions}
            return {"Id": identity, "MetricStat": {"Metric": of, "Period": 60, "Stat": "Sum"}, **row}

        rows = [
            {"Id": "e1", "Expression": "100 *\n  m1 / m2", "Label": "Load", "ReturnData": True},
            metric("m1", "IncomingBytes", Label="Bytes"),
            metric("m2", "IncomingRecords"),
        ]
        found = self.of(Trigger={"Threshold": 5.0, "Metrics": rows})
        assert "- Metric: AWS/Kinesis IncomingBytes, AWS/Kinesis IncomingRecords\n" in found.text
        assert "- Dimensions: StreamName = orders\n" in found.text
        assert found.text.endswith(
            "## Metrics\n\n"
            "- e1: `100 * m1 / m2`, called Load\n"
            "- m1: Sum of AWS/Kinesis IncomingBytes (StreamName = orders), called Bytes\n"
            "- m2: Sum of AWS/Kinesis IncomingRecords (StreamName = orders)\n"
        )
        assert found.metadata["services"] == ["orders"]

    def test_an_alarm_on_one_metric_needs_no_list_of_them(self) -> None:
        trigger = {"Namespace": "AWS/SQS", "MetricName": "Age", "Dimensions": [{"name": "Queue", "value": "q"}]}
        found = self.of(Trigger=trigger)
        assert "- Metric: AWS/SQS Age\n- Dimensions: Queue = q\n" in found.text
        assert "## Metrics" not in found.text

    def test_a_composite_alarm_names_the_alarms_that_made_it_change(self) -> None:
        arn = "arn:aws:cloudwatch:eu-central-1:123456789012:alarm:slow: checkout"
        child = {"Arn": arn, "State": {"Value": "ALARM", "Timestamp": "2026-01-02T09:59:00.000+0000"}}
        found = self.of(AlarmRule="ALARM(slow) OR ALARM(down)", TriggeringChildren=[child])
        assert "- Rule: ALARM(slow) OR ALARM(down)\n" in found.text
        assert "## Triggered by\n\n- slow: checkout: ALARM since 2026-01-02T09:59:00.000+0000\n" in found.text

    @pytest.mark.parametrize(
        "fields",
        [
            {"Trigger": {"Metrics": {}}},
            {"Trigger": {"Metrics": [5]}},
            {"Trigger": {"Metrics": [{"MetricStat": {"Metric": {"MetricName": []}}}]}},
            {"Trigger": {"Metrics": [{"MetricStat": {"Metric": {"MetricName": "m", "Dimensions": "d"}}}]}},
            {"TriggeringChildren": "all"},
            {"TriggeringChildren": [{"Arn": {}}]},
        ],
    )
    def test_another_shape_is_refused(self, fields: dict[str, Any]) -> None:
        with pytest.raises(PayloadError):
            self.of(**fields)


class TestJira:
    ISSUE = {  # noqa: RUF012
        "id": "10002",
        "key": "OPS-7",
        "self": "https://acme.atlassian.net/rest/api/2/issue/10002",
        "fields": {
            "summary": "Disk full",
            "description": "h1. Cause\nLogs.",
            "status": {"name": "Done"},
            "priority": {"name": "High"},
            "labels": ["disk"],
            "components": [{"name": "db"}],
            "comment": {"comments": [{"author": {"displayName": "Ana"}, "body": "Rotated.", "created": "2026-01-02"}]},
            "created": "2026-01-01T10:00:00.000+0100",
            "updated": "2026-01-02T10:00:00.000+0100",
        },
    }

    def of(self, event: str, **fields: Any) -> list[DocumentUpdate]:
        issue = {**self.ISSUE, "fields": {**self.ISSUE["fields"], **fields}}  # type: ignore[dict-item]
        return jira.changes_of({"webhookEvent": event, "timestamp": 1767348000123, "issue": issue})

    def test_an_issue_with_its_comments(self) -> None:
        (change,) = self.of("jira:issue_updated")
        assert (change.key, change.time) == ("issues/10002", "2026-01-02T10:00:00.123Z")
        assert change.text.startswith("# OPS-7: Disk full\n")
        assert "## Comment of Ana, 2026-01-02\n\nRotated." in change.text
        assert change.metadata["source_uri"] == "https://acme.atlassian.net/browse/OPS-7"
        assert change.metadata["tags"] == ["disk", "Done"]

    def test_a_description_in_atlassians_format_keeps_its_text(self) -> None:
        paragraphs = [{"type": "paragraph", "content": [{"type": "text", "text": text}]} for text in ("One.", "Two.")]
        (change,) = self.of("jira:issue_created", description={"type": "doc", "content": paragraphs})
        assert "One.\n\nTwo." in change.text

    def test_wiki_markup_is_converted_in_descriptions_and_comments(self) -> None:
        """Data Center sends it; commands have to be code, as those of pulled issues are."""
        markup = "h2. Check\n{code:bash}rabbitmqctl list_queues{code}\nThen {{systemctl restart payq}}."
        comment = {"author": {"displayName": "Ana"}, "body": markup, "created": "2026-01-02"}
        (change,) = self.of("jira:issue_updated", description=markup, comment={"comments": [comment]})
        converted = "### Check\n\n```bash\nrabbitmqctl list_queues\n```\n\nThen `systemctl restart payq`."
        assert change.text.count(converted.replace("### ", "#### ")) == 2

    @pytest.mark.parametrize("value", [5, ["x"], {"type": "table"}])
    def test_a_description_of_another_type_is_refused(self, value: object) -> None:
        with pytest.raises(PayloadError, match="description"):
            self.of("jira:issue_updated", description=value)

    def test_a_deleted_issue(self) -> None:
        (change,) = self.of("jira:issue_deleted")
        assert change.deleted

    def test_events_about_anything_else_change_nothing(self) -> None:
        assert self.of("comment_created") == []

    def test_another_shape_is_refused(self) -> None:
        with pytest.raises(PayloadError):
            jira.changes_of({"webhookEvent": "jira:issue_created"})


class TestMarkdown:
    def test_headings_in_a_section_are_nested_below_it(self) -> None:
        text = document("T", [], [("Description", "# Top\n## Next\n```\n# in code\n```\n####### no heading")])
        assert text.splitlines()[4:] == ["### Top", "#### Next", "```", "# in code", "```", "####### no heading"]

    def test_an_open_code_block_is_closed(self) -> None:
        text = document("T", [], [("One", "~~~~\n# code\n~~~\n"), ("Two", "x")])
        assert "~~~~\n# code\n~~~\n~~~~\n\n## Two\n" in text

    @pytest.mark.parametrize("title", ["a\nb", "---\ncategory: x", "a\r\n# b", " \n"])
    def test_a_title_stays_on_its_line(self, title: str) -> None:
        lines = document(title, [("Fact", "x\n# y")], []).splitlines()
        assert lines[0].startswith("# ")
        assert [line for line in lines if line.startswith("#")] == lines[:1]

    def test_surrogates_and_null_characters_are_left_out(self) -> None:
        (change,) = github.changes_of("issues", an_issue(title="a \ud800 b\0", body="\udfff\0"))
        assert change.text.encode()
        assert "\0" not in change.text

    def test_metadata_fit_into_an_object(self) -> None:
        found = metadata(tags=["x" * 500] * 50 + [str(n) for n in range(50)], source_uri="u" * 3000, author="a" * 500)
        assert len(found["tags"]) == MAX_TAGS
        assert "source_uri" not in found
        assert len(str(found)) < 1000

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("2026-01-02T10:00:00Z", "2026-01-02T10:00:00.000Z"),
            ("2026-01-02T12:00:00.5+02:00", "2026-01-02T10:00:00.500Z"),
            ("2026-01-02T10:00:00", "2026-01-02T10:00:00.000Z"),
            (1767348000, "2026-01-02T10:00:00.000Z"),
            (1767348000123, "2026-01-02T10:00:00.123Z"),
            ("", ""),
            (None, ""),
        ],
    )
    def test_times_sort_as_texts(self, value: object, text: str) -> None:
        assert moment(value, "t") == text

    @pytest.mark.parametrize("value", ["yesterday", True, [], {}, 10**30, float("inf")])
    def test_malformed_time_is_refused(self, value: object) -> None:
        with pytest.raises(PayloadError, match="t is not a time"):
            moment(value, "t")

    @pytest.mark.parametrize("text", ["../x", "", "a/b", ".hidden", "a\0b", "x" * 101, "ä"])
    def test_a_part_of_a_key_has_nothing_odd(self, text: str) -> None:
        assert part(text).isalnum()
        assert part("PGR0VU2") == "PGR0VU2"
