"""`Reranker` that has a language model judge all candidates in one call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from opx.models.candidates import MAX_QUESTION_CHARACTERS, check_number, ranking, readable
from opx.models.schema import ModelAnswer
from opx.ports.models import Candidate, ChatModel, ChatRequest, Ranking

BEST = 10
_TOKENS_AROUND, _TOKENS_A_SCORE = 100, 25
"""Of an answer: `{"id": 12, "score": 10}` has some 12 tokens, twice as many where it is written in lines."""

INSTRUCTIONS = f"""\
You rank passages of an operations knowledge base. You get a question and passages as JSON: "question", and "passages" \
with "id" and "text". Judge each passage by itself: how well does it answer the question?
{BEST}: it answers the question in full. 7: it answers a good part of it. 4: it is about the same thing and answers \
little of it. 1: it shares words with the question. 0: it has nothing to do with it.
Give every passage exactly one score, a whole number from 0 to {BEST}, under its id."""


class ChatReranker:
    """Judges by scores from 0 to 10, which are ranks more than probabilities: they are not calibrated.

    Each candidate is cut to `candidates.MAX_CHARACTERS`. They are sent as JSON, so that no passage can end before its
    end; the model is told to judge and not to obey. What it can't be kept from is judging a passage wrongly because of
    what the passage says: that changes this passage's place among the candidates, and nothing else.
    """

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat

    @property
    def name(self) -> str:
        return f"chat:{self._chat.name}"

    def rank(self, question: str, candidates: Sequence[Candidate], *, seconds: float) -> Ranking:
        if not candidates:
            return Ranking(())
        check_number(candidates, self.name)
        reply = self._chat.ask(
            ChatRequest(
                INSTRUCTIONS,
                _data(question, candidates),
                _scores(len(candidates)),
                max_tokens=_TOKENS_AROUND + _TOKENS_A_SCORE * len(candidates),
                seconds=seconds,
            )
        )
        scores = {each.id: each.score / BEST for each in reply.content.scores}
        return ranking(scores, len(candidates), self.name, tokens=(reply.input_tokens, reply.output_tokens))


def _data(question: str, candidates: Sequence[Candidate]) -> str:
    passages = [{"id": at, "text": readable(candidate.text)} for at, candidate in enumerate(candidates)]
    asked = readable(question, MAX_QUESTION_CHARACTERS)
    return json.dumps({"question": asked, "passages": passages}, ensure_ascii=False, indent=1)


@cache
def _scores(count: int) -> type[Any]:
    """The type of an answer with a score for each of so many passages."""
    whole = Annotated[int, Meta(ge=0, le=BEST)]
    score = msgspec.defstruct(
        "Score", [("id", Annotated[int, Meta(ge=0, le=count - 1)]), ("score", whole)], bases=(ModelAnswer,), frozen=True
    )
    each = Annotated[tuple[score, ...], Meta(min_length=count, max_length=count)]  # type: ignore[valid-type]
    return msgspec.defstruct("Scores", [("scores", each)], bases=(ModelAnswer,), frozen=True)
