"""Results and documents as text for an agent: the form is fixed, so that prompts can rely on it."""

from __future__ import annotations

import pytest

from opx.domain.handover import DocumentAnswer
from opx.domain.results import RetrievalResult
from opx.retrieval.citations import NOTHING_FOUND, citation, citations, handed_over, mentions
from tests.support.builders import a_document_answer


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


def a_document(title: str, confidence: float, content: str = "Delete rotated logs.") -> DocumentAnswer:
    return a_document_answer(a_result(content, title=title, score=confidence), content=content)


def test_documents_without_text_are_named_with_their_band() -> None:
    some = [a_document("Disk", 0.97), a_document("Logs", 0.6, ""), a_document("Pods", 0.04, "")]
    shown = handed_over(some)
    assert shown.endswith("Also found:\n- Logs (likely, 0.60) [Document ID: dddddddddddddddddddddddddddddddd]")
    assert mentions(some[2:]) == []


def test_the_only_document_without_text_is_named_as_unlikely_as_it_is() -> None:
    shown = handed_over([a_document("Pods", 0.04, ""), a_document("Logs", 0.03, "")])
    assert shown.startswith("Found, and larger than the budget:\n- Pods (weak, 0.04) [Document ID: ")
    assert "Logs" not in shown
