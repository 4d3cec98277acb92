"""Questions in a situation over a folder: the records of the node, and the pages that help."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from opx import Knowledge
from opx.domain.queries import QueryConfig
from opx.operations.questions import ListGaps, list_gaps
from opx.retrieval.citations import NOTHING_FOUND

LINUX = """# High CPU on Linux

Use this when a Linux host such as web-server-01 is slow.

## Steps

1. Run `top -b -n1`.
2. Kill the process.
"""
WINDOWS = """# High CPU on Windows

Use this when a Windows host is slow with high CPU.

## Steps

1. Open Task Manager.
2. End the task.
"""
NODES = 20
QUESTION = "Why is it slow?"
TRIED = {"timeframe": "last 2 hours", "already_tried": ["restart"]}


def ingest(knowledge: Knowledge, category: str, text: str, **metadata: Any) -> str:
    return knowledge.ingest_document("internal", category, text, metadata)


@pytest.fixture(scope="module", params=[True, False], ids=["node in metadata", "node in the title"])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Knowledge]:
    """Twenty nodes with the same symptom, each with an incident of its own, and two runbooks."""
    with Knowledge.open(tmp_path_factory.mktemp("fleet")) as knowledge:
        for number in range(1, NODES + 1):
            node = f"web-server-{number:02d}"
            text = f"# INC-{3000 + number}: high CPU on {node}\n\nCPU was at 97 %. The root cause was job {number}.\n"
            ingest(knowledge, "operations/incidents", text, **({"node": node} if request.param else {}))
        for page in (LINUX, WINDOWS):
            ingest(knowledge, "runbooks/procedures", page)
        yield knowledge


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Knowledge]:
    with Knowledge.open(tmp_path / "kb") as knowledge:
        yield knowledge


def titles(knowledge: Knowledge, query: str, context: dict[str, Any], config: QueryConfig | None = None) -> list[str]:
    """The titles of the result and of its alternatives."""
    best = knowledge.query_with_context(query, context, config)
    return [best.title, *(one["metadata"]["title"] for one in best.metadata["alternatives"])]


def test_every_node_gets_its_own_incident(fleet: Knowledge) -> None:
    for number in range(1, NODES + 1):
        node = f"web-server-{number:02d}"
        found = titles(fleet, QUESTION, {"symptom": "high CPU", "node": node, **TRIED})
        assert [title for title in found if title.startswith("INC")] == [f"INC-{3000 + number}: high CPU on {node}"]


def test_the_page_that_names_the_node_is_before_that_of_another_system(fleet: Knowledge) -> None:
    found = titles(fleet, QUESTION, {"symptom": "high CPU", "node": "web-server-01"})
    assert found[:2] == ["High CPU on Linux", "High CPU on Windows"]


def test_a_fully_qualified_name_is_the_node(fleet: Knowledge) -> None:
    found = titles(fleet, QUESTION, {"symptom": "high CPU", "node": "Web-Server-07.example.org:9100"})
    assert "INC-3007: high CPU on web-server-07" in found


def test_a_question_about_something_else_is_not_answered_with_the_node(fleet: Knowledge) -> None:
    best = fleet.query_with_context("How long do I boil an egg?", {"node": "web-server-01"})
    assert (best.content, best.score) == (NOTHING_FOUND, 0.0)


def test_a_long_query_finds_the_records_of_the_node(fleet: Knowledge) -> None:
    assert "INC-3007: high CPU on web-server-07" in titles(fleet, "high CPU " * 9_000, {"node": "web-server-07"})


@pytest.mark.parametrize("node", ["web-server-99", '"', "tag:x", "-", "x" * 400])
def test_a_node_without_records_changes_nothing(fleet: Knowledge, node: str) -> None:
    assert titles(fleet, QUESTION, {"symptom": "high CPU", "node": node})[0] == "High CPU on Windows"


def test_requested_categories_hold_for_records_of_the_node(fleet: Knowledge) -> None:
    config = QueryConfig(categories=("runbooks",), min_confidence=0.5)
    found = titles(fleet, QUESTION, {"symptom": "high CPU", "node": "web-server-01"}, config)
    assert found == ["High CPU on Linux", "High CPU on Windows"]


def test_without_guidance_the_incident_of_the_node_is_the_result(kb: Knowledge) -> None:
    for node in ("db-01", "db-02"):
        ingest(kb, "operations/incidents", f"# High CPU on {node}\n\nA vacuum of {node} ran all day.", node=node)
    best = kb.query_with_context("high CPU", {"node": "db-02"})
    assert (best.title, best.metadata["because"]) == ("High CPU on db-02", [{"why": "names db-02", "factor": 1.0}])
    assert best.score == best.confidence > 0


def test_records_of_the_timeframe_are_there_however_unlikely(kb: Knowledge) -> None:
    ingest(kb, "runbooks/procedures", LINUX)
    now = datetime.now(UTC)
    for hours in range(12):
        at = (now - timedelta(days=30 + hours)).isoformat()
        ingest(kb, "operations/incidents", f"# High CPU, {hours}\n\nSlow, high CPU.", node="web-01", last_updated=at)
    ingest(kb, "operations/changes", "# cart 4.2\n\nDeployed.", node="web-01", last_updated=now.isoformat())
    context = {"node": "web-01", "symptom": "high CPU"}
    assert "cart 4.2" in titles(kb, QUESTION, {**context, "timeframe": "last 2 hours"})
    assert titles(kb, QUESTION, {**context, "timeframe": "next 2 hours"}) == titles(kb, QUESTION, context)


def test_a_query_for_changes_is_answered_with_the_latest_of_the_node(kb: Knowledge) -> None:
    now = datetime.now(UTC)
    for name, node, hours in (("cart 4.1", "web-01", 300), ("cart 4.2", "web-01", 1), ("cart 4.3", "web-02", 1)):
        at = (now - timedelta(hours=hours)).isoformat()
        ingest(kb, "operations/changes", f"# {name}\n\nDeployed {name}.", node=node, last_updated=at)
    best = kb.query_with_context("What changed?", {"node": "web-01", "timeframe": "last 2 hours"})
    assert (best.title, best.band) == ("cart 4.2", "weak")
    assert [one["metadata"]["title"] for one in best.metadata["alternatives"]] == ["cart 4.1"]


@pytest.mark.parametrize("context", [{"symptom": "high CPU"}, {"node": "web-server-01"}, {"service": "orders"}])
def test_more_facts_never_make_a_page_less_likely(kb: Knowledge, context: dict[str, str]) -> None:
    ingest(kb, "runbooks/procedures", Path("corpus/documents/runbooks/linux-high-cpu.md").read_text(encoding="utf-8"))
    ingest(kb, "runbooks/procedures", "# Kafka consumer lag\n\nAdd consumers to the group.")
    config = QueryConfig(min_confidence=0)
    (alone, *_) = kb.query("Why is my Linux host slow?", config)
    assert kb.query_with_context("Why is my Linux host slow?", context, config).confidence >= alone.confidence


def test_steps_that_were_tried_are_marked_and_a_page_that_only_repeats_them_is_lowered(kb: Knowledge) -> None:
    ingest(kb, "runbooks/procedures", "# Slow worker of orders\n\nOrders wait.\n\n1. Restart the worker.\n")
    steps = "1. Restart the worker.\n2. Add a node.\n3. Drain the queue.\n"
    ingest(kb, "runbooks/procedures", f"# Slow worker of invoices\n\nInvoices are late by hours.\n\n{steps}")
    config = QueryConfig(min_confidence=0)
    best = kb.query_with_context("slow worker", {"already_tried": ["restart the worker", "reboot"]}, config)
    found = {one["metadata"]["title"]: one["metadata"] for one in (best.to_json(), *best.metadata["alternatives"])}
    orders, invoices = found["Slow worker of orders"], found["Slow worker of invoices"]
    assert orders["tried"] == invoices["tried"] == ["1. Restart the worker."]
    assert orders["because"] == [{"why": "was tried: restart the worker", "factor": 0.7}]
    assert invoices["because"] == []


def test_a_situation_with_an_answer_is_no_gap(kb: Knowledge) -> None:
    ingest(kb, "runbooks/procedures", "# Slow worker\n\nThe worker is slow. Restart it.")
    assert kb.query_with_context("slow worker", {"node": "web-01", "symptom": "errors 502"}).score > 0
    assert not kb.call(list_gaps, ListGaps()).gaps


def test_records_of_another_client_stay_its_own(tmp_path: Path) -> None:
    with Knowledge.open(tmp_path, client_id="acme", project_id="shop") as acme:
        ingest(acme, "operations/incidents", "# High CPU on web-01\n\nA secret cause.", node="web-01")
    with Knowledge.open(tmp_path, client_id="other", project_id="shop") as other:
        assert titles(other, "high CPU", {"node": "web-01"}) == [""]


def test_evidence_is_shown_and_found_by_its_node_and_symptom(kb: Knowledge) -> None:
    run = {
        "agent": "IncidentInvestigator",
        "host": "web-01",
        "symptom": "high CPU",
        "conclusion": "cart 4.2",
        "sources": ["https://wiki.example.org/cart"],
    }
    document = kb.document(kb.ingest_from_evidence(run))
    assert (document.title, document.author, document.resources) == (
        "high CPU on web-01",
        "IncidentInvestigator",
        ("web-01",),
    )
    assert document.attributes == {"host": "web-01", "sources": ["https://wiki.example.org/cart"]}
    text = kb.read(document.document_id, "all").content
    assert "Symptom: high CPU on web-01" in text
    assert "cart 4.2" in text
    (found,) = kb.query("high CPU", QueryConfig(resources=("web-01",), min_confidence=0.5))
    assert found.document_id == document.document_id


def test_a_question_without_a_configuration_is_answered_with_what_is_likely(kb: Knowledge) -> None:
    kb.add_files("corpus/documents/runbooks")
    likely = kb.query("RDS failover", QueryConfig(categories=("runbooks",), min_confidence=0.5))
    assert 0.5 <= likely[0].confidence < 0.7
    assert [one.title for one in kb.query("RDS failover")][:1] == ["RDS Multi-AZ failover"]
    assert likely[0] not in kb.query("RDS failover", QueryConfig(min_confidence=0.7))
