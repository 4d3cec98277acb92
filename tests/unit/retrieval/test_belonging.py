"""Pasted alerts whose labels name a resource: its page comes first."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from opx.domain.queries import Band, QueryConfig
from opx.facade.knowledge import Knowledge

ALERT = "KubePodNotReady"
PAGES = {
    "elasticsearch": "# Indices are read-only\n\nAt the flood stage the pods aren't ready: elasticsearch-0.\n",
    "karpenter": "# EC2NodeClass not ready\n\nPods that Karpenter starts are not ready: its nodes have no image.\n",
    "kafka": "---\nresource: messaging/kafka\n---\n# Restart storm of brokers\n\nA broker replays its log and isn't ready.\n",
    "kind": f"# A pod doesn't become ready\n\nFor {ALERT}: read the events of the pod, then its log.\n",
    "reports": "---\nnode: db-7\n---\n# Reporting eats the processor\n\nStop the long report.\n",
}


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Knowledge]:
    with Knowledge.open(tmp_path_factory.mktemp("home")) as opened:
        for name, text in PAGES.items():
            assert opened.ingest_document("internal", "runbooks/procedures", text, {"source": f"{name}.md"})
        yield opened


def first(knowledge: Knowledge, question: str) -> str:
    answer = knowledge.answer(question, QueryConfig(min_confidence=0))
    return answer.results[0].title


def alertmanager(*pods: str, **labels: str) -> str:
    shared = {"alertname": ALERT, "job": "kube-state-metrics", "severity": "warning", **labels}
    return json.dumps(
        {"status": "firing", "alerts": [{"status": "firing", "labels": {**shared, "pod": pod}} for pod in pods]}
    )


@pytest.mark.parametrize(
    ("pods", "title"),
    [
        (("elasticsearch-0",), "Indices are read-only"),
        (("elasticsearch-0", "elasticsearch-1"), "Indices are read-only"),
        (("kafka-2",), "Restart storm of brokers"),
        (("karpenter-7c9f8d6b5-x2k9q",), "EC2NodeClass not ready"),
        (("checkout-7c9f8d6b5-x2k9q",), "A pod doesn't become ready"),
    ],
)
def test_the_page_of_the_resource_in_the_labels_comes_first(
    knowledge: Knowledge, pods: tuple[str, ...], title: str
) -> None:
    assert first(knowledge, alertmanager(*pods, namespace="apps")) == title
    assert knowledge.procedure(alertmanager(*pods, namespace="apps")).document is not None


@pytest.mark.parametrize(
    "question",
    [
        f'{ALERT}{{namespace="apps",pod="kafka-2"}}',
        f"[FIRING:1] {ALERT} (apps kafka-2 kafka warning)",
        json.dumps(
            {
                "action": "Create",
                "alert": {"alertId": "1", "message": f"[Prometheus]: {ALERT}", "tags": ["pod:kafka-2"]},
            }
        ),
        json.dumps({"alert_title": ALERT, "tags": "kube_stateful_set:kafka,env:prod", "body": "%%%\nnot ready\n%%%"}),
        json.dumps({"event": {"data": {"title": f"[FIRING:1] {ALERT} (apps kafka-2 kafka)", "incident_key": "1"}}}),
        json.dumps({"routing_key": "R", "payload": {"summary": ALERT, "custom_details": {"pod": "kafka-2"}}}),
        json.dumps(
            {
                "detail": {
                    "alarmName": ALERT,
                    "configuration": {
                        "metrics": [{"metricStat": {"metric": {"dimensions": {"ServiceName": "kafka"}}}}]
                    },
                }
            }
        ),
        json.dumps({"ruleName": ALERT, "message": "**Firing**\n\nLabels:\n - job = x\n - pod = kafka-2\n"}),
    ],
    ids=["labels", "positions", "Opsgenie", "Datadog", "PagerDuty", "events", "CloudWatch", "template"],
)
def test_every_sender_states_the_resource_in_its_own_way(knowledge: Knowledge, question: str) -> None:
    assert first(knowledge, question) == "Restart storm of brokers"


def test_a_page_of_another_resource_is_not_likely(knowledge: Knowledge) -> None:
    text = "a long report eats the processor"
    assert first(knowledge, text) == "Reporting eats the processor"
    other = knowledge.answer(f'HighProcessorLoad{{node="db-9"}}\n{text}', QueryConfig(min_confidence=0)).results
    assert all(one.confidence < Band.LIKELY.least for one in other if one.title == "Reporting eats the processor")


@pytest.mark.parametrize("size", [1, 200])
def test_hostile_labels_are_read(knowledge: Knowledge, size: int) -> None:
    labels = {f"label_{number}": "x" * (10_000 // size) for number in range(size)}
    assert first(knowledge, alertmanager("kafka-2", **labels)) == "Restart storm of brokers"


def test_documents_of_a_resource_are_found_by_it(knowledge: Knowledge) -> None:
    for name in ("kafka", "Messaging/Kafka"):
        found = knowledge.query("ready", QueryConfig(min_confidence=0, resources=(name,)))
        assert {one.title for one in (*found, *found.unconfirmed)} == {"Restart storm of brokers"}
    typed = knowledge.answer("resource:db-7 long", QueryConfig(min_confidence=0))
    assert [one.title for one in typed.results] == ["Reporting eats the processor"]
    assert typed.results[0].metadata["resources"] == ["db-7"]
