"""What came of acting upon what is found, as far as answers need it: it moves scores, and warns of steps."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from opx.domain.results import Answer
from opx.errors import StoreUnavailableError
from opx.retrieval.asking import Asked
from opx.retrieval.judging import Judged

log = logging.getLogger(__name__)

NOT_READ = "what came of these documents before could not be read: scores and warnings are without it"


class Experienced(Protocol):
    """What is known of the hits of one question."""

    def weighed(self, judged: Sequence[Judged]) -> list[Judged]:
        """The same in the same order, with the outcomes of their documents."""

    def told_of(self, answer: Answer) -> Answer:
        """With warnings at the results that hold a step which was tried before, and with what tells the outcomes that
        moved scores from others."""


class Experience(Protocol):
    """Asked once a question."""

    def of(self, judged: Sequence[Judged]) -> Experienced:
        """Raises `StoreUnavailableError`."""


class Inexperienced:
    """Nothing is known."""

    def weighed(self, judged: Sequence[Judged]) -> list[Judged]:
        return list(judged)

    def told_of(self, answer: Answer) -> Answer:
        return answer


def experienced(asked: Asked, experience: Experience | None, judged: Sequence[Judged]) -> Experienced:
    """What is known of these hits. A store that fails is noted: an answer without outcomes is better than none."""
    if experience is None or not judged:
        return Inexperienced()
    try:
        return experience.of(judged)
    except StoreUnavailableError:
        log.exception("outcomes can't be read")
        asked.lacks(NOT_READ)
        return Inexperienced()
