"""All figures of a run in one object, as `opx eval --json` prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opx.operations.evaluation.abstention import FLOOR, FLOORS, abstention, separation
from opx.operations.evaluation.answers import answer_figures
from opx.operations.evaluation.bands import band_figures
from opx.operations.evaluation.calibration import calibrations
from opx.operations.evaluation.figures import lapses, quality
from opx.operations.evaluation.latency import latencies
from opx.operations.evaluation.runs import Run


def summary(run: Run, floor: float = FLOOR) -> dict[str, Any]:
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


def answers_json(run: Run) -> dict[str, Any]:
    """Figures of answers by split, form and kind."""
    return {
        split: {form: {kind: one.to_json() for kind, one in kinds.items()} for form, kinds in forms.items()}
        for split, forms in answer_figures(run.questions, run.answers).items()
    }


def confidence(run: Run, mode: str, floor: float = FLOOR) -> Mapping[str, Any]:
    """What a mode's confidences are worth: at the floor, band by band, at every floor, and bin by bin."""
    apart = separation(run, mode)
    return {
        "atFloor": abstention(run, mode, floor).to_json(),
        "bands": {name: found.to_json() for name, found in band_figures(run, mode).items()},
        "separation": None if apart is None else round(apart, 4),
        "calibration": {name: found.to_json() for name, found in calibrations(run, mode).items()},
        "curve": [abstention(run, mode, each).to_json() for each in FLOORS],
    }
