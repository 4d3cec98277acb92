"""What rerankers that cost money read of candidates: so many, and so much of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from opx.domain.bands import Verdict
from opx.errors import ModelError
from opx.ports.models import Candidate, Ranking, Reading

MAX_CANDIDATES = 8
"""Documents: of 866 questions about 730 pages, 99.0 % have a relevant page among them (5: 98.0 %, 10: 99.3 %)."""
MAX_CHARACTERS = 2400
"""Of a candidate, its title included: about 600 tokens of English, a whole chunk (500 tokens) under its title."""
MAX_TITLE_CHARACTERS = 200
MAX_QUESTION_CHARACTERS = 2000
_BLANK = "."
"""Read for a text without characters, which services refuse."""

ANSWERING_SCORE, USELESS_SCORE = 0.5, 0.1
"""Relevance from which on a score is taken for `answers`, and below which for `no`."""


def check_number(candidates: Sequence[Candidate], name: str) -> None:
    """Raise `ModelError` for more candidates than a call may pay for."""
    if len(candidates) > MAX_CANDIDATES:
        raise ModelError(f"{name} reads at most {MAX_CANDIDATES} candidates a call, not {len(candidates)}")


def readable(text: str, limit: int = MAX_CHARACTERS) -> str:
    """What is read of a text: not blank, not too long, and valid Unicode."""
    cut = text[:limit].encode("utf-8", "replace").decode()
    return cut if cut.strip() else _BLANK


def lines_of(text: str) -> list[str]:
    """The lines of a candidate's text that have characters, as readings count them."""
    return [stripped for line in readable(text).splitlines() if (stripped := line.strip())]


def reading_of(score: float) -> Reading:
    """The reading that a relevance stands for."""
    if score >= ANSWERING_SCORE:
        return Reading(Verdict.ANSWERS, score=score)
    return Reading(Verdict.NO if score < USELESS_SCORE else Verdict.HELPS, score=score)


def ranking(readings: Mapping[int, Reading], count: int, name: str, *, tokens: tuple[int, int] = (0, 0)) -> Ranking:
    """The ranking of `count` candidates from their readings by position. Raises `ModelError` unless there is one of each and
    of nothing else, and as `check_readings`. `tokens`: read and written."""
    if readings.keys() != set(range(count)):
        raise ModelError(f"{name} judged {len(readings)} candidates, not each of the {count}")
    found = Ranking(tuple(readings[at] for at in range(count)), input_tokens=tokens[0], output_tokens=tokens[1])
    check_readings(found.readings, count, name)
    return found


def check_readings(readings: Sequence[Reading], count: int, name: str) -> None:
    """Raise `ModelError` for another number of readings, for scores that are no number in [0, 1], and for scores of some."""
    if len(readings) != count:
        raise ModelError(f"{name} gave {len(readings)} readings of {count} candidates")
    scores = [reading.score for reading in readings if reading.score is not None]
    if scores and len(scores) < count:
        raise ModelError(f"{name} gave scores to {len(scores)} of {count} candidates")
    if not all(isinstance(score, int | float) and math.isfinite(score) and 0 <= score <= 1 for score in scores):
        raise ModelError(f"{name} gave a score outside of [0, 1]")
