"""Reads of a graph expansion: no node is read whose relations can't be shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from opx.adapters.embedded.table import SqliteTable
from opx.domain.graph import Edge, GraphEvidence
from opx.domain.knowledge import Tier
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.graph.expansion import CONSIDERED, MIN_CONFIDENCE, Relations, leads_of, worth_following
from opx.operations.system import System
from opx.ports.tables import GRAPH
from tests.support.agent_calls import a_system
from tests.support.graph_support import write
from tests.support.graph_world import an_edge

PAGE = "documents/runbooks/hubs.md"
HUBS = ("magpie", "jackdaw", "raven")
NEAR, BEHIND = 25, 2
"""Neighbours of each hub, and edges of each neighbour."""


def relations(*edges: tuple[str, str, float]) -> Relations:
    return {edge.name: edge for edge in (an_edge_of(*given) for given in edges)}


def an_edge_of(source: str, target: str, confidence: float) -> Edge:
    proof = GraphEvidence(
        document_id="d1", chunk_ids=("c1",), tier=Tier.INTERNAL, trust=1.0, at="2031-05-01", confidence=confidence
    )
    return Edge(source, "depends_on", target, evidence=(proof,))


class TestWorthFollowing:
    def test_all_neighbours_are_while_there_are_few_leads(self) -> None:
        near = relations(("service:a", "service:b", 0.9), ("service:a", "service:c", 0.1))
        assert worth_following(near, {"service:a": 1.0}) == ["service:b", "service:c"]

    def test_none_is_whose_leads_would_come_behind_all_that_are_considered(self) -> None:
        sure = [("service:a", f"service:n{number:02}", 0.9) for number in range(CONSIDERED)]
        near = relations(*sure, ("service:a", "service:unsure", 0.2))
        assert worth_following(near, {"service:a": 1.0}) == []
        better = worth_following(
            relations(*sure, ("service:b", "service:sure", 1.0)), {"service:a": 0.2, "service:b": 1.0}
        )
        assert better == ["service:sure"]

    def test_a_wanted_node_behind_an_unwanted_neighbour_counts(self) -> None:
        near = relations(*(("service:a", f"service:n{number:02}", 0.9) for number in range(CONSIDERED)))
        assert len(worth_following(near, {"service:a": 1.0}, {"runbook"})) == CONSIDERED

    def test_a_neighbour_without_any_confidence_is_not(self) -> None:
        near = relations(("service:a", "service:b", MIN_CONFIDENCE))
        assert worth_following(near, {"service:a": 1.0}) == []

    def test_no_lead_beyond_it_is_among_the_best(self) -> None:
        """The bound is right: with the edges of all neighbours, those that are considered are the same."""
        sure = [("service:a", f"service:n{number:02}", 0.5 + number / 200) for number in range(CONSIDERED)]
        seeds = {"service:a": 1.0}
        followed = set(worth_following(relations(*sure), seeds))
        beyond = [(f"service:n{number:02}", f"service:far{number:02}", 1.0) for number in range(CONSIDERED)]
        some = [edge for edge in beyond if edge[0] in followed]

        def best(*edges: tuple[str, str, float]) -> list[str]:
            return [lead.node for lead in leads_of(relations(*edges), seeds)][:CONSIDERED]

        assert best(*sure, *some) == best(*sure, *beyond)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Hubs with many neighbours, each with edges of its own."""
    text = f"# All hubs are down\n\nRestart {' and '.join(HUBS)}."
    with a_system(tmp_path_factory.mktemp("home"), {PAGE: text}) as system:
        edges = [an_edge(f"service:{hub}", "calls", f"service:{hub}-{near}") for hub in HUBS for near in range(NEAR)]
        behind = [an_edge(edge.target, "calls", f"{edge.target}-{far}") for edge in edges for far in range(BEHIND)]
        write(system, PAGE, [*edges, *behind])
        yield system


def test_reads_do_not_grow_with_the_neighbours_of_hubs(services: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each query costs a millisecond of a processor of which a function has the half. Before, there were 148 here."""
    reads: Counter[str] = Counter()
    query = SqliteTable.query

    def counted(table: SqliteTable, *positional: Any, **named: Any) -> Any:
        reads["graph"] += table._spec is GRAPH
        return query(table, *positional, **named)

    monkeypatch.setattr(SqliteTable, "query", counted)
    config = QueryConfig(min_confidence=0.0, expand_graph=True)
    question = f"{HUBS[0]} and {HUBS[1]} and {HUBS[2]} are down"
    answer = services.questions.for_reader(Identity(), recorded=False).search(question, config)
    assert answer.evidence is not None
    assert any("calls" in item.relation for item in answer.evidence.items)

    assert 2 * len(HUBS) <= reads["graph"] <= 60
