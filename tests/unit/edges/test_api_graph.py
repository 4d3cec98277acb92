"""The HTTP API's operations on nodes and relations: visibility and permissions per caller, and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lambdas.manage_knowledge.handler import make_handler as make_managing
from lambdas.retrieve_knowledge.handler import make_handler
from opx.operations.system import System
from tests.support.agent_calls import a_system
from tests.support.api_requests import Handler, a_request, a_token, call, check_described, refusal
from tests.support.fakes import FakeContext
from tests.support.graph_support import seed_graph

pytestmark = pytest.mark.usefixtures("json_logs")

ACME, OTHER, READER, ADMIN = a_token("acme"), a_token("other"), a_token("acme", scopes=""), a_token(scopes="opx/admin")
READING = {
    "get_node": {"ref": "service:checkout"},
    "list_neighbours": {"ref": "service:checkout", "hops": 3, "type": ["depends_on", "hosted-on"]},
    "find_path": {"from": "runbook:checkout", "to": "host:db-01"},
    "find_nodes": {"q": "che"},
    "list_changes": {"ref": "service:checkout"},
    "list_affected": {"cve": "CVE-2026-0001"},
    "get_graph_coverage": {},
    "list_aliases": {},
    "list_merges": {},
}
OF_ONE = ("get_node", "list_neighbours", "list_changes")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home"), {}) as system:
        seed_graph(system)
        yield system


@pytest.fixture
def managing(services: System) -> Handler:
    return make_managing(lambda: services)


def keys(answer: tuple[int, Any]) -> set[str]:
    status, found = answer
    assert status == 200, found
    return {one["key"] for one in found["reached"]} - {found["start"]}


@pytest.mark.parametrize("name", READING)
def test_replies_are_as_declared(handler: Handler, name: str) -> None:
    status, found = call(handler, name, query=READING[name])
    assert status == 200, found
    check_described(name, found)


def test_a_caller_sees_own_relations_and_those_of_everybody_and_no_others(handler: Handler) -> None:
    query = {"ref": "service:checkout", "direction": "in", "type": "depends_on"}
    assert keys(call(handler, "list_neighbours", query=query)) == set()
    assert keys(call(handler, "list_neighbours", query=query, caller=ACME)) == {"service:vault"}
    assert keys(call(handler, "list_neighbours", query=query, caller=OTHER)) == {"service:ledger"}


@pytest.mark.parametrize("name", OF_ONE)
def test_a_reference_of_another_client_is_answered_like_an_unknown_one(handler: Handler, name: str) -> None:
    def reply(reference: str) -> bytes:
        event = a_request(name, query={"ref": reference}, caller=ACME)
        return str(handler(event, FakeContext())).replace(reference, "REFERENCE").encode()

    theirs, nobodys = reply("service:ledger"), reply("service:lodger")
    assert theirs == nobodys
    assert b"'statusCode': 404" in theirs


def test_either_end_of_a_path_may_be_unknown_alike(handler: Handler) -> None:
    for pair in (("service:ledger", "service:checkout"), ("service:checkout", "service:ledger")):
        answer = call(handler, "find_path", query=dict(zip(("from", "to"), pair, strict=True)), caller=ACME)
        assert refusal(answer) == (404, "not_found")
        assert answer[1]["error"]["message"] == "nothing here is about service:ledger"


def test_near_names_are_those_that_the_caller_may_see(handler: Handler) -> None:
    query = {"ref": "service:vaultt"}
    assert call(handler, "get_node", query=query)[1]["error"]["message"] == "nothing here is about service:vaultt"
    message = call(handler, "get_node", query=query, caller=ACME)[1]["error"]["message"]
    assert message == "nothing here is about service:vaultt; did you mean service:vault?"


@pytest.mark.parametrize("reference", ["service:*", "service:%", "service:?", "*:checkout_", "service:checkout#"])
def test_there_are_no_wild_characters(handler: Handler, reference: str) -> None:
    status, code = refusal(call(handler, "get_node", query={"ref": reference}))
    assert (status, code) in {(404, "not_found"), (400, "invalid_argument")}


@pytest.mark.parametrize(
    ("name", "query", "message"),
    [
        ("list_neighbours", {"ref": "service:checkout", "hops": 9}, "hops must be a whole number from 1 to 3"),
        ("list_neighbours", {"ref": "service:checkout", "hops": 0}, "hops must be a whole number from 1 to 3"),
        ("list_neighbours", {"ref": "service:checkout", "direction": "up"}, "direction must be one of out, in, both"),
        ("list_neighbours", {"ref": "service:checkout", "since": "soon"}, "'soon' is not a time"),
        ("list_neighbours", {"ref": "service:checkout", "type": "!!"}, "is not an edge type"),
        ("list_neighbours", {"ref": "service:checkout", "limit": 501}, "limit must be a whole number from 1 to 500"),
        ("list_neighbours", {"ref": "service:checkout", "scope": "acme"}, "unknown field scope"),
        ("get_node", {"ref": ":checkout"}, "namespace"),
        ("get_node", {"ref": "x" * 4001}, "at most 4,000 characters"),
        ("get_node", {}, "ref is missing"),
        ("list_changes", {"ref": "service:checkout", "side": "both"}, "side must be one of upstream, downstream"),
        ("find_nodes", {"q": " "}, "at least 1 characters"),
        ("get_graph_coverage", {"limit": 1001}, "limit must be a whole number from 1 to 1000"),
    ],
)
def test_invalid_parameters_are_refused(handler: Handler, name: str, query: dict[str, Any], message: str) -> None:
    answer = call(handler, name, query=query)
    assert refusal(answer) == (400, "invalid_argument")
    assert message in answer[1]["error"]["message"]


@pytest.mark.parametrize("name", ["add_alias", "remove_alias", "merge_nodes", "undo_merge"])
def test_names_are_changed_with_a_token_that_may_write_alone(managing: Handler, name: str) -> None:
    requests: dict[str, dict[str, Any]] = {
        "add_alias": {"body": {"alias": "service:a", "canonical": "service:b"}},
        "remove_alias": {"query": {"alias": "service:a"}},
        "merge_nodes": {"body": {"from": "service:a", "into": "service:b"}},
        "undo_merge": {"mergeId": "1"},
    }
    given = requests[name]
    assert refusal(call(managing, name, caller=READER, **given)) == (403, "forbidden")
    assert refusal(call(managing, name, caller=a_token(), **given)) == (403, "forbidden")


class TestAliases:
    def test_an_alias_holds_for_the_client_that_set_it(self, handler: Handler, managing: Handler) -> None:
        body = {"alias": "service:tresor", "canonical": "service:vault"}
        status, added = call(managing, "add_alias", body=body, caller=ACME)
        assert (status, added["area"]) == (200, "client:acme")
        assert call(handler, "get_node", query={"ref": "service:tresor"}, caller=ACME)[0] == 200
        assert [one["alias"] for one in call(handler, "list_aliases", caller=ACME)[1]["aliases"]] == ["service:tresor"]
        for stranger in (OTHER, ADMIN):
            assert call(handler, "get_node", query={"ref": "service:tresor"}, caller=stranger)[0] == 404
            assert call(handler, "list_aliases", caller=stranger)[1] == {"aliases": []}
            removed = call(managing, "remove_alias", query={"alias": "service:tresor"}, caller=stranger)
            assert removed == (200, {"removed": False})
        assert call(managing, "remove_alias", query={"alias": "service:tresor"}, caller=ACME)[1] == {"removed": True}
        assert call(handler, "get_node", query={"ref": "service:tresor"}, caller=ACME)[0] == 404

    def test_a_merge_is_undone_by_those_whose_it_is(self, handler: Handler, managing: Handler) -> None:
        body = {"from": "service:checkout", "into": "service:vault"}
        status, merge = call(managing, "merge_nodes", body=body, caller=ACME)
        assert (status, merge["state"]) == (200, "merged")
        assert refusal(call(managing, "undo_merge", mergeId=merge["mergeId"], caller=OTHER)) == (404, "not_found")
        assert call(handler, "list_merges", caller=OTHER)[1] == {"merges": []}
        assert call(managing, "undo_merge", mergeId=merge["mergeId"], caller=ACME)[1]["state"] == "undone"
        assert call(handler, "list_merges", caller=ACME)[1]["merges"][0]["mergeId"] == merge["mergeId"]

    @pytest.mark.parametrize("pair", [("service:x", "service:x"), ("nonsense", "service:x"), ("service:x", "")])
    def test_an_invalid_alias_is_refused(self, managing: Handler, pair: tuple[str, str]) -> None:
        answer = call(managing, "add_alias", body=dict(zip(("alias", "canonical"), pair, strict=True)), caller=ACME)
        assert refusal(answer) == (400, "invalid_argument")

    def test_the_author_of_a_global_alias_is_shown_to_administrators_only(
        self, handler: Handler, managing: Handler
    ) -> None:
        body = {"alias": "service:pay", "canonical": "service:payments"}
        assert call(managing, "add_alias", body=body, caller=ADMIN)[0] == 200
        assert [one["setBy"] for one in call(handler, "list_aliases", caller=ADMIN)[1]["aliases"]] == ["alice"]
        for caller in (ACME, a_token(scopes="opx/read"), a_token(scopes="opx/write")):
            assert [one["setBy"] for one in call(handler, "list_aliases", caller=caller)[1]["aliases"]] == [""]
        call(managing, "remove_alias", query={"alias": "service:pay"}, caller=ADMIN)


def test_passages_that_are_gone_are_left_out(tmp_path: Path) -> None:
    with a_system(tmp_path, {}) as system:
        seed_graph(system)
        for info in list(system.store.list("chunks/")):
            system.store.delete(info.key)
        status, found = call(make_handler(lambda: system), "get_node", query={"ref": "service:checkout"})
        assert (status, found["passages"]) == (200, [])
        assert found["edges"][0]["evidenceChunkIds"]
