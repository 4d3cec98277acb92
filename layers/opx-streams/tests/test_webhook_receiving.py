"""Deliveries: accepted and refused ones, duplicates, and older states that must not replace newer ones."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from opx.connectors.deliveries import MAX_BODY_BYTES, Delivery, DocumentUpdate
from opx.domain.provenance import Channel, ChannelKind
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.errors import StoreUnavailableError
from opx.ingestion.channels import arrival_of
from opx.ports import Condition
from opx.ports.tables import DELIVERIES
from opx_streams import capability
from opx_streams.webhooks.remembering import LEASE_SECONDS, Deliveries, Order, order_id
from tests.support.webhook_support import (
    KNOWLEDGE,
    NOW,
    Webhooks,
    a_comment,
    an_incident,
    an_issue,
    bare,
    generic,
    github,
    hub_signed,
    jira,
    pagerduty,
    prometheus,
    statuspage,
    webhooks_in,
)

FORM = "application/x-www-form-urlencoded"
ISSUE = "web/github_issues/webhooks/github/acme/shop/issues/7.md"
INCIDENT = "operations/incidents/webhooks/pager/PGR0VU2.md"
DEPLOY = {"id": "d1", "name": "Deploy 7", "text": "All went well.", "at": "2026-01-02T10:00:00Z", "labels": ["shop"]}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhooks]:
    found = webhooks_in(tmp_path_factory.mktemp("kept"))
    with found.services:
        yield found


@pytest.fixture
def refusing(kept: Webhooks) -> Iterator[Webhooks]:
    """For tests in which nothing is stored: setting a system up takes a while."""
    yield kept
    assert kept.documents() == {}
    assert kept.services.queue.waiting() == 0


class TestAccepted:
    @pytest.mark.parametrize(
        "delivery",
        [
            github(an_issue()),
            pagerduty(an_incident()),
            jira(
                {"webhookEvent": "jira:issue_created", "issue": {"id": "1", "key": "A-1", "fields": {"summary": "S"}}}
            ),
            statuspage({"incident": {"id": "i", "name": "Down", "status": "investigating"}}),
            prometheus({"alerts": [{"labels": {"alertname": "A"}, "annotations": {}, "status": "firing"}]}),
            generic(DEPLOY),
            generic({"title": "T", "message": "M"}, name="plain"),
        ],
        ids=["github", "pagerduty", "jira", "statuspage", "alertmanager", "generic", "generic, by its category"],
    )
    def test_a_genuine_delivery_becomes_a_document(self, webhooks: Webhooks, delivery: Delivery) -> None:
        assert webhooks.send(delivery) == (202, "accepted")
        assert webhooks.only().startswith("# ")

    def test_the_document_goes_through_the_pipeline_like_any_other(self, webhooks: Webhooks) -> None:
        webhooks.send(github(an_issue()))
        assert webhooks.services.queue.waiting() == 1

    def test_the_object_states_its_webhook_and_how_it_was_proven(self, webhooks: Webhooks) -> None:
        webhooks.send(github(an_issue()))
        info = webhooks.services.store.head("documents/" + ISSUE)
        assert info
        arrival = arrival_of(webhooks.services.store, info)
        assert arrival.channel == Channel(ChannelKind.WEBHOOK, "github", "github", "signature of the webhook's secret")

    def test_tags_of_the_webhook_come_first(self, webhooks: Webhooks) -> None:
        webhooks.send(github(an_issue()))
        assert webhooks.metadata(ISSUE)["tags"] == ["code", "bug"]

    def test_the_address_may_leave_the_name_out_where_there_is_one_webhook_only(self, webhooks: Webhooks) -> None:
        body = {"webhookEvent": "jira:issue_created", "issue": {"id": "1", "key": "A-1", "fields": {"summary": "S"}}}
        signed = hub_signed("only", body, "x-hub-signature")
        nameless = Delivery(signed.tier, signed.category, (), signed.headers, signed.body)
        assert webhooks.send(nameless) == (202, "accepted")

    def test_either_secret_counts_while_one_is_replaced(self, webhooks: Webhooks) -> None:
        for at, key in (
            ("2026-01-02T10:00:00Z", "old a secret of some length"),
            ("2026-01-02T10:00:01Z", "new a secret of some length"),
        ):
            assert webhooks.send(pagerduty(an_incident(at=at), key=key)) == (202, "accepted")

    def test_a_secret_that_is_missing_beside_another_keeps_nobody_out(self, webhooks: Webhooks) -> None:
        del webhooks.secrets.values["pager-old"]
        assert webhooks.send(pagerduty(an_incident())) == (202, "accepted")

    def test_one_of_several_signatures_is_enough(self, webhooks: Webhooks) -> None:
        good = pagerduty(an_incident())
        header = "v1=" + "0" * 64 + "," + good.headers["x-pagerduty-signature"] + ",v2=abc"
        assert webhooks.send(bare("pager", good.body, {"x-pagerduty-signature": header})) == (202, "accepted")

    def test_basic_authorization_counts_as_a_bearer_does(self, webhooks: Webhooks) -> None:
        body = b'{"alerts": [{"labels": {"alertname": "A"}, "annotations": {}}]}'
        basic = {"authorization": "Basic cHJvbWV0aGV1czpoaWRkZW4="}
        assert webhooks.send(bare("prometheus", body, basic)) == (202, "accepted")

    def test_events_that_are_not_wanted_are_ignored(self, webhooks: Webhooks) -> None:
        key = "a secret of some length"
        assert webhooks.send(pagerduty(an_incident(), "pager-few", key)) == (200, "ignored")
        assert webhooks.documents() == {}
        assert webhooks.send(pagerduty(an_incident("resolved"), "pager-few", key)) == (202, "accepted")

    @pytest.mark.parametrize("kind", [FORM, "application/json", ""])
    def test_github_may_send_a_form(self, webhooks: Webhooks, kind: str) -> None:
        body = urlencode({"payload": json.dumps(an_issue(title="100 % + ü & more"))}).encode()
        form = hub_signed("github", body, "x-hub-signature-256", content_type=kind, x_github_event="issues")
        assert webhooks.send(form) == (202, "accepted")
        assert webhooks.documents()[ISSUE].startswith("# 100 % + ü & more\n")

    def test_events_that_are_not_read_are_ignored(self, webhooks: Webhooks) -> None:
        assert webhooks.send(github({"zen": "Keep it simple."}, "ping")) == (200, "ignored")


class TestForged:
    @pytest.mark.parametrize(
        "delivery",
        [
            bare("github", an_issue(), {"x-github-event": "issues"}),
            github(an_issue(), key="another secret"),
            bare("github", an_issue(), {"x-hub-signature-256": "sha256=", "x-github-event": "issues"}),
            bare("github", an_issue(), {"x-hub-signature-256": "", "x-github-event": "issues"}),
            bare("github", an_issue(), {"x-hub-signature-256": "sha256=" + "ä" * 64}),
            bare("github", an_issue(), {"x-hub-signature-256": "sha256=\ud800"}),
            bare("github", an_issue(), {"x-hub-signature-256": "sha256=" + "0" * 64 + "\r\nx-github-event: push"}),
            bare("github", an_issue(), {"x-hub-signature": github(an_issue()).headers["x-hub-signature-256"]}),
            pagerduty(an_incident(), key="third"),
            bare("pager", an_incident(), {"x-pagerduty-signature": "v1=" + ",v1=".join(["0" * 64] * 500)}),
            bare("status", {}, token="wrong"),
            bare("status", {}),
            bare("status", {}, token=""),
            bare("prometheus", {}, {"authorization": "Bearer wrong"}),
            bare("prometheus", {}, {"authorization": "prometheus:hidden"}),
            bare("prometheus", {}, {"authorization": "Token prometheus:hidden"}),
            bare("prometheus", {}, {"authorization": "Bearer"}),
            bare("prometheus", {}, {"authorization": "Basic prometheus:hidden"}),
            bare("prometheus", {}),
            generic(DEPLOY, key="another"),
            bare("deploys", DEPLOY),
            bare("alarms", b"not json"),
            bare("alarms", {}),
        ],
    )
    def test_it_is_refused_without_detail(self, refusing: Webhooks, delivery: Delivery) -> None:
        found = refusing.answer(delivery)
        problem = {"error": {"code": "unverified", "message": "the delivery could not be verified"}}
        assert (found.status, found.payload) == (401, problem)

    def test_a_changed_body_is_refused(self, refusing: Webhooks) -> None:
        signed = github(an_issue())
        changed = bare("github", signed.body.replace(b"Pods", b"Cats"), signed.headers)
        assert refusing.send(changed) == (401, "unverified")

    def test_a_changed_timestamp_is_refused(self, refusing: Webhooks) -> None:
        signed = generic(DEPLOY, at=NOW - 1000)
        renewed = bare("deploys", signed.body, {**signed.headers, "x-opx-timestamp": str(int(NOW))})
        assert refusing.send(renewed) == (401, "unverified")

    def test_a_timestamp_that_runs_into_the_body_is_refused(self, refusing: Webhooks) -> None:
        signed = generic(b'1.{"id": 5}', at=NOW)
        split = bare("deploys", b'{"id": 5}', {**signed.headers, "x-opx-timestamp": f"{int(NOW)}.1"})
        assert refusing.send(split) == (401, "unverified")

    def test_nothing_is_parsed_before_the_signature_holds(self, refusing: Webhooks) -> None:
        for body in (b"[" * 100_000, b"{", b"\xff"):
            assert refusing.send(bare("github", body, {"x-hub-signature-256": "sha256=0"})) == (401, "unverified")

    def test_a_token_that_is_given_twice_is_none(self, refusing: Webhooks) -> None:
        good = statuspage({"incident": {"id": "i", "name": "Down"}})
        twice = Delivery(good.tier, good.category, (*good.query, ("token", "x")), {}, good.body)
        assert refusing.send(twice) == (401, "unverified")

    def test_the_log_has_nothing_of_a_refused_delivery(
        self, refusing: Webhooks, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.DEBUG, "opx"):
            refusing.send(github({"marker": "x-marker-x"}, key="wrong"))
            refusing.send(github({"issue": "x-marker-x", "action": "opened"}))
        assert "webhook: unverified" in caplog.text
        assert "x-marker-x" not in caplog.text


class TestTime:
    @pytest.mark.parametrize("skew", [-300, -299, 0, 299, 300])
    def test_clocks_may_differ_within_the_window(self, webhooks: Webhooks, skew: float) -> None:
        assert webhooks.send(generic(DEPLOY, at=NOW + skew)) == (202, "accepted")

    @pytest.mark.parametrize(("skew", "word"), [(-301, "expired"), (301, "from the future"), (-(10**9), "expired")])
    def test_an_old_or_future_delivery_is_refused_with_the_reason(
        self, webhooks: Webhooks, skew: float, word: str
    ) -> None:
        found = webhooks.answer(generic(DEPLOY, at=NOW + skew))
        assert (found.status, found.payload["error"]["code"]) == (401, "expired")
        assert word in found.payload["error"]["message"]
        assert webhooks.documents() == {}

    def test_expiry_is_only_reported_to_holders_of_the_secret(self, webhooks: Webhooks) -> None:
        assert webhooks.send(generic(DEPLOY, at=NOW - 1000, key="wrong")) == (401, "unverified")

    def test_a_webhook_may_have_a_window_of_its_own(self, webhooks: Webhooks) -> None:
        assert webhooks.send(generic({"title": "T", "message": "M"}, "plain", at=NOW - 61)) == (401, "expired")


class TestReplayed:
    @pytest.mark.parametrize("delivery", [github(an_issue()), generic(DEPLOY), pagerduty(an_incident())])
    def test_it_is_a_duplicate_and_does_nothing(self, webhooks: Webhooks, delivery: Delivery) -> None:
        webhooks.send(delivery)
        before = webhooks.services.queue.waiting()
        assert webhooks.send(delivery) == (200, "duplicate")
        assert webhooks.services.queue.waiting() == before

    def test_another_unsigned_delivery_id_does_not_make_it_new(self, webhooks: Webhooks) -> None:
        first = github(an_issue())
        webhooks.send(first)
        again = bare("github", first.body, {**first.headers, "x-github-delivery": "another"})
        assert webhooks.send(again) == (200, "duplicate")

    def test_another_unsigned_event_does_not_make_it_new(self, webhooks: Webhooks) -> None:
        first = github(an_issue("deleted"))
        webhooks.send(first)
        assert webhooks.send(bare("github", first.body, {**first.headers, "x-github-event": "push"})) == (
            200,
            "duplicate",
        )

    def test_a_deleted_comment_does_not_pass_for_a_deleted_issue(self, webhooks: Webhooks) -> None:
        webhooks.send(github(an_issue()))
        comment = {**an_issue("deleted", "2026-01-03T10:00:00Z"), "comment": {"id": 1}}
        assert webhooks.send(github(comment)) == (400, "invalid_payload")
        assert list(webhooks.documents()) == [ISSUE]

    def test_the_same_record_with_a_new_signature_is_new(self, webhooks: Webhooks) -> None:
        webhooks.send(generic(DEPLOY, at=NOW - 10))
        assert webhooks.send(generic(DEPLOY, at=NOW)) == (202, "accepted")

    def test_a_delivery_to_one_webhook_is_not_known_to_another(self, webhooks: Webhooks) -> None:
        key = "a secret of some length"
        webhooks.send(pagerduty(an_incident("resolved")))
        assert webhooks.send(pagerduty(an_incident("resolved"), "pager-few", key)) == (202, "accepted")

    def test_a_delivery_that_was_refused_may_come_again(self, webhooks: Webhooks) -> None:
        delivery = github({"action": "opened", "issue": {}, "repository": {"full_name": "a/b"}})
        assert webhooks.send(delivery) == webhooks.send(delivery) == (400, "invalid_payload")

    def test_once_it_is_forgotten_it_still_replaces_nothing_that_is_newer(self, webhooks: Webhooks) -> None:
        old, new = github(an_issue()), github(an_issue("edited", "2026-01-03T10:00:00Z", title="New"))
        webhooks.send(old)
        webhooks.send(new)
        webhooks.clock.now += 400 * 86_400
        assert webhooks.send(old) == (200, "outdated")
        assert webhooks.only().startswith("# New")


class TestOrder:
    def test_an_update_is_a_version_of_the_same_document(self, webhooks: Webhooks) -> None:
        webhooks.send(pagerduty(an_incident()))
        webhooks.send(pagerduty(an_incident("resolved", "2026-01-02T11:00:00Z")))
        assert list(webhooks.documents()) == [INCIDENT]
        assert "- Status: resolved" in webhooks.only()

    def test_late_delivery_does_not_replace_a_newer_state(self, webhooks: Webhooks) -> None:
        webhooks.send(pagerduty(an_incident("resolved", "2026-01-02T11:00:00Z")))
        assert webhooks.send(pagerduty(an_incident())) == (200, "outdated")
        assert "- Status: resolved" in webhooks.only()

    def test_of_the_same_moment_the_later_arrival_counts(self, webhooks: Webhooks) -> None:
        webhooks.send(github(an_issue()))
        assert webhooks.send(github(an_issue("edited", title="Second"))) == (202, "accepted")
        assert webhooks.only().startswith("# Second")

    def test_times_are_compared_as_times(self, webhooks: Webhooks) -> None:
        webhooks.send(pagerduty(an_incident("resolved", "2026-01-02T11:00:00+00:00")))
        assert webhooks.send(pagerduty(an_incident(at="2026-01-02T11:30:00+02:00"))) == (200, "outdated")

    def test_a_deletion_deletes(self, webhooks: Webhooks) -> None:
        webhooks.send(github(an_issue()))
        assert webhooks.send(github(an_issue("deleted", "2026-01-03T10:00:00Z"))) == (202, "accepted")
        assert webhooks.documents() == {}

    def test_a_deletion_deletes_the_metadata_beside_the_document_too(self, webhooks: Webhooks) -> None:
        webhooks.send(github(an_issue(labels=[{"name": f"label {number} " + "ü" * 52} for number in range(20)])))
        assert set(webhooks.documents()) == {ISSUE, ISSUE + ".metadata.json"}
        webhooks.send(github(an_issue("deleted", "2026-01-03T10:00:00Z")))
        assert webhooks.documents() == {}

    @pytest.mark.parametrize("updated", ["2026-01-02T10:00:00Z", "2026-01-02T09:30:00Z"])
    def test_delivery_from_before_a_deletion_does_not_bring_the_document_back(
        self, webhooks: Webhooks, updated: str
    ) -> None:
        webhooks.send(github(an_issue("deleted")))
        assert webhooks.send(github(an_issue("edited", updated, title="Late"))) == (200, "outdated")
        assert webhooks.documents() == {}

    def test_a_record_without_a_time_is_as_new_as_its_signature(self, webhooks: Webhooks) -> None:
        new, old = ({key: value for key, value in DEPLOY.items() if key != "at"} | {"text": t} for t in ("new", "old"))
        webhooks.send(generic(new, at=NOW))
        assert webhooks.send(generic(old, at=NOW - 100)) == (200, "outdated")

    def test_while_one_delivery_writes_another_of_the_document_waits(self, webhooks: Webhooks) -> None:
        order = Order(webhooks.services.tables.table(DELIVERIES), webhooks.clock)
        lease = order.begin("documents/" + ISSUE, DocumentUpdate("k", "2026-01-01T00:00:00.000Z"))
        assert lease is not None
        found = webhooks.answer(github(an_issue()))
        assert (found.status, found.headers["retry-after"]) == (503, "30")
        webhooks.clock.now += LEASE_SECONDS + 1
        assert webhooks.send(github(an_issue())) == (202, "accepted")

    def test_one_that_takes_too_long_leaves_what_another_noted_meanwhile(self, webhooks: Webhooks) -> None:
        order = Order(webhooks.services.tables.table(DELIVERIES), webhooks.clock)
        old, new = (DocumentUpdate("k", f"2026-01-02T1{hour}:00:00.000Z") for hour in (0, 1))
        lease = order.begin("documents/a.md", old)
        assert lease is not None
        webhooks.clock.now += LEASE_SECONDS + 1
        assert order.begin("documents/a.md", new) is not None
        order.end(lease)
        with pytest.raises(StoreUnavailableError, match="another delivery"):
            order.begin("documents/a.md", new)
        webhooks.clock.now += LEASE_SECONDS + 1
        assert order.begin("documents/a.md", old) is None


def crashing(namespace: str, pod: str) -> dict[str, Any]:
    labels = {"alertname": "PodCrashLooping", "namespace": namespace, "pod": pod, "instance": "10.0.0.1:8080"}
    return {
        "labels": labels,
        "annotations": {"summary": "Pod is crash looping."},
        "generatorURL": f"http://vm:19090/graph?g0.expr=pods%7B{pod}%7D&g0.tab=1",
    }


def test_alerts_with_one_summary_are_disambiguated_by_the_labels_that_differ(webhooks: Webhooks) -> None:
    webhooks.send(prometheus({"alerts": [crashing("web", "api-1"), crashing("shop", "cart-2")]}))
    services = webhooks.services
    list(services.manager.work())
    config = QueryConfig(min_confidence=0.0, categories=("operations/alerts",))
    found = services.questions.for_reader().search("pod is crash looping", config).results
    documents = services.questions.handover(services.corpus.projects.reader(Identity())).documents("pod", found, 2000)
    titles = {one.title for one in documents}
    assert titles == {"Pod is crash looping. (web/api-1)", "Pod is crash looping. (shop/cart-2)"}


def commented(text: str, at: str, **more: Any) -> Delivery:
    return github(a_comment(text, at, **more), "issue_comment")


TEN, ELEVEN, TWELVE = (f"2026-01-02T{hour}:00:00Z" for hour in (10, 11, 12))
FIX = "Set the limit to 2 Gi."


class TestComments:
    def test_a_comment_is_part_of_its_issue(self, webhooks: Webhooks) -> None:
        webhooks.send(github(an_issue()))
        assert webhooks.send(commented(FIX, ELEVEN)) == (202, "accepted")
        assert list(webhooks.documents()) == [ISSUE]
        assert webhooks.only().endswith(f"A leak.\n\n## Comment by bo (of the project) on 2026-01-02\n\n{FIX}\n")

    def test_a_comment_on_an_issue_that_nobody_delivered_brings_the_issue(self, webhooks: Webhooks) -> None:
        webhooks.send(commented(FIX, ELEVEN))
        assert webhooks.only().startswith("# Pods restart\n")
        assert FIX in webhooks.only()

    def test_later_changes_of_the_issue_keep_its_comments(self, webhooks: Webhooks) -> None:
        webhooks.send(commented(FIX, ELEVEN))
        webhooks.send(github(an_issue("closed", TWELVE, state="closed")))
        assert "State: closed" in webhooks.only()
        assert FIX in webhooks.only()

    def test_comments_are_in_the_order_in_which_they_were_written(self, webhooks: Webhooks) -> None:
        webhooks.send(commented("Second.", TWELVE, number=2))
        assert webhooks.send(commented("First.", ELEVEN, number=1)) == (202, "accepted")
        assert webhooks.only().index("First.") < webhooks.only().index("Second.")

    def test_a_late_comment_does_not_bring_the_issues_older_state_back(self, webhooks: Webhooks) -> None:
        webhooks.send(github(an_issue("closed", TWELVE, state="closed")))
        webhooks.send(commented(FIX, ELEVEN))
        assert "State: closed" in webhooks.only()
        assert FIX in webhooks.only()

    def test_an_edited_comment_has_its_new_text(self, webhooks: Webhooks) -> None:
        webhooks.send(commented("Try 1 Gi.", ELEVEN))
        webhooks.send(commented(FIX, ELEVEN, action="edited", updated=TWELVE))
        assert "Try 1 Gi." not in webhooks.only()
        assert FIX in webhooks.only()

    def test_an_older_text_of_a_comment_is_outdated(self, webhooks: Webhooks) -> None:
        webhooks.send(commented(FIX, ELEVEN, action="edited", updated=TWELVE))
        assert webhooks.send(commented("Try 1 Gi.", ELEVEN)) == (200, "outdated")
        assert "Try 1 Gi." not in webhooks.only()

    def test_a_deleted_comment_is_gone_and_the_issue_stays(self, webhooks: Webhooks) -> None:
        webhooks.send(commented(FIX, ELEVEN))
        assert webhooks.send(commented(FIX, ELEVEN, action="deleted")) == (202, "accepted")
        assert FIX not in webhooks.only()
        assert webhooks.only().startswith("# Pods restart\n")

    def test_a_comment_that_arrives_after_its_deletion_stays_gone(self, webhooks: Webhooks) -> None:
        webhooks.send(commented(FIX, ELEVEN, action="deleted"))
        assert webhooks.send(commented(FIX, ELEVEN)) == (200, "outdated")
        assert FIX not in webhooks.only()

    def test_a_late_comment_does_not_bring_a_deleted_issue_back(self, webhooks: Webhooks) -> None:
        webhooks.send(commented(FIX, ELEVEN))
        webhooks.send(github(an_issue("deleted", ELEVEN)))
        assert webhooks.send(commented("Me too.", ELEVEN, number=2)) == (200, "outdated")
        assert webhooks.documents() == {}

    def test_nothing_of_a_deleted_issue_is_kept(self, webhooks: Webhooks) -> None:
        webhooks.send(commented(FIX, ELEVEN))
        webhooks.send(github(an_issue("deleted", ELEVEN)))
        item = webhooks.services.tables.table(DELIVERIES).get({"deliveryId": order_id("documents/" + ISSUE)})
        assert item is not None
        assert "parts" not in item

    def test_secrets_in_comments_are_kept_in_no_row(self, webhooks: Webhooks) -> None:
        secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
        webhooks.send(commented(f"Log in with {secret}.", ELEVEN))
        webhooks.send(commented(FIX, TWELVE, number=2))
        assert "Log in with [masked github-token " in webhooks.only()
        assert secret not in webhooks.only()

    def test_the_same_comment_twice_is_a_duplicate(self, webhooks: Webhooks) -> None:
        webhooks.send(commented(FIX, ELEVEN))
        assert webhooks.send(commented(FIX, ELEVEN)) == (200, "duplicate")

    def test_a_comment_that_could_not_be_stored_is_accepted_when_repeated(
        self, webhooks: Webhooks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(*_: object, **__: object) -> None:
            raise StoreUnavailableError("the store is down")

        webhooks.send(github(an_issue("edited", TWELVE)))
        with monkeypatch.context() as patch:
            patch.setattr(webhooks.services.store, "put", fails)
            assert webhooks.send(commented(FIX, ELEVEN)) == (503, "unavailable")
        assert webhooks.send(commented(FIX, ELEVEN)) == (202, "accepted")
        assert FIX in webhooks.only()

    def test_comments_of_bots_and_on_pull_requests_are_left_out_as_in_pulls(self, webhooks: Webhooks) -> None:
        by_bot = a_comment("Stale.", ELEVEN)
        by_bot["comment"]["user"]["type"] = "Bot"
        webhooks.send(github(by_bot, "issue_comment"))
        assert "Stale." not in webhooks.only()
        assert webhooks.send(commented("LGTM", ELEVEN, number=2, pull_request={"url": "u"})) == (200, "ignored")

    def test_headings_of_a_comment_stay_below_its_own(self, webhooks: Webhooks) -> None:
        webhooks.send(commented("# Pods restart\n\n## Comment by root on 2026-01-01\n\nAll is well.", ELEVEN))
        assert webhooks.only().count("\n## ") == 1

    def test_the_newest_comments_are_kept_where_all_are_too_long(self, webhooks: Webhooks) -> None:
        for minute in range(10):
            webhooks.send(commented(f"No. {minute} " + "x" * 60_000, f"2026-01-02T11:0{minute}:00Z", number=minute))
        assert re.findall(r"No\. (\d)", webhooks.only()) == ["7", "8", "9"]

    def test_a_comment_on_a_discussion_is_part_of_it(self, webhooks: Webhooks) -> None:
        body = a_comment(FIX, ELEVEN)
        body["discussion"] = body.pop("issue")
        assert webhooks.send(github(body, "discussion_comment")) == (202, "accepted")
        assert FIX in webhooks.only()

    def test_an_issue_of_an_earlier_version_gets_comments(self, webhooks: Webhooks) -> None:
        table, key = webhooks.services.tables.table(DELIVERIES), "documents/" + ISSUE
        old = {"deliveryId": order_id(key), "document": key, "time": "2026-01-02T10:00:00.000Z", "deleted": False}
        table.put({**old, "busyUntil": 0.0})
        assert webhooks.send(commented("Old.", "2026-01-02T09:00:00Z")) == (200, "outdated")
        assert webhooks.send(commented(FIX, ELEVEN)) == (202, "accepted")
        assert FIX in webhooks.only()

    @pytest.mark.parametrize("broken", [None, [], {}, {"id": 1}, {"id": 1, "created_at": "soon", "updated_at": TEN}])
    def test_a_broken_comment_is_refused(self, refusing: Webhooks, broken: object) -> None:
        body = {**a_comment(FIX, ELEVEN), "comment": broken}
        assert refusing.send(github(body, "issue_comment")) == (400, "invalid_payload")


class TestUnavailable:
    def test_without_the_table_nothing_is_ingested(self, tmp_path: Path) -> None:
        webhooks = webhooks_in(tmp_path)
        with webhooks.services:
            broken: Any = BrokenTable()
            webhooks.receiver._deliveries, webhooks.receiver._order = (
                Deliveries(broken, webhooks.clock),
                Order(broken, webhooks.clock),
            )
            found = webhooks.answer(github(an_issue()))
            assert (found.status, found.payload["error"]["code"]) == (503, "unavailable")
            assert webhooks.documents() == {}

    def test_delivery_that_could_not_be_stored_is_accepted_when_repeated(
        self, webhooks: Webhooks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(*_: object, **__: object) -> None:
            raise StoreUnavailableError("the store is down")

        with monkeypatch.context() as patch:
            patch.setattr(webhooks.services.store, "put", fails)
            assert webhooks.send(github(an_issue())) == (503, "unavailable")
        assert webhooks.send(github(an_issue())) == (202, "accepted")

    @pytest.mark.parametrize("value", [None, "", "  "])
    def test_a_secret_that_is_not_there_or_empty_lets_nobody_in(self, webhooks: Webhooks, value: str | None) -> None:
        webhooks.secrets.values.pop("hub")
        if value is not None:
            webhooks.secrets.values["hub"] = value
        found = webhooks.answer(github(an_issue(), key=(value or "").strip()))
        assert (found.status, found.payload["error"]["code"]) == (500, "internal")
        assert "hub" not in str(found.payload)
        assert webhooks.documents() == {}

    def test_the_log_names_a_wrong_secret(self, webhooks: Webhooks, caplog: pytest.LogCaptureFixture) -> None:
        webhooks.send(generic({}, "forgotten"))
        assert "never-set" in caplog.text

    def test_a_wrong_declaration_is_not_the_senders_mistake(self, tmp_path: Path) -> None:
        webhooks = webhooks_in(tmp_path)
        (tmp_path / "knowledge.yaml").write_text(KNOWLEDGE.replace("format: jira", "format: yira"))
        with webhooks.services:
            found = capability.WebhookIngestion(webhooks.services).answer(github(an_issue()))
        assert (found.status, found.payload["error"]["code"]) == (500, "internal")


class TestRefused:
    @pytest.mark.parametrize(
        ("tier", "category", "query"),
        [
            ("internal", "operations/unknown", (("source", "github"),)),
            ("internal", "web/github_issues", (("source", "github"),)),
            ("internet", "operations/incidents", (("source", "github"),)),
            ("internet", "web/github_issues", (("source", "nobody"),)),
            ("internet", "../web/github_issues", (("source", "github"),)),
            ("internal", "operations/incidents", ()),
            ("internal", "operations/incidents", (("source", "pager"), ("source", "github"))),
        ],
    )
    def test_an_address_without_a_webhook_is_not_there(
        self, refusing: Webhooks, tier: str, category: str, query: tuple[tuple[str, str], ...]
    ) -> None:
        signed = github(an_issue())
        assert refusing.send(Delivery(tier, category, query, signed.headers, signed.body)) == (404, "no_such_webhook")

    def test_a_hundred_megabytes_are_refused_and_pointed_elsewhere(self, refusing: Webhooks) -> None:
        found = refusing.answer(bare("github", bytes(MAX_BODY_BYTES + 1)))
        assert found.status == 413
        assert "POST /uploads" in found.payload["error"]["message"]

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"[]",
            b"5",
            b"{",
            b"\xff\xfe",
            b'{"action": NaN}',
            b"--boundary\r\ncontent-disposition: form-data\r\n\r\n",
            b'{"x":' * 5000 + b"1" + b"}" * 5000,
            b'{"x":' * 150 + b"1" + b"}" * 150,
        ],
    )
    def test_a_genuine_body_that_is_no_json_object_is_refused(self, refusing: Webhooks, body: bytes) -> None:
        assert refusing.send(github(body)) == (400, "invalid_payload")

    def test_a_form_is_refused_with_what_to_choose_instead(self, refusing: Webhooks) -> None:
        form = hub_signed("jira", b"payload=%7B%7D", "x-hub-signature", content_type=FORM)
        found = refusing.answer(form)
        assert found.status == 400
        assert "choose application/json" in found.payload["error"]["message"]

    @pytest.mark.parametrize(
        "body",
        [
            b"payload=",
            b"payload=%7B",
            b"payload=%FF",
            b"payload=\xff",
            b"payload=5",
            b"payload=%7B%7D&payload=%7B%7D",
            b"x=%7B%7D",
            b"payload=" + b"%5B" * 5000,
        ],
    )
    def test_a_form_of_githubs_without_a_payload_is_refused(self, refusing: Webhooks, body: bytes) -> None:
        form = hub_signed("github", body, "x-hub-signature-256", content_type=FORM, x_github_event="issues")
        assert refusing.send(form) == (400, "invalid_payload")

    @pytest.mark.parametrize(
        ("delivery", "reason"),
        [
            (hub_signed("github", an_issue(), "x-hub-signature-256"), "no header X-GitHub-Event"),
            (
                github({**an_issue(), "ref": "r", "after": "a", "commits": [], "head_commit": "x"}, "push"),
                "head_commit",
            ),
            (pagerduty({"event": {"event_type": "incident.triggered"}}), "the field 'event.data' is missing"),
            (
                pagerduty({"event": {"event_type": "incident.triggered", "data": "x"}}),
                "the field 'event.data' should be an object, not a string",
            ),
            (prometheus({}), "'alerts' is missing"),
            (prometheus({"version": "4", "status": "firing"}), "'alerts' is missing"),
            (prometheus({"alerts": [{"labels": {}, "annotations": {}}]}), "labels is empty"),
        ],
    )
    def test_a_broken_shape_is_refused_and_not_ignored(
        self, refusing: Webhooks, delivery: Delivery, reason: str
    ) -> None:
        found = refusing.answer(delivery)
        assert (found.status, found.payload["error"]["code"]) == (400, "invalid_payload")
        assert reason in found.payload["error"]["message"]

    def test_a_record_without_its_content_is_refused_with_the_searched_path(self, refusing: Webhooks) -> None:
        found = refusing.answer(generic({"id": "d1", "name": "N"}))
        assert found.status == 400
        assert "$.text" in found.payload["error"]["message"]


class BrokenTable:
    """A `Table` that doesn't answer."""

    def get(self, key: Mapping[str, Any]) -> None:
        raise StoreUnavailableError("no answer")

    def put(self, item: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        raise StoreUnavailableError("no answer")
