"""The listings of the graph design, read as they stand: references, relations, evidence, scopes and packs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from opx import EvidenceItem, EvidencePack, Knowledge
from opx.compat import jervis
from opx.domain.graph import Alias, Edge, Node
from opx.domain.record import to_json
from opx.domain.results import EvidenceSource
from opx.operations.graph import AddAlias, GetNode, add_alias, get_node
from tests.designs.loading import recorded

KOTLIN = """package com.jervis.service

open class BaseService

class UserService : BaseService() {
    fun createUser(name: String): Int {
        return validate(name)
    }
    private fun validate(name: String): Int = name.length
}
"""
PROPERTIES_HERE = {"file": {"category", "title"}, "class": {"name"}, "method": {"name"}}
"""Properties of nodes of code: docs/coming-from.md has the reasons for the others."""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Knowledge]:
    with Knowledge.open(tmp_path_factory.mktemp("code") / "kb") as found:
        source = {"source": "src/main/kotlin/com/jervis/Service.kt"}
        found.ingest_document("internal", "runbooks/procedures", KOTLIN.encode(), source)
        yield found


def edges_of(knowledge: Knowledge, reference: str) -> set[tuple[str, str, str]]:
    found = knowledge.call(get_node, GetNode(reference=reference)).edges
    assert all(edge.evidence_chunk_ids for edge in found)
    return {(edge.source, edge.edge_type, edge.target) for edge in found}


def page(knowledge: Knowledge, text: str, source: str = "jira/TASK-123.md") -> str:
    return knowledge.ingest_document("internal", "runbooks/procedures", text, {"source": source})


def without_comments(text: str) -> Any:
    return json.loads(re.sub(r",(\s*})", r"\1", re.sub(r"//.*", "", text)))


class TestShapes:
    def test_a_node_has_the_fields_of_the_design(self) -> None:
        given = without_comments(recorded("jervis-03"))
        node = to_json(Node("jira:jerv-123", given["type"], {"summary": given["summary"], "status": given["status"]}))
        assert {"type", "ragChunks", "key", "properties"} <= set(node)
        assert {"type", "ragChunks", "_key"} <= set(given)

    def test_an_edge_has_the_fields_of_the_design(self) -> None:
        given = without_comments(recorded("jervis-04"))
        names = {"_key": "", "edgeType": "edgeType", "_from": "from", "_to": "to"}
        assert set(given) == set(names)
        assert set(filter(None, names.values())) | {"evidenceChunkIds"} <= set(Edge.__struct_encode_fields__)

    def test_an_alias_has_the_fields_of_the_design(self) -> None:
        given = set(re.findall(r"^  (\w+):", recorded("jervis-22"), re.MULTILINE))
        here = {"clientId": "area", "aliasKey": "alias", "canonicalKey": "canonical", "area": "area"}
        here |= {"seenCount": "seenCount", "lastSeenAt": "lastSeenAt"}
        assert set(here) == given
        assert set(here.values()) <= set(Alias.__struct_encode_fields__)


class TestCode:
    @pytest.mark.parametrize(
        ("kind", "reference"),
        [
            ("file", "file:src/main/kotlin/com/jervis/service.kt"),
            ("class", "class:userservice"),
            ("method", "method:userservice.createuser"),
        ],
    )
    def test_nodes_of_code_have_the_types_of_the_design(self, code: Knowledge, kind: str, reference: str) -> None:
        assert f'type: "{kind}"' in recorded("jervis-05")
        node = code.call(get_node, GetNode(reference=reference)).node
        assert node.type == kind
        assert PROPERTIES_HERE[kind] <= set(node.properties)

    def test_relations_of_code_are_those_of_the_design(self, code: Knowledge) -> None:
        wanted = set(re.findall(r"(\w+) --\[(\w+)\]--> (\w+)", recorded("jervis-10")))
        found = edges_of(code, "class:userservice") | edges_of(code, "method:userservice.createuser")
        kinds = {(one.partition(":")[0], kind, other.partition(":")[0]) for one, kind, other in found}
        assert wanted <= kinds


@pytest.mark.parametrize("name", ["jervis-11", "jervis-12", "jervis-13"])
def test_relations_between_things_can_be_stated(knowledge: Knowledge, name: str) -> None:
    wanted = re.findall(r"(\w+) --\[(\w+)\]--> (\w+)", recorded(name))
    lines = [f'"{one}:a{at}|{kind}|{other}:b{at}"' for at, (one, kind, other) in enumerate(wanted)]
    page(knowledge, "# Relations\n\nAll of them.\n\nrelationships: [\n  " + ",\n  ".join(lines) + "\n]\n")
    for at, (one, kind, other) in enumerate(wanted):
        assert (f"{one}:a{at}", kind, f"{other}:b{at}") in edges_of(knowledge, f"{one}:a{at}")


@pytest.mark.parametrize("name", ["jervis-06", "jervis-07", "jervis-08", "jervis-09"])
def test_types_of_the_design_are_node_types(knowledge: Knowledge, name: str) -> None:
    kinds = re.findall(r'nodeKey: "(\w+)::', recorded(name))
    assert kinds
    lines = [f'"{kind}:x-1|RELATED_TO|service:shop"' for kind in kinds]
    page(knowledge, "# Types\n\nAll.\n\nrelationships: [\n  " + ",\n  ".join(lines) + "\n]\n")
    for kind in kinds:
        assert knowledge.call(get_node, GetNode(reference=f"{kind}:x-1")).node.type


class TestRelations:
    @pytest.mark.parametrize("name", ["jervis-14", "jervis-15", "jervis-16"])
    def test_each_format_is_read(self, knowledge: Knowledge, name: str) -> None:
        line = (
            recorded(name).strip().replace("from", "class:A", 1).replace("edgeType", "CALLS").replace("to", "method:b")
        )
        page(knowledge, f"# Notes\n\n{line}\n")
        assert ("class:a", "calls", "method:b") in edges_of(knowledge, "class:a")

    def test_the_block_of_the_design_is_read(self, knowledge: Knowledge) -> None:
        page(knowledge, f"# Login\n\nSee below.\n\n{recorded('jervis-17')}")
        assert ("commit:abc123", "fixes", "jira:task-123") in edges_of(knowledge, "commit:abc123")

    def test_the_short_form_means_the_pages_own_node(self, knowledge: Knowledge) -> None:
        lines = re.findall(r'"([^"]+)"', recorded("jervis-18"))[1:]
        assert lines[0] == "TASK-123|MENTIONS|user:john"
        block = ",\n".join(f'  "{line}"' for line in lines)
        page(knowledge, f"# TASK-123: Fix login bug\n\nText.\n\nrelationships: [\n{block}\n]\n")
        found = edges_of(knowledge, "user:john") | edges_of(knowledge, "file:service.kt")
        ends = {(one.rpartition(":")[2], kind, other.rpartition(":")[2]) for one, kind, other in found}
        assert {("task-123", "mentions", "john"), ("service.kt", "related_to", "task-123")} <= ends

    def test_every_edge_of_the_ticket_has_its_passage_as_evidence(self, knowledge: Knowledge) -> None:
        text = recorded("jervis-19")
        content = text[text.index('"""') + 4 : text.rindex('"""')]
        document = page(knowledge, content)
        assert 'edgeType = "affects"' in text
        found = knowledge.call(get_node, GetNode(reference="file:userservice.kt")).edges
        affects = [edge for edge in found if edge.edge_type == "affects"]
        (edge,) = affects
        assert edge.source.endswith("task-123")
        assert [one.document_id for one in edge.evidence] == [document]


class TestReferences:
    def test_the_format_is_normalised(self) -> None:
        (given,) = re.findall(r'normalizeSingleGraphRef\("([^"]+)"\)', recorded("jervis-20"))
        assert jervis.normalizeSingleGraphRef(given) == "user:john smith"  # a single space, as its rule states

    def test_names_become_canonical(self) -> None:
        ((given, wanted),) = re.findall(r'canonicalizeGraphRef\("([^"]+)"\) → "([^"]+)"', recorded("jervis-21"))
        assert jervis.canonicalizeGraphRef(given) == wanted

    def test_a_product_loses_its_namespace_and_a_service_no_word(self) -> None:
        assert jervis.canonicalizeGraphRef("product:product_lego") == "product:lego"
        assert jervis.canonicalizeGraphRef("service:service-registry") == "service:service-registry"

    def test_aliases_lead_to_one_node(self, knowledge: Knowledge) -> None:
        ((alias, canonical),) = re.findall(r'resolveCanonicalGraphRef\("([^"]+)"\) → "([^"]+)"', recorded("jervis-22"))
        page(knowledge, f'# Owners\n\nText.\n\nrelationships: [\n  "service:shop|OWNED_BY|{canonical}"\n]\n')
        knowledge.call(add_alias, AddAlias(alias=alias, canonical=canonical))
        for _ in range(2):  # the second time from a cache, where there is one
            assert jervis.resolveCanonicalGraphRef(knowledge, alias) == canonical
        assert f'graphRefCache["client-abc|{alias}"] = "{canonical}"' in recorded("jervis-23")


class TestSearch:
    @pytest.fixture
    def shop(self, knowledge: Knowledge) -> Knowledge:
        relations = '"service:shop|DEPENDS_ON|service:payments"'
        page(knowledge, f"# Checkout times out\n\nservice:shop waits.\n\nrelationships: [\n  {relations}\n]\n", "a.md")
        relations = '"service:payments|RUNS_ON|host:db-7"'
        page(knowledge, f"# Payments\n\nRuns on db-7.\n\nrelationships: [\n  {relations}\n]\n", "b.md")
        return knowledge

    def test_the_search_is_filtered_by_client_and_project(self, shop: Knowledge) -> None:
        assert "VectorFilters(clientId, projectId)" in recorded("jervis-24")
        from dataclasses import replace

        from opx.domain.scopes import Identity, Scope

        context = shop.context
        manager = context.system.ingestion.manager_of(Scope("acme", project_id="shop"))
        manager.ingest_document("internal", "runbooks/procedures", "# Unseal the vault\n\nThree key holders.")
        search = context.system.questions.for_reader
        assert not [one for one in search(Identity("globex")).query("unseal the vault") if "vault" in one.content]
        assert search(replace(Identity("acme"), project_id="shop")).query("unseal the vault")

    def test_expansion_goes_two_hops(self, shop: Knowledge) -> None:
        assert "TraversalSpec(maxDepth = 2)" in recorded("jervis-25")
        assert "host:db-7" in jervis.traverse(shop, "service:shop", 2)
        assert "host:db-7" not in jervis.traverse(shop, "service:shop", 1)

    def test_a_pack_has_items_and_a_summary(self, shop: Knowledge) -> None:
        pack = jervis.search(shop, "checkout times out")
        assert re.fullmatch(r"Found \d+ RAG results? and \d+ related graph nodes?\.", pack.summary)
        assert {one.source for one in pack.items} == {EvidenceSource.RAG, EvidenceSource.GRAPH}

    def test_the_pack_of_the_listing_can_be_made(self) -> None:
        items = re.findall(r'source = "(\w+)", content = "([^"]+)", confidence = ([\d.]+)', recorded("jervis-26"))
        made = EvidencePack(
            items=tuple(
                EvidenceItem(source=EvidenceSource(one), content=text, confidence=float(number))
                for one, text, number in items
            )
        )
        assert [to_json(one)["source"] for one in made.items] == ["RAG", "Graph"]
        assert made.summary.startswith("Found 1 RAG result and ")


def test_the_flow_of_ingestion_has_its_steps(knowledge: Knowledge) -> None:
    steps = ("Chunking", "Extraction", "Normalization", "RAG Storage", "Graph Storage")
    assert all(step in recorded("jervis-02") for step in steps)
    document = page(knowledge, "# Login\n\nJIRA:Task-1 -[mentions]-> User:John.\n", "login.md")
    assert knowledge.document(document).chunk_count == 1
    assert ("jira:task-1", "mentions", "user:john") in edges_of(knowledge, "user:john")
    assert knowledge.query("Login")
