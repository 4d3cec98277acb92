"""Language models and rerankers: what they are asked, and what they may answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from opx.domain.bands import Verdict


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is asked, in one call.

    `instructions` are ours. `data` is all that comes from questions, documents or the web: adapters pass it apart from the
    instructions, framed, so that nothing in it is taken for one, and without what looks like a secret. Several texts in it
    are best told apart as JSON. `answer` is the type of the object that must come back, a `ModelAnswer`.
    `seconds` is how long the call may take in all, tries included.
    """

    instructions: str
    data: str
    answer: type[Any]
    max_tokens: int = 1000
    seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The answer, which is of the type that the request names, and the tokens that were paid for."""

    content: Any
    input_tokens: int = 0
    output_tokens: int = 0


class ChatModel(Protocol):
    """A language model that answers with JSON."""

    @property
    def name(self) -> str:
        """Which model it is, for traces: `bedrock:amazon.nova-lite-v1:0`."""

    def ask(self, request: ChatRequest) -> ChatReply:
        """One call. Raises `ModelError` if the model fails, takes too long, or answers what doesn't fit."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document to be judged: its title, and its best passages under their headings."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Reading:
    """The verdict on a document. `line` is the number of the line that answers or helps, from 1 in
    `models.candidates.lines_of` the candidate's text; 0 for none. `score` is the relevance in [0, 1] that the verdict was
    made of, None of a model that gives verdicts."""

    verdict: Verdict
    line: int = 0
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """A reading of each candidate, in the order of the candidates. Readings of one model have all a score or none."""

    readings: tuple[Reading, ...]
    input_tokens: int = 0
    output_tokens: int = 0


class Reranker(Protocol):
    """Reads the best documents of a search, and judges each."""

    @property
    def name(self) -> str:
        """Its name in answers: `chat:openai:llama3.2`, `bedrock:cohere.rerank-v3-5:0`."""

    def rank(self, question: str, candidates: Sequence[Candidate], *, seconds: float) -> Ranking:
        """Readings of all candidates. `Ranking(())` for none of them. Raises `ModelError` if it fails, takes longer than
        `seconds`, gives anything but one reading of each, or gets more than `models.candidates.MAX_CANDIDATES`."""
