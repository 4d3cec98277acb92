"""Draws figures over the number of chunks as SVG, both axes logarithmic, readable on a light and on a dark page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tests.benchmarks.figures import Figures

WIDTH, HEIGHT = 760, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 220, 34, 44
COLOURS = ("#1f7a8c", "#d1495b", "#2e8b57", "#b06fc4", "#c98500", "#5b7fd6")
STYLE = "text{font:12px system-ui,sans-serif;fill:#7a7a7a}.grid{stroke:#888;stroke-opacity:.3}"
"""No colour scheme is queried, as a page may be light where the reader's system is dark: all colours, the grey of the text
too, have a contrast of at least 3 to white and to a dark page."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Curve:
    """A drawing: its file's name, title and unit, and the lines: names of figures, with `{}` for the number of chunks."""

    name: str
    title: str
    unit: str
    lines: Mapping[str, str]


def chart(curve: Curve, figures: Figures) -> str:
    """The drawing; a line without figures is left out."""
    lines = {label: points for label, name in curve.lines.items() if (points := _points(name, figures))}
    everything = [point for points in lines.values() for point in points] or [(1e3, 1.0)]
    axes = Axes([x for x, _ in everything], [y for _, y in everything])
    label = f"{curve.title} ({curve.unit}) over the number of chunks"
    parts = [*axes.drawn(), _text(LEFT, TOP - 14, f"{curve.title}, {curve.unit}", "start")]
    for number, (name, points) in enumerate(lines.items()):
        parts.extend(_line(name, points, axes, number))
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg" aria-label="{escape(label)}">'
        f"<title>{escape(label)}</title><style>{STYLE}</style>{''.join(parts)}</svg>\n"
    )


def _points(name: str, figures: Figures) -> list[Point]:
    found = ((size, figures.values.get(name.format(size))) for size in figures.sizes())
    return [(float(size), value) for size, value in found if value]


class Axes:
    """Logarithmic axes around the values, from power of ten to power of ten; up, to 1, 2 or 5 times one."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        self._x = (
            10 ** math.floor(math.log10(min(xs))),
            10 ** max(math.ceil(math.log10(max(xs))), math.floor(math.log10(min(xs))) + 1),
        )
        low, high = min(ys), max(ys)
        steps = [step * 10.0**power for power in range(-3, 9) for step in (1, 2, 5)]
        self._y = max(step for step in steps if step <= low), min(step for step in steps if step > high)
        self._ticks = [step for step in steps if self._y[0] <= step <= self._y[1]]

    def x(self, value: float) -> float:
        low, high = map(math.log10, self._x)
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(value) - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = map(math.log10, self._y)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log10(value) - low) / (high - low)

    def drawn(self) -> Iterator[str]:
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        for tick in self._ticks:
            y = self.y(tick)
            yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
            yield _text(LEFT - 8, y + 4, f"{tick:,g}", "end")
        for power in range(round(math.log10(self._x[0])), round(math.log10(self._x[1])) + 1):
            x = self.x(10**power)
            yield f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}"/>'
            yield _text(x, bottom + 18, f"{10**power:,}", "middle")
        yield _text((LEFT + right) / 2, HEIGHT - 6, "chunks", "middle")


def _line(name: str, points: Sequence[Point], axes: Axes, number: int) -> Iterator[str]:
    """A line with dots, and its entry in the legend; every other line is dashed, for readers who see no colours."""
    colour = COLOURS[number % len(COLOURS)]
    dashes = ' stroke-dasharray="6 3"' if number % 2 else ""
    at = " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in points)
    yield f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
    for x, y in points:
        yield (
            f'<circle cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="3.5" fill="{colour}">'
            f"<title>{escape(name)}, {x:,.0f} chunks: {y:,.4g}</title></circle>"
        )
    left, y = WIDTH - RIGHT + 16, TOP + 20 * number
    yield f'<line x1="{left}" y1="{y}" x2="{left + 22}" y2="{y}" stroke="{colour}" stroke-width="2"{dashes}/>'
    yield _text(left + 30, y + 4, name, "start")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
