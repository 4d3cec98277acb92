"""A run as one HTML file that needs nothing else: tables, drawings, and the questions that went worst."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from opx.errors import InvalidInputError
from opx.operations.evaluation.abstention import FLOOR, abstention, separation
from opx.operations.evaluation.answers import answer_tables
from opx.operations.evaluation.bands import band_table
from opx.operations.evaluation.calibration import calibrations
from opx.operations.evaluation.charts import abstention_chart, latency_chart, quality_chart, reliability_chart
from opx.operations.evaluation.comparison import compare_runs
from opx.operations.evaluation.figures import lapses, quality
from opx.operations.evaluation.latency import latencies
from opx.operations.evaluation.losers import Loser, false_answers, losers
from opx.operations.evaluation.measures import MEASURES
from opx.operations.evaluation.runs import Run

LOSERS = 20
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .7rem;border-bottom:1px solid #ddd;text-align:right}"
    "td:first-child,th:first-child{text-align:left}svg{width:100%;max-width:52rem;font:11px system-ui,sans-serif}"
    ".text td{text-align:left;vertical-align:top}"
)
Row = Sequence[object]


def write_report(run: Run, path: Path, floor: float = FLOOR, before: Run | None = None) -> None:
    """Write the report. Raises `InvalidInputError` if it can't be written, or for another run over other questions."""
    text = report_html(run, floor, before)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise InvalidInputError(f"{path} can't be written ({exc.strerror})") from exc


def report_html(run: Run, floor: float = FLOOR, before: Run | None = None) -> str:
    """The whole page. Nothing in it is run, and nothing is fetched."""
    title = f"Evaluation of {run.dataset}"
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><h1>{escape(title)}</h1>"
    )
    return head + "".join(_parts(run, floor, before)) + "</body></html>\n"


def _parts(run: Run, floor: float, before: Run | None) -> Iterator[str]:
    about = ", ".join(f"{name} {value}" for name, value in run.about.items())
    asked = sum(question.answerable for question in run.questions)
    yield f"<p>{asked} questions with an answer, {len(run.questions) - asked} without. {escape(about)}</p>"
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


def _quality_tables(run: Run) -> Iterator[str]:
    figures = quality(run)
    kinds = figures[run.modes[0]]
    heads = [f"{kind} ({values['questions']:.0f})" for kind, values in kinds.items()]
    for measure in MEASURES:
        rows = [[system, *(f"{by[kind][measure]:.3f}" for kind in kinds)] for system, by in figures.items()]
        yield _table([measure, *heads], rows)


def _confidence(run: Run, floor: float) -> Iterator[str]:
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


def _latency_table(run: Run) -> str:
    rows = [
        [f"{mode} {part}", *(f"{value:.2f}" for value in taken.values())]
        for mode in run.modes
        for part, taken in latencies(run, mode).items()
    ]
    return _table(["milliseconds", "p50", "p95", "p99"], rows)


def _comparison_table(before: Run, run: Run, floor: float) -> str:
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
