"""What every reranker must do. A test class inherits this one and provides the fixture `reranker`."""

from __future__ import annotations

import math

import pytest

from opx.ports.models import Candidate, Ranking, Reranker
from tests.contract.chat_model_contract import HOSTILE

QUESTION = "database server disk full"
DISK = Candidate(
    "# Disk full\n\nThe disk of the database server is full: delete old archive logs.",
    {"lexical_score": 9.0, "vector_score": 0.8, "fused": 0.032, "confidence": 0.9},
)
LOGS = Candidate(
    "# Archive logs\n\nArchive logs of the server are kept for a week.",
    {"lexical_score": 2.0, "vector_score": 0.5, "fused": 0.031, "confidence": 0.4},
)
TEA = Candidate(
    "# Tea\n\nHow to brew green tea with a bamboo whisk.",
    {"lexical_score": 0.0, "vector_score": 0.1, "fused": 0.015, "confidence": 0.02},
)
SECONDS = 20.0


class RerankerContract:
    """Inherit and add a fixture `reranker`."""

    def test_no_candidates_have_no_scores(self, reranker: Reranker) -> None:
        assert reranker.rank(QUESTION, [], seconds=SECONDS) == Ranking(())

    def test_each_candidate_has_a_score_in_its_place(self, reranker: Reranker) -> None:
        disk, logs, tea = reranker.rank(QUESTION, [DISK, LOGS, TEA], seconds=SECONDS).scores
        assert disk > logs >= tea

    def test_scores_go_with_their_candidates(self, reranker: Reranker) -> None:
        scores = reranker.rank(QUESTION, [DISK, LOGS, TEA], seconds=SECONDS).scores
        turned = reranker.rank(QUESTION, [TEA, LOGS, DISK], seconds=SECONDS).scores
        assert turned == pytest.approx(scores[::-1])

    def test_one_candidate_has_one_score(self, reranker: Reranker) -> None:
        assert len(reranker.rank(QUESTION, [TEA], seconds=SECONDS).scores) == 1

    def test_equal_candidates_have_equal_scores(self, reranker: Reranker) -> None:
        one, _, other = reranker.rank(QUESTION, [DISK, TEA, DISK], seconds=SECONDS).scores
        assert one == pytest.approx(other)

    def test_twenty_candidates_are_read(self, reranker: Reranker) -> None:
        assert len(reranker.rank(QUESTION, [LOGS] * 20, seconds=SECONDS).scores) == 20

    @pytest.mark.parametrize(
        "text", ["", "   ", "?!", "Gerät キュー 🚒 перезапуск", "an unpaired \ud800", "word " * 30_000, *HOSTILE]
    )
    def test_any_text_has_a_score_between_0_and_1(self, reranker: Reranker, text: str) -> None:
        scores = reranker.rank(QUESTION, [DISK, Candidate(text, TEA.parts)], seconds=SECONDS).scores
        assert len(scores) == 2
        assert all(math.isfinite(score) and 0 <= score <= 1 for score in scores)

    @pytest.mark.parametrize("question", ["", "?", "caf\u00e9 \ud800", "disk " * 5000])
    def test_any_question_can_be_asked(self, reranker: Reranker, question: str) -> None:
        assert len(reranker.rank(question, [DISK, TEA], seconds=SECONDS).scores) == 2

    def test_the_candidates_are_not_changed(self, reranker: Reranker) -> None:
        candidates = [DISK, TEA]
        reranker.rank(QUESTION, candidates, seconds=SECONDS)
        assert candidates == [DISK, TEA]

    def test_it_has_a_name_that_stays(self, reranker: Reranker) -> None:
        assert reranker.name
        assert reranker.name == reranker.name
