"""Names of alerts in titles, headings and prose of runbooks, and the pages that an alert may be about."""

from __future__ import annotations

import pytest

from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient
from opx.graph.extraction.operations import alert_in_heading
from opx.graph.questions.answers import GraphCoverage
from opx.operations.context import Caller, Context
from opx.operations.graph import GetGraphCoverage, get_graph_coverage
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.extraction_support import Extraction
from tests.support.fakes import WordsEmbedder

RULES = """\
alerts:
  - {name: KafkaConsumerLag}
  - {name: SearchLatencyHigh}
  - {name: ElasticsearchClusterNotHealthy}
  - {name: DiskAlmostFull}
  - {name: VaultSealed}
"""
PAGES = {
    "kafka": "# Kafka operations\n\n## KafkaConsumerLag\n\nThis alert means that consumers are slow.\n",
    "search": "# Search by night\n\nWhen SearchLatencyHigh fires, look at the shards.\n",
    "es": "# Elasticsearch cluster health is red\n\nAdd a node.\n",
    "disk-a/DiskAlmostFull": "# Disks of A\n\nGrow it.\n",
    "disk-b/DiskAlmostFull": "# Disks of B\n\nGrow it.\n",
}


@pytest.fixture(scope="module")
def extraction(tmp_path_factory: pytest.TempPathFactory) -> Extraction:
    return Extraction(tmp_path_factory.mktemp("names"))


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("KafkaLag", "KafkaLag"),
        ("`KafkaLag`", "KafkaLag"),
        ("Alert: KafkaLag", "KafkaLag"),
        ("KafkaLag alert", "KafkaLag"),
        ("Consumers lag (KafkaLag)", "KafkaLag"),
        ("Consumers lag: `KafkaLag`", "KafkaLag"),
        ("Consumers lag", ""),
        ("APIs", ""),
        ("Using VPNs", ""),
        ("Kafka", ""),
    ],
)
def test_alert_of_a_heading(heading: str, name: str) -> None:
    assert alert_in_heading(heading) == name


def test_a_title_counts_on_a_page_about_something_that_fails(extraction: Extraction) -> None:
    text = "# CephMonLowNumber\n\n## Meaning\n\nToo few monitors.\n\n## Mitigation\n\nAdd some.\n"
    assert extraction.extract(text).edges == {"runbook:page handles alert:cephmonlownumber"}


def test_headings_of_a_page_about_several_alerts_are_handled(extraction: Extraction) -> None:
    text = "# Kafka\n\nAlerts of Kafka.\n\n## KafkaLag\n\nIt means lag.\n\n### No brokers (KafkaDown)\n\nIt fires at once.\n"
    handled = {edge for edge in extraction.extract(text).edges if " handles " in edge}
    assert handled == {"runbook:page handles alert:kafkalag", "runbook:page handles alert:kafkadown"}


@pytest.mark.parametrize(
    ("line", "alert"),
    [
        ("When KafkaLag fires, look at the consumers.", "kafkalag"),
        ("See the KafkaLag alert.", "kafkalag"),
        ("The alert KafkaLag means lag.", "kafkalag"),
        ("A GitHub alert is no alert of ours.", ""),
        ("PagerDuty alert rules are elsewhere.", ""),
        ("The alert manager is elsewhere.", ""),
    ],
)
def test_prose_mentions_and_does_not_handle(extraction: Extraction, line: str, alert: str) -> None:
    edges = extraction.extract(f"# Kafka by night\n\n{line}\n").edges
    assert edges == ({f"runbook:page mentions alert:{alert}"} if alert else set())


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> GraphCoverage:
    home = tmp_path_factory.mktemp("home")
    with bootstrap(Settings(home=str(home)), embedder=WordsEmbedder()) as services:
        for name, text in PAGES.items():
            services.manager.put_document("runbooks/procedures", text, {"source": f"{name}.md"})
        services.manager.put_document("operations/alert_rules", RULES.encode(), {"source": "rules.yaml"})
        assert not [outcome.reason for outcome in services.manager.work() if outcome.error]
        client = LocalClient(Context(services, Caller(Identity())))
        return client.call(get_graph_coverage, GetGraphCoverage())


def test_gaps_are_of_two_kinds(found: GraphCoverage) -> None:
    assert [one.key for one in found.alerts_without_runbook] == ["alert:vaultsealed"]
    assert {one.key: one.pages[0].why for one in found.alerts_unsure} == {
        "alert:searchlatencyhigh": "mentions it",
        "alert:elasticsearchclusternothealthy": "has a similar title",
        "alert:diskalmostfull": "one of 2 pages with its name",
    }


def test_unsure_ones_name_their_pages(found: GraphCoverage) -> None:
    pages = {one.key: [page.title for page in one.pages] for one in found.alerts_unsure}
    assert pages["alert:elasticsearchclusternothealthy"] == ["Elasticsearch cluster health is red"]
    assert pages["alert:diskalmostfull"] == ["Disks of A", "Disks of B"]
