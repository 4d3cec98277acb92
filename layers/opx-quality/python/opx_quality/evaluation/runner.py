"""Ingests the corpus of a dataset into a system of its own, and ranks its questions by leg and fusion."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from opx.domain.documents import DocumentKey
from opx.domain.queries import Fusion, SearchMode
from opx.domain.results import IndexedChunk
from opx.domain.scopes import Scope
from opx.errors import OpxError
from opx.ingestion.events import DOCUMENTS_FOLDER, EventOutcome, Result
from opx.ingestion.files import plan_files
from opx.operations.system import System
from opx.ports import Embedder, SearchFilter, SearchRequest, SearchResponse, Vectors
from opx.ports.search import WrappedEmbedder
from opx.retrieval.hybrid import DEFAULT_FUSION, DEPTH, Candidates, fused_hits
from opx.retrieval.question import value_words
from opx.text.fields import words
from opx.text.languages import question_languages
from opx_quality.evaluation.datasets import Dataset
from opx_quality.evaluation.figures import Table, means_by_kind

FUSIONS = (DEFAULT_FUSION, *(fusion for fusion in Fusion if fusion is not DEFAULT_FUSION))


class Evaluation:
    """One dataset in a system of its own (an empty or reused home), so that nothing else is in the index."""

    def __init__(self, services: System, dataset: Dataset, progress: Progress | None = None) -> None:
        self.services = services
        self.dataset = dataset
        self.progress = progress or (lambda *_: None)
        self._page_of_key: dict[str, str] = {}

    def ingest(self) -> IngestFigures:
        """Put every page, and ingest until all are searchable. Raises `OpxError` if one fails."""
        intake = CorpusIntake(self.services, self.dataset, self.progress)
        figures = intake.run()
        self._page_of_key = intake.page_of_key
        return figures

    def page(self, indexed: IndexedChunk) -> str:
        return self.page_of(indexed.key_id)

    def page_of(self, key_id: str) -> str:
        return self._page_of_key[key_id]

    # -- rankings of single legs and fusions

    def respond(self, question: str, depth: int) -> SearchResponse:
        embedder = self.services.indexing.query_embedder or self.services.indexing.embedder
        vector = embedder.embed_query(question)
        languages = question_languages(question)
        request = SearchRequest(self.everything, question, vector, depth, languages, value_words(question, languages))
        return self.services.indexing.index.search(request)

    @property
    def everything(self) -> SearchFilter:
        """The filter that passes all pages of the dataset."""
        return SearchFilter(scopes=(Scope().key,))

    def rankings(self, question: str, mode: SearchMode, fusions: Iterable[Fusion] = FUSIONS) -> dict[str, list[str]]:
        """Pages in order, for each leg alone and for each fusion; a page is as good as its best chunk."""
        response, languages = self.respond(question, DEPTH[mode]), question_languages(question)
        question_words, values = words(question, languages), value_words(question, languages)
        legs = {"lexical": response.lexical, "vector": response.vector}
        ranked = {name: self._pages(response.chunks[entry] for entry, _ in leg.hits) for name, leg in legs.items()}
        candidates = Candidates.of(response)
        for fusion in fusions:
            name = "hybrid" if fusion is DEFAULT_FUSION else f"hybrid ({fusion})"
            found = fused_hits(candidates, fusion, 1, question_words=question_words, values=values)
            ranked[name] = self._pages(hit.indexed for hit in found.hits)
        return ranked

    def _pages(self, found: Iterable[IndexedChunk]) -> list[str]:
        return list(dict.fromkeys(self.page(indexed) for indexed in found))

    def measure(self, mode: SearchMode = SearchMode.BALANCED) -> Table:
        """Means of `rankings` by system, then kind of question (and `all`), then measure; `questions` is their number."""
        ranked: dict[str, list[list[str]]] = {}
        questions = self.dataset.questions
        for number, question in enumerate(questions, start=1):
            for system, pages in self.rankings(question.text, mode).items():
                ranked.setdefault(system, []).append(pages)
            self.progress("ask", number, len(questions))
        return {system: means_by_kind(zip(questions, pages, strict=True)) for system, pages in ranked.items()}


# -- ingesting


CATEGORY = "runbooks/procedures"
"""Category of pages from `corpus.jsonl`."""

Progress = Callable[[str, int, int], None]
"""Called with a phase, the number of items done, and their total."""


@dataclass(frozen=True, slots=True)
class IngestFigures:
    """Figures of ingesting the corpus. Times are in seconds; pages that were already stored are not counted."""

    pages: int
    chunks: int
    seconds: float
    embedding_seconds: float
    unchanged: int

    def to_json(self) -> dict[str, float]:
        rest = max(self.seconds - self.embedding_seconds, 1e-9)
        return {
            "pages": self.pages,
            "unchanged": self.unchanged,
            "chunks": self.chunks,
            "seconds": round(self.seconds, 2),
            "chunksPerSecond": round(self.chunks / max(self.seconds, 1e-9), 1),
            "embeddingShare": round(self.embedding_seconds / max(self.seconds, 1e-9), 3),
            "chunksPerSecondWithoutEmbedding": round(self.chunks / rest, 1),
        }


class CorpusIntake:
    """Puts the pages that are new or changed. `page_of_key` then has the page of each document key."""

    def __init__(self, services: System, dataset: Dataset, progress: Progress) -> None:
        self._services = services
        self._dataset = dataset
        self._progress = progress
        self.page_of_key: dict[str, str] = {}

    def run(self) -> IngestFigures:
        """Put every page, and ingest until all are searchable. Raises `OpxError` if one fails."""
        timed = _TimedEmbedder(self._services.indexing.embedder)
        self._services.indexing.replace_embedder(timed)
        started = time.perf_counter()
        unchanged = sum(not put for put in self._put_all())
        pages = chunks = 0
        assert self._services.ingestion.drain is not None
        for outcome in self._services.ingestion.drain.run():
            if outcome.result is Result.FAILED:
                raise OpxError(f"{outcome.object_key}: {outcome.reason}")
            pages += 1
            chunks += outcome.chunks
            self._progress("ingest", pages, len(self.page_of_key) - unchanged)
        return IngestFigures(pages, chunks, time.perf_counter() - started, timed.seconds, unchanged)

    def _put_all(self) -> Iterator[bool]:
        """Yields for each page true if it is new or changed."""
        if self._dataset.documents is not None:
            yield from self._put_files(self._dataset.documents.resolve())
            return
        for page in self._dataset.pages():
            yield self._put(page.id, page.title, page.text)

    def _put_files(self, folder: Path) -> Iterator[bool]:
        manager = self._services.manager
        for file in plan_files([folder], folder):
            if isinstance(file, EventOutcome):
                raise OpxError(f"{file.object_key}: {file.reason}")
            source = f"{DOCUMENTS_FOLDER}{file.source}"
            self.page_of_key[DocumentKey(Scope(), source).id] = file.source
            outcome = manager.put_file(file, {})
            if outcome is not None and outcome.result is Result.FAILED:
                raise OpxError(f"{outcome.object_key}: {outcome.reason}")
            yield outcome is None

    def _put(self, page: str, title: str, text: str) -> bool:
        """Puts a page, true if it is new or changed. An empty page is left out: nothing can find it."""
        source = f"{DOCUMENTS_FOLDER}{CATEGORY}/{page}.md"
        key = DocumentKey(Scope(), source)
        self.page_of_key[key.id] = page
        head = self._services.corpus.catalog.head(key)
        if not text.strip() or (head and head.get("state") == "current" and not head.get("writing")):
            return False
        self._services.manager.put_document(CATEGORY, text, {"title": title or page, "source": f"{page}.md"})
        return True


class _TimedEmbedder(WrappedEmbedder):
    """An `Embedder` that adds up how long documents take."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self.seconds = 0.0

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        started = time.perf_counter()
        try:
            return self._embedder.embed_documents(texts)
        finally:
            self.seconds += time.perf_counter() - started
