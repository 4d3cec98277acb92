"""Estimated costs, and their tables in the documentation."""

from __future__ import annotations

import pytest

from infra.constructs.layer_contents import ROOT
from infra.costs import BEGIN, END, PRICES_DATE, SCENARIOS, Scenario, monthly, options, search_hours, tables
from infra.diagram import replaced
from tests.infra.templates import Assembly

DEPLOY = ROOT / "docs" / "deploy.md"


def test_the_tables_in_the_documentation_are_those_of_the_formulas() -> None:
    text = DEPLOY.read_text()
    assert replaced(text, tables(), begin=BEGIN, end=END) == text, "python -m infra.costs docs/deploy.md"
    assert PRICES_DATE in text


def test_an_idle_system_costs_nothing_for_search_storage_and_queries() -> None:
    idle = monthly(SCENARIOS[0])
    for service in ("OpenSearch Serverless", "Embedding", "S3", "DynamoDB", "Lambda", "HTTP API and gateway"):
        assert idle[service] == 0
    assert sum(idle.values()) < 22


def test_questions_far_apart_keep_the_collection_awake_for_minutes_each() -> None:
    assert search_hours(5, hours_of_use=730) == pytest.approx(1.0)
    assert search_hours(100_000, hours_of_use=730) == 730


def test_more_of_anything_costs_more() -> None:
    base = Scenario("base", documents=100, chunks=400, new_documents=10, questions=100, search_hours=10)
    more = Scenario("more", documents=200, chunks=800, new_documents=20, questions=200, search_hours=20)
    assert all(monthly(more)[service] >= amount for service, amount in monthly(base).items())
    assert sum(monthly(more).values()) > sum(monthly(base).values())


def test_counted_resources_are_the_deployed_ones(default: Assembly) -> None:
    from infra import costs

    kinds = [resource["Type"] for _, _, resource in default.all_resources()]
    assert kinds.count("AWS::CloudWatch::Dashboard") == costs.DASHBOARDS
    alarms = [r["Properties"] for _, _, r in default.all_resources() if r["Type"] == "AWS::CloudWatch::Alarm"]
    metrics = [sum("MetricStat" in metric for metric in alarm.get("Metrics", [])) or 1 for alarm in alarms]
    assert sum(metrics) == costs.ALARM_METRICS
    assert kinds.count("AWS::Lambda::EventSourceMapping") == costs.QUEUES_POLLED


def test_a_classic_collection_is_the_dearest_choice() -> None:
    assert max(options(), key=lambda choice: options()[choice]).startswith("`-c search_generation=classic`")
