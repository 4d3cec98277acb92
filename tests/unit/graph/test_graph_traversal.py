"""Walks and paths along edges: bounds, directions, times, and resolution of names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.graph import Direction, Reached, Route, Subgraph, Walk
from opx.domain.scopes import Identity, Scope, reader_of
from opx.errors import InvalidInputError, InvalidReferenceError, NodeNotFoundError
from opx.graph.knowledge_graph import KnowledgeGraph
from opx.graph.store import GraphStore
from opx.graph.traversal import Traversal
from opx.ports import Item, Table
from opx.ports.tables import GRAPH
from tests.support.graph_support import ACME, GLOBAL, a_node, an_edge, an_origin, stating

HUB_EDGES = 1_500


class Counting:
    """A table that counts its reads."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.rows = self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def query(self, *positional: Any, **named: Any) -> Iterator[Item]:
        self.calls += 1
        for item in self._table.query(*positional, **named):
            self.rows += 1
            yield item

    def get_many(self, keys: Any) -> list[Item]:
        self.calls += 1
        return self._table.get_many(keys)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counting]:
    """A chain a-b-c-d-e-f-g-h with a cycle c-a, a way round over x and y, two that block each other, and a hub."""
    database = open_database(tmp_path_factory.mktemp("graph") / "opx.sqlite")
    with ExitStack() as stack:
        stack.callback(database.close)
        stack.enter_context(database.transaction())
        counting = Counting(SqliteTable(GRAPH, database))
        store = GraphStore(counting, lambda: 0.0)
        chain = [an_edge(one, "depends_on", other) for one, other in zip("abcdefg", "bcdefgh", strict=True)]
        store.write(an_origin("chain"), stating(*chain, an_edge("c", "calls", "a")))
        store.write(an_origin("round"), stating(*(an_edge(*way, at="2026-12-01") for way in (
            ("a", "calls", "x"), ("x", "calls", "y"), ("y", "calls", "d"),
        ))))  # fmt: skip
        blocks = [an_edge("one", "blocks", "two", "c1"), an_edge("two", "blocks", "one", "c2")]
        store.write(
            an_origin("blocks"), stating(*blocks, an_edge("one", "calls", "two"), an_edge("two", "calls", "one"))
        )
        days = [f"2025-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)]
        spokes = [
            an_edge(f"s{number:04}", ("mentions", "calls")[number % 2], "hub", at=days[number % len(days)])
            for number in range(HUB_EDGES)
        ]
        store.write(an_origin("hub"), stating(*spokes, an_edge("hub", "calls", "hub2", at="2020-01-01")))
        others = [an_edge(f"t{number:04}", "calls", "hub2", at="2025-01-01") for number in range(300)]
        store.write(an_origin("hub2"), stating(*others))
        store.write(an_origin("acme", scope=ACME), stating(an_edge("a", "calls", "vault"), a_node("checkout")))
        yield counting


@pytest.fixture
def walks(table: Counting) -> Traversal:
    return Traversal(GraphStore(table, lambda: 0.0), GLOBAL)


def reached(found: Subgraph) -> dict[str, int]:
    return {one.key.removeprefix("service:"): one.distance for one in found.reached}


def way(route: Route) -> str:
    assert route.edges is not None
    keys = [route.source]
    for edge in route.edges:
        keys.append(edge.other(keys[-1]))
    return "".join(key.removeprefix("service:") for key in keys)


def one_way(*types: str, hops: int = 3, **more: Any) -> Walk:
    return Walk(hops=hops, direction=Direction.OUT, edge_types=types, **more)


def test_each_hop_follows_one_more_edge(walks: Traversal) -> None:
    for hops, ends in ((1, "ab"), (2, "abc"), (3, "abcd")):
        found = walks.walk(["service:a"], one_way("depends_on", hops=hops))
        assert reached(found) == {key: distance for distance, key in enumerate(ends)}


def test_a_cycle_is_walked_once(walks: Traversal) -> None:
    found = walks.walk(["service:a"], Walk(hops=3, edge_types=("depends_on", "calls"), direction=Direction.OUT))
    assert reached(found) == {"a": 0, "x": 1, "b": 1, "y": 2, "c": 2, "d": 3}
    assert ("service:c", "calls", "service:a") in {(one.source, one.edge_type, one.target) for one in found.edges}


def test_the_path_to_a_node_begins_at_the_start(walks: Traversal) -> None:
    found = walks.walk(["service:d"], Walk(hops=2, direction=Direction.IN, edge_types=("depends_on",)))
    last = found.reached[-1]
    assert last.key == "service:b"
    assert [edge.target for edge in last.path] == ["service:d", "service:c"]


def test_several_starts_are_walked_together_and_unknown_ones_are_left_out(walks: Traversal) -> None:
    found = walks.walk(
        ["service:g", "service:unknown", "service:one", "service:g"], one_way("depends_on", "calls", hops=1)
    )
    assert reached(found) == {"g": 0, "one": 0, "h": 1, "two": 1}
    assert walks.walk(["service:unknown"], Walk()) == Subgraph()
    assert walks.walk([], Walk()) == Subgraph()


def test_invisible_nodes_are_neither_reached_nor_starts(walks: Traversal) -> None:
    assert "vault" not in reached(walks.walk(["service:a"], Walk()))
    assert walks.walk(["service:vault"], Walk()) == Subgraph()


def test_a_walk_ends_at_its_node_limit_and_returns_the_cut_nodes(walks: Traversal) -> None:
    found = walks.walk(["service:a"], one_way("depends_on", most_nodes=3))
    assert reached(found) == {"a": 0, "b": 1, "c": 2}
    assert found.cut == ("service:c",)
    assert len(walks.walk(["service:hub"], Walk(hops=3, fan_out=50, most_nodes=20)).reached) == 20
    with pytest.raises(InvalidInputError, match="starts"):
        walks.walk([f"service:{number}" for number in range(6)], Walk(most_nodes=5))


def test_of_a_hub_the_newest_edges_are_followed_without_reading_all(walks: Traversal, table: Counting) -> None:
    table.rows = table.calls = 0
    found = walks.walk(["service:hub"], Walk(fan_out=10))
    assert found.cut == ("service:hub",)
    assert found.edges[0].at == "2025-12-28"
    assert min(edge.at for edge in found.edges) >= "2025-12-25"
    assert len(found.reached) == 11
    assert table.rows < 200
    assert table.calls < 15


def test_edges_of_a_hub_are_read_by_time(walks: Traversal, table: Counting) -> None:
    table.rows = 0
    found = walks.walk(["service:hub"], Walk(fan_out=50, since="2025-06-03", until="2025-06-04"))
    assert {edge.at for edge in found.edges} == {"2025-06-03", "2025-06-04"}
    assert found.cut == ()
    assert table.rows < 200


def test_opposite_edges_are_returned_as_contradicting(walks: Traversal) -> None:
    found = walks.walk(["service:one"], Walk())
    ((edge, back),) = found.contradicting
    assert (edge.edge_type, edge.source, back.source) == ("blocks", "service:one", "service:two")
    assert (edge.evidence_chunk_ids, back.evidence_chunk_ids) == (("c1",), ("c2",))


# -- paths


def test_the_shortest_path_is_found_from_both_ends(walks: Traversal) -> None:
    assert way(walks.path("service:a", "service:b")) == "ab"
    assert way(walks.path("service:x", "service:e")) == "xyde"
    assert way(walks.path("service:h", "service:c")) == "hgfedc"
    assert way(walks.path("service:b", "service:h")) == "bcdefgh"
    assert walks.path("service:a", "service:a") == Route("service:a", "service:a", ())


def test_of_two_shortest_paths_the_newer_is_found_each_time(walks: Traversal) -> None:
    only = Walk(direction=Direction.OUT, fan_out=200, most_nodes=5_000)
    assert {way(walks.path("service:a", "service:d", walk=only)) for _ in range(3)} == {"axyd"}


def test_direction_and_types_hold_for_paths(walks: Traversal) -> None:
    assert way(walks.path("service:a", "service:d", walk=one_way("depends_on"))) == "abcd"
    assert walks.path("service:d", "service:a", walk=one_way("depends_on")).edges is None
    backwards = Walk(direction=Direction.IN, edge_types=("depends_on",))
    assert way(walks.path("service:d", "service:a", walk=backwards)) == "dcba"
    assert walks.path("service:b", "service:a", walk=one_way("depends_on")).edges is None


def test_a_path_that_is_too_long_or_missing_is_not_found(walks: Traversal) -> None:
    assert walks.path("service:b", "service:h", most_hops=5) == Route("service:b", "service:h", None)
    assert walks.path("service:a", "service:one") == Route("service:a", "service:one", None)
    assert walks.path("service:a", "service:vault") == Route("service:a", "service:vault", None)
    for hops in (0, 7):
        with pytest.raises(InvalidInputError, match="1 to 6"):
            walks.path("service:a", "service:b", most_hops=hops)


def test_two_hubs_are_connected_by_the_edge_between_them(walks: Traversal) -> None:
    route = walks.path("service:hub", "service:hub2", walk=Walk(fan_out=10))
    assert route.edges is not None
    assert len(route.edges) == 1
    assert walks.path("service:hub", "service:hub2", walk=Walk(fan_out=10, since="2024")).edges is None


def test_a_search_that_hit_a_limit_reports_it(walks: Traversal) -> None:
    route = walks.path("service:hub", "service:t0299", walk=Walk(fan_out=10))
    assert route.edges is None
    assert set(route.cut) == {"service:hub", "service:hub2"}
    assert walks.path("service:b", "service:h", walk=Walk(most_nodes=6)).cut != ()


def test_nodes_are_certainly_unconnected_if_one_end_was_searched_completely(walks: Traversal) -> None:
    assert walks.path("service:hub", "service:one", walk=Walk(fan_out=10)) == Route("service:hub", "service:one", None)


# -- for one reader


@pytest.fixture
def graph(table: Counting) -> KnowledgeGraph:
    return KnowledgeGraph(GraphStore(table, lambda: 0.0), reader_of(Identity("acme")))


def test_references_need_not_be_normalised(graph: KnowledgeGraph) -> None:
    assert graph.show(" Service:A ").key == "service:a"
    assert Reached("service:vault", 1) in [
        Reached(one.key, one.distance) for one in graph.neighbours("SERVICE:a").reached
    ]
    assert way(graph.path("Service:A", "service:B")) == "ab"
    assert len(graph.between("service:A", "service:vault")) == 1
    with pytest.raises(InvalidReferenceError):
        graph.show(":checkout")


def test_a_name_without_a_namespace_is_that_of_the_only_node_with_it(graph: KnowledgeGraph) -> None:
    assert graph.show("Checkout").key == "service:checkout"
    assert graph.path("A", "b").source == "service:a"
    with pytest.raises(NodeNotFoundError, match="no node has the name 'nonesuch'; write namespace:value"):
        graph.show("nonesuch")


def test_an_ambiguous_name_is_refused_with_its_references(table: Counting) -> None:
    store = GraphStore(table, lambda: 0.0)
    store.write(an_origin("named", scope=Scope("twice")), stating(an_edge("service:pay", "hosted_on", "host:pay")))
    graph = KnowledgeGraph(store, reader_of(Identity("twice")))
    with pytest.raises(InvalidReferenceError, match="'pay' may be service:pay, host:pay: write which one"):
        graph.show("pay")


def test_an_unknown_reference_is_refused_with_similar_ones(graph: KnowledgeGraph, table: Counting) -> None:
    for ask in (graph.show, graph.neighbours, lambda key: graph.path("service:a", key)):
        with pytest.raises(
            NodeNotFoundError, match="nothing here is about service:chekout; did you mean service:checkout"
        ):
            ask("service:chekout")
    stranger = KnowledgeGraph(GraphStore(table, lambda: 0.0), reader_of(Identity("other")))
    with pytest.raises(NodeNotFoundError, match=r"nothing here is about service:chekout$"):
        stranger.show("service:chekout")


def test_nodes_are_found_by_the_beginning_of_their_names(graph: KnowledgeGraph) -> None:
    assert [node.key for node in graph.find("Check")] == ["service:checkout"]
    assert [node.key for node in graph.find("service:hub")] == ["service:hub", "service:hub2"]
    assert [node.key for node in graph.find("s", "service", limit=3)] == [
        "service:s0000",
        "service:s0001",
        "service:s0002",
    ]
    assert graph.find("check", "host") == []
    with pytest.raises(InvalidInputError, match="limit"):
        graph.find("a", limit=0)


def test_chunks_lead_to_nodes(graph: KnowledgeGraph) -> None:
    chunks = [("global/blocks", "c2"), ("global/unknown", "c2")]
    assert graph.related_to_chunks(chunks) == {"c2": ("service:one", "service:two")}
