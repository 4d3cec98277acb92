"""Names of resources in metadata and labels."""

from __future__ import annotations

from typing import Any

import pytest

from opx.domain.resources import MAX_RESOURCES, identity_in, kind_of_field, resources_in, workload_of


@pytest.mark.parametrize(
    ("pod", "owner"),
    [
        ("orders-worker-7c9f8d6b5-x2k9q", "orders-worker"),
        ("orders-worker-7c9f-x2", "orders-worker"),
        ("orders-7c9f8d6b5", "orders"),
        ("kafka-2", "kafka"),
        ("node-exporter-x7k2p", "node-exporter"),
        ("node-exporter-xkvtp", "node-exporter"),
        ("backup-28391040-x7k2p", "backup"),
        ("backup-28391040", "backup"),
        ("db-primary", "db-primary"),
        ("web", "web"),
        ("", ""),
    ],
)
def test_pods_belong_to_workloads(pod: str, owner: str) -> None:
    assert workload_of(pod) == owner


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"node": "Web-Server-01"}, ("web-server-01",)),
        ({"instance": "web-server-01:9100"}, ("web-server-01",)),
        ({"host": "web-01.prod.example.com"}, ("web-01.prod.example.com", "web-01")),
        ({"instance": "10.0.0.1:9100"}, ("10.0.0.1",)),
        ({"pod": "orders-worker-7c9f8d6b5-x2k9q"}, ("orders-worker",)),
        ({"pod": "kafka-2"}, ("kafka-2", "kafka")),
        ({"persistentvolumeclaim": "data-elasticsearch-0"}, ("elasticsearch-0", "elasticsearch")),
        ({"kube_deployment": "harbor", "kube_namespace": "tooling"}, ("harbor", "tooling")),
        ({"DBInstanceIdentifier": "Orders-DB"}, ("orders-db",)),
        ({"db_instance_identifier": "orders-db"}, ("orders-db",)),
        ({"resource": "queue:payments"}, ("payments",)),
        ({"resource": "logging/elasticsearch"}, ("logging/elasticsearch", "elasticsearch")),
        ({"resources": ["a1", "B2", "a1"]}, ("a1", "b2")),
        ({"url": "https://shop.example.com:8443/cart?x=1"}, ("shop.example.com",)),
        ({"url": "https://[broken"}, ()),
        ({"TargetGroup": "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/shop/73e2d6bc24d8a067"}, ("shop",)),
        ({"labels": ["pod=kafka-2", "job=kafka", "broken"]}, ("kafka-2", "kafka")),
        ({"job": "kubelet", "prometheus": "k8s", "endpoint": "http", "receiver": "web", "severity": "high"}, ()),
        ({"service": "default", "namespace": "unknown", "node": " "}, ()),
        ({"service": 7, "node": {"name": "x"}, "host": [None, 3]}, ()),
        ({"service": "x" * 101}, ()),
    ],
)
def test_fields_name_resources(fields: dict[str, Any], names: tuple[str, ...]) -> None:
    assert resources_in(fields) == names


def test_the_number_of_resources_is_limited() -> None:
    assert len(resources_in({"resources": [f"node-{number}x" for number in range(200)]})) == MAX_RESOURCES


def test_an_alert_is_about_the_resource_of_its_most_specific_labels() -> None:
    labels = {
        "namespace": "logging",
        "statefulset": "elasticsearch",
        "service": "kube-state-metrics",
        "instance": "10.0.0.1:80",
    }
    assert identity_in(labels) == ("elasticsearch",)
    assert identity_in({"namespace": "logging", "service": "shop", "instance": "10.0.0.1:80"}) == ("shop",)
    assert identity_in({"namespace": "logging", "cluster": "prod", "container": "main"}) == ()


def test_fields_that_name_no_resource_have_no_kind() -> None:
    assert [kind_of_field(name) for name in ("alertname", "", "💥", "Pod-Name")] == ["", "", "", "pod"]
