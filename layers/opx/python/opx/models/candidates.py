"""What rerankers that cost money read of candidates: so many, and so much of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from opx.errors import ModelError
from opx.ports.models import Candidate, Ranking

MAX_CANDIDATES = 20
MAX_CHARACTERS = 2400
"""Of a candidate: about 600 tokens of English, a whole chunk (500 tokens) under its title."""
MAX_QUESTION_CHARACTERS = 2000
_BLANK = "."
"""Read for a text without characters, which services refuse."""


def check_number(candidates: Sequence[Candidate], name: str) -> None:
    """Raise `ModelError` for more candidates than a call may pay for."""
    if len(candidates) > MAX_CANDIDATES:
        raise ModelError(f"{name} reads at most {MAX_CANDIDATES} candidates a call, not {len(candidates)}")


def readable(text: str, limit: int = MAX_CHARACTERS) -> str:
    """What is read of a text: not blank, not too long, and valid Unicode."""
    cut = text[:limit].encode("utf-8", "replace").decode()
    return cut if cut.strip() else _BLANK


def check_range(scores: Iterable[object], name: str) -> None:
    """Raise `ModelError` for anything that is no number in [0, 1]."""
    if not all(isinstance(score, int | float) and math.isfinite(score) and 0 <= score <= 1 for score in scores):
        raise ModelError(f"{name} gave a score outside of [0, 1]")


def ranking(scores: Mapping[int, float], count: int, name: str, *, tokens: tuple[int, int] = (0, 0)) -> Ranking:
    """The ranking of `count` candidates from their scores by position. Raises `ModelError` unless there is a score in
    [0, 1] for each, and for nothing else. `tokens`: read and written."""
    if scores.keys() != set(range(count)):
        raise ModelError(f"{name} gave scores for {len(scores)} candidates, not for each of the {count}")
    check_range(scores.values(), name)
    return Ranking(tuple(scores[at] for at in range(count)), input_tokens=tokens[0], output_tokens=tokens[1])
