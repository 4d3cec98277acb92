"""Estimated costs, and their tables in the documentation."""

from __future__ import annotations

import pytest

from infra.constructs.layer_contents import ROOT
from infra.costs import BEGIN, END, LOADS, NETWORK_ENDPOINTS, SCENARIOS, choices, load, tables
from infra.diagram import replaced
from opx.domain.prices import PRICES_DATE
from opx.lifecycle import costs
from opx.lifecycle.costs import Scenario, monthly, records, search_hours
from tests.infra.templates import Assembly

DEPLOY = ROOT / "docs" / "deploy.md"


def test_the_tables_in_the_documentation_are_those_of_the_formulas() -> None:
    text = DEPLOY.read_text()
    assert replaced(text, tables(), begin=BEGIN, end=END) == text, "python -m infra.costs docs/deploy.md"
    assert PRICES_DATE in text


def test_an_idle_system_costs_nothing_for_search_storage_and_queries() -> None:
    idle = monthly(SCENARIOS[0])
    for service in (
        "DynamoDB, but for records of questions",
        "OpenSearch Serverless",
        "Embedding",
        "S3",
        "Lambda",
        "HTTP API and gateway",
    ):
        assert idle[service] == 0
    assert sum(idle.values()) < 27


def test_questions_far_apart_keep_the_collection_awake_for_minutes_each() -> None:
    assert search_hours(5, hours_of_use=730) == pytest.approx(1.0)
    assert search_hours(100_000, hours_of_use=730) == 730


def test_more_of_anything_costs_more() -> None:
    base = Scenario("base", documents=100, chunks=400, new_documents=10, questions=100, search_hours=10)
    more = Scenario("more", documents=200, chunks=800, new_documents=20, questions=200, search_hours=20)
    assert all(monthly(more)[service] >= amount for service, amount in monthly(base).items())
    assert sum(monthly(more).values()) > sum(monthly(base).values())


def test_counted_resources_are_the_deployed_ones(default: Assembly) -> None:
    kinds = [resource["Type"] for _, _, resource in default.all_resources()]
    assert kinds.count("AWS::CloudWatch::Dashboard") == costs.DASHBOARDS
    alarms = [r["Properties"] for _, _, r in default.all_resources() if r["Type"] == "AWS::CloudWatch::Alarm"]
    metrics = [sum("MetricStat" in metric for metric in alarm.get("Metrics", [])) or 1 for alarm in alarms]
    assert sum(metrics) == costs.ALARM_METRICS
    assert kinds.count("AWS::Lambda::EventSourceMapping") == costs.QUEUES_POLLED


def test_counted_endpoints_are_those_of_the_network(private: Assembly) -> None:
    kinds = [endpoint["VpcEndpointType"] for endpoint in private.resources("network", "EC2::VPCEndpoint").values()]
    assert kinds.count("Interface") == NETWORK_ENDPOINTS


def _added(name: str) -> list[float]:
    """Returns the dollars that the choice with this name adds to each load; the first is no load at all."""
    (choice,) = (one for one in choices() if name in one.name)
    return [choice.added(month) for month in LOADS]


def test_loads_are_all_pairs_of_documents_and_rates() -> None:
    assert len(LOADS) == 1 + 3 * 3
    assert load(1_000, 10).questions == 10 * 730 * 3600


def test_a_classic_collection_is_the_dearest_choice_without_load() -> None:
    assert max(choices(), key=lambda choice: choice.added(LOADS[0])).name == "`-c search_generation=classic`"


def test_waking_on_alarms_costs_by_their_number() -> None:
    named = ("an alarm or incident a day", "with 10 a day", "with 50 a day")
    assert [round(_added(name)[0], 2) for name in named] == [2.88, 28.8, 144.0]


@pytest.mark.parametrize("name", ["awake=", "search_min_ocu=1", "open gaps"])
def test_keeping_a_collection_awake_adds_nothing_where_questions_do_so(name: str) -> None:
    idle, *busy = _added(name)
    assert idle > 0
    assert busy == [0.0] * 9


def test_without_records_their_whole_share_is_saved() -> None:
    shares = [monthly(month)["Records of questions (audit)"] for month in LOADS]
    assert _added("audit_days=0") == pytest.approx([-share for share in shares])
    assert all(-share <= less <= 0 for share, less in zip(shares, _added("audit_days=30"), strict=True))


def test_shorter_records_save_their_storage_and_not_their_writes() -> None:
    written, stored = records(LOADS[-1], 365)
    assert records(LOADS[-1], 30) == pytest.approx((written, stored * 30 / 365))


def test_backups_cost_by_what_is_stored() -> None:
    assert _added("backup=daily")[0] == 0
    assert load(10_000_000, 1).chunks == 40_000_000
    added = _added("backup=daily")
    assert added[1] < added[4] < added[7]  # documents
    assert added[1] < added[2] < added[3]  # records of questions
