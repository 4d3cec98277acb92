"""Results as text that an agent can quote, with what identifies the source."""

from __future__ import annotations

from collections.abc import Sequence

from opx.domain.results import RetrievalResult

NOTHING_FOUND = "No good answer was found in the knowledge base for this question."


def citation(result: RetrievalResult) -> str:
    """One result in the form that agents know."""
    return (
        f"Source: {result.title}\n"
        f"Category: {result.category}\n"
        f"Relevance: {result.score:.2f}\n"
        f"\n{result.content.strip()}\n"
        f"\n[Document ID: {result.document_id}]"
    )


def citations(results: Sequence[RetrievalResult]) -> str:
    """All results, or a sentence that says that there is none."""
    return "\n\n---\n\n".join(citation(result) for result in results) or NOTHING_FOUND
