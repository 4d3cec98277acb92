"""A question on its way to an answer: what is searched for, and what is to be said about it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from opx.domain.knowledge import KnowledgeModel
from opx.domain.queries import MAX_QUERY_CHARACTERS, QueryConfig
from opx.retrieval.query_language import Question, read_question
from opx.text.languages import question_languages


@dataclass(slots=True)
class Asked:
    """`languages` are those that the question may be in. `timings` are in milliseconds, added up over all searches.
    `ranked_by` says what decided the order last."""

    query: str
    question: Question
    config: QueryConfig
    languages: tuple[str, ...]
    notes: list[str]
    partial: bool = False
    timings: dict[str, float] = field(default_factory=dict)
    ranked_by: str = "fused"

    @property
    def text(self) -> str:
        """The words that are searched for."""
        return self.question.text

    def relaxed(self) -> bool:
        """Take the question's phrases for words from now on; False if it has none."""
        relaxed = self.question.relaxed()
        if relaxed is self.question:
            return False
        self.question = relaxed
        self.note(relaxed.notes[-1])
        return True

    def note(self, text: str) -> None:
        """Say it once, however often it happens."""
        if text not in self.notes:
            self.notes.append(text)

    def lacks(self, text: str) -> None:
        """Something that should have been searched was not."""
        self.partial = True
        self.note(text)

    def took(self, part: str, milliseconds: float) -> None:
        self.timings[part] = self.timings.get(part, 0.0) + milliseconds

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Note how long the block takes, also if it fails."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.took(part, 1000 * (time.perf_counter() - started))


def asked_for(query: str, config: QueryConfig, knowledge: KnowledgeModel) -> Asked:
    """Cut to what is searched, without halves of surrogate pairs, which neither stores nor models take."""
    text = query[:MAX_QUERY_CHARACTERS].encode("utf-8", "replace").decode()
    cut = f"the query has {len(query):,} characters; only the first {MAX_QUERY_CHARACTERS:,} were searched"
    question = read_question(text, config, knowledge)
    notes = [cut] if len(query) > MAX_QUERY_CHARACTERS else []
    return Asked(query, question, config, question_languages(question.text, config.language), [*notes, *question.notes])
