"""What the graph answers to a question, with the passages that prove it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opx.graph.questions.answers import GraphAnswer
from opx.graph.views import Json, Passage, passage_from_json


@dataclass(frozen=True, slots=True)
class AnswerView:
    """An answer of the graph and the text behind it."""

    answer: GraphAnswer
    passages: tuple[Passage, ...] = ()

    def to_json(self) -> Json:
        return {**self.answer.to_json(), "passages": [passage.to_json() for passage in self.passages]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AnswerView:
        return cls(GraphAnswer.from_json(data), tuple(map(passage_from_json, data["passages"])))
