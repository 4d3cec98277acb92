"""Language models and rerankers: what they are asked, and what they may answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is asked, in one call.

    `instructions` are ours. `data` is all that comes from questions, documents or the web: adapters pass it apart from the
    instructions, framed, so that nothing in it is taken for one, and without what looks like a secret. Several texts in it
    are best told apart as JSON. `answer` is the type of the object that must come back, an `opx.models.schema.ModelAnswer`.
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
    """A passage to be ranked. `text` is the passage under its title and section; `parts` are the parts of its score."""

    text: str
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ranking:
    """A score in [0, 1] for each candidate, in the order of the candidates: higher answers better.

    `calibrated`: the scores are probabilities of being relevant.
    """

    scores: tuple[float, ...]
    calibrated: bool = False
    input_tokens: int = 0
    output_tokens: int = 0


class Reranker(Protocol):
    """Reads the best candidates of a search again, with more care."""

    @property
    def name(self) -> str:
        """Which one it is, as answers say it: `local`, `bedrock:cohere.rerank-v3-5:0`."""

    def rank(self, question: str, candidates: Sequence[Candidate], *, seconds: float) -> Ranking:
        """Scores for all candidates. `Ranking(())` for none of them. Raises `ModelError` if it fails, takes longer than
        `seconds`, gives anything but a score in [0, 1] for each, or gets more than `models.candidates.MAX_CANDIDATES`."""
