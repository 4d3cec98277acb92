"""Expansion of a passage: the rest of its section, or all of its document."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.documents import DocumentChunk
from opx.domain.queries import Expand, QueryConfig
from opx.domain.record import replace
from opx.domain.results import RetrievalResult
from opx.errors import DocumentNotFoundError, StoreUnavailableError
from opx.ingestion.chunking import ChunkOwner
from opx.retrieval.documents import MAX_CHARACTERS, UNREADABLE, Expander, joined
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.parsing_support import chunk_document

STEPS = "\n".join(f"{n}. Look at replica {n} and write down its lag in seconds." for n in range(40))
TEXT = f"# Lag\n\nWhat to do when replicas lag.\n\n## Steps\n\n{STEPS}\n\n## Afterwards\n\n{'Tell the owners. ' * 30}\n"


def chunks_of(text: str, tokens: int = 100, document: str = "d") -> list[DocumentChunk]:
    return list(
        chunk_document(
            text.splitlines(keepends=True), ChunkOwner(document, "Lag", "runbooks/procedures"), tokens=tokens
        )
    )


def a_result(chunk: DocumentChunk, score: float = 0.9) -> RetrievalResult:
    metadata = {"documentId": chunk.document_id, "chunkId": chunk.chunk_id, "title": chunk.title}
    return RetrievalResult(chunk.content, score, "internal", chunk.category, "lag.md", "", 1.0, metadata)


def an_expander(chunks: Iterable[DocumentChunk]) -> Expander:
    return Expander(lambda _: chunks)


def test_the_pieces_of_a_section_are_joined_without_what_they_share() -> None:
    chunks = chunks_of(TEXT)
    inside = [chunk for chunk in chunks if chunk.section == ("Steps",)]
    assert len(inside) > 2
    (result,), notes = an_expander(chunks).expanded([a_result(inside[1])], Expand.SECTION)
    assert result.content.strip() == f"## Steps\n\n{STEPS}"
    assert result.metadata["expanded"] == {"of": "section", "chunkIds": [c.chunk_id for c in inside], "cut": False}
    assert notes == ()


def test_all_of_a_document_is_its_text() -> None:
    chunks = chunks_of(TEXT)
    (result,), _ = an_expander(chunks).expanded([a_result(chunks[-1])], Expand.DOCUMENT)
    assert result.content == TEXT


def test_results_of_one_section_become_one_in_the_best_ones_place() -> None:
    chunks = chunks_of(TEXT)
    inside = [chunk for chunk in chunks if chunk.section == ("Steps",)]
    results, _ = an_expander(chunks).expanded([a_result(inside[2], 0.9), a_result(inside[0], 0.8)], Expand.SECTION)
    assert [result.score for result in results] == [0.9]


def test_a_long_document_is_cut_around_the_found_passage_and_marked_as_cut() -> None:
    chunks = chunks_of("# Lag\n\n" + "word " * 30_000, tokens=400)
    found = chunks[len(chunks) // 2]
    (result,), _ = an_expander(chunks).expanded([a_result(found)], Expand.DOCUMENT)
    assert found.chunk_id in result.metadata["expanded"]["chunkIds"]
    assert result.metadata["expanded"]["cut"]
    assert len(result.content) <= MAX_CHARACTERS


@pytest.mark.parametrize("error", [DocumentNotFoundError("gone"), StoreUnavailableError("down")])
def test_passage_of_an_unreadable_document_stays_as_found_with_a_note(error: Exception) -> None:
    def fail(_: str) -> list[DocumentChunk]:
        raise error

    given_result = a_result(chunks_of(TEXT)[0])
    assert Expander(fail).expanded([given_result], Expand.SECTION) == ((given_result,), (UNREADABLE,))


def test_a_result_without_a_document_stays() -> None:
    live = replace(a_result(chunks_of(TEXT)[0]), metadata={"documentId": "", "chunkId": ""})
    assert Expander(lambda _: pytest.fail("read")).expanded([live], Expand.SECTION) == ((live,), ())


def test_a_piece_that_the_document_no_longer_has_stays() -> None:
    old = a_result(chunks_of("# Lag\n\nformer text\n")[0])
    assert an_expander(chunks_of(TEXT)).expanded([old], Expand.SECTION)[0] == (old,)


@given(st.lists(st.text(alphabet="ab\n# ", max_size=80), min_size=1, max_size=12).map("\n".join), st.integers(20, 60))
def test_joined_pieces_are_the_text_they_were_cut_from(text: str, tokens: int) -> None:
    chunks = list(chunk_document(text.splitlines(keepends=True), ChunkOwner("d", "T", "c"), tokens=tokens, overlap=8))
    assert "".join(joined(chunks).split()) == "".join(text.split())


def test_questions_expand_in_a_whole_system(tmp_path: Path) -> None:
    settings = Settings(home=str(tmp_path), chunk_tokens=100)
    with bootstrap(settings) as services:
        services.manager.put_document("runbooks/procedures", TEXT, {"title": "Replicas lag", "source": "lag.md"})
        assert services.ingestion.drain is not None
        list(services.ingestion.drain.run())
        config = QueryConfig(min_confidence=0, max_results=1, expand=Expand.DOCUMENT)
        (result,) = services.questions.for_reader().query("replica lag seconds", config)
        assert "Look at replica 39" in result.content
        assert "What to do when replicas lag" in result.content
