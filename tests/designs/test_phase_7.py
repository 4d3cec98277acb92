"""The listings of the Phase 7 design on the library."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from opx import Knowledge
from opx.compat import phase_7
from opx.domain.documents import ChunkMetadata, DocumentChunk
from opx.domain.ids import document_id
from opx.domain.record import to_json
from opx.errors import InvalidInputError
from opx.operations.documents import ReadChunks, read_chunks
from opx.operations.search_tools import SearchRunbooks, search_runbooks
from tests.designs.loading import accepted_calls, listing, recorded

FIELD = re.compile(r"^\s*(\w+)[:?]", re.MULTILINE)


def fields_of_interface(name: str) -> set[str]:
    """The names of all fields of an interface, inner ones included."""
    return set(FIELD.findall(recorded(name)))


def names_in(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {name for inner in value.values() for name in names_in(inner)}
    return set()


def test_a_document_has_the_fields_of_the_interface(base: Knowledge) -> None:
    (runbook,) = phase_7.DocumentsTable(base).by_category("runbook")
    assert names_in(runbook) == fields_of_interface("opx-phase-7-01")
    assert runbook["category"] == "runbook"
    assert names_in(to_json(base.document(runbook["documentId"]))) >= {"documentId", "title", "category", "tags"}


def test_an_id_is_a_hash_of_title_category_and_content() -> None:
    assert recorded("opx-phase-7-02").strip() == "documentId = hash(title, category, content)"
    first = document_id("Title", "runbooks/procedures", "0" * 64)
    assert first == document_id("Title", "runbooks/procedures", "0" * 64)
    others = [("Other", "runbooks/procedures", "0" * 64), ("Title", "postmortems", "0" * 64)]
    assert first not in {document_id(*one) for one in (*others, ("Title", "runbooks/procedures", "1" * 64))}


def test_a_chunk_has_the_fields_of_the_interface(base: Knowledge) -> None:
    (document, *_) = base.documents("runbooks")
    (chunk, *_) = base.call(read_chunks, ReadChunks(document_id=document.document_id)).chunks
    assert names_in(to_json(chunk)) >= fields_of_interface("opx-phase-7-03")


def test_the_chunking_of_the_listing_runs_and_agrees_on_sizes() -> None:
    words = " ".join(f"word{number}" for number in range(900))
    chunk_document = listing("phase_7_04", document_id="document").chunk_document
    chunks = chunk_document(words)
    assert chunks == chunk_document(words)
    assert [one["chunkIndex"] for one in chunks] == list(range(len(chunks)))
    assert max(one["tokenCount"] for one in chunks) == 500
    assert phase_7.tokenize(chunks[0]["content"])[450:] == phase_7.tokenize(chunks[1]["content"])[:50]
    assert set(chunks[0]) <= names_in(to_json(any_chunk()))


def any_chunk() -> DocumentChunk:
    metadata = ChunkMetadata(document_title="t", category="c", tags=())
    return DocumentChunk(
        chunk_id="c",
        document_id="d",
        chunk_index=0,
        content="",
        token_count=0,
        section=(),
        start=0,
        end=0,
        metadata=metadata,
    )


def test_the_search_of_the_listing_finds_runbooks(base: Knowledge) -> None:
    search: Any = listing(
        "phase_7_05", KB_ID="HJPLE9IOEU", bedrock_kb=phase_7.BedrockKnowledgeBase(base)
    ).search_runbooks
    (found, *_) = search("high CPU on web servers", max_results=3)
    assert found["metadata"]["title"] == "High CPU on web servers"
    assert found["metadata"]["category"] == "runbook"
    assert found["score"] >= 0.5
    assert [one["documentId"] for one in search("quantum llamas in orbit")] == []


def test_the_search_of_the_listing_finds_the_runbook_of_the_design(knowledge: Knowledge) -> None:
    knowledge.add_files("corpus/documents/runbooks")
    base = phase_7.BedrockKnowledgeBase(knowledge)
    search: Any = listing("phase_7_05", KB_ID="HJPLE9IOEU", bedrock_kb=base).search_runbooks
    (found, *_) = search("RDS failover")
    assert knowledge.document(found["documentId"]).source_uri.endswith("rds-failover.md")
    assert search("How long do I boil an egg?") == []


def test_the_functions_of_the_action_group_are_called_as_in_the_listings(base: Knowledge) -> None:
    retrieval = phase_7.KnowledgeRetrieval(base)
    for name in ("phase_7_05", "phase_7_06", "phase_7_07"):
        module = listing(name)
        (function,) = (one for one in vars(module).values() if getattr(one, "__module__", "") == module.__name__)
        assert accepted_calls(function, getattr(retrieval, function.__name__)) == []
    (postmortem, *_) = retrieval.search_postmortems("RDS failover took eleven minutes")
    assert postmortem["metadata"]["category"] == "postmortem"
    details = retrieval.get_document_details(postmortem["documentId"])
    assert "The pool had no validation query." in details["content"]


def test_a_search_gives_five_results_unless_another_number_is_wanted(knowledge: Knowledge) -> None:
    for host in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"):
        text = f"# High CPU on {host}\n\nThe host {host} has high CPU. Restart the worker of {host}.\n"
        knowledge.ingest_document("internal", "runbooks/procedures", text, {"source": f"{host}.md"})
    for request, number in (SearchRunbooks("high CPU"), 5), (SearchRunbooks("high CPU", max_results=7), 7):
        found: Any = knowledge.call(search_runbooks, request)
        assert len(found.documents) == number


def test_a_citation_has_every_part_of_the_listing(base: Knowledge) -> None:
    (found, *_) = phase_7.KnowledgeRetrieval(base).search_runbooks("high CPU on web servers")
    text = listing("phase_7_08").format_citation(found)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert lines[:2] == ["Source: High CPU on web servers", "Category: runbook"]
    assert re.fullmatch(r"Relevance: [01]\.\d\d", lines[2])
    assert lines[-1] == f"[Document ID: {found['documentId']}]"


def test_the_citation_of_the_library_has_the_lines_of_the_listing(base: Knowledge) -> None:
    from opx.retrieval.citations import citation

    (found, *_) = base.query("high CPU on web servers")
    lines = citation(found).splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["Source", "Category", "Relevance"]
    assert f"[Document ID: {found.document_id}]" in lines


def test_the_table_is_read_by_document_id(base: Knowledge) -> None:
    table = phase_7.DocumentsTable(base)
    (runbook,) = table.by_category("runbook")
    assert table.get_item(Key={"documentId": runbook["documentId"]}) == {"Item": runbook}
    assert table.get_item(Key={"documentId": "0" * 32}) == {}


def test_another_filter_is_refused(base: Knowledge) -> None:
    query: Any = {"text": "x"}
    search: Any = {"vectorSearchConfiguration": {"filter": {"orAll": []}}}
    with pytest.raises(InvalidInputError, match="a filter is"):
        phase_7.BedrockKnowledgeBase(base).retrieve(retrievalQuery=query, retrievalConfiguration=search)


def test_objects_have_the_places_of_the_design(base: Knowledge) -> None:
    for folder in ("documents/", "runbooks/", "postmortems/", "chunks/", "{documentId1}.jsonl"):
        assert folder in recorded("opx-phase-7-10")
    keys = [info.key for info in base.context.system.store.list("")]
    for document in base.documents():
        assert f"chunks/{document.document_id}.jsonl" in keys
    assert "documents/runbooks/procedures/high-cpu.md" in keys


def test_the_curated_documents_are_in_the_corpus() -> None:
    root = Path(__file__).resolve().parents[2] / "corpus" / "documents"
    names = re.findall(r"[\w-]+\.md", recorded("opx-phase-7-10"))
    assert len(names) == 5
    assert [name for name in names if not list(root.rglob(name))] == []
