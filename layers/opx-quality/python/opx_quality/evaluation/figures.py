"""Quality measures (nDCG, recall, hit rate, MRR) with their means, latency percentiles, and a run's summary."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from opx.domain.record import rounded
from opx_quality.evaluation.abstention import FLOOR, FLOORS, abstention, separation
from opx_quality.evaluation.answers import answer_figures, percentile
from opx_quality.evaluation.bands import band_figures, calibrations
from opx_quality.evaluation.datasets import ALL, LabelledQuestion
from opx_quality.evaluation.runs import EvaluationRun

Table = dict[str, dict[str, dict[str, float]]]
"""By system, kind of question (and `all`) and measure; `questions` is their number."""


def measured(question: LabelledQuestion, pages: Sequence[str]) -> dict[str, float]:
    """Every measure of one ranking."""
    return {name: measure(pages, question.relevant) for name, measure in MEASURES.items()}


def means_by_kind(ranked: Iterable[tuple[LabelledQuestion, Sequence[str]]]) -> dict[str, dict[str, float]]:
    """Means over the questions that have an answer, `all` first; {} if none has."""
    rows: dict[str, list[dict[str, float]]] = {}
    for question, pages in ranked:
        if question.answerable:
            values = measured(question, pages)
            for kind in (ALL, question.kind):
                rows.setdefault(kind, []).append(values)
    return {kind: {"questions": len(row), **_means(row)} for kind, row in rows.items()}


def quality(run: EvaluationRun) -> Table:
    """Means of every system of a run."""
    return {
        system: means_by_kind((question, reply.pages) for question, reply in zip(run.questions, replies, strict=True))
        for system, replies in run.replies.items()
    }


def lapses(run: EvaluationRun, system: str) -> dict[str, int]:
    """Counts of a mode's degraded answers: partial ones, and those with another ranking than most, as happens when a
    reranker times out. {} if there are none."""
    replies = run.replies[system]
    ranked = Counter(reply.ranked_by for reply in replies)
    usual = max(ranked, key=lambda name: ranked[name], default="")
    found = {"partial": sum(reply.partial for reply in replies)}
    found |= {f"ranked by {name}": count for name, count in ranked.items() if name != usual}
    return {name: count for name, count in found.items() if count}


def _means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(fmean(row[name] for row in rows), 4) for name in rows[0]}


# -- measures


def ndcg(ranked: Sequence[str], relevant: Mapping[str, int], k: int = 10) -> float:
    """Normalised discounted cumulative gain, linear gain, log2 discount (Jarvelin and Kekalainen, 2002)."""
    gained = sum(relevant.get(page, 0) / math.log2(rank + 2) for rank, page in enumerate(ranked[:k]))
    ideal = sorted(relevant.values(), reverse=True)[:k]
    best = sum(grade / math.log2(rank + 2) for rank, grade in enumerate(ideal))
    return gained / best if best else 0.0


def recall(ranked: Sequence[str], relevant: Mapping[str, int], k: int = 5) -> float:
    """Share of the relevant pages that are among the first k."""
    return sum(page in relevant for page in ranked[:k]) / len(relevant)


def hit_rate(ranked: Sequence[str], relevant: Mapping[str, int], k: int = 5) -> float:
    """1 if a relevant page is among the first k, else 0."""
    return float(any(page in relevant for page in ranked[:k]))


def reciprocal_rank(ranked: Sequence[str], relevant: Mapping[str, int]) -> float:
    """1 / rank of the first relevant page, 0 if there is none."""
    return next((1 / rank for rank, page in enumerate(ranked, start=1) if page in relevant), 0.0)


MEASURES = {"nDCG@10": ndcg, "recall@5": recall, "hit_rate@5": hit_rate, "MRR": reciprocal_rank}


# -- latency


PERCENTILES = (50, 95, 99)
WHOLE = "answer"


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """By name, `p50` and so on; {} without values."""
    return {f"p{at}": round(percentile(milliseconds, at), 2) for at in PERCENTILES if milliseconds}


def latencies(run: EvaluationRun, system: str) -> dict[str, dict[str, float]]:
    """Latencies of a mode: the whole answer first, then its parts. A part that some answers don't have counts only for
    the others."""
    parts: dict[str, list[float]] = {WHOLE: [reply.milliseconds for reply in run.replies[system]]}
    for reply in run.replies[system]:
        for part, taken in reply.timings_ms.items():
            parts.setdefault(part, []).append(taken)
    return {part: percentiles(taken) for part, taken in parts.items()}


# -- summary


def summary(run: EvaluationRun, floor: float = FLOOR) -> dict[str, Any]:
    """Quality of every system; confidence and times of every mode; answers, if they were judged."""
    answers = {"answers": answers_json(run)} if run.answers else {}
    return {
        "dataset": run.dataset,
        "about": run.about,
        "ingest": run.ingest,
        "figures": quality(run),
        "confidence": {mode: confidence(run, mode, floor) for mode in run.modes},
        "lapses": {mode: found for mode in run.modes if (found := lapses(run, mode))},
        "latency": {mode: latencies(run, mode) for mode in run.modes},
        **answers,
    }


def answers_json(run: EvaluationRun) -> dict[str, Any]:
    """Figures of answers by split, form and kind."""
    return {
        split: {form: {kind: one.to_json() for kind, one in kinds.items()} for form, kinds in forms.items()}
        for split, forms in answer_figures(run.questions, run.answers).items()
    }


def confidence(run: EvaluationRun, mode: str, floor: float = FLOOR) -> Mapping[str, Any]:
    """Quality of a mode's confidences: at the floor, band by band, at every floor, and bin by bin."""
    return {
        "atFloor": abstention(run, mode, floor).to_json(),
        "bands": {name: found.to_json() for name, found in band_figures(run, mode).items()},
        "separation": rounded(separation(run, mode), 4),
        "calibration": {name: found.to_json() for name, found in calibrations(run, mode).items()},
        "curve": [abstention(run, mode, each).to_json() for each in FLOORS],
    }
