"""Ingests the corpus of a dataset into a system of its own, and asks its questions."""

from __future__ import annotations

from collections.abc import Iterable

from opx.domain.queries import Fusion, SearchMode
from opx.domain.results import IndexedChunk
from opx.domain.scopes import Scope
from opx.operations.evaluation.datasets import Dataset
from opx.operations.evaluation.figures import Table, means_by_kind
from opx.operations.evaluation.ingesting import CorpusIntake, EvaluatedSystem, IngestFigures, Progress
from opx.ports import SearchFilter, SearchRequest, SearchResponse
from opx.retrieval.hybrid import DEFAULT_FUSION, DEPTH, fused_hits
from opx.text.fields import words
from opx.text.languages import question_languages

FUSIONS = (DEFAULT_FUSION, *(fusion for fusion in Fusion if fusion is not DEFAULT_FUSION))


class Evaluation:
    """One dataset in a system of its own (an empty or reused home), so that nothing else is in the index."""

    def __init__(self, services: EvaluatedSystem, dataset: Dataset, progress: Progress | None = None) -> None:
        self.services = services
        self.dataset = dataset
        self.progress = progress or (lambda *_: None)
        self._page_of_key: dict[str, str] = {}

    def ingest(self) -> IngestFigures:
        """Put every page and work until all are searchable. Raises `OpxError` if one fails."""
        intake = CorpusIntake(self.services, self.dataset, self.progress)
        figures = intake.run()
        self._page_of_key = intake.page_of_key
        return figures

    def page(self, indexed: IndexedChunk) -> str:
        return self.page_of(indexed.key_id)

    def page_of(self, key_id: str) -> str:
        return self._page_of_key[key_id]

    # -- below the answers: what each leg and each fusion makes of a question

    def respond(self, question: str, depth: int) -> SearchResponse:
        embedder = self.services.indexing.query_embedder or self.services.indexing.embedder
        vector = embedder.embed_query(question)
        languages = question_languages(question)
        return self.services.indexing.index.search(SearchRequest(self.everything, question, vector, depth, languages))

    @property
    def everything(self) -> SearchFilter:
        """What passes all of the dataset's pages."""
        return SearchFilter(scopes=(Scope().key,))

    def rankings(self, question: str, mode: SearchMode, fusions: Iterable[Fusion] = FUSIONS) -> dict[str, list[str]]:
        """Pages in order, for each leg alone and for each fusion; a page is as good as its best chunk."""
        response, asked = self.respond(question, DEPTH[mode]), words(question, question_languages(question))
        legs = {"lexical": response.lexical, "vector": response.vector}
        ranked = {name: self._pages(response.chunks[entry] for entry, _ in leg.hits) for name, leg in legs.items()}
        for fusion in fusions:
            name = "hybrid" if fusion is DEFAULT_FUSION else f"hybrid ({fusion})"
            ranked[name] = self._pages(hit.indexed for hit in fused_hits(response, fusion, 1, asked=asked).hits)
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
