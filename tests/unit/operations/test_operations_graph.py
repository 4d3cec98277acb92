"""Operations on the graph, called as they are: what goes out, what is refused, and what agents read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.domain.graph import Direction, EdgeStatement, NodeStatement
from opx.domain.policy import Action
from opx.domain.requests import RequestError, read_request
from opx.domain.scopes import Identity
from opx.errors import InvalidInputError, InvalidReferenceError, MergeNotFoundError, NodeNotFoundError
from opx.operations import graph
from opx.operations.context import Caller, Context
from opx.operations.graph_answers import RelatedThings, RelationChain
from opx.operations.registry import REGISTRY
from opx.operations.system import System
from tests.support.agent_calls import a_system
from tests.support.graph_support import CHECKOUT, PAYMENTS, STATED_EDGES, TEXTS, seed_graph, write

NOW = 1_775_000_000.0
"""2026-03-31T23:33:20Z."""

DAY = 86_400.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home"), {}, clock=lambda: NOW) as system:
        seed_graph(system)
        yield system


@pytest.fixture
def changed(tmp_path: Path) -> Iterator[System]:
    """A system for a test that changes something."""
    with a_system(tmp_path, {}, clock=Clock()) as system:
        seed_graph(system)
        yield system


def by(services: System, client_id: str = "", principal: str = "") -> Context:
    return Context(services, Caller(Identity(client_id, principal=principal)))


def do(context: Context, name: str, **given: object) -> Any:
    """The reply's record, to a request as it comes over HTTP."""
    operation = REGISTRY.get(name)
    assert operation is not None
    reply = operation.run(context, read_request(operation.request, given))
    return reply.record() if hasattr(reply, "record") else reply


READING: dict[str, dict[str, object]] = {
    "get_node": {"ref": "service:checkout"},
    "list_neighbours": {"ref": "service:checkout", "hops": 3},
    "find_path": {"from": "runbook:checkout", "to": "host:db-01"},
    "find_nodes": {"q": "che"},
    "list_changes": {"ref": "service:checkout"},
    "list_affected": {"cve": "CVE-2026-0001"},
    "get_graph_coverage": {"since": "12h"},
    "find_related": {"reference": "service:checkout"},
    "explain_relation": {"fromReference": "runbook:checkout", "toReference": "host:db-01"},
}


@pytest.mark.parametrize("name", READING)
def test_replies_come_back_as_they_went_out(services: System, name: str) -> None:
    reply = do(by(services), name, **READING[name])
    assert type(reply).from_json(reply.to_json()) == reply


@pytest.mark.parametrize("name", READING)
def test_the_keys_of_documents_stay_inside(services: System, name: str) -> None:
    reply = json.dumps(do(by(services, "acme"), name, **READING[name]).to_json())
    assert name == "get_graph_coverage" or "service:" in reply
    assert "keyId" not in reply
    assert "scopeKey" not in reply


class TestThings:
    def test_relations_of_a_thing_come_newest_first_with_their_proof(self, services: System) -> None:
        found = do(by(services), "get_node", ref="service:payments")
        assert [edge.other("service:payments") for edge in found.edges] == [
            "change:42",
            "host:db-01",
            "service:checkout",
        ]
        proofs = {passage.chunk_id for passage in found.passages}
        assert all(proofs.issuperset(edge.evidence_chunk_ids) for edge in found.edges)
        assert not found.more
        assert do(by(services), "get_node", ref="service:payments", limit=1).more

    def test_neighbours_name_the_relations_that_lead_to_them(self, services: System) -> None:
        found = do(by(services), "list_neighbours", ref="service:checkout", hops=2, direction="out")
        ways = {one.key: [edge.edge_type for edge in path] for one, path in found.related}
        assert ways == {"service:payments": ["depends_on"], "host:db-01": ["depends_on", "hosted_on"]}

    @pytest.mark.parametrize("written", ["AFFECTS", "affects"])
    def test_types_and_times_bound_a_walk_as_they_are_written(self, services: System, written: str) -> None:
        found = do(by(services), "list_neighbours", ref="service:payments", type=[written], since="1d")
        assert [one.key for one, _ in found.related] == ["change:42"]
        assert do(by(services), "list_neighbours", ref="service:payments", type=[written], until="1d").related == ()

    def test_contradictions_are_pairs_of_relations(self, changed: System) -> None:
        write(changed, PAYMENTS, [EdgeStatement("service:payments", "depends_on", "service:checkout")])
        ((one, other),) = do(by(changed), "list_neighbours", ref="service:checkout").contradicting
        assert {one.name, other.name} == {
            ("service:checkout", "depends_on", "service:payments"),
            ("service:payments", "depends_on", "service:checkout"),
        }

    def test_changes_are_those_of_the_side_that_is_wanted(self, services: System) -> None:
        upstream = do(by(services), "list_changes", ref="service:checkout")
        assert [row.key for row in upstream.rows] == ["change:42"]
        assert upstream.passages
        assert do(by(services), "list_changes", ref="service:checkout", side="downstream").rows == ()

    def test_things_of_other_clients_are_unknown(self, services: System) -> None:
        for client, theirs in (("acme", "service:ledger"), ("other", "service:vault")):
            with pytest.raises(NodeNotFoundError):
                do(by(services, client), "get_node", ref=theirs)
            with pytest.raises(NodeNotFoundError):
                do(by(services, client), "explain_relation", fromReference="service:checkout", toReference=theirs)
            related = do(by(services, client), "find_related", reference="service:checkout", hops=3)
            assert theirs not in json.dumps(related.to_json())

    @pytest.mark.parametrize(
        ("name", "given", "problem"),
        [
            ("get_node", {}, "ref is missing: A thing: namespace:value"),
            ("get_node", {"ref": " "}, "ref must have at least 1 characters that are not blank"),
            ("get_node", {"ref": "x" * 4001}, "ref may have at most 4,000 characters"),
            ("get_node", {"ref": "a:b", "limit": 501}, "limit must be a whole number from 1 to 500"),
            ("list_neighbours", {"ref": "a:b", "hops": 9}, "hops must be a whole number from 1 to 3"),
            ("list_neighbours", {"ref": "a:b", "direction": "up"}, "direction must be one of out, in, both"),
            ("list_neighbours", {"ref": "a:b", "type": ["t"] * 21}, "type may have at most 20 entries"),
            ("list_neighbours", {"ref": "a:b", "since": "x" * 41}, "since may have at most 40 characters"),
            ("list_changes", {"ref": "a:b", "side": "both"}, "side must be one of upstream, downstream"),
            ("find_nodes", {"q": "che", "type": ""}, "type must have at least 1 characters that are not blank"),
            ("get_graph_coverage", {"limit": 1001}, "limit must be a whole number from 1 to 1000"),
        ],
    )
    def test_requests_beyond_their_bounds_are_refused(
        self, services: System, name: str, given: dict[str, object], problem: str
    ) -> None:
        with pytest.raises(RequestError) as refused:
            do(by(services), name, **given)
        assert str(refused.value).startswith(problem)

    def test_times_and_types_that_are_none_are_refused(self, services: System) -> None:
        with pytest.raises(InvalidInputError, match="'soon' is not a time"):
            do(by(services), "list_neighbours", ref="service:checkout", since="soon")
        with pytest.raises(InvalidReferenceError, match="not an edge type"):
            do(by(services), "list_neighbours", ref="service:checkout", type=["!!"])


def test_passages_of_expired_documents_are_not_shown(tmp_path: Path) -> None:
    clock = Clock()
    with a_system(tmp_path, {}, clock=clock) as system:
        seed_graph(system)
        system.store.put(CHECKOUT, f"---\nexpires: 2026-04-02\n---\n{TEXTS[CHECKOUT]}".encode())
        list(system.manager.work())
        write(system, CHECKOUT, [EdgeStatement("service:checkout", "depends_on", "service:payments")])
        for days, shown in ((0, True), (2, False)):
            clock.now = NOW + days * DAY
            assert bool(do(by(system), "get_node", ref="service:checkout").passages) is shown
            assert bool(do(by(system), "find_related", reference="service:checkout").evidence) is shown


class TestNames:
    def test_an_alias_holds_in_the_callers_scope_and_names_who_set_it_there_alone(self, changed: System) -> None:
        everyone = by(changed, principal="ops")
        added = do(everyone, "add_alias", alias="service:kasse", canonical="service:checkout")
        assert (added.area, added.set_by) == ("global", "ops")
        assert do(everyone, "get_node", ref="service:kasse").node.key == "service:checkout"
        assert [one.set_by for one in do(everyone, "list_aliases").aliases] == ["ops"]
        assert [one.set_by for one in do(by(changed, "acme"), "list_aliases").aliases] == [""]
        assert not do(by(changed, "acme"), "remove_alias", alias="service:kasse").removed
        assert do(everyone, "remove_alias", alias="service:kasse").removed

    def test_a_merge_is_on_record_and_can_be_undone_in_its_own_scope(self, changed: System) -> None:
        context = by(changed, principal="ops")
        merge = do(context, "merge_nodes", **{"from": "host:db-01", "into": "service:payments"})
        assert (merge.state, merge.by) == ("merged", "ops")
        assert do(context, "get_node", ref="service:payments").aliases == ("host:db-01",)
        with pytest.raises(MergeNotFoundError):
            do(by(changed, "acme"), "undo_merge", mergeId=merge.merge_id)
        assert do(by(changed, "acme"), "list_merges").merges == ()
        undone = do(context, "undo_merge", mergeId=merge.merge_id)
        assert (undone.state, undone.undone_by) == ("undone", "ops")
        assert do(context, "list_merges").merges == (undone,)

    def test_nothing_is_merged_into_what_nobody_knows(self, changed: System) -> None:
        with pytest.raises(NodeNotFoundError, match="did you mean service:payments"):
            do(by(changed), "merge_nodes", **{"from": "host:db-01", "into": "service:paymnets"})
        assert do(by(changed), "list_merges").merges == ()

    def test_names_are_changed_by_writers_and_mentions_added_by_operators(self) -> None:
        names = ("add_alias", "remove_alias", "merge_nodes", "undo_merge", "relink", "list_aliases")
        actions = [operation.actions for name in names if (operation := REGISTRY.get(name))]
        assert actions == [*[(Action.WRITE,)] * 4, (Action.ADMINISTER,), (Action.READ,)]

    def test_documents_mention_what_was_declared_after_them(self, changed: System) -> None:
        declared = NodeStatement("service:payments", "service", declared=True)
        write(changed, PAYMENTS, STATED_EDGES[PAYMENTS], [declared])
        done = graph.relink(by(changed), graph.Relink())
        assert (done.names, done.left_out) == (1, ())


class TestAgents:
    def test_related_things_are_text_with_numbered_proof(self, services: System) -> None:
        request = graph.FindRelated(reference="service:checkout", direction=Direction.OUT)
        text = graph.find_related(by(services), request).text()
        assert text.startswith("Things related to service:checkout, the nearest first:\n\n1 step away:\n")
        assert "- service:payments: service:checkout depends on service:payments (2026-03-01) [1]" in text
        assert "[1] Source: Checkout is slow > Dependencies\n\n" in text

    def test_edge_types_are_separated_by_commas(self, services: System) -> None:
        found = do(by(services), "find_related", reference="service:payments", edgeTypes="affects, HOSTED-ON,")
        assert isinstance(found, RelatedThings)
        assert {one.key for one in found.related} == {"change:42", "host:db-01"}

    def test_a_name_alone_is_enough_where_one_thing_has_it(self, services: System) -> None:
        assert do(by(services), "find_related", reference="Payments").reference == "service:payments"
        with pytest.raises(InvalidReferenceError, match="'checkout' may be service:checkout, runbook:checkout: write"):
            do(by(services), "find_related", reference="checkout")
        with pytest.raises(NodeNotFoundError, match="no node has the name 'ledger'"):
            do(by(services), "find_related", reference="ledger")

    def test_a_connection_is_explained_step_by_step(self, services: System) -> None:
        found = do(by(services), "explain_relation", fromReference="runbook:checkout", toReference="host:db-01")
        assert isinstance(found, RelationChain)
        assert [step.edge_type for step in found.steps] == ["documents", "depends_on", "hosted_on"]
        assert (found.connected, found.partial, found.untrusted) == (True, False, False)

    def test_passages_go_before_things_do(self, services: System) -> None:
        request = graph.ExplainRelation(from_reference="runbook:checkout", to_reference="host:db-01")
        shorter = graph.explain_relation(by(services), request).shortened()
        assert shorter is not None
        assert (len(shorter.record().evidence), len(shorter.record().steps)) == (1, 3)
        assert "1 more passages or things were left out" in shorter.text()
        assert shorter.shortened() is None
