"""Bands of confidence: what a reader may rely on, and what confidence is based on."""

from __future__ import annotations

from enum import StrEnum


class Band(StrEnum):
    """Degrees of confidence: `sure` from a probability of 0.95 on, `likely` from 0.5 on (more likely right than wrong), else
    `weak`. `docs/confidence.md` has how often each is right."""

    SURE = "sure"
    LIKELY = "likely"
    WEAK = "weak"

    @property
    def least(self) -> float:
        """The lowest confidence of the band."""
        return _LEAST[self]


_LEAST = {Band.SURE: 0.95, Band.LIKELY: 0.5, Band.WEAK: 0.0}


class Basis(StrEnum):
    """The basis of a confidence: `estimated` from words, meaning and counts, or `read` by a model."""

    ESTIMATED = "estimated"
    READ = "read"


class Verdict(StrEnum):
    """Of a model that read a document: it answers the question, helps with a part of it, or does neither."""

    ANSWERS = "answers"
    HELPS = "helps"
    NO = "no"


def band_of(confidence: float) -> Band:
    return next(band for band in Band if confidence >= band.least)
