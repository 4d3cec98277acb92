"""The drawings of a report."""

from __future__ import annotations

from opx.operations.evaluation.abstention import FLOORS, abstention
from opx.operations.evaluation.calibration import calibrations
from opx.operations.evaluation.figures import quality
from opx.operations.evaluation.latency import WHOLE, latencies
from opx.operations.evaluation.runs import Run
from opx.operations.evaluation.svg import Drawing

TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def quality_chart(run: Run, measure: str = "nDCG@10") -> str:
    """A group of bars for each kind of question, a bar for each mode."""
    figures = quality(run)
    kinds = list(figures[run.modes[0]])
    drawing = Drawing(f"{measure} by kind of question")
    drawing.bars({kind: {mode: figures[mode][kind][measure] for mode in run.modes} for kind in kinds})
    return drawing.to_svg(y_label=measure)


def reliability_chart(run: Run, which: str) -> str:
    """The share that is relevant over the confidence that was given; on the diagonal they are equal."""
    drawing = Drawing(f"Reliability, {which}")
    drawing.guide(((0, 0), (1, 1)))
    for mode in run.modes:
        bins = calibrations(run, mode)[which].bins
        drawing.line(mode, [(each.confidence, each.relevant) for each in bins], dots=True)
    return drawing.to_svg(x_label="confidence given", y_label="share that is relevant", x_ticks=TICKS)


def abstention_chart(run: Run, mode: str, floor: float) -> str:
    """What is refused, and how much of the rest is right, at every floor; the floor in use is marked."""
    drawing = Drawing(f"Refused at every floor, {mode}")
    curve = [abstention(run, mode, each) for each in FLOORS]
    drawing.guide(((floor, 0), (floor, 1)))
    drawing.line("answerable refused", [(at.floor, at.answerable) for at in curve if at.answerable is not None])
    for kind in curve[0].by_kind:
        drawing.line(f"{kind} refused", [(at.floor, at.by_kind[kind]) for at in curve])
    drawing.line("first page right", [(at.floor, at.right) for at in curve if at.right is not None])
    return drawing.to_svg(x_label="floor of confidence", y_label="share of questions", x_ticks=TICKS)


def latency_chart(run: Run) -> str:
    """Milliseconds of whole answers, a group of bars for each mode."""
    taken = {mode: latencies(run, mode)[WHOLE] for mode in run.modes}
    most = max((value for values in taken.values() for value in values.values()), default=1.0)
    drawing = Drawing("Milliseconds of an answer", y_most=most)
    drawing.bars(taken)
    return drawing.to_svg(y_label="milliseconds")
