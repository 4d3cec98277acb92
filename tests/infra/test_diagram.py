"""The drawing of the stacks."""

from __future__ import annotations

import pytest

from infra.constructs.layer_contents import ROOT
from infra.diagram import BEGIN, END, draw, replaced
from tests.infra.templates import Assembly

ARCHITECTURE = ROOT / "docs" / "architecture.md"


def test_the_drawing_in_the_documentation_is_that_of_the_stacks(bulk: Assembly) -> None:
    text = ARCHITECTURE.read_text()
    assert replaced(text, draw(bulk.templates)) == text, f"python -m infra.diagram {ARCHITECTURE.relative_to(ROOT)}"


@pytest.mark.parametrize(
    "edge",
    [
        "storage_CorpusBucket -->|changes| ingestion_ChangesQueue",
        "ingestion_ChangesQueue -->|messages| ingestion_IngestDocumentsFunction",
        "ingestion_ChangesQueue -.-> ingestion_ChangesFailed",
        "retrieval_RetrieveKnowledgeFunction -->|writes| storage_tables",
        "retrieval_RetrieveKnowledgeFunction -->|embeds| models",
        "api_HttpApi -->|requests| retrieval_RetrieveKnowledgeFunction",
        "agent_KnowledgeGateway --> retrieval_RetrieveKnowledgeFunction",
        "sources_schedules -->|at fixed times| sources_Pulls",
        "api_ManageKnowledgeFunction -->|writes| bulk_MachineStateMachine",
        "bulk_MachineStateMachine --> bulk_BulkStageFunction",
        "bulk_BulkStageFunction -->|writes| storage_tables",
    ],
)
def test_flows_between_resources_are_drawn(bulk: Assembly, edge: str) -> None:
    assert f"  {edge}\n" in draw(bulk.templates) + "\n"


def test_a_right_to_write_is_drawn_as_such(bulk: Assembly) -> None:
    assert "ingestion_IngestDocumentsFunction -->|writes| storage_tables" in draw(bulk.templates)


def test_text_around_the_diagram_is_kept() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert replaced(text, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"


def test_a_document_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="has no marks"):
        replaced("nothing here", "new")
