"""`opx graph`, on a folder of this machine and against a deployed system."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.graph import NodeStatement
from tests.support.cli_support import Opx
from tests.support.graph_support import CHECKOUT, PAYMENTS, STATED_EDGES, seed_graph, write
from tests.support.remote_support import KINDS, DeployedOpx, deployed

HOSTILE = "Pay\x1b]0;owned\x07ments \x9b31m\u202e"


@pytest.fixture(scope="module", params=KINDS)
def opx(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opx]:
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "folder":
            found = Opx(folder)
            with found.services() as services:
                seed_graph(services)
            yield found
            return
        with deployed(folder, patch) as system:
            seed_graph(system.system.services)
            yield system


@pytest.fixture
def alone(tmp_path: Path) -> Opx:
    """A folder for a test that changes something."""
    found = Opx(tmp_path)
    with found.services() as services:
        seed_graph(services)
    return found


def test_a_thing_is_shown_with_its_relations_in_words_and_where_they_are_written(opx: Opx) -> None:
    found = opx("graph", "show", "Service:Checkout")
    assert found.exit_code == 0, found.output
    assert found.stdout.startswith("service:checkout  (service")
    assert (
        "\ndepends on: 1\n  service:payments\n     Checkout is slow > Dependencies  2026-03-01  [Document ID: "
        in found.stdout
    )
    assert "\ndocuments it: 1\n  runbook:checkout" in found.stdout
    assert "confidence 0.90" in found.stdout


def test_json_output_has_evidence_and_passages_for_each_edge(opx: Opx) -> None:
    found = json.loads(opx("graph", "show", "service:checkout", "--json").stdout)
    passages = {passage["chunkId"]: passage for passage in found["passages"]}
    assert {edge["edgeType"] for edge in found["edges"]} == {"depends_on", "documents"}
    for edge in found["edges"]:
        assert passages[edge["evidenceChunkIds"][0]]["title"] == "Checkout is slow"
    assert "depends on payments" in passages[found["edges"][0]["evidenceChunkIds"][0]]["content"]


def test_neighbours_two_steps_away_come_behind_those_one_step_away(opx: Opx) -> None:
    found = opx("graph", "neighbours", "service:checkout", "--hops", "2", "--direction", "out")
    steps = [line.split()[:2] for line in found.stdout.splitlines()[1:]]
    assert steps == [["1", "service:payments"], ["2", "host:db-01"]]


def test_neighbours_are_filtered_by_type_and_time(opx: Opx) -> None:
    only = ("graph", "neighbours", "service:payments", "--type", "AFFECTS", "--since", "2026-03-31")
    assert [line.split()[1] for line in opx(*only).stdout.splitlines()[1:]] == ["change:42"]
    several = opx("graph", "neighbours", "service:payments", "--type", "affects", "--type", "hosted-on")
    assert {line.split()[1] for line in several.stdout.splitlines()[1:]} == {"change:42", "host:db-01"}
    nothing = opx(*only, "--until", "2026-03-30")
    assert (nothing.exit_code, nothing.stdout) == (1, "nothing is related to service:payments in this way\n")


def test_each_step_of_a_path_has_the_passage_that_proves_it(opx: Opx) -> None:
    found = opx("graph", "path", "runbook:checkout", "host:db-01")
    assert found.exit_code == 0
    assert found.stdout.startswith("runbook:checkout to host:db-01: 3 steps\n")
    assert "\n2. service:checkout depends on service:payments\n" in found.stdout
    assert "\nPayments run on the host db-01.\n" in found.stdout


def test_things_without_a_way_between_them_end_with_one(opx: Opx) -> None:
    found = opx("graph", "path", "service:checkout", "product:nginx")
    assert (found.exit_code, found.stdout) == (1, "no path was found from service:checkout to product:nginx\n")


def test_things_are_found_by_the_beginning_of_their_name(opx: Opx) -> None:
    found = json.loads(opx("graph", "find", "Che", "--json").stdout)
    assert {node["key"] for node in found} == {"service:checkout", "runbook:checkout"}
    assert opx("graph", "find", "che", "--type", "service").stdout.splitlines()[1].startswith("service:checkout")
    assert opx("graph", "find", "nobody").exit_code == 1


def test_an_unknown_thing_is_an_error_that_names_those_written_alike(opx: Opx) -> None:
    found = opx("graph", "show", "service:chekout")
    assert found.exit_code == 2
    assert found.stderr == "opx: nothing here is about service:chekout; did you mean service:checkout?\n"


@pytest.mark.parametrize("reference", ["service:vault", "service:ledger", "service:*", "service:che*"])
def test_nodes_of_others_and_wildcards_are_reported_as_missing(opx: Opx, reference: str) -> None:
    found = opx("graph", "show", reference)
    assert found.exit_code == 2
    assert found.stderr.startswith(f"opx: nothing here is about {reference}")
    assert "vault" not in found.stderr.replace(reference, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "nonesuch"), "no node has the name"),
        (("neighbours", "service:checkout", "--hops", "9"), "9 is not in the range 1<=x<=3"),
        (("neighbours", "service:checkout", "--since", "yesterday"), "'yesterday' is not a time"),
        (("neighbours", "service:checkout", "--type", "!"), "not an edge type"),
    ],
)
def test_invalid_arguments_are_wrong_usage(opx: Opx, arguments: tuple[str, ...], message: str) -> None:
    found = opx("graph", *arguments)
    assert found.exit_code == 2
    assert message in found.stderr


def test_changes_of_dependencies_are_listed(opx: Opx) -> None:
    found = json.loads(opx("graph", "changes", "service:checkout", "--since", "2026-03-31", "--json").stdout)
    assert [row["key"] for row in found["rows"]] == ["change:42"]
    assert found["passages"][0]["title"] in {"Payments", "Checkout is slow"}
    assert "change:42" in opx("graph", "changes", "service:checkout").stdout
    assert opx("graph", "changes", "service:checkout", "--since", "2026-04-01").exit_code == 1


def test_coverage_lists_what_is_missing(opx: Opx) -> None:
    found = opx("graph", "coverage")
    assert found.exit_code == 0
    assert "services without a runbook: 1\n  service:payments" in found.stdout
    assert json.loads(opx("graph", "coverage", "--json").stdout)["lookedAt"]["service"] == 3


def test_services_that_run_an_affected_version_are_listed_or_their_runbooks(opx: Opx) -> None:
    found = opx("graph", "affected", "CVE-2026-0001")
    assert (found.exit_code, "\nservice:shop  " in found.stdout) == (0, True)
    assert "version 1.24.0, versions <1.25" in found.stdout
    runbooks = json.loads(opx("graph", "affected", "CVE-2026-0001", "--runbooks", "--json").stdout)
    assert [row["key"] for row in runbooks["rows"]] == ["runbook:shop"]


def test_an_unknown_vulnerability_is_an_error(opx: Opx) -> None:
    assert "nothing here is about cve:cve-1999-0001" in opx("graph", "affected", "CVE-1999-0001").stderr


def test_an_alias_is_added_used_listed_and_removed(opx: Opx) -> None:
    added = opx("graph", "alias", "add", "service:kasse", "service:checkout")
    assert added.stdout == "service:kasse means service:checkout in global\n"
    assert opx("graph", "show", "service:kasse").stdout.startswith("service:checkout ")
    assert "service:kasse" in opx("graph", "alias", "list").stdout
    assert opx("graph", "alias", "remove", "service:kasse").exit_code == 0
    assert opx("graph", "alias", "remove", "service:kasse").exit_code == 1
    assert opx("graph", "show", "service:kasse").exit_code == 2


def test_merging_into_an_unknown_node_is_refused(opx: Opx) -> None:
    found = opx("graph", "alias", "merge", "host:db-01", "service:paymnets")
    assert found.exit_code == 2
    assert "nothing here is about service:paymnets; did you mean service:payments?" in found.stderr


def test_merged_things_are_one_until_that_is_undone(opx: Opx) -> None:
    merged = opx("graph", "alias", "merge", "host:db-01", "service:payments")
    assert merged.exit_code == 0, merged.output
    merge_id = merged.stdout.split()[-1]
    shown = opx("graph", "show", "host:db-01").stdout
    assert shown.startswith("service:payments ")
    assert "also called  host:db-01" in shown
    assert merge_id in opx("graph", "alias", "merges").stdout
    assert opx("graph", "alias", "undo", merge_id).stdout == "host:db-01 and service:payments are two things again\n"
    assert opx("graph", "show", "host:db-01").stdout.startswith("host:db-01 ")
    assert opx("graph", "alias", "undo", "0000-nothing").exit_code == 2


def test_names_can_not_reach_the_terminal(alone: Opx) -> None:
    with alone.services() as services:
        services.store.put(PAYMENTS, f"# {HOSTILE}\n\n{HOSTILE} db-01".encode())
        list(services.manager.work())
        node = NodeStatement("service:payments", "service", {"owner\x1b[2J": HOSTILE}, declared=True)
        write(services, PAYMENTS, STATED_EDGES[PAYMENTS], [node])
    for arguments in (("show", "service:payments"), ("path", "change:42", "host:db-01"), ("find", "pay")):
        shown = alone("graph", *arguments).stdout
        assert not any(letter in shown for letter in "\x1b\x07\x9b\u202e"), arguments
        assert "ments" in shown


def test_a_relation_is_deleted_with_the_document_that_states_it(alone: Opx) -> None:
    with alone.services() as services:
        services.manager.delete_object(CHECKOUT)
        list(services.manager.work())
    assert alone("graph", "neighbours", "service:payments", "--direction", "in", "--type", "depends_on").exit_code == 1


def test_documents_mention_what_was_declared_after_them_on_this_machine_alone(opx: Opx) -> None:
    found = opx("graph", "relink")
    if isinstance(opx, DeployedOpx):
        assert (found.exit_code, "folder of this machine" in found.stderr) == (2, True)
    else:
        assert (found.exit_code, "mentions added in" in found.stdout) == (0, True)


def test_without_knowledge_there_is_nothing_to_ask(tmp_path: Path) -> None:
    found = Opx(tmp_path)("graph", "find", "x")
    assert (found.exit_code, "no knowledge in" in found.stderr) == (2, True)
