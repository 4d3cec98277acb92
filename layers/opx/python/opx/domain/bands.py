"""Bands of confidence: what a reader may rely on."""

from __future__ import annotations

from enum import StrEnum


class Band(StrEnum):
    """How sure an answer is: `sure` from a probability of 0.95 on, `likely` from 0.5 on (more likely right than wrong), else
    `weak`. `docs/confidence.md` has how often each is right."""

    SURE = "sure"
    LIKELY = "likely"
    WEAK = "weak"

    @property
    def least(self) -> float:
        """The lowest confidence of the band."""
        return _LEAST[self]


_LEAST = {Band.SURE: 0.95, Band.LIKELY: 0.5, Band.WEAK: 0.0}


def band_of(confidence: float) -> Band:
    return next(band for band in Band if confidence >= band.least)
