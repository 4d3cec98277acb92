"""A system that can be reindexed with other models: bags of words with a number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opx.domain.queries import QueryConfig
from opx.errors import InvalidInputError
from opx.ingestion.events import EventOutcome, Result
from opx.lifecycle.reindex.job import Progress, ReindexPhase
from opx.lifecycle.reindex.reindexing import Reindexer
from opx.operations.system import System
from opx.ports import SearchFilter, Vector
from opx.settings import Settings
from opx.system import bootstrap
from opx.text.analyzer import analyze
from opx_testing.entries import EVERYONE
from tests.support.cli_support import WordEmbedder

FOLDER = "documents/runbooks/procedures/"


class Words(WordEmbedder):
    """A model named by its number of dimensions."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension
        self.model_id = f"words-{dimension}/1"


class Blind(WordEmbedder):
    """A model with the same vector for every text."""

    model_id = "blind/1"

    def embed_query(self, text: str) -> Vector:
        return super().embed_query("same" if analyze(text) else "")


def a_model(model: str, _path: str, _dimension: int) -> WordEmbedder:
    if model == "blind":
        return Blind()
    if not model.isdigit():
        raise InvalidInputError(f"there is no model {model!r} here")
    return Words(int(model))


def services_at(home: Path, **settings: Any) -> System:
    return bootstrap(Settings(home=str(home), **settings), embedder=WordEmbedder(), new_embedder=a_model)


@dataclass
class World:
    """A system with its documents and a reindexer."""

    services: System

    def put(self, name: str, title: str, text: str = "") -> None:
        self.services.store.put(f"{FOLDER}{name}.md", f"# {title}\n\n{text or title} in detail.\n".encode())

    def delete(self, name: str) -> None:
        self.services.store.delete(f"{FOLDER}{name}.md")

    def drain(self) -> list[EventOutcome]:
        assert self.services.ingestion.drain is not None
        return list(self.services.ingestion.drain.run())

    def ingest(self, **titles: str) -> list[Result]:
        for name, title in titles.items():
            self.put(name, title)
        return [outcome.result for outcome in self.drain()]

    def ingest_again(self) -> set[Result]:
        """Outcomes when all documents are enqueued again."""
        self.services.store.announce_all()  # type: ignore[attr-defined]
        return {outcome.result for outcome in self.drain()}

    def titles(self, where: SearchFilter = EVERYONE) -> Sequence[str]:
        """Titles of all documents in the active index."""
        config = QueryConfig(min_confidence=0.0, max_results=100, max_chunks_per_document=1)
        assert where
        answer = self.services.questions.for_reader().search("detail", config)
        return sorted(result.title for result in answer.results)

    def best(self, question: str) -> str:
        answer = self.services.questions.for_reader().search(question, QueryConfig(min_confidence=0.0))
        return answer.results[0].title if answer.results else ""

    @property
    def model(self) -> str:
        return self.services.indexing.document_embedder.model_id

    @property
    def reindexer(self) -> Reindexer:
        return self.services.lifecycle.reindexer

    def begin(self, model: str = "32") -> Reindexer:
        reindexer = self.reindexer
        reindexer.start(model=model)
        return reindexer

    def reach(self, phase: ReindexPhase, reindexer: Reindexer | None = None) -> Reindexer:
        """Advance until the job is in this phase."""
        reindexer = reindexer or self.begin()
        for _ in range(100):
            job = reindexer.status()[1]
            if job and job.phase is phase:
                return reindexer
            reindexer.advance(lambda: True)
        raise AssertionError(f"{phase} was never reached")

    def finish(self, reindexer: Reindexer | None = None) -> Progress:
        reindexer = reindexer or self.reindexer
        for _ in range(100):
            progress = reindexer.advance(lambda: False)
            if progress.finished:
                return progress
        raise AssertionError("it never ends")

    def reindex(self, model: str = "32") -> Progress:
        return self.finish(self.begin(model))

    def roll_back(self) -> Progress:
        reindexer = self.reindexer
        reindexer.roll_back()
        return self.finish(reindexer)
