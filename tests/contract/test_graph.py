"""Contract tests of the graph and of its queue of documents to link again, over SQLite and DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.adapters.embedded.database import Database, open_database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.graph import Direction, NodeStatement, Statements, Walk
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.errors import InvalidInputError
from opx.graph import manifest, rows
from opx.graph import store as graph_store
from opx.graph.relink_queue import NAMES_A_ROW, PARTITION, RelinkQueue
from opx.graph.store import GraphStore
from opx.ports import Item, Table
from opx.ports.tables import GRAPH
from opx_aws.table import DynamoTable
from opx_testing.fake_time import FakeTime
from tests.support.dynamo_tables import create_table
from tests.support.graph_support import ACME, GLOBAL, Renaming, a_node, an_edge, an_origin, stating

ALL = (*GLOBAL, ACME.key)
DEPENDS = an_edge("web", "depends_on", "db")


@pytest.fixture
def names() -> Renaming:
    return Renaming()


@pytest.fixture
def store(table: Table, time: FakeTime, names: Renaming) -> GraphStore:
    return GraphStore(table, time.clock, aliases=names)  # type: ignore[arg-type]


def edge_texts(store: GraphStore, key: str = "web", walk: Walk = Walk(), scopes: tuple[str, ...] = ALL) -> list[str]:  # noqa: B008
    """The edges of a service as strings."""
    edges, _ = store.edges(scopes, f"service:{key}", walk)
    return [f"{edge.source} {edge.edge_type} {edge.target}".replace("service:", "") for edge in edges]


def is_empty(store: GraphStore, *keys: str) -> bool:
    wanted = [f"service:{key}" for key in keys]
    listed = store.of_type(ALL, "service") + store.nodes(ALL, wanted)
    return not listed and not any(edge_texts(store, key) for key in keys) and not store.existing(ALL, wanted)


class WritingContract:
    """Writes, additions and removals of documents."""

    def test_an_empty_graph_has_no_nodes(self, store: GraphStore) -> None:
        assert is_empty(store, "web", "db")
        assert store.between(ALL, "service:web", "service:db") == []
        assert store.references(ALL, [("k", "c"), ("", "")]) == {}
        assert store.of_type(ALL, "service", begins_with="service:w") == []
        store.remove("unknown", Scope())

    def test_an_edge_has_its_chunks_as_evidence_and_both_ends_are_nodes(self, store: GraphStore) -> None:
        store.write(an_origin(), stating(an_edge("web", "depends_on", "db", "c1", "c2")))
        ((edge,), more) = store.edges(GLOBAL, "service:web", Walk())
        assert not more
        assert edge.evidence_chunk_ids == ("c1", "c2")
        assert edge.evidence[0].document_id == "k1-d1"
        assert [
            (node.key, node.type, node.rag_chunks) for node in store.nodes(GLOBAL, ["service:web", "service:db"])
        ] == [
            ("service:web", "service", ("c1", "c2")),
            ("service:db", "service", ("c1", "c2")),
        ]

    def test_writing_again_changes_nothing(self, store: GraphStore) -> None:
        for _ in range(2):
            store.write(an_origin(), stating(DEPENDS, DEPENDS, a_node("web", "c2", owner="ada")))
        assert edge_texts(store) == ["web depends_on db"]
        (node,) = store.nodes(ALL, ["service:web"])
        assert (node.rag_chunks, node.properties) == (("c2", "c1"), {"owner": "ada"})

    def test_a_new_version_replaces_the_statements(self, store: GraphStore) -> None:
        store.write(an_origin(), stating(DEPENDS, an_edge("web", "calls", "cache")))
        store.write(an_origin(document="d2"), stating(an_edge("web", "calls", "cache", "c9")))
        assert edge_texts(store) == ["web calls cache"]
        assert [node.key for node in store.of_type(ALL, "service")] == ["service:cache", "service:web"]
        assert store.edges(ALL, "service:web", Walk())[0][0].evidence_chunk_ids == ("c9",)
        assert store.references(ALL, [("global/k1", "c1")]) == {}

    def test_a_version_without_statements_leaves_nothing(self, store: GraphStore) -> None:
        store.write(an_origin(), stating(DEPENDS))
        store.write(an_origin(document="d2"), Statements())
        assert is_empty(store, "web", "db")

    def test_an_edge_is_deleted_with_its_last_evidence(self, store: GraphStore) -> None:
        store.write(an_origin("k1"), stating(DEPENDS))
        store.write(an_origin("k2"), stating(an_edge("web", "depends_on", "db", "c7")))
        store.remove("global/k1", Scope())
        assert store.edges(ALL, "service:web", Walk())[0][0].evidence_chunk_ids == ("c7",)
        store.remove("global/k2", Scope())
        assert is_empty(store, "web", "db")

    def test_removing_another_version_removes_nothing(self, store: GraphStore) -> None:
        store.write(an_origin(), stating(DEPENDS))
        store.remove("global/k1", Scope(), document_ids=["k1-d2"])
        assert edge_texts(store) == ["web depends_on db"]
        store.remove("global/k1", Scope(), document_ids=["k1-d1", "k1-d2"])
        assert is_empty(store, "web", "db")

    def test_added_statements_are_joined_to_the_others(self, store: GraphStore) -> None:
        store.write(an_origin(), stating(DEPENDS))
        assert store.add(an_origin(), stating(DEPENDS, an_edge("web", "mentions", "cache")))
        assert edge_texts(store) == ["web depends_on db", "web mentions cache"]
        assert store.references(ALL, [("global/k1", "c1")]) == {"c1": ("service:cache", "service:db", "service:web")}
        store.remove("global/k1", Scope())
        assert is_empty(store, "web", "db", "cache")

    def test_an_added_statement_about_a_node_joins_its_evidence(self, store: GraphStore) -> None:
        about = NodeStatement("service:web", "service", {"title": "Web"}, ("c1",), declared=True)
        store.write(an_origin(), Statements(own="service:web", nodes=(about,)))
        for _ in range(2):
            store.add(an_origin(), stating(an_edge("web", "mentions", "cache", "c2")))
        (web,) = store.nodes(ALL, ["service:web"])
        assert (web.declared, web.properties) == (True, {"title": "Web"})
        assert [one.chunk_ids for one in web.evidence] == [("c1", "c2")]
        assert store.references(ALL, [("global/k1", "c2")])["c2"] == ("service:cache", "service:web")

    def test_nothing_is_added_to_another_version(self, store: GraphStore) -> None:
        assert not store.add(an_origin(), stating(DEPENDS))
        store.write(an_origin(), stating(DEPENDS))
        assert not store.add(an_origin(document="d2"), stating(an_edge("web", "mentions", "cache")))
        assert edge_texts(store) == ["web depends_on db"]

    def test_a_statement_without_evidence_or_a_valid_form_is_refused(self, store: GraphStore) -> None:
        for wrong in (
            an_edge("web", "calls", "db", ""),
            a_node("web", ""),
            an_edge("web", "", "db"),
            an_edge("web", "ca#lls", "db"),
            an_edge("x" * 600, "calls", "db"),
            an_edge("web", "calls", "service:"),
        ):
            with pytest.raises(InvalidInputError):
                store.write(an_origin(), stating(DEPENDS, wrong))
        assert is_empty(store, "web", "db")

    def test_a_document_key_of_another_scope_is_refused(self, store: GraphStore) -> None:
        store.write(an_origin(), stating(DEPENDS))
        with pytest.raises(InvalidInputError, match="another scope"):
            store.remove("global/k1", ACME)
        assert edge_texts(store) == ["web depends_on db"]

    def test_a_chunk_with_many_statements_has_several_entries(
        self, store: GraphStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(manifest, "MARKS_A_PAGE", 3)
        keys = [f"s{number}" for number in range(7)]
        store.write(an_origin(), stating(*(an_edge("web", "calls", key) for key in keys)))
        assert len(store.references(ALL, [("global/k1", "c1")])["c1"]) == 8
        store.write(an_origin(), stating(an_edge("web", "calls", "s0")))
        assert store.references(ALL, [("global/k1", "c1")]) == {"c1": ("service:s0", "service:web")}
        store.remove("global/k1", Scope())
        assert is_empty(store, "web", *keys)


class ReadingContract:
    """Reads, their selection and order."""

    def test_other_scopes_are_invisible(self, store: GraphStore) -> None:
        store.write(an_origin(), stating(DEPENDS))
        store.write(
            an_origin(scope=ACME), stating(an_edge("web", "calls", "secret", "c2"), a_node("web", "c2", owner="x"))
        )
        assert edge_texts(store, scopes=GLOBAL) == ["web depends_on db"]
        assert edge_texts(store, scopes=("client:acme2", "client:acme/project:p", "client:*", "")) == []
        assert store.nodes(GLOBAL, ["service:web"])[0].properties == {}
        assert store.nodes(GLOBAL, ["service:secret"]) == []
        assert [node.key for node in store.of_type(GLOBAL, "service")] == ["service:db", "service:web"]
        assert store.between(GLOBAL, "service:web", "service:secret") == []
        assert store.references(GLOBAL, [("client:acme/k1", "c2")]) == {}
        assert store.existing(GLOBAL, ["service:secret", "service:db"]) == {"service:db": "service:db"}
        assert edge_texts(store) == ["web calls secret", "web depends_on db"]

    def test_evidence_of_several_scopes_belongs_to_one_edge(self, store: GraphStore) -> None:
        store.write(an_origin(), stating(DEPENDS))
        store.write(an_origin(scope=ACME), stating(an_edge("web", "depends_on", "db", "c2", at="2026-11-05")))
        ((edge,), _) = store.edges(ALL, "service:web", Walk())
        assert [one.key_id for one in edge.evidence] == ["client:acme/k1", "global/k1"]
        assert edge.at == "2026-11-05"

    def test_edges_are_selected_by_direction_type_and_time(self, store: GraphStore) -> None:
        store.write(
            an_origin(),
            stating(
                an_edge("web", "calls", "a", at="2026-11-03T10:00:00Z"),
                an_edge("web", "affects", "b", at="2026-11-02T12:00:00+02:00"),
                an_edge("c", "calls", "web", at="2026-11-01"),
            ),
        )
        assert edge_texts(store) == ["web calls a", "web affects b", "c calls web"]
        assert edge_texts(store, walk=Walk(direction=Direction.OUT)) == ["web calls a", "web affects b"]
        assert edge_texts(store, walk=Walk(direction=Direction.IN)) == ["c calls web"]
        assert edge_texts(store, walk=Walk(edge_types=("calls",))) == ["web calls a", "c calls web"]
        for types in ((), ("calls", "affects")):
            assert edge_texts(store, walk=Walk(edge_types=types, since="2026-11-02T10:00:00Z")) == [
                "web calls a",
                "web affects b",
            ]
            assert edge_texts(store, walk=Walk(edge_types=types, until="2026-11-02")) == [
                "web affects b",
                "c calls web",
            ]
            assert edge_texts(store, walk=Walk(edge_types=types, since="2026-11-02", until="2026-11-02")) == [
                "web affects b"
            ]
        with pytest.raises(InvalidInputError, match="since"):
            store.edges(ALL, "service:web", Walk(since="yesterday"))

    def test_of_a_node_with_many_edges_the_newest_of_all_types_are_read(self, store: GraphStore) -> None:
        edges = [
            an_edge(f"s{day:02}", ("affects", "calls", "mentions")[day % 3], "hub", at=f"2026-11-{day:02}")
            for day in range(1, 15)
        ]
        store.write(an_origin(), stating(*edges))
        found, more = store.edges(ALL, "service:hub", Walk(fan_out=4))
        assert more
        assert [edge.at for edge in found] == ["2026-11-14", "2026-11-13", "2026-11-12", "2026-11-11"]
        found, more = store.edges(ALL, "service:hub", Walk(fan_out=4, since="2026-11-02", until="2026-11-03"))
        assert not more
        assert [edge.at for edge in found] == ["2026-11-03", "2026-11-02"]

    def test_an_edge_with_much_evidence_does_not_hide_another(self, store: GraphStore) -> None:
        for number in range(6):
            store.write(an_origin(f"k{number}"), stating(an_edge("web", "calls", "db", at="2026-11-02")))
        store.write(an_origin("rare"), stating(an_edge("web", "calls", "cache", at="2026-11-01")))
        assert edge_texts(store, walk=Walk(fan_out=2)) == ["web calls db", "web calls cache"]

    def test_properties_are_those_of_the_most_trusted_then_the_newest(self, store: GraphStore) -> None:
        store.write(
            an_origin("k1", trust=0.7, updated="2026-11-09"), stating(a_node("web", tier="3", team="a", lang="go"))
        )
        store.write(an_origin("k2", updated="2026-11-01"), stating(a_node("web", tier="1", team="b")))
        store.write(an_origin("k3", updated="2026-11-02"), stating(a_node("web", tier="2")))
        store.write(an_origin("k4", trust=0.5), stating(a_node("web", declared=True)))
        store.write(an_origin("k5", trust=0.4), replace(stating(a_node("web", declared=True)), own="service:web"))
        (node,) = store.nodes(ALL, ["service:web"])
        assert node.properties == {"tier": "2", "team": "b", "lang": "go"}
        assert [one.document_id for one in node.evidence] == ["k5-d1", "k4-d1", "k3-d1", "k2-d1", "k1-d1"]
        assert node.declared

    def test_the_best_statements_about_a_node_are_read(
        self, store: GraphStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in (rows, graph_store):
            monkeypatch.setattr(module, "MOST_EVIDENCE", 3)
        for number in range(5):
            store.write(an_origin(f"k{number}"), stating(a_node("web")))
        store.write(an_origin("last", trust=0.9), stating(a_node("web", declared=True, owner="ada")))
        (node,) = store.nodes(ALL, ["service:web"])
        assert (len(node.evidence), node.declared, dict(node.properties)) == (3, True, {"owner": "ada"})

    def test_declared_nodes_are_listed_separately(self, store: GraphStore) -> None:
        store.write(an_origin("k1"), stating(a_node("web", declared=True), a_node("db")))
        store.write(an_origin("k2"), stating(a_node("web", declared=True), a_node("cache")))
        declared = store.of_type(ALL, "service", declared=True)
        assert [(node.key, node.declared) for node in declared] == [("service:web", True)]
        assert [node.key for node in store.of_type(ALL, "service", limit=2)] == ["service:cache", "service:db"]
        assert [node.key for node in store.of_type(ALL, "service", begins_with="service:w")] == ["service:web"]

    def test_references_with_any_characters_are_found(self, store: GraphStore) -> None:
        keys = ["größe/日本", "a#b", "a|b", "x/?a=1#b%c", "\U0001f525"]
        edges = [edge for key in keys for edge in (an_edge("a", "calls", key), an_edge(key, "calls", "b"))]
        store.write(an_origin(), stating(*edges))
        for key in keys:
            assert edge_texts(store, key) == [f"a calls {key}", f"{key} calls b"]
            assert len(store.between(ALL, f"service:{key}", "service:a")) == 1
        assert store.between(ALL, "service:a", "service:a") == []
        store.remove("global/k1", Scope())
        assert is_empty(store, "a", "b", *keys)

    def test_statements_of_a_document_have_their_stated_references(self, store: GraphStore, names: Renaming) -> None:
        names.names = {"service:db": "service:database"}
        store.write(an_origin(), replace(stating(DEPENDS), own="service:web"))
        store.add(an_origin(), stating(a_node("db")))
        stated = store.statements_of("global/k1")
        assert stated.own == "service:web"
        assert [(edge.source, edge.edge_type, edge.target, edge.chunk_ids) for edge in stated.edges] == [
            ("service:web", "depends_on", "service:db", ("c1",))
        ]
        assert [node.key for node in stated.nodes] == ["service:db", "service:web"]


class MergingContract:
    """Merged references, and undone merges."""

    def test_rows_are_filed_under_canonical_references(self, store: GraphStore, names: Renaming) -> None:
        names.names = {"service:db": "service:database"}
        store.write(an_origin(), stating(DEPENDS))
        assert edge_texts(store) == ["web depends_on database"]
        (edge,) = store.between(ALL, "service:database", "service:web")
        assert edge.evidence[0].stated == ("service:web", "service:db")
        assert store.references(ALL, [("global/k1", "c1")]) == {"c1": ("service:database", "service:web")}
        assert edge_texts(store, "db") == []
        store.remove("global/k1", Scope())
        assert is_empty(store, "web", "db", "database")

    def test_a_merge_moves_edges_with_their_evidence_and_undoing_restores_them(
        self, store: GraphStore, names: Renaming
    ) -> None:
        store.write(an_origin("k1"), stating(DEPENDS, a_node("db", declared=True)))
        store.write(an_origin("k2"), stating(an_edge("api", "calls", "database"), an_edge("db", "runs", "engine")))
        before = [edge_texts(store, key) for key in ("web", "db", "database")]
        names.names = {"service:db": "service:database"}
        assert store.rewrite(Scope(), "service:db") > 0
        assert edge_texts(store, "db") == []
        assert edge_texts(store, "database") == [
            "api calls database",
            "database runs engine",
            "web depends_on database",
        ]
        assert store.of_type(ALL, "service", declared=True)[0].key == "service:database"
        assert "service:db" not in {node.key for node in store.of_type(ALL, "service")}
        assert store.rewrite(Scope(), "service:db") == 0
        store.write(an_origin("k3"), stating(an_edge("batch", "calls", "db")))
        names.names = {}
        store.rewrite(Scope(), "service:database")
        assert edge_texts(store, "db") == ["batch calls db", "db runs engine", "web depends_on db"]
        assert [edge_texts(store, "web"), edge_texts(store, "database")] == [before[0], before[2]]
        for key in ("k1", "k2", "k3"):
            store.remove(f"global/{key}", Scope())
        assert is_empty(store, "web", "db", "database", "api", "engine", "batch")

    def test_a_merge_stays_in_its_scope(self, store: GraphStore, names: Renaming) -> None:
        store.write(an_origin(), stating(DEPENDS))
        names.names = {"service:db": "service:database"}
        assert store.rewrite(ACME, "service:db") == 0
        assert edge_texts(store) == ["web depends_on db"]

    def test_aliases_that_a_document_states_are_registered_and_removed(
        self, store: GraphStore, names: Renaming
    ) -> None:
        aliases = (("service:pg", "service:db"),)
        store.write(an_origin(), Statements(nodes=(a_node("db"),), aliases=aliases))
        store.remove("global/k1", Scope(), document_ids=["k1-d1"])
        store.remove("global/k1", Scope())
        assert names.stated == [("global/k1", aliases), ("global/k1", ())]


class GraphContract(WritingContract, ReadingContract, MergingContract):
    pass


class TestEmbeddedGraph(GraphContract):
    @pytest.fixture
    def table(self, tmp_path: Path, time: FakeTime) -> Iterator[SqliteTable]:
        database = open_database(tmp_path / "opx.sqlite")
        with ExitStack() as stack:
            stack.callback(database.close)
            stack.enter_context(database.transaction())
            yield SqliteTable(GRAPH, database, clock=time.clock)


class TestDynamoGraph(GraphContract):
    @pytest.fixture
    def table(self, aws: boto3.Session, time: FakeTime) -> DynamoTable:
        client: Any = aws.client("dynamodb")
        create_table(client, GRAPH, "test-")
        return DynamoTable(GRAPH, client, prefix="test-", clock=time.clock, sleep=time.sleep)


HOSTS = ["host:db-1", "host:db-2", "service:büro"]


class RelinkQueueContract:
    @pytest.fixture
    def queue(self, table: Table, time: FakeTime) -> RelinkQueue:
        return RelinkQueue(table, time.clock)

    def waiting(self, queue: RelinkQueue) -> list[str]:
        return sorted(name for row in queue.waiting() for name in row.names)

    def test_an_empty_queue_has_nothing_waiting(self, queue: RelinkQueue) -> None:
        assert queue.waiting() == []
        assert list(queue.items_of(["global"])) == []
        queue.take([], 5)

    def test_names_of_a_document_wait_in_one_row_until_they_are_taken(self, queue: RelinkQueue) -> None:
        added = queue.add(an_origin(scope=ACME), HOSTS)
        assert len(added) == 1
        assert queue.waiting() == added
        assert (added[0].scope_key, list(added[0].names)) == (ACME.key, HOSTS)
        queue.take(added, len(HOSTS))
        assert queue.waiting() == []
        queue.take(added, len(HOSTS))

    def test_many_names_are_split_into_rows(self, queue: RelinkQueue) -> None:
        many = [f"host:h-{number:03}-{'x' * 490}" for number in range(NAMES_A_ROW + 1)]
        assert [len(row.names) for row in queue.add(an_origin(), many)] == [NAMES_A_ROW, 1]
        assert self.waiting(queue) == many

    def test_adding_again_replaces_the_row(self, queue: RelinkQueue) -> None:
        queue.add(an_origin(), HOSTS)
        again = queue.add(an_origin(), HOSTS)
        assert queue.waiting() == again

    def test_a_row_that_was_added_again_meanwhile_stays(self, queue: RelinkQueue) -> None:
        seen = queue.add(an_origin(), HOSTS)
        queue.add(an_origin(), HOSTS)
        queue.take(seen, len(HOSTS))
        assert self.waiting(queue) == HOSTS

    def test_another_version_with_other_names_keeps_those_of_the_first(self, queue: RelinkQueue) -> None:
        queue.add(an_origin(), HOSTS[:2])
        queue.add(an_origin(document="d2"), HOSTS[2:])
        assert self.waiting(queue) == HOSTS

    @pytest.mark.parametrize(("count", "left"), [(0, HOSTS), (1, HOSTS[1:]), (2, HOSTS[2:]), (4, [])])
    def test_the_names_behind_those_that_are_done_stay(self, queue: RelinkQueue, count: int, left: list[str]) -> None:
        rows = [*queue.add(an_origin("a"), HOSTS[:2]), *queue.add(an_origin("b"), HOSTS[2:])]
        queue.take(rows, count)
        assert self.waiting(queue) == left
        queue.take(queue.waiting(), len(HOSTS))
        assert queue.waiting() == []

    def test_rows_are_listed_by_age(self, queue: RelinkQueue, time: FakeTime) -> None:
        old = queue.add(an_origin("old"), HOSTS)
        time.now += 60
        queue.add(an_origin("young"), HOSTS)
        assert queue.waiting(seconds=60) == old
        assert len(queue.waiting()) == 2

    def test_rows_are_listed_by_scope(self, queue: RelinkQueue) -> None:
        for scope in (Scope(), ACME, Scope("acme-b"), Scope("acme", project_id="shop")):
            queue.add(an_origin(scope=scope), HOSTS)
        assert [item["scope"] for item in queue.items_of([ACME.key])] == [ACME.key]

    def test_a_damaged_row_hides_no_other(self, queue: RelinkQueue, table: Table) -> None:
        whole = queue.add(an_origin("a"), HOSTS)[0].to_item()
        damages: list[Item] = [{"names": []}, {"names": ["x"]}, {"names": 1}, {"scope": "?"}, {"since": "x"}]
        for number, damage in enumerate(damages):
            table.put({**whole, "entry": f"global|b#{number}", **damage})
        table.put({"place": PARTITION, "entry": "global|c#1", "scope": "global"})
        queue.take(queue.waiting(), len(HOSTS))
        queue.add(an_origin(), HOSTS)
        assert self.waiting(queue) == HOSTS


class TestEmbeddedRelinkQueue(RelinkQueueContract):
    @pytest.fixture
    def table(self, database: Database, time: FakeTime) -> SqliteTable:
        return SqliteTable(GRAPH, database, clock=time.clock)


class TestDynamoRelinkQueue(RelinkQueueContract):
    @pytest.fixture
    def table(self, aws: boto3.Session, time: FakeTime) -> DynamoTable:
        client: Any = aws.client("dynamodb")
        create_table(client, GRAPH, "test-")
        return DynamoTable(GRAPH, client, prefix="test-", clock=time.clock, sleep=time.sleep)
