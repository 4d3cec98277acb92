"""Takes a dataset in through the real pipeline and measures how well its questions are answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean

from opx.domain.documents import DocumentKey
from opx.domain.queries import Fusion, SearchMode
from opx.domain.results import IndexedChunk
from opx.domain.scopes import Scope
from opx.errors import OpxError
from opx.evaluation.datasets import Dataset, Question
from opx.evaluation.measures import MEASURES
from opx.ingestion.events import DOCUMENTS_FOLDER
from opx.ingestion.outcomes import Result
from opx.ports import SearchFilter, SearchRequest, SearchResponse
from opx.retrieval.fusion import DEFAULT_FUSION
from opx.retrieval.hybrid import DEPTH, fused_hits
from opx.services import Services

CATEGORY = "runbooks/procedures"
ALL = "all"
Progress = Callable[[str, int, int], None]
"""Called with a phase, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True)
class IngestFigures:
    """What taking the corpus in cost. Times are in seconds; nothing is counted that was there already."""

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


class Evaluation:
    """One dataset in services of its own (an empty or reused home), so that nothing else is in the index."""

    def __init__(self, services: Services, dataset: Dataset, progress: Progress | None = None) -> None:
        self._services = services
        self._dataset = dataset
        self._progress = progress or (lambda *_: None)
        self._page_of_key: dict[str, str] = {}

    def ingest(self) -> IngestFigures:
        """Put every page and work until all are searchable. Raises `OpxError` if one fails."""
        timed = _TimedEmbedder(self._services.embedder)
        self._services.__dict__["embedder"] = timed
        started = time.perf_counter()
        unchanged = sum(not self._put(page.id, page.title, page.text) for page in self._dataset.pages())
        pages = chunks = 0
        assert self._services.drain is not None
        for outcome in self._services.drain.run():
            if outcome.result is Result.FAILED:
                raise OpxError(f"{outcome.object_key}: {outcome.reason}")
            pages += 1
            chunks += outcome.chunks
            self._progress("ingest", pages, len(self._page_of_key) - unchanged)
        return IngestFigures(pages, chunks, time.perf_counter() - started, timed.seconds, unchanged)

    def _put(self, page: str, title: str, text: str) -> bool:
        """True if the page is new or changed. An empty page is kept out: it can't be found by anything."""
        source = f"{DOCUMENTS_FOLDER}{CATEGORY}/{page}.md"
        key = DocumentKey(Scope(), source)
        self._page_of_key[key.id] = page
        head = self._services.catalog.head(key)
        if not text.strip() or (head and head.get("state") == "current" and not head.get("writing")):
            return False
        self._services.manager.put_document(CATEGORY, text, {"title": title or page, "source": f"{page}.md"})
        return True

    # -- asking

    def respond(self, question: str, depth: int) -> SearchResponse:
        vector = self._services.embedder.embed_query(question)
        where = SearchFilter(scopes=(Scope().key,))
        return self._services.index.search(SearchRequest(where, question, vector, depth))

    def page(self, indexed: IndexedChunk) -> str:
        return self._page_of_key[indexed.key_id]

    def rankings(self, question: str, mode: SearchMode, fusions: Iterable[Fusion]) -> dict[str, list[str]]:
        """Pages in order, for each leg alone and for each fusion; a page is as good as its best chunk."""
        response = self.respond(question, DEPTH[mode])
        legs = {"lexical": response.lexical, "vector": response.vector}
        ranked = {name: self._pages(response.chunks[entry] for entry, _ in leg.hits) for name, leg in legs.items()}
        for fusion in fusions:
            name = "hybrid" if fusion is DEFAULT_FUSION else f"hybrid ({fusion})"
            ranked[name] = self._pages(hit.indexed for hit in fused_hits(response, fusion, 1).hits)
        return ranked

    def _pages(self, found: Iterable[IndexedChunk]) -> list[str]:
        return list(dict.fromkeys(self.page(indexed) for indexed in found))

    def measure(self, mode: SearchMode = SearchMode.BALANCED) -> dict[str, dict[str, dict[str, float]]]:
        """Means by system, then kind of question (and `all`), then measure; `questions` is their number."""
        rows: dict[str, dict[str, list[dict[str, float]]]] = {}
        total = len(self._dataset.questions)
        fusions = (DEFAULT_FUSION, *(fusion for fusion in Fusion if fusion is not DEFAULT_FUSION))
        for number, question in enumerate(self._dataset.questions, start=1):
            for system, ranked in self.rankings(question.text, mode, fusions).items():
                measured = _measured(ranked, question)
                for kind in (ALL, question.kind):
                    rows.setdefault(system, {}).setdefault(kind, []).append(measured)
            self._progress("ask", number, total)
        return {system: {kind: _means(row) for kind, row in kinds.items()} for system, kinds in rows.items()}


def _measured(ranked: list[str], question: Question) -> dict[str, float]:
    return {name: measure(ranked, question.relevant) for name, measure in MEASURES.items()}


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    means = {name: round(fmean(row[name] for row in rows), 4) for name in rows[0]}
    return {"questions": len(rows), **means}


class _TimedEmbedder:
    """An `Embedder` that adds up how long documents take."""

    def __init__(self, embedder: object) -> None:
        self._embedder = embedder
        self.seconds = 0.0

    def __getattr__(self, name: str) -> object:
        return getattr(self._embedder, name)

    def embed_documents(self, texts: list[str]) -> object:
        started = time.perf_counter()
        try:
            return self._embedder.embed_documents(texts)  # type: ignore[attr-defined]
        finally:
            self.seconds += time.perf_counter() - started
