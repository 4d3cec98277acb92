"""Reads the best candidates again without a model of a language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opx.ports import SearchFilter, Vector
from opx.retrieval.asking import Asked
from opx.retrieval.confidence import confidences
from opx.retrieval.hybrid import FusedHits
from opx.retrieval.judging import Judged
from opx.retrieval.query_language import Question

if TYPE_CHECKING:
    from opx.retrieval.searching import TierSearch


def rank_again(
    search: TierSearch, asked: Asked, question: Question, vector: Vector | None, where: SearchFilter, found: FusedHits
) -> list[Judged]:
    judged = zip(found.hits, confidences(found), strict=True)
    return [Judged(hit, confidence) for hit, confidence in judged]
