"""Cut a section into windows of at most `limit` tokens that overlap by `overlap`.

A section that fits is one window. In a longer one a window ends before a block (a paragraph, a list item with its
code, a fenced block, a table) that would be torn by filling the window but fits in the next; text without such blocks
is cut at exactly `limit` tokens. No window begins or ends within a character.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from opx.ingestion.markdown_lines import Break, Line
from opx.text.tokenizer import characters_of, encode


@dataclass(frozen=True, slots=True)
class Window:
    """A piece of text with its offset and token count; `whole` if it is all of its section."""

    text: str
    start: int
    tokens: int
    whole: bool


@dataclass(slots=True)
class _Run:
    """A line, or the rest of one, with its tokens."""

    text: str
    start: int
    tokens: list[int]
    break_before: Break


def split_section(lines: Iterable[Line], limit: int, overlap: int) -> Iterator[Window]:
    """Windows over one section, in order. Holds about two windows of text at a time."""
    buffer: list[_Run] = []
    size = 0
    windows = 0
    fresh = 0  # tokens of the buffer that are in no window yet
    for line in lines:
        run = _Run(line.text, line.start, encode(line.text), line.break_before)
        buffer.append(run)
        size += len(run.tokens)
        fresh += len(run.tokens)
        while size > 2 * limit:
            window, buffer, fresh = _cut(buffer, limit, overlap)
            size = sum(len(run.tokens) for run in buffer)
            windows += 1
            yield window
    while size > limit:
        window, buffer, fresh = _cut(buffer, limit, overlap)
        size = sum(len(run.tokens) for run in buffer)
        windows += 1
        yield window
    if fresh:
        yield _window(buffer, whole=windows == 0)


def _window(runs: list[_Run], *, whole: bool = False) -> Window:
    return Window("".join(r.text for r in runs), runs[0].start, sum(len(r.tokens) for r in runs), whole)


def _cut(runs: list[_Run], limit: int, overlap: int) -> tuple[Window, list[_Run], int]:
    """The first window of `runs` (more than `limit` tokens), what is left with the overlap, and its fresh tokens."""
    ends = _ends(runs)
    cut, next_unit = _best_cut(runs, ends, limit)
    head, tail = _split_at(runs, cut)
    window = _window(head)
    kept = max(0, min(overlap, limit - next_unit, window.tokens - 1))
    repeated = _split_at(head, window.tokens - kept)[1] if kept else []
    fresh = sum(len(run.tokens) for run in tail)
    return window, repeated + tail, fresh


def _ends(runs: list[_Run]) -> list[int]:
    total = 0
    ends = []
    for run in runs:
        total += len(run.tokens)
        ends.append(total)
    return ends


def _best_cut(runs: list[_Run], ends: list[int], limit: int) -> tuple[int, int]:
    """Where to end the window, in tokens, and how long the unit is that begins there (0 if it may be torn)."""
    for strength in (Break.BLOCK, Break.NESTED):
        cut = 0
        for run, end in zip(runs[1:], ends, strict=False):
            if end > limit:
                break
            if run.break_before >= strength:
                cut = end
        if not cut:
            continue
        unit = _unit_length(runs, ends, cut, strength)
        if unit <= limit and (cut * 2 >= limit or not _is_prose(runs, ends, cut)):
            return cut, unit
    return limit, 0


def _unit_length(runs: list[_Run], ends: list[int], cut: int, strength: Break) -> int:
    """Tokens from `cut` to the next break of this strength, or to the end of what is known."""
    for run, end in zip(runs[1:], ends, strict=False):
        if end > cut and run.break_before >= strength:
            return end - cut
    return ends[-1] - cut


def _is_prose(runs: list[_Run], ends: list[int], cut: int) -> bool:
    """True if the unit at `cut` has no line that must stay with its neighbours: then it may be torn."""
    inside = [run for run, end in zip(runs, ends, strict=True) if end > cut]
    first = inside[0]
    kept_together = first.text.lstrip()[:1] in "|`~-*+0123456789" or any(
        r.break_before == Break.INSIDE for r in inside[1:2]
    )
    return not kept_together


def _split_at(runs: list[_Run], at: int) -> tuple[list[_Run], list[_Run]]:
    """Divide runs at a token position, moved back to the start of a character if it falls within one."""
    before: list[_Run] = []
    for index, run in enumerate(runs):
        if at >= len(run.tokens):
            at -= len(run.tokens)
            before.append(run)
            continue
        if at <= 0:
            return before, runs[index:]
        characters = characters_of(run.tokens[:at])
        if characters == 0:
            return before, runs[index:]
        left, right = run.text[:characters], run.text[characters:]
        before.append(_Run(left, run.start, encode(left), run.break_before))
        rest = _Run(right, run.start + characters, encode(right), Break.INSIDE)
        return before, [rest, *runs[index + 1 :]]
    return before, []
