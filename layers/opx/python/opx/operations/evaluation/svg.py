"""Small drawings as SVG: lines and grouped bars over a unit or a millisecond axis. Everything written is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

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
            for place, (name, value) in enumerate(values.items()):
                x, y = LEFT + number * slot + 0.1 * slot + place * wide, self._y(value)
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
