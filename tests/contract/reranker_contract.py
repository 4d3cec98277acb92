"""Contract of `Reranker`. A test class inherits this one and provides the fixture `reranker`."""

from __future__ import annotations

import math

import pytest

from opx.domain.queries import ReaderVerdict
from opx.ports.models import MAX_CANDIDATES, Candidate, CandidateReading, Ranking, Reranker
from tests.contract.chat_model_contract import HOSTILE

QUESTION = "database server disk full"
DISK = Candidate("Disk full", "The disk of the database server is full: delete old archive logs.")
LOGS = Candidate("Archive logs", "Archive logs of the server are kept for a week.")
TEA = Candidate("Tea", "How to brew green tea with a bamboo whisk.")
SECONDS = 20.0
BETTER = (ReaderVerdict.NO, ReaderVerdict.HELPS, ReaderVerdict.ANSWERS)


def judged(reranker: Reranker, *candidates: Candidate) -> list[CandidateReading]:
    """The readings of candidates of which each has one."""
    readings = reranker.rank(QUESTION, candidates, seconds=SECONDS).readings
    assert None not in readings
    return [reading for reading in readings if reading]


class RerankerContract:
    """Inherit and add a fixture `reranker`."""

    def test_no_candidates_have_no_readings(self, reranker: Reranker) -> None:
        assert reranker.rank(QUESTION, [], seconds=SECONDS) == Ranking(())

    def test_each_candidate_has_a_reading_in_its_place(self, reranker: Reranker) -> None:
        disk, logs, tea = judged(reranker, DISK, LOGS, TEA)
        assert disk.verdict is ReaderVerdict.ANSWERS
        assert ReaderVerdict.ANSWERS not in (logs.verdict, tea.verdict)
        assert BETTER.index(logs.verdict) >= BETTER.index(tea.verdict)

    def test_readings_go_with_their_candidates(self, reranker: Reranker) -> None:
        readings = reranker.rank(QUESTION, [DISK, LOGS, TEA], seconds=SECONDS).readings
        turned = reranker.rank(QUESTION, [TEA, LOGS, DISK], seconds=SECONDS).readings
        assert turned == readings[::-1]

    def test_one_candidate_has_one_reading(self, reranker: Reranker) -> None:
        assert len(reranker.rank(QUESTION, [TEA], seconds=SECONDS).readings) == 1

    def test_equal_candidates_have_equal_readings(self, reranker: Reranker) -> None:
        one, _, other = reranker.rank(QUESTION, [DISK, TEA, DISK], seconds=SECONDS).readings
        assert one == other

    def test_as_many_as_it_may_get_are_read(self, reranker: Reranker) -> None:
        assert len(reranker.rank(QUESTION, [LOGS] * MAX_CANDIDATES, seconds=SECONDS).readings) == MAX_CANDIDATES

    @pytest.mark.parametrize(
        "text", ["", "   ", "?!", "Gerät キュー 🚒 перезапуск", "an unpaired \ud800", "word " * 30_000, *HOSTILE]
    )
    def test_any_text_is_judged(self, reranker: Reranker, text: str) -> None:
        readings = judged(reranker, DISK, Candidate(text, text))
        assert [reading.verdict for reading in readings] == [ReaderVerdict.ANSWERS, readings[1].verdict]
        scores = [reading.score for reading in readings if reading.score is not None]
        assert len(scores) in (0, 2)
        assert all(math.isfinite(score) and 0 <= score <= 1 for score in scores)

    @pytest.mark.parametrize("question", ["", "?", "caf\u00e9 \ud800", "disk " * 5000])
    def test_any_question_is_accepted(self, reranker: Reranker, question: str) -> None:
        assert len(reranker.rank(question, [DISK, TEA], seconds=SECONDS).readings) == 2

    def test_the_candidates_are_not_changed(self, reranker: Reranker) -> None:
        candidates = [DISK, TEA]
        reranker.rank(QUESTION, candidates, seconds=SECONDS)
        assert candidates == [DISK, TEA]

    def test_it_has_a_name_that_stays(self, reranker: Reranker) -> None:
        assert reranker.name
        assert reranker.name == reranker.name
