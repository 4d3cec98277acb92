"""Rules of the section `telemetry`: log groups, metrics and services that may be queried."""

from __future__ import annotations

from pathlib import Path

import pytest

from opx.errors import InvalidInputError, KnowledgeConfigError
from opx.ports.telemetry import MetricId
from opx_telemetry.rules import MetricFamily, TelemetryRules, metrics_of_node, read_telemetry

FILE = """\
telemetry:
  log_groups: [/ecs/shop, "/aws/lambda/prod-*"]
  services: ["*"]
  max_minutes: 600
  max_scanned_megabytes: 100
  max_rows: 20
  seconds: 7.5
  metrics:
    - {namespace: AWS/EC2, dimension: InstanceId, names: [CPUUtilization, NetworkIn]}
    - {namespace: AWS/Lambda, dimension: FunctionName, names: [Errors], statistic: Sum}
"""


def read(tmp_path: Path, text: str) -> TelemetryRules:
    file = tmp_path / "knowledge.yaml"
    file.write_text(text, encoding="utf-8")
    return read_telemetry(file)


def test_the_section_is_read_with_all_its_parts(tmp_path: Path) -> None:
    assert read(tmp_path, FILE) == TelemetryRules(
        log_groups=("/ecs/shop", "/aws/lambda/prod-*"),
        metrics=(
            MetricFamily("AWS/EC2", "InstanceId", ("CPUUtilization", "NetworkIn")),
            MetricFamily("AWS/Lambda", "FunctionName", ("Errors",), "Sum"),
        ),
        services=("*",),
        max_minutes=600,
        max_scanned_megabytes=100,
        max_rows=20,
        seconds=7.5,
    )


def test_without_the_section_nothing_may_be_queried(tmp_path: Path) -> None:
    for rules in (read(tmp_path, "sources: {}\n"), read_telemetry()):
        with pytest.raises(InvalidInputError, match=r"the operators have listed none \(telemetry.log_groups\)"):
            rules.check_log_group("/ecs/shop")
        with pytest.raises(InvalidInputError, match=r"the operators have listed none \(telemetry.services\)"):
            rules.check_service("shop")
        assert list(metrics_of_node(rules, "i-1")) == []


@pytest.mark.parametrize("name", ["/ecs/shop", "/aws/lambda/prod-", "/aws/lambda/prod-pay"])
def test_listed_log_group_may_be_queried(tmp_path: Path, name: str) -> None:
    read(tmp_path, FILE).check_log_group(name)


@pytest.mark.parametrize("name", ["/ecs/shop2", "/ecs", "/aws/lambda/dev-pay", "", "*", "/ECS/shop", "x/ecs/shop"])
def test_any_other_log_group_may_not(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"may not be queried; there are: /ecs/shop, /aws/lambda/prod-\*$"):
        read(tmp_path, FILE).check_log_group(name)


@pytest.mark.parametrize("name", ['shop"', 'a") OR service("b', "a\\", "shop*", "a\nb(c)"])
def test_service_that_could_be_more_than_a_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match="a service's name has letters"):
        read(tmp_path, FILE).check_service(name)


def test_time_range_is_bounded(tmp_path: Path) -> None:
    rules = read(tmp_path, FILE)
    rules.check_minutes(600)
    with pytest.raises(InvalidInputError, match="minutes must be at most 600 here, not 601"):
        rules.check_minutes(601)


def test_metrics_of_a_node_are_those_of_every_family(tmp_path: Path) -> None:
    assert list(metrics_of_node(read(tmp_path, FILE), "i-1")) == [
        MetricId("AWS/EC2", "CPUUtilization", "InstanceId", "i-1"),
        MetricId("AWS/EC2", "NetworkIn", "InstanceId", "i-1"),
        MetricId("AWS/Lambda", "Errors", "FunctionName", "i-1", "Sum"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("log_groups: ['*']", "2: '\\*' must be the name of a log group"),
        ("log_groups: ['a b']", "2: 'a b' must be the name of a log group"),
        ("log_groups: ['a*b']", "2: "),
        ("log_groups: /ecs/shop", "2: telemetry.log_groups must be a list"),
        ("services: ['a\"']", "2: "),
        ("max_minutes: 0", "2: max_minutes must be from 1 to 10080, not 0"),
        ("seconds: 25", "2: seconds must be from 1 to 20, not 25"),
        ("max_rows: many", "2: telemetry.max_rows must be a number"),
        ("log_group: [a]", "2: unknown key 'log_group'"),
        ("metrics: [{namespace: AWS/EC2, dimension: InstanceId}]", "2: .* needs the key 'names'"),
        ("metrics: [{namespace: AWS/EC2, dimension: InstanceId, names: []}]", "2: names must name at least one"),
        ("metrics: [{namespace: N, dimension: D, names: [m], statistic: Mean}]", "2: unknown statistic 'Mean'"),
    ],
)
def test_mistakes_are_refused_with_their_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(KnowledgeConfigError, match=f"knowledge.yaml:{message}"):
        read(tmp_path, f"telemetry:\n  {line}\n")
