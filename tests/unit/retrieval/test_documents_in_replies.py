"""Documents in replies to agents: those with text in full, the others in a line each."""

from __future__ import annotations

from opx.domain.handover import DocumentAnswer
from opx.retrieval.citations import handed_over, mentions
from tests.support.builders import a_document_answer
from tests.unit.retrieval.test_citations import a_result


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
