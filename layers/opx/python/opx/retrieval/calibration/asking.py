"""Asks an index questions whose answers are known, as they are and with the answers taken out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from opx.domain.queries import Fusion, SearchMode
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.errors import EmbeddingError
from opx.ports import Embedder, Leg, SearchEngine, SearchFilter, SearchRequest, SearchResponse, Vector
from opx.retrieval.evidence import Parts, evidence_of
from opx.retrieval.hybrid import DEPTH, fused_hits, terms_of
from opx.retrieval.pages import JUDGED, PASSAGES, Page, pages_of
from opx.text.fields import words
from opx.text.languages import question_languages

MODE = SearchMode.BALANCED
LENGTH_ERROR = 0.05
"""The length of a vector may differ so much from 1."""


class Kind(StrEnum):
    """A question with its document, without it, and one about something else."""

    ANSWERED = "answered"
    REMOVED = "removed"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Seen:
    """The evidence of each document that was found for a question, and whether it answers. `group` names the document
    that the question was made of, so that all about one stay together."""

    group: str
    kind: Kind
    rows: tuple[Parts, ...]
    right: tuple[bool, ...]


def without(response: SearchResponse, gone: Callable[[IndexedChunk], bool], depth: int) -> SearchResponse:
    """The response as it would be if some entries were not there: hits, at most `depth` of a leg, and frequencies are
    those of the others."""

    def kept(leg: Leg) -> Leg:
        return replace(leg, hits=tuple(hit for hit in leg.hits if not gone(response.chunks[hit[0]]))[:depth])

    removed = [chunk for chunk in response.chunks.values() if gone(chunk)]
    held = [terms_of(chunk) for chunk in removed]
    frequencies = {
        word: max(count - sum(word in terms for terms in held), 0) for word, count in response.term_frequencies.items()
    }
    lexical, vector = kept(response.lexical), kept(response.vector)
    named = {entry for leg in (lexical, vector) for entry, _ in leg.hits}
    return replace(
        response,
        lexical=lexical,
        vector=vector,
        chunks={entry: response.chunks[entry] for entry in response.chunks if entry in named},
        term_frequencies=frequencies,
        entry_count=response.entry_count - len(removed),
    )


class Asker:
    """Asks one index by one model. Raises `EmbeddingError` for a vector that means nothing, and `StoreUnavailableError`."""

    def __init__(self, index: SearchEngine, embedder: Embedder) -> None:
        self._index = index
        self._embedder = embedder

    def made(self, text: str, where: SearchFilter, answer: str) -> Iterator[Seen]:
        """The evidence for a question with its document, and without it."""
        response = self._searched(text, where)
        yield self._seen(text, response, answer, Kind.ANSWERED)
        yield self._seen(text, response, answer, Kind.REMOVED)

    def foreign(self, text: str, where: SearchFilter) -> Seen:
        """The evidence for a question that nothing answers."""
        return self._seen(text, self._searched(text, where), text, Kind.FOREIGN)

    def _searched(self, text: str, where: SearchFilter) -> SearchResponse:
        vector = self._embedder.embed_query(text)
        check_vector(vector, self._embedder.model_id)
        return self._index.search(SearchRequest(where, text, vector, 3 * DEPTH[MODE], question_languages(text)))

    @staticmethod
    def _seen(text: str, response: SearchResponse, group: str, kind: Kind) -> Seen:
        gone = group if kind is Kind.REMOVED else ""
        left = without(response, lambda chunk: chunk.chunk.document_id == gone, DEPTH[MODE])
        found = fused_hits(left, Fusion.MIN_MAX, PASSAGES, asked=words(text, question_languages(text)))
        pages = pages_of(found, found)[:JUDGED]
        right = tuple(group in _documents(page) for page in pages)
        return Seen(group, kind, tuple(evidence_of(text, found, pages)), right)


def _documents(page: Page) -> set[str]:
    """The document of a page, and those that say the same."""
    return {chunk.chunk.document_id for hit in page.hits for chunk in (hit.indexed, *hit.copies)}


def check_vector(vector: Vector, model: str) -> None:
    """Raise `EmbeddingError` for a vector that isn't of length 1, as those of zeros and of NaN."""
    length = math.sqrt(math.fsum(value * value for value in vector))
    if not abs(length - 1) <= LENGTH_ERROR:
        raise EmbeddingError(f"the embedding model {model} gave a vector of length {length:.3g}; it must be 1")
