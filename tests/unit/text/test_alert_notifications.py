"""Notifications with several alerts, as Alertmanager and Grafana send them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opx.errors import InvalidInputError
from opx.text.procedures.alerts import Alert, read_alert


def one(number: int, status: str = "firing", **labels: str) -> dict[str, Any]:
    own = {"alertname": "BrokerDown", "namespace": "orders", "pod": f"kafka-{number}"}
    return {"status": status, "labels": {**own, **labels}}


def notified(*alerts: dict[str, Any], labels: str = "", **others: Any) -> Alert:
    return read_alert(json.dumps({"version": "4", **others, "alerts": alerts}), labels)


def test_labels_that_all_have_count_and_others_are_noted() -> None:
    found = notified(one(1), one(2))
    assert found.labels == {"alertname": "BrokerDown", "namespace": "orders"}
    assert found.notes == ("2 alerts are firing; they differ in pod (kafka-1, kafka-2), which is not filled in",)


def test_a_label_that_only_some_have_differs() -> None:
    found = notified(one(1), one(1, zone="a"))
    assert "zone" not in found.labels
    assert found.notes == ("2 alerts are firing; they differ in zone (none, a), which is not filled in",)


def test_several_labels_are_named_with_a_few_of_their_values() -> None:
    (note,) = notified(*(one(number, broker=f"b{number}") for number in range(7))).notes
    assert note == (
        "7 alerts are firing; they differ in pod (kafka-0, kafka-1, kafka-2, kafka-3, kafka-4 and 2 more), "
        "broker (b0, b1, b2, b3, b4 and 2 more), which are not filled in"
    )


@pytest.mark.parametrize("over", ["resolved", "inactive"])
def test_of_alerts_that_fire_and_that_are_over_the_firing_ones_count(over: str) -> None:
    found = notified(one(2, over), one(1))
    assert (found.labels["pod"], found.notes) == ("kafka-1", ())


def test_if_none_fires_all_count_with_a_note() -> None:
    found = notified(one(1, "resolved"), one(2, "resolved"))
    assert "pod" not in found.labels
    assert found.notes == (
        "all 2 alerts of this notification are resolved",
        "2 alerts are resolved; they differ in pod (kafka-1, kafka-2), which is not filled in",
    )
    assert notified(one(1, "resolved")).notes == ("the alert of this notification is resolved",)


def test_common_labels_count_unless_an_alert_has_another_value() -> None:
    found = notified(one(1), commonLabels={"team": "data", "pod": "kafka-9"}, groupLabels={"cluster": "eu"})
    assert (found.labels["team"], found.labels["cluster"], found.labels["pod"]) == ("data", "eu", "kafka-1")
    assert "pod" not in notified(one(1), one(2), commonLabels={"pod": "kafka-1"}).labels


def test_other_alerts_are_named_and_their_labels_left_out() -> None:
    found = notified(one(1), one(2, alertname="DiskFull"), one(3, alertname="Lag"), one(4, "resolved", alertname="Old"))
    assert (found.name, found.labels["pod"]) == ("BrokerDown", "kafka-1")
    assert found.notes == ("also firing: DiskFull, Lag: ask for each",)


def test_given_labels_choose_among_the_alerts() -> None:
    alerts = (one(1, broker="b1"), one(2, broker="b2"), one(3, "resolved", broker="b3"))
    found = notified(*alerts, labels="pod=kafka-2")
    assert (found.labels["broker"], found.notes) == ("b2", ())
    found = notified(*alerts, labels="pod=kafka-3")
    assert found.labels["broker"] == "b3"
    assert found.notes == ("the alert with these labels is resolved; others of this notification are firing",)


def test_given_labels_that_no_alert_has_are_not_reported_as_left_out() -> None:
    found = notified(one(1), one(2), labels="pod=kafka-8")
    assert (found.labels["pod"], found.notes) == ("kafka-8", ())


def test_a_list_of_alerts_is_read_as_a_notification() -> None:
    states = [{**one(1), "status": {"state": "active"}}, {**one(2), "status": {"state": "active"}}]
    found = read_alert(json.dumps(states))
    assert (found.name, "pod" in found.labels, len(found.notes)) == ("BrokerDown", False, 1)
    assert read_alert(json.dumps(states[:1])).labels["pod"] == "kafka-1"


def test_grafanas_form_is_read_in_the_same_way() -> None:
    found = notified(one(1), one(2), title="[FIRING:2] BrokerDown (orders)", state="alerting", orgId=1)
    assert (found.name, "pod" in found.labels, len(found.notes)) == ("BrokerDown", False, 1)


def test_another_runbook_of_an_alert_is_noted() -> None:
    first, second = ({**one(1), "annotations": {"runbook_url": f"https://wiki/{name}"}} for name in "ab")
    found = notified(first, second)
    assert found.runbook == "https://wiki/a"
    assert found.notes == ("other alerts of this notification name another runbook: https://wiki/b",)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        " [{}] ",
        '""',
        "''",
        '{"alerts": []}',
        '{"status": "firing", "alerts": [{}]}',
        '{"labels": {"a": ""}}',
    ],
)
def test_an_alert_without_content_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="the alert is empty"):
        read_alert(text)


@pytest.mark.parametrize("text", ["x", '{"title": "x"}', '{"alerts": [], "commonLabels": {"alertname": "x"}}'])
def test_an_alert_with_a_name_alone_is_none_without_content(text: str) -> None:
    assert read_alert(text).name == "x"


def test_a_given_name_makes_up_for_an_alert_without_content() -> None:
    assert read_alert("{}", "alertname=X, pod=a").name == "X"


def test_deeply_nested_notification_is_read_as_plain_text() -> None:
    text = "[" * 500 + "]" * 500
    assert read_alert(text).name.startswith("[[[")
