"""The coverage report: alerts without runbooks, runbooks without firings, and names of alerts in pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.scopes import Identity, Reader
from opx.edges.calling import LocalClient
from opx.graph.extraction.operations import alert_in_heading
from opx.graph.knowledge_graph import KnowledgeGraph
from opx.graph.questions.answers import GraphCoverage, Uncovered, coverage
from opx.operations.context import Caller, Context
from opx.operations.graph import GetGraphCoverage, get_graph_coverage
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.cli_support import Opx
from tests.support.extraction_support import Extraction
from tests.support.fakes import WordsEmbedder
from tests.support.graph_world import ACME, NOW, an_edge, shop, write_statements


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    home = tmp_path_factory.mktemp("shop")
    with bootstrap(Settings(home=str(home)), clock=lambda: NOW, embedder=WordsEmbedder()) as services:
        shop(services)
        write_statements(services, "acme's", an_edge("runbook:acme", "handles", "alert:vaultsealed"), scope=ACME)
        yield services


@pytest.fixture(scope="module")
def graph(services: System) -> KnowledgeGraph:
    return services.graph.seen_by(Identity())


def keys(found: tuple[Uncovered, ...]) -> list[str]:
    return [one.key for one in found]


def test_alerts_without_a_runbook_come_with_their_firings(graph: KnowledgeGraph) -> None:
    assert coverage(graph).alerts_without_runbook == (Uncovered("alert:vaultsealed", 1, "2031-05-09"),)


def test_another_clients_runbook_covers_its_alerts_alone(services: System) -> None:
    assert coverage(services.graph.seen_by(Identity("acme"))).alerts_without_runbook == ()


def test_runbooks_whose_alerts_never_fired_are_listed(graph: KnowledgeGraph) -> None:
    assert keys(coverage(graph).runbooks_never_fired) == ["runbook:seal"]


def test_firings_before_the_start_do_not_count(graph: KnowledgeGraph) -> None:
    assert keys(coverage(graph, since="2031-05-06").runbooks_never_fired) == ["runbook:backlog", "runbook:seal"]


def test_runbooks_without_an_alert_are_listed_separately(graph: KnowledgeGraph) -> None:
    assert keys(coverage(graph).runbooks_without_alert) == ["runbook:howto"]


def test_services_without_a_runbook(graph: KnowledgeGraph) -> None:
    assert keys(coverage(graph).services_without_runbook) == ["service:loyalty", "service:payments"]


def test_types_beyond_the_limit_are_named(graph: KnowledgeGraph) -> None:
    found = coverage(graph, limit=2)
    assert found.cut == ("alert", "runbook", "service")
    assert found.looked_at == {"alert": 2, "runbook": 2, "service": 2}


def test_an_empty_graph_lacks_nothing(services: System) -> None:
    nobody = KnowledgeGraph(services.graph.store, Reader(Identity(), ()))
    assert coverage(nobody) == GraphCoverage(looked_at={"alert": 0, "runbook": 0, "service": 0})


def test_the_report_survives_the_wire(graph: KnowledgeGraph) -> None:
    found = coverage(graph, since="2031-01-01")
    assert GraphCoverage.from_json(found.to_json()) == found


def test_targets_of_links_to_pages_that_are_not_here_are_no_runbooks(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    opx.write(
        "runbooks/disk.md",
        "# Disk full\n\nSee [the old page](gone/disk-usage.md) and [Redis](redis.md).\n\n1. Run `df -h`.\n",
    )
    opx.write("runbooks/redis.md", "# Redis full\n\nRelated: [gone](../gone.md)\n\n1. Run `redis-cli info`.\n")
    assert opx("ingest", opx.folder / "docs").exit_code == 0
    found = json.loads(opx("graph", "coverage", "--json").stdout)
    assert found["lookedAt"]["runbook"] == 2
    assert len(found["runbooksWithoutAlert"]) == 2


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
