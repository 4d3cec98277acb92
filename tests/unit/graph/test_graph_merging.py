"""Merging nodes and undoing it: statements of documents are kept, and filed by their stated references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.graph import Edge, EdgeStatement, Merge, MergeState, NodeStatement, Origin, Statements, Walk, node_type
from opx.domain.knowledge import Tier
from opx.domain.scopes import Scope
from opx.errors import AliasTakenError, InvalidInputError, MergeNotFoundError, StoreUnavailableError
from opx.graph.aliased import AliasedReads
from opx.graph.aliases import AliasRegistry
from opx.graph.merging import MAX_PASSES, Merging
from opx.graph.store import GraphStore
from opx.ports import Condition, Item
from opx.ports.tables import ALIASES, GRAPH
from opx_testing.fake_time import FakeTime

ALL, ACME, SHOP, OTHER = Scope(), Scope("acme"), Scope("acme", project_id="shop"), Scope("other")
READER = [one.key for one in (ALL, ACME, SHOP)]

OLD, NEW, DATABASE, RUNBOOK = "service:co", "service:checkout", "service:db", "runbook:co"
Relation = tuple[str, str, str]


class WatchedTable(SqliteTable):
    """Calls `after_put` after each write."""

    after_put: Callable[[Item], None] | None = None

    def put(self, item: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        super().put(item, condition=condition)
        if self.after_put:
            self.after_put(dict(item))


class Graph:
    """A store with aliases, and a reader of one project. `interrupted_at`: the rewriting that fails, counted from 0."""

    def __init__(self, database: Database, clock: Any) -> None:
        self.table = SqliteTable(GRAPH, database)
        self.aliases = WatchedTable(ALIASES, database)
        self.registry = AliasRegistry(self.aliases, clock=clock)
        self.store = GraphStore(self.table, clock, aliases=self.registry)
        self.reads = AliasedReads(self.store, self.registry)
        self.merging = Merging(self.aliases, self.registry, self, clock=clock)
        self.rewritten: list[tuple[str, str]] = []
        self.interrupted_at = -1

    def rewrite(self, scope: Scope, key: str) -> int:
        if len(self.rewritten) == self.interrupted_at:
            self.interrupted_at = -1
            raise StoreUnavailableError("interrupted")
        self.rewritten.append((scope.key, key))
        return self.store.rewrite(scope, key)

    def write(
        self,
        key_id: str,
        *edges: Relation,
        scope: Scope = SHOP,
        at: str = "2026-01-01",
        aliases: Any = (),
        **properties: str,
    ) -> None:
        """Write a document with these edges, each in a chunk `<key id>-<number>`, and properties of the first node."""
        origin = Origin(f"{scope.key}/{key_id}", f"d-{key_id}", scope, Tier.INTERNAL, 1.0, at)
        keys = dict.fromkeys(key for source, _, target in edges for key in (source, target))
        nodes = [
            NodeStatement(key, node_type(key), {} if number else properties, (f"{key_id}-0",))
            for number, key in enumerate(keys)
        ]
        stated = [EdgeStatement(*edge, chunk_ids=(f"{key_id}-{number}",), at=at) for number, edge in enumerate(edges)]
        self.store.write(origin, Statements(nodes=tuple(nodes), edges=tuple(stated), aliases=aliases))

    def edges(self, key: str, scopes: list[str] = READER, **walk: Any) -> list[Edge]:
        return self.reads.edges(scopes, key, Walk(**walk))[0]

    def relations(self, key: str, scopes: list[str] = READER) -> list[Relation]:
        return sorted((edge.source, edge.edge_type, edge.target) for edge in self.edges(key, scopes))

    def rows(self) -> list[Any]:
        """All stored statements, without the tokens of their writers."""
        partitions = [
            f"{scope.key}|{key}" for scope in (ALL, ACME, SHOP) for key in (OLD, NEW, DATABASE, RUNBOOK, "service:v3")
        ]
        rows = [row for partition in partitions for row in self.table.query(partition)]
        return [{name: value for name, value in row.items() if name not in ("moved", "token")} for row in rows]


@pytest.fixture
def graph(database: Database, time: FakeTime) -> Graph:
    return Graph(database, time.clock)


def a_graph_of_two(graph: Graph) -> None:
    graph.write("k1", (OLD, "depends_on", DATABASE), (RUNBOOK, "documents", OLD), owner="ann")
    graph.write("k2", (NEW, "depends_on", DATABASE), at="2026-02-01", owner="bob")


# -- merging


def test_edges_of_both_nodes_belong_to_the_merged_one(graph: Graph) -> None:
    a_graph_of_two(graph)
    graph.merging.merge(SHOP, OLD, NEW, by="ann")
    expected = [(RUNBOOK, "documents", NEW), (NEW, "depends_on", DATABASE)]
    assert graph.relations(NEW) == graph.relations(OLD) == expected
    assert graph.relations(DATABASE) == [(NEW, "depends_on", DATABASE)]


def test_evidence_of_both_is_kept_the_newest_first(graph: Graph) -> None:
    a_graph_of_two(graph)
    graph.merging.merge(SHOP, OLD, NEW)
    (edge,) = graph.edges(DATABASE)
    assert edge.evidence_chunk_ids == ("k2-0", "k1-0")
    (node,) = graph.reads.nodes(READER, [OLD])
    assert (node.key, set(node.rag_chunks)) == (NEW, {"k1-0", "k1-1", "k2-0"})


def test_later_statements_are_filed_under_the_merged_node(graph: Graph) -> None:
    graph.merging.merge(SHOP, OLD, NEW)
    a_graph_of_two(graph)
    assert list(graph.table.query(f"{SHOP.key}|{OLD}")) == []
    assert graph.relations(OLD) == [(RUNBOOK, "documents", NEW), (NEW, "depends_on", DATABASE)]


def test_a_merge_does_not_affect_other_scopes(graph: Graph) -> None:
    for scope in (ALL, ACME, SHOP, OTHER):
        graph.write("k1", (OLD, "depends_on", DATABASE), scope=scope)
    graph.merging.merge(SHOP, OLD, NEW)
    assert {scope for scope, _ in graph.rewritten} == {SHOP.key}
    assert graph.relations(NEW) == [(NEW, "depends_on", DATABASE)]
    assert len(graph.edges(NEW)[0].evidence) == 3
    for scope in (ALL, ACME, OTHER):
        assert graph.relations(OLD, [scope.key]) == [(OLD, "depends_on", DATABASE)]
        assert graph.relations(NEW, [scope.key]) == []


def test_an_edge_between_the_merged_nodes_is_left_out(graph: Graph) -> None:
    graph.write("k1", (OLD, "references", NEW), (OLD, "calls", OLD))
    graph.write("k2", (OLD, "references", NEW), (NEW, "references", NEW), scope=ACME)
    merge = graph.merging.merge(SHOP, OLD, NEW)
    assert graph.relations(OLD) == [(NEW, "calls", NEW), (NEW, "references", NEW)]
    assert [edge.evidence_chunk_ids for edge in graph.reads.between(READER, OLD, NEW)] == []
    graph.merging.undo(SHOP, merge.merge_id)
    assert graph.relations(OLD) == [(OLD, "calls", OLD), (OLD, "references", NEW)]


def test_a_self_edge_has_no_evidence_of_edges_between_the_two(graph: Graph) -> None:
    graph.write("k1", (OLD, "references", NEW), (NEW, "references", NEW))
    graph.merging.merge(SHOP, OLD, NEW)
    assert [edge.evidence_chunk_ids for edge in graph.edges(NEW)] == [("k1-1",)]


def test_the_canonical_node_of_an_alias_is_merged(graph: Graph) -> None:
    graph.write("k1", ("service:v3", "depends_on", DATABASE))
    graph.merging.merge(SHOP, OLD, "service:v3")
    merge = graph.merging.merge(SHOP, OLD, NEW)
    assert (merge.source, merge.into) == ("service:v3", NEW)
    assert graph.relations(OLD) == [(NEW, "depends_on", DATABASE)]


@pytest.mark.parametrize(("source", "into"), [(NEW, OLD), (OLD, NEW), (NEW, " Service:Checkout"), (OLD, OLD)])
def test_nodes_that_are_one_already_are_refused(graph: Graph, source: str, into: str) -> None:
    graph.merging.merge(SHOP, OLD, NEW)
    with pytest.raises(InvalidInputError, match="the same node already"):
        graph.merging.merge(SHOP, source, into)
    assert len(graph.merging.merges(SHOP)) == 1


def test_an_alias_that_another_process_has_just_set_leaves_no_record(graph: Graph) -> None:
    register = graph.registry.register

    def overtaken(scope: Scope, alias: str, canonical: str, *, by: str = "") -> Any:
        register(scope, alias, "service:v3")
        return register(scope, alias, canonical, by=by)

    graph.registry.register = overtaken  # type: ignore[method-assign]
    with pytest.raises(AliasTakenError):
        graph.merging.merge(SHOP, OLD, NEW)
    assert graph.merging.merges(SHOP) == []


# -- undoing


def test_undoing_restores_every_row(graph: Graph) -> None:
    a_graph_of_two(graph)
    graph.write("k3", (OLD, "calls", NEW), scope=ACME)
    before = graph.rows()
    merge = graph.merging.merge(SHOP, OLD, NEW)
    assert graph.rows() != before
    graph.merging.undo(SHOP, merge.merge_id)
    assert graph.rows() == before
    assert [one["aliasArea"] for one in graph.aliases.query("acme")] == [f"~merge|{SHOP.key}|{merge.merge_id}"]
    assert graph.relations(OLD) == [(RUNBOOK, "documents", OLD), (OLD, "calls", NEW), (OLD, "depends_on", DATABASE)]


def test_statements_after_the_merge_are_filed_by_their_stated_references(graph: Graph) -> None:
    merge = graph.merging.merge(SHOP, OLD, NEW)
    a_graph_of_two(graph)
    graph.merging.undo(SHOP, merge.merge_id)
    assert graph.relations(OLD) == [(RUNBOOK, "documents", OLD), (OLD, "depends_on", DATABASE)]
    assert graph.relations(NEW) == [(NEW, "depends_on", DATABASE)]


def test_merges_on_top_of_each_other_are_undone_in_any_order(graph: Graph) -> None:
    a_graph_of_two(graph)
    graph.write("k3", ("service:v3", "calls", DATABASE))
    before = graph.rows()
    first = graph.merging.merge(SHOP, OLD, NEW)
    second = graph.merging.merge(SHOP, NEW, "service:v3")
    assert len(graph.relations(OLD)) == 3
    graph.merging.undo(SHOP, first.merge_id)
    assert graph.relations(OLD) == [(RUNBOOK, "documents", OLD), (OLD, "depends_on", DATABASE)]
    assert graph.relations(NEW) == [("service:v3", "calls", DATABASE), ("service:v3", "depends_on", DATABASE)]
    graph.merging.undo(SHOP, second.merge_id)
    assert graph.rows() == before


def test_undoing_twice_does_nothing(graph: Graph) -> None:
    merge = graph.merging.merge(SHOP, OLD, NEW)
    undone = graph.merging.undo(SHOP, merge.merge_id, by="eve")
    graph.merging.merge(SHOP, OLD, NEW)
    assert graph.merging.undo(SHOP, merge.merge_id) == undone
    assert graph.registry.view(READER).canonical([OLD]) == {OLD: NEW}


def test_a_merge_of_another_scope_or_client_is_not_found(graph: Graph) -> None:
    merge = graph.merging.merge(SHOP, OLD, NEW)
    for scope in (ALL, ACME, OTHER, Scope("acme", project_id="blog")):
        with pytest.raises(MergeNotFoundError):
            graph.merging.undo(scope, merge.merge_id)
        assert graph.merging.merges(scope) == []
    for wrong in ("", "x" * 5000, "|", f"{SHOP.key}|{merge.merge_id}"):
        with pytest.raises(MergeNotFoundError):
            graph.merging.undo(SHOP, wrong)


def test_merges_are_recorded(graph: Graph, time: FakeTime) -> None:
    first = graph.merging.merge(SHOP, OLD, NEW, by="ann")
    time.sleep(1)
    second = graph.merging.merge(SHOP, DATABASE, "service:postgres", by="bob")
    graph.merging.undo(SHOP, first.merge_id, by="eve")
    newest, oldest = graph.merging.merges(SHOP)
    assert newest == second
    assert (oldest.state, oldest.by, oldest.undone_by, oldest.undone_at) == (
        MergeState.UNDONE,
        "ann",
        "eve",
        "2023-11-14T22:13:21Z",
    )
    assert Merge.from_json(oldest.to_json()) == oldest


# -- interruptions


def test_an_interrupted_merge_is_effective_and_completed_later(graph: Graph) -> None:
    a_graph_of_two(graph)
    graph.interrupted_at = 0
    with pytest.raises(StoreUnavailableError):
        graph.merging.merge(SHOP, OLD, NEW)
    expected = [(RUNBOOK, "documents", NEW), (NEW, "depends_on", DATABASE)]
    assert graph.relations(OLD) == expected
    assert graph.merging.merges(SHOP)[0].state is MergeState.MERGING
    assert graph.merging.resume(SHOP) == 1
    assert graph.relations(OLD) == expected
    assert list(graph.table.query(f"{SHOP.key}|{OLD}")) == []
    assert graph.merging.merges(SHOP)[0].state is MergeState.MERGED
    assert graph.merging.resume(SHOP) == 0


def test_an_interrupted_merge_can_be_undone(graph: Graph) -> None:
    a_graph_of_two(graph)
    before = graph.rows()
    graph.interrupted_at = 0
    with pytest.raises(StoreUnavailableError):
        graph.merging.merge(SHOP, OLD, NEW)
    graph.merging.undo(SHOP, graph.merging.merges(SHOP)[0].merge_id)
    assert graph.rows() == before


def test_an_interrupted_undoing_is_completed_later(graph: Graph) -> None:
    a_graph_of_two(graph)
    before = graph.rows()
    merge = graph.merging.merge(SHOP, OLD, NEW)
    graph.interrupted_at = len(graph.rewritten)
    with pytest.raises(StoreUnavailableError):
        graph.merging.undo(SHOP, merge.merge_id)
    assert graph.merging.resume(SHOP) == 1
    assert graph.rows() == before
    assert graph.merging.merges(SHOP)[0].state is MergeState.UNDONE


def test_the_next_merge_completes_an_interrupted_one(graph: Graph) -> None:
    a_graph_of_two(graph)
    graph.interrupted_at = 0
    with pytest.raises(StoreUnavailableError):
        graph.merging.merge(SHOP, OLD, NEW)
    graph.merging.merge(SHOP, DATABASE, "service:v3")
    assert list(graph.table.query(f"{SHOP.key}|{OLD}")) == []
    assert {merge.state for merge in graph.merging.merges(SHOP)} == {MergeState.MERGED}


def test_the_same_merge_again_completes_an_interrupted_one(graph: Graph) -> None:
    a_graph_of_two(graph)
    graph.interrupted_at = 0
    with pytest.raises(StoreUnavailableError):
        graph.merging.merge(SHOP, OLD, NEW)
    completed = graph.merging.merge(SHOP, OLD, NEW)
    assert [completed] == graph.merging.merges(SHOP)
    assert completed.state is MergeState.MERGED
    with pytest.raises(InvalidInputError, match="the same node already"):
        graph.merging.merge(SHOP, OLD, NEW)


def test_an_interrupted_merge_whose_alias_was_set_meanwhile_is_dropped(graph: Graph) -> None:
    graph.interrupted_at = 0
    with pytest.raises(StoreUnavailableError):
        graph.merging.merge(SHOP, OLD, NEW)
    graph.registry.forget(SHOP, OLD)
    graph.registry.register(SHOP, OLD, "service:v3")
    assert graph.merging.resume(SHOP) == 1
    assert graph.merging.merges(SHOP) == []
    assert graph.registry.view(READER).canonical([OLD]) == {OLD: "service:v3"}


def test_a_slow_undoing_keeps_a_merge_that_was_made_meanwhile(graph: Graph) -> None:
    a_graph_of_two(graph)
    merge = graph.merging.merge(SHOP, OLD, NEW)
    newer: list[Merge] = []

    def meanwhile(_: Item) -> None:
        graph.aliases.after_put = None
        newer.append(graph.merging.merge(SHOP, OLD, NEW))

    graph.aliases.after_put = meanwhile
    assert graph.merging.undo(SHOP, merge.merge_id).state is MergeState.UNDONE
    assert [one.merge_id for one in graph.merging.merges(SHOP) if one.state is MergeState.MERGED] == [newer[0].merge_id]
    assert graph.registry.view(READER).canonical([OLD]) == {OLD: NEW}
    assert list(graph.table.query(f"{SHOP.key}|{OLD}")) == []


def test_a_merge_that_is_undone_before_it_is_done_leaves_no_alias(graph: Graph) -> None:
    a_graph_of_two(graph)
    before = graph.rows()

    def meanwhile(_: Item) -> None:
        graph.aliases.after_put = None
        (merge,) = graph.merging.merges(SHOP)
        graph.merging.undo(SHOP, merge.merge_id)

    graph.aliases.after_put = meanwhile
    assert graph.merging.merge(SHOP, OLD, NEW).state is MergeState.UNDONE
    assert graph.registry.aliases(READER) == []
    assert graph.rows() == before


def test_rewriting_is_repeated_a_limited_number_of_times(graph: Graph) -> None:
    graph.store.rewrite = lambda scope, key: 1  # type: ignore[method-assign]
    graph.merging.merge(SHOP, OLD, NEW)
    assert graph.rewritten == [(SHOP.key, OLD)] * MAX_PASSES


def test_documents_that_are_written_during_a_merge_are_filed_correctly(graph: Graph) -> None:
    def write(number: int) -> None:
        for round_ in range(4):
            graph.write(f"k{number}", (OLD, "calls", f"service:{round_}"), at=f"2026-01-0{round_ + 1}")

    with ThreadPoolExecutor(3) as pool:
        writing = [pool.submit(write, number) for number in range(2)]
        merge = pool.submit(graph.merging.merge, SHOP, OLD, NEW).result()
        for one in writing:
            one.result()
    graph.merging.resume(SHOP)
    assert graph.relations(OLD) == [(NEW, "calls", "service:3")]
    graph.merging.undo(SHOP, merge.merge_id)
    assert graph.relations(OLD) == [(OLD, "calls", "service:3")]
    assert graph.relations(NEW) == []


# -- aliases that people set


def test_an_alias_is_set_and_removed(graph: Graph) -> None:
    a_graph_of_two(graph)
    before = graph.rows()
    alias = graph.merging.add(SHOP, "Service:CO", NEW, by="ann")
    assert (alias.alias, alias.canonical, alias.set_by) == (OLD, NEW, "ann")
    assert graph.merging.remove(SHOP, OLD)
    assert not graph.merging.remove(SHOP, OLD)
    assert graph.rows() == before


def test_an_alias_without_a_recorded_merge_is_removed_too(graph: Graph) -> None:
    graph.registry.register(SHOP, OLD, NEW)
    a_graph_of_two(graph)
    assert graph.merging.remove(SHOP, OLD)
    assert graph.relations(OLD) == [(RUNBOOK, "documents", OLD), (OLD, "depends_on", DATABASE)]


# -- reading by any name


def test_an_alias_in_a_document_applies_to_earlier_statements_until_it_is_removed(graph: Graph) -> None:
    a_graph_of_two(graph)
    graph.write("k3", (NEW, "calls", DATABASE), aliases=((OLD, NEW),))
    assert len(graph.relations(OLD)) == 3
    graph.store.remove(f"{SHOP.key}/k3", SHOP)
    assert graph.relations(OLD) == [(RUNBOOK, "documents", OLD), (OLD, "depends_on", DATABASE)]
    assert graph.relations(NEW) == [(NEW, "depends_on", DATABASE)]


@pytest.fixture
def named(graph: Graph) -> Graph:
    """A graph where an alias of the client applies to statements of a project's documents."""
    a_graph_of_two(graph)
    graph.registry.register(ACME, OLD, NEW)
    return graph


def test_only_the_newest_edges_of_all_names_are_read(named: Graph) -> None:
    for number in range(4):
        named.write(
            f"n{number}", (OLD if number % 2 else NEW, "calls", f"service:{number}"), at=f"2026-03-0{number + 1}"
        )
    edges, cut = named.reads.edges(READER, OLD, Walk(fan_out=3))
    assert [edge.target for edge in edges] == ["service:3", "service:2", "service:1"]
    assert cut
    assert named.reads.edges(READER, "service:nothing", Walk()) == ([], False)


def test_several_nodes_are_read_together_by_any_name(named: Graph) -> None:
    found = named.reads.edges_of(READER, [OLD, DATABASE, NEW, "host:none"], Walk())
    assert found[OLD] == found[NEW]
    assert set(found) == {OLD, NEW, DATABASE}
    assert [node.key for node in named.reads.nodes(READER, [DATABASE, OLD, NEW, "host:none"])] == [DATABASE, NEW]


def test_a_node_exists_under_any_of_its_names(named: Graph) -> None:
    named.registry.register(SHOP, "service:short", "host:none")
    requested = [OLD, NEW, DATABASE, "host:none", "service:short"]
    assert named.reads.existing(READER, requested) == {OLD: NEW, NEW: NEW, DATABASE: DATABASE}


def test_the_newest_value_of_a_property_wins(named: Graph) -> None:
    (node,) = named.reads.nodes(READER, [OLD])
    assert node.properties == {"owner": "bob"}
    named.write("k3", (OLD, "calls", DATABASE), at="2026-03-01", owner="eve")
    (node,) = named.reads.nodes(READER, [OLD])
    assert node.properties == {"owner": "eve"}


def test_a_node_is_listed_only_with_its_canonical_type(named: Graph) -> None:
    named.write("k3", ("host:db", "runs", "product:x"))
    named.registry.register(ACME, "host:db", DATABASE)
    assert named.reads.of_type(READER, "host") == []


def test_edges_between_two_nodes_are_found_by_any_name(named: Graph) -> None:
    (edge,) = named.reads.between(READER, DATABASE, OLD)
    assert (edge.source, len(edge.evidence)) == (NEW, 2)
    assert named.reads.between(READER, OLD, NEW) == []


def test_chunks_lead_to_the_node_by_its_canonical_reference(named: Graph) -> None:
    found = named.reads.references(READER, [(f"{SHOP.key}/k1", "k1-0")])
    assert set(found["k1-0"]) == {NEW, DATABASE, RUNBOOK}


def test_a_node_is_listed_once_and_found_by_the_beginning_of_any_name(named: Graph) -> None:
    assert [node.key for node in named.reads.of_type(READER, "service")] == [NEW, DATABASE]
    assert [node.key for node in named.reads.of_type(READER, "service", begins_with=OLD)] == [NEW]
