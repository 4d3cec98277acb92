"""The coverage report: alerts without runbooks, and runbooks without firings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.scopes import Identity, Reader
from opx.graph.knowledge_graph import KnowledgeGraph
from opx.graph.questions.answers import GraphCoverage, Uncovered, coverage
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.cli_support import Opx
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
