"""Alerts that are pasted as a question: their name and text are searched for, their labels aren't."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.knowledge import KnowledgeModel
from opx.domain.queries import QueryConfig
from opx.retrieval.query_language import parse_query, pasted_alert

NAME = "QueueHighWarning"
LABELS = {"namespace": "shop", "pod": "worker-7d9f"}
ALERTMANAGER = {
    "version": "4",
    "status": "firing",
    "commonLabels": {"alertname": NAME, **LABELS},
    "commonAnnotations": {"summary": "Messages pile up"},
    "alerts": [{"status": "firing", "labels": {"alertname": NAME, **LABELS}}],
}
CLOUDWATCH = {
    "AlarmName": "queue-depth-high",
    "NewStateValue": "ALARM",
    "NewStateReason": "Threshold crossed",
    "Trigger": {"MetricName": "Depth", "Dimensions": [{"name": "QueueName", "value": "orders-7d9f"}]},
}
MAIL = """[FIRING:1] QueueHighWarning (shop worker-7d9f)
Labels:
 - alertname = QueueHighWarning
 - namespace = shop
 - pod = worker-7d9f
Annotations:
 - summary = Messages pile up
"""


@pytest.mark.parametrize(
    "pasted",
    [
        json.dumps(ALERTMANAGER),
        json.dumps(ALERTMANAGER, indent=2),
        json.dumps([{"labels": {"alertname": NAME, **LABELS}, "annotations": {"summary": "Messages pile up"}}]),
        MAIL,
        '[FIRING:1] QueueHighWarning (namespace="shop", pod="worker-7d9f") Messages pile up',
        'QueueHighWarning{namespace="shop",pod="worker-7d9f"}\nMessages pile up',
        'QueueHighWarning (namespace="shop" pod="worker-7d9f")\nMessages pile up',
        "alertname=QueueHighWarning namespace=shop pod=worker-7d9f\nMessages pile up",
    ],
    ids=["JSON", "indented JSON", "list", "mail", "line", "braces", "brackets", "pairs"],
)
def test_name_and_text_are_the_question_and_labels_are_no_words_of_it(pasted: str) -> None:
    question = pasted_alert(pasted)
    assert question is not None
    assert (question.alert, question.identifiers) == (NAME, (NAME,))
    assert question.text.startswith(f"{NAME}\n")
    assert question.text.endswith("Messages pile up")
    assert LABELS.items() <= question.labels.items()
    assert "shop" not in question.text
    assert "worker" not in question.text


def test_alarm_of_cloudwatch_has_its_dimensions_as_labels() -> None:
    question = pasted_alert(json.dumps(CLOUDWATCH))
    assert question is not None
    assert (question.alert, question.text) == ("queue-depth-high", "queue-depth-high\nThreshold crossed")
    assert question.labels == {"MetricName": "Depth", "QueueName": "orders-7d9f"}


@pytest.mark.parametrize(
    "text",
    [
        'ts=2026-01-01T00:00:00Z level=error msg="queue full" queue=orders',
        'level=error component=notify msg="Notify failed" alertname=QueueHighWarning',
        '{"level": "error", "message": "queue full", "labels": {"app": "orders"}, "error": {"stack": "boom"}}',
        '{"time": "2026-01-01", "message": "request failed", "detail": {"code": 5}}',
        "awk '{print $1}' access.log",
        "kubectl get pods -o jsonpath={.items[*].metadata.name}",
        "print(sep='x')",
        'ValueError(message="queue full")',
        "Error (code=5) while reading the queue",
        'rate(http_requests_total{job="api"}[5m]) > 5',
        'http_requests_total{job="api"}',
        'QueueDepth{queue="orders"} 5000',
        "what does the label alertname=QueueHighWarning mean",
        "QueueHighWarning is firing",
        "",
    ],
)
def test_logs_code_and_sentences_are_no_alerts(text: str) -> None:
    assert pasted_alert(text) is None


@pytest.mark.parametrize("left", [1, 20, 100, 150])
def test_cut_json_is_searched_as_words(left: int) -> None:
    text = json.dumps(ALERTMANAGER)[:-left]
    assert pasted_alert(text) is None
    assert "QueueHighWarning" in parse_query(text, QueryConfig(), KnowledgeModel({}, "")).text


@pytest.mark.parametrize("name", ["", "  ", "?!", "x" * 4000])
def test_alert_without_a_name_that_can_be_searched_for_is_words(name: str) -> None:
    question = pasted_alert(json.dumps({"labels": {"alertname": name, "pod": "p"}}))
    assert question is None or len(question.alert) <= 500


def test_plain_question_is_no_alert() -> None:
    text = 'QueueHighWarning{namespace="shop"}'
    question = parse_query(text, QueryConfig(plain=True), KnowledgeModel({}, "")).question
    assert (question.alert, question.text) == ("", text)


def test_answer_names_the_parsed_alert() -> None:
    question = parse_query('QueueHighWarning{namespace="shop"}', QueryConfig(), KnowledgeModel({}, "")).question
    assert question.understood["alert"] == NAME
    assert question.understood["labels"] == {"namespace": "shop"}


PIECES = ("[FIRING:1]", NAME, "{", "}", "(", ")", 'a="b"', "alertname=", '"labels":', "[", "]", ",", "\n", " ", "💥")


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_whatever_looks_like_an_alert_can_be_read(text: str) -> None:
    question = parse_query(text, QueryConfig(), KnowledgeModel({}, "")).question
    assert len(question.alert) <= 500
    assert not question.alert or question.text.strip()


@pytest.mark.parametrize("alert", [ALERTMANAGER, CLOUDWATCH, ALERTMANAGER["alerts"]], ids=["alert", "alarm", "list"])
@pytest.mark.parametrize("form", ["{alert}\n {question}", "{question}\n{alert}"], ids=["behind", "before"])
def test_text_beside_json_is_part_of_the_question(alert: object, form: str) -> None:
    sent = json.dumps(alert, indent=1)
    alone, question = pasted_alert(sent), pasted_alert(form.format(alert=sent, question="may we restart the worker?"))
    assert alone is not None
    assert question is not None
    assert question.alert == alone.alert
    assert question.text.startswith(alone.text)
    assert question.text.endswith("\nmay we restart the worker?")


@pytest.mark.parametrize(
    "sent",
    [
        {"Type": "Notification", "Subject": "ALARM", "Message": json.dumps(CLOUDWATCH)},
        {"Records": [{"EventSource": "aws:sns", "Sns": {"Message": json.dumps(CLOUDWATCH)}}]},
    ],
    ids=["message", "event"],
)
def test_alarm_is_read_out_of_a_notification(sent: object) -> None:
    question = pasted_alert(json.dumps(sent))
    assert question is not None
    assert (question.alert, question.text) == ("queue-depth-high", "queue-depth-high\nThreshold crossed")


@pytest.mark.parametrize("message", ["", "text", "[]", "{", None, 5])
def test_notification_without_an_alarm_is_none(message: object) -> None:
    assert pasted_alert(json.dumps({"Type": "Notification", "Message": message, "AlarmName": None})) is None


def test_of_several_alerts_the_others_are_named() -> None:
    others = [{"status": "firing", "labels": {"alertname": name}} for name in ("DiskFull", "NodeDown")]
    query = parse_query(
        json.dumps({**ALERTMANAGER, "alerts": [*ALERTMANAGER["alerts"], *others]}),
        QueryConfig(),
        KnowledgeModel({}, ""),
    )
    assert query.notes == ["also firing: DiskFull, NodeDown: ask for each"]


def test_long_notification_is_read_whole() -> None:
    many = [{"status": "firing", "labels": {"alertname": NAME, "pod": f"worker-{n}" * 20}} for n in range(100)]
    sent = json.dumps({"alerts": many, "commonAnnotations": {"summary": "Messages pile up"}})
    assert 10_000 < len(sent) < 100_000
    query = parse_query(sent, QueryConfig(), KnowledgeModel({}, ""))
    assert (query.question.alert, query.text) == (NAME, f"{NAME}\nMessages pile up")
    assert not any("only the first" in note for note in query.notes)
