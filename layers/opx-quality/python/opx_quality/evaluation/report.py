"""Renders a run as one self-contained HTML file: tables, charts, and the worst questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from opx.errors import InvalidInputError
from opx_quality.evaluation.abstention import FLOOR, FLOORS, abstention, separation
from opx_quality.evaluation.answers import answer_tables
from opx_quality.evaluation.bands import band_table, calibrations
from opx_quality.evaluation.comparison import Loser, compare_runs, false_answers, losers
from opx_quality.evaluation.figures import MEASURES, WHOLE, lapses, latencies, quality
from opx_quality.evaluation.runs import EvaluationRun

LOSERS = 20
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .7rem;border-bottom:1px solid #ddd;text-align:right}"
    "td:first-child,th:first-child{text-align:left}svg{width:100%;max-width:52rem;font:11px system-ui,sans-serif}"
    ".text td{text-align:left;vertical-align:top}"
)
Row = Sequence[object]


def write_report(run: EvaluationRun, path: Path, floor: float = FLOOR, before: EvaluationRun | None = None) -> None:
    """Write the report. Raises `InvalidInputError` if it can't be written, or for another run over other questions."""
    text = report_html(run, floor, before)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise InvalidInputError(f"{path} can't be written ({exc.strerror})") from exc


def report_html(run: EvaluationRun, floor: float = FLOOR, before: EvaluationRun | None = None) -> str:
    """The whole page, without scripts and without external resources."""
    title = f"Evaluation of {run.dataset}"
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><h1>{escape(title)}</h1>"
    )
    return head + "".join(_parts(run, floor, before)) + "</body></html>\n"


def _parts(run: EvaluationRun, floor: float, before: EvaluationRun | None) -> Iterator[str]:
    about = ", ".join(f"{name} {value}" for name, value in run.about.items())
    answerable = sum(question.answerable for question in run.questions)
    yield f"<p>{answerable} questions with an answer, {len(run.questions) - answerable} without. {escape(about)}</p>"
    for mode in run.modes:
        for name, count in lapses(run, mode).items():
            yield f"<p>{count} of {len(run.questions)} answers of {escape(mode)}: {escape(name)}</p>"
    yield f"<h2>Quality</h2>{quality_chart(run)}"
    yield from _quality_tables(run)
    if run.answers:
        yield "<h2>Answers</h2>" + "".join(_table(*one) for one in answer_tables(run.questions, run.answers))
    yield "<h2>Confidence</h2>"
    yield from _confidence(run, floor)
    yield f"<h2>Times</h2>{latency_chart(run)}{_latency_table(run)}"
    if before is not None:
        yield f"<h2>Compared with another run</h2>{_comparison_table(before, run, floor)}"
    system = "balanced" if "balanced" in run.modes else run.modes[-1]
    yield f"<h2>Questions that {escape(system)} does worst at</h2>{_loser_table(losers(run, system, LOSERS, before))}"
    yield f"<h2>Questions without an answer</h2>{_loser_table(false_answers(run, system, LOSERS))}"


def _quality_tables(run: EvaluationRun) -> Iterator[str]:
    figures = quality(run)
    kinds = figures[run.modes[0]]
    heads = [f"{kind} ({values['questions']:.0f})" for kind, values in kinds.items()]
    for measure in MEASURES:
        rows = [[system, *(f"{by[kind][measure]:.3f}" for kind in kinds)] for system, by in figures.items()]
        yield _table([measure, *heads], rows)


def _confidence(run: EvaluationRun, floor: float) -> Iterator[str]:
    rows = []
    for mode in run.modes:
        at = abstention(run, mode, floor)
        found = [f"{each.brier:.3f} / {each.error:.3f}" for each in calibrations(run, mode).values()]
        shares = (at.answerable, at.unanswerable, at.right, separation(run, mode))
        rows.append([mode, *("-" if value is None else f"{value:.3f}" for value in shares), *found])
    refused = ("answerable refused", "unanswerable refused", "first page right", "separation")
    scores = [f"Brier / ECE, {name}" for name in calibrations(run, run.modes[0])]
    yield _table([f"floor {floor:g}", *refused, *scores], rows)
    yield _table(*band_table(run))
    for which in calibrations(run, run.modes[0]):
        yield f"<h3>Reliability, {escape(which)}</h3>{reliability_chart(run, which)}"
    for mode in run.modes:
        yield f"<h3>What a floor refuses, {escape(mode)}</h3>{abstention_chart(run, mode, floor)}"


def _latency_table(run: EvaluationRun) -> str:
    rows = [
        [f"{mode} {part}", *(f"{value:.2f}" for value in taken.values())]
        for mode in run.modes
        for part, taken in latencies(run, mode).items()
    ]
    return _table(["milliseconds", "p50", "p95", "p99"], rows)


def _comparison_table(before: EvaluationRun, run: EvaluationRun, floor: float) -> str:
    rows = []
    for row in compare_runs(before, run, floor=floor):
        found = row.difference
        interval = f"{found.low:+.4f} to {found.high:+.4f}"
        means = (f"{found.first:.4f}", f"{found.second:.4f}", f"{found.difference:+.4f}")
        rows.append([f"{row.second} {row.measure}", row.kind, found.count, *means, interval, f"{found.p:.5f}"])
    return _table(["", "kind", "n", "before", "now", "difference", "95 % interval", "p"], rows)


def _loser_table(found: Iterable[Loser]) -> str:
    rows = []
    for loser in found:
        ranks = "; ".join(f"{page}: {rank or 'not found'}" for page, rank in loser.ranks.items()) or "nothing"
        scored = zip(loser.reply.pages[:3], loser.reply.confidences[:3], strict=False)
        got = "; ".join(f"{page} ({confidence:.2f})" for page, confidence in scored)
        rows.append([loser.question.kind, loser.question.text, f"{loser.ndcg:.2f}", ranks, got])
    return _table(["kind", "question", "nDCG@10", "wanted: rank", "first three"], rows, "text")


def _table(heads: Row, rows: Iterable[Row], style: str = "") -> str:
    head = "".join(f"<th>{escape(str(cell))}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<table class="{style}"><tr>{head}</tr>{body}</table>'


# -- charts


TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def quality_chart(run: EvaluationRun, measure: str = "nDCG@10") -> str:
    """A group of bars for each kind of question, a bar for each mode."""
    figures = quality(run)
    kinds = list(figures[run.modes[0]])
    drawing = Drawing(f"{measure} by kind of question")
    drawing.bars({kind: {mode: figures[mode][kind][measure] for mode in run.modes} for kind in kinds})
    return drawing.to_svg(y_label=measure)


def reliability_chart(run: EvaluationRun, which: str) -> str:
    """The relevant share over the stated confidence; on the diagonal they are equal."""
    drawing = Drawing(f"Reliability, {which}")
    drawing.guide(((0, 0), (1, 1)))
    for mode in run.modes:
        bins = calibrations(run, mode)[which].bins
        drawing.line(mode, [(each.confidence, each.relevant) for each in bins], dots=True)
    return drawing.to_svg(x_label="confidence given", y_label="share that is relevant", x_ticks=TICKS)


def abstention_chart(run: EvaluationRun, mode: str, floor: float) -> str:
    """Refused shares, and the precision of the rest, at every floor; the floor in use is marked."""
    drawing = Drawing(f"Refused at every floor, {mode}")
    curve = [abstention(run, mode, each) for each in FLOORS]
    drawing.guide(((floor, 0), (floor, 1)))
    drawing.line("answerable refused", [(at.floor, at.answerable) for at in curve if at.answerable is not None])
    for kind in curve[0].by_kind:
        drawing.line(f"{kind} refused", [(at.floor, at.by_kind[kind]) for at in curve])
    drawing.line("first page right", [(at.floor, at.right) for at in curve if at.right is not None])
    return drawing.to_svg(x_label="floor of confidence", y_label="share of questions", x_ticks=TICKS)


def latency_chart(run: EvaluationRun) -> str:
    """Milliseconds of whole answers, a group of bars for each mode."""
    taken = {mode: latencies(run, mode)[WHOLE] for mode in run.modes}
    most = max((value for values in taken.values() for value in values.values()), default=1.0)
    drawing = Drawing("Milliseconds of an answer", y_most=most)
    drawing.bars(taken)
    return drawing.to_svg(y_label="milliseconds")


# -- svg


WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 50, 180, 20, 50
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8d5a97", "#c98500", "#4d4d4d", "#00868b", "#9c6644")
Point = tuple[float, float]


class Drawing:
    """A drawing whose axes run from 0 to `x_most` and `y_most`."""

    def __init__(self, title: str, *, x_most: float = 1.0, y_most: float = 1.0) -> None:
        self._title = title
        self._x_most = x_most or 1.0
        self._y_most = y_most or 1.0
        self._parts: list[str] = []
        self._names: list[str] = []

    def line(self, name: str, points: Sequence[Point], *, dots: bool = False) -> None:
        """A line through the points, named beside the drawing."""
        colour = self._named(name)
        at = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in points)
        self._parts.append(f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y in points if dots else ():
            self._parts.append(f'<circle cx="{self._x(x):.1f}" cy="{self._y(y):.1f}" r="3" fill="{colour}"/>')

    def guide(self, points: Sequence[Point]) -> None:
        """A thin dashed line, without a name."""
        at = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in points)
        self._parts.append(f'<polyline points="{at}" fill="none" stroke="#999" stroke-dasharray="4 4"/>')

    def bars(self, groups: Mapping[str, Mapping[str, float]]) -> None:
        """A group of bars for each name, a colour for each name within; values are written above the bars."""
        slot = (WIDTH - LEFT - RIGHT) / max(len(groups), 1)
        for number, (group, values) in enumerate(groups.items()):
            wide = 0.8 * slot / max(len(values), 1)
            for index, (name, value) in enumerate(values.items()):
                x, y = LEFT + number * slot + 0.1 * slot + index * wide, self._y(value)
                label = f"{group}, {name}: {value:g}"
                self._parts.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(wide - 1, 1):.1f}" height="{self._y(0) - y:.1f}" '
                    f'fill="{self._named(name)}"><title>{escape(label)}</title></rect>'
                )
            middle = LEFT + (number + 0.5) * slot
            below = HEIGHT - BOTTOM + 16 + 14 * (number % 2)  # neighbours in two rows: long names would overlap
            self._parts.append(_text(middle, below, group, "middle"))

    def to_svg(self, *, x_label: str = "", y_label: str = "", x_ticks: Iterable[float] = ()) -> str:
        """The whole drawing; `x_ticks` are values to write below the axis."""
        parts = [*self._axes(x_label, y_label, x_ticks), *self._parts, *self._legend()]
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg">'
            f"<title>{escape(self._title)}</title>{''.join(parts)}</svg>"
        )

    def _named(self, name: str) -> str:
        if name not in self._names:
            self._names.append(name)
        return COLOURS[self._names.index(name) % len(COLOURS)]

    def _x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(value / self._x_most, 1.0)

    def _y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(max(value / self._y_most, 0.0), 1.0)

    def _axes(self, x_label: str, y_label: str, x_ticks: Iterable[float]) -> Iterator[str]:
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        for step in range(5):
            value = self._y_most * step / 4
            yield f'<line x1="{LEFT}" y1="{self._y(value):.1f}" x2="{right}" y2="{self._y(value):.1f}" stroke="#ddd"/>'
            yield _text(LEFT - 6, self._y(value) + 4, f"{value:.4g}", "end")
        for value in x_ticks:
            yield _text(self._x(value), bottom + 16, f"{value:.4g}", "middle")
        yield f'<line x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}" stroke="#333"/>'
        yield _text((LEFT + right) / 2, HEIGHT - 12, x_label, "middle")
        yield _text(LEFT, TOP - 6, y_label, "start")

    def _legend(self) -> Iterator[str]:
        for number, name in enumerate(self._names):
            y = TOP + 16 * number
            yield f'<rect x="{WIDTH - RIGHT + 14}" y="{y}" width="10" height="10" fill="{self._named(name)}"/>'
            yield _text(WIDTH - RIGHT + 30, y + 9, name, "start")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
