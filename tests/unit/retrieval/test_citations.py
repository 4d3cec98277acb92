"""Results as text for an agent: the form is fixed, so that prompts can rely on it."""

from __future__ import annotations

import pytest

from opx.domain.results import RetrievalResult
from opx.retrieval.citations import NOTHING_FOUND, citation, citations


def a_result(
    content: str = "Delete rotated logs.", *, title: str = "Disk full", score: float = 0.876
) -> RetrievalResult:
    return RetrievalResult(
        content=content,
        score=score,
        tier="internal",
        category="runbooks/procedures",
        source="file:///disk.md",
        timestamp="2026-03-01T12:00:00Z",
        trust_score=1.0,
        metadata={"title": title, "documentId": "d" * 32},
    )


DISK = f"""Source: Disk full
Category: runbooks/procedures
Relevance: 0.88
Confidence: likely, check that it fits (0.88)

Delete rotated logs.

[Document ID: {"d" * 32}]"""


def test_citation_names_source_category_relevance_and_document() -> None:
    assert citation(a_result()) == DISK


def test_citations_are_separated_by_a_rule() -> None:
    other = citation(a_result(title="Other", score=0.5))
    assert citations([a_result(), a_result(title="Other", score=0.5)]) == f"{DISK}\n\n---\n\n{other}"
    assert "Relevance: 0.50" in other


@pytest.mark.parametrize(
    ("score", "advice"),
    [
        (0.95, "sure (0.95)"),
        (0.94, "likely, check that it fits (0.94)"),
        (0.5, "likely, check that it fits (0.50)"),
        (0.4, "weak, read it before you rely on it (0.40)"),
    ],
)
def test_citation_has_advice_on_its_confidence(score: float, advice: str) -> None:
    assert f"Confidence: {advice}" in citation(a_result(score=score)).splitlines()


def test_space_around_the_content_is_left_out_and_space_inside_kept() -> None:
    assert "\n\n1. one\n\n   2. two\n\n[Document" in citation(a_result("\n\n1. one\n\n   2. two\n \n"))


def test_no_results_give_a_sentence() -> None:
    assert citations([]) == NOTHING_FOUND == "No good answer was found in the knowledge base for this question."


def test_unicode_is_kept() -> None:
    assert "Gerät 🚒 キュー" in citations([a_result("Gerät 🚒 キュー")])
