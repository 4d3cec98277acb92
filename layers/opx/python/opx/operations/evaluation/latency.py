"""How long answers took in this process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opx.operations.evaluation.runs import Run

PERCENTILES = (50, 95, 99)
WHOLE = "answer"


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """By name, `p50` and so on, interpolated between neighbours (type 7 of Hyndman and Fan, 1996)."""
    if not milliseconds:
        return {}
    found = np.percentile(np.asarray(milliseconds, dtype=float), PERCENTILES)
    return {f"p{at}": round(float(value), 2) for at, value in zip(PERCENTILES, found, strict=True)}


def latencies(run: Run, system: str) -> dict[str, dict[str, float]]:
    """Of a mode: the whole answer first, then its parts. A part that some answers don't have counts where it is."""
    parts: dict[str, list[float]] = {WHOLE: [reply.milliseconds for reply in run.replies[system]]}
    for reply in run.replies[system]:
        for part, taken in reply.timings_ms.items():
            parts.setdefault(part, []).append(taken)
    return {part: percentiles(taken) for part, taken in parts.items()}
