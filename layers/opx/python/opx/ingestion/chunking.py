"""Splits a document's text into chunks: at headings, small neighbours joined, long sections in overlapping windows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from opx.domain.documents import ChunkMetadata, DocumentChunk
from opx.domain.ids import chunk_id, normalise
from opx.domain.titles import repeats
from opx.errors import InvalidInputError
from opx.formats.markdown_lines import Break, Line, is_item
from opx.ingestion.long_blocks import first_part
from opx.text.tokenizer import characters_of, count_tokens, encode, starts_character, tokens_of_characters

DEFAULT_TOKENS = 500
DEFAULT_OVERLAP = 50
SMALL_SECTION = 64
"""Sections below this many tokens say too little alone: they join a neighbour under the same heading."""
MAX_HEADING = 200
"""Characters kept of a heading in a section's path: every chunk below it repeats the path."""


class Piece(msgspec.Struct, frozen=True):
    """A chunk before it has an id. `section` is its path of headings; `whole` if it is one or more whole sections."""

    text: str
    start: int
    tokens: int
    section: tuple[str, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class ChunkOwner:
    """The facts of a document that each of its chunks carries."""

    document_id: str
    title: str
    category: str
    tags: tuple[str, ...] = ()


def chunk_lines(
    lines: Iterable[Line], owner: ChunkOwner, *, tokens: int = DEFAULT_TOKENS, overlap: int = DEFAULT_OVERLAP
) -> Iterator[DocumentChunk]:
    """Chunks of classified lines: the pieces of `split_lines`, with ids and the facts of their document."""
    metadata = ChunkMetadata(owner.title, owner.category, owner.tags)
    for index, piece in enumerate(split_lines(lines, owner.title, tokens=tokens, overlap=overlap)):
        yield DocumentChunk(
            chunk_id=chunk_id(owner.document_id, index, piece.text),
            document_id=owner.document_id,
            chunk_index=index,
            content=piece.text,
            token_count=piece.tokens,
            section=piece.section,
            start=piece.start,
            end=piece.start + len(piece.text),
            metadata=metadata,
        )


def split_lines(
    lines: Iterable[Line], title: str = "", *, tokens: int = DEFAULT_TOKENS, overlap: int = DEFAULT_OVERLAP
) -> Iterator[Piece]:
    """Pieces of classified lines of a document called `title`.

    Every character is in at least one piece, except white space that would be a piece of its own; no piece is over
    `tokens` tokens; the same text gives the same pieces everywhere. Raises `InvalidInputError` unless
    0 <= overlap < tokens and 8 <= tokens.
    """
    check_window(tokens, overlap)
    pieces = _join_small(_split(lines, title, tokens, overlap), tokens)
    return (piece for piece in pieces if piece.text.strip())


def check_window(tokens: int, overlap: int) -> None:
    """Raises `InvalidInputError` for a window or an overlap that text can't be split with."""
    if tokens < MIN_FRESH:
        raise InvalidInputError(f"a window must have at least {MIN_FRESH} tokens, not {tokens}")
    if not 0 <= overlap < tokens:
        raise InvalidInputError(f"overlap must be at least 0 and below the window, not {overlap} of {tokens}")


def _split(lines: Iterable[Line], title: str, tokens: int, overlap: int) -> Iterator[Piece]:
    """Windows of each section, under the section's path of headings."""
    path: list[tuple[int, str]] = []
    source = _Sections(lines)
    while (first := source.peek()) is not None:
        if first.level:
            path = [entry for entry in path if entry[0] < first.level] + [(first.level, first.heading)]
        section = _names(path, title)
        for window in split_section(source.section(), tokens, overlap):
            yield Piece(window.text, window.start, window.tokens, section, window.whole)


def _names(path: list[tuple[int, str]], title: str) -> tuple[str, ...]:
    """Headings without empty ones, and without a first one that only repeats the title."""
    names = [normalise(name[:MAX_HEADING]) for _, name in path if name]
    if names and repeats(names[0], title):
        names = names[1:]
    return tuple(names)


class _Sections:
    """Iterates lines a section at a time; a section begins at a heading."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = iter(lines)
        self._next = next(self._lines, None)

    def peek(self) -> Line | None:
        return self._next

    def section(self) -> Iterator[Line]:
        first = True
        while self._next is not None and (first or not self._next.level):
            line, self._next = self._next, next(self._lines, None)
            first = False
            yield line


def _join_small(pieces: Iterable[Piece], limit: int) -> Iterator[Piece]:
    held: Piece | None = None
    for piece in pieces:
        joined = _joined(held, piece, limit) if held is not None else None
        if joined is not None:
            held = joined
            continue
        if held is not None:
            yield held
        held = piece
    if held is not None:
        yield held


def _joined(first: Piece, second: Piece, limit: int) -> Piece | None:
    """Both as one if they are whole, one is small, they are near in the outline, and together they fit."""
    if not (first.whole and second.whole) or first.tokens + second.tokens > limit:
        return None
    if min(first.tokens, second.tokens) >= SMALL_SECTION:
        return None
    section = _common_section(first.section, second.section)
    if section is None:
        return None
    return Piece(first.text + second.text, first.start, first.tokens + second.tokens, section, whole=True)


def _common_section(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...] | None:
    """The path of two neighbours joined: the child's for parent and child, "A / B" for siblings; else None."""
    if second[: len(first)] == first:
        return second
    if len(first) == len(second) and first[:-1] == second[:-1]:
        return (*first[:-1], f"{first[-1]} / {second[-1]}")
    return None


# -- windows


MIN_FRESH = 8
"""Tokens of a window, at least, that the one before doesn't have: a character has up to four."""

_LONG_LINE = 16_384
_BETWEEN_WORDS = re.compile(r"[^\W\d_](?= [^\W\d_])")
_WORDS_WITHIN = 1024


class Window(msgspec.Struct, frozen=True):
    """A piece of text with its offset and token count; `whole` if it is all of its section."""

    text: str
    start: int
    tokens: int
    whole: bool


class _Run(msgspec.Struct):
    """A line, or a part of one, with its tokens; `torn` if the line begins earlier. `code`: see `Line`."""

    text: str
    start: int
    tokens: list[int]
    break_before: Break
    torn: bool = False
    code: str = ""


def split_section(lines: Iterable[Line], limit: int, overlap: int) -> Iterator[Window]:
    """Windows over one section, in order. Holds about two windows of text at a time. `limit` is at least `MIN_FRESH`."""
    buffer: list[_Run] = []
    size = seen = 0  # tokens in the buffer, and how many of its first ones are in a window already
    whole = True
    for run in _runs(lines):
        buffer.append(run)
        size += len(run.tokens)
        while size > 2 * limit:
            window, buffer, seen = _cut(buffer, seen, limit, overlap)
            size = sum(len(run.tokens) for run in buffer)
            whole = False
            yield window
    while size > limit or (size > seen and _count(buffer) > limit):
        window, buffer, seen = _cut(buffer, seen, limit, overlap)
        size = sum(len(run.tokens) for run in buffer)
        whole = False
        yield window
    if size > seen:
        yield _window(buffer, whole=whole)


def _runs(lines: Iterable[Line]) -> Iterator[_Run]:
    """Lines with their tokens. The pieces of a very long line are re-split where a token certainly ends."""
    rest = ""
    for line in lines:
        text, start = rest + line.text, line.start - len(rest)
        end = len(text) if text.endswith("\n") or len(text) < _LONG_LINE else _end_of_word(text)
        text, rest = text[:end], text[end:]
        yield _Run(text, start, encode(text), line.break_before, code=line.code)
    if rest:
        yield _Run(rest, start + len(text), encode(rest), Break.INSIDE)


def _end_of_word(text: str) -> int:
    """End of the last word but one, if that is near the end of the text, else the end of the text."""
    near = max(0, len(text) - _WORDS_WITHIN)
    ends = [match.end() for match in _BETWEEN_WORDS.finditer(text, near)]
    return ends[-1] if ends else len(text)


def _window(runs: list[_Run], *, whole: bool = False) -> Window:
    return Window("".join(run.text for run in runs), runs[0].start, _count(runs), whole)


def _count(runs: list[_Run]) -> int:
    """Tokens of the joined text. Lines add up; a part of one may have other tokens alone than within its line."""
    total = 0
    line: list[_Run] = []
    for run in runs:
        line.append(run)
        if run.text.endswith("\n"):
            total += _count_line(line)
            line = []
    return total + _count_line(line)


def _count_line(parts: list[_Run]) -> int:
    if len(parts) == 1 and not parts[0].torn and parts[0].text.endswith("\n"):
        return len(parts[0].tokens)
    return count_tokens("".join(part.text for part in parts))


def _cut(runs: list[_Run], seen: int, limit: int, overlap: int) -> tuple[Window, list[_Run], int]:
    """The first window of `runs` (more than `limit` tokens), the remaining runs with the overlap, and its token count."""
    at, next_unit = _best_cut(runs, seen, limit)
    if not at:
        at = _cut_within(runs, seen, limit)
    head, tail = _split_at(runs, at)
    while (count := _count(head)) > limit and at - (count - limit) > seen + 4:
        at -= count - limit
        head, tail = _split_at(runs, at)
    size = sum(len(run.tokens) for run in head)
    kept = max(0, min(overlap, limit - max(next_unit, MIN_FRESH), size - 1))
    repeated = _split_at(head, size - kept, forward=True)[1] if kept else []
    return _window(head), repeated + tail, sum(len(run.tokens) for run in repeated)


def _ends(runs: list[_Run]) -> list[int]:
    total = 0
    ends = []
    for run in runs:
        total += len(run.tokens)
        ends.append(total)
    return ends


def _best_cut(runs: list[_Run], seen: int, limit: int) -> tuple[int, int]:
    """End of the window, in tokens, and the length of the unit that begins there; 0, 0 if a unit has to be torn."""
    ends = _ends(runs)
    for strength in (Break.BLOCK, Break.NESTED):
        cut = 0
        for run, end in zip(runs[1:], ends, strict=False):
            if end > limit:
                break
            if end > seen and run.break_before >= strength:
                cut = end
        if not cut:
            continue
        unit = _unit_length(runs, ends, cut, strength)
        if unit <= limit and (cut * 2 >= limit or _stays_whole(runs, ends, cut)):
            return cut, unit
    return 0, 0


def _cut_within(runs: list[_Run], seen: int, limit: int) -> int:
    """End of a window within a unit, in tokens: in the window's second half, where the text is best cut; else `limit`."""
    start = max(limit // 2, seen + MIN_FRESH)
    if limit - start < MIN_FRESH:
        return limit
    before, after = _split_at(runs, start)
    start = sum(len(run.tokens) for run in before)
    torn, _ = _split_at(after, limit - start + MIN_FRESH)
    part = first_part("".join(run.text for run in torn), limit - start, torn[-1].code)
    end = _token_at(torn, len(part))
    return start + end if end else limit


def _token_at(runs: list[_Run], characters: int) -> int | None:
    """Number of tokens in the first `characters` characters; None if no token ends there."""
    count = 0
    for run in runs:
        if characters < len(run.text):
            within = tokens_of_characters(run.tokens, characters)
            return None if within is None else count + within
        characters -= len(run.text)
        count += len(run.tokens)
    return count


def _unit_length(runs: list[_Run], ends: list[int], cut: int, strength: Break) -> int:
    """Tokens from `cut` to the next break of this strength, or to the end of the buffered runs."""
    for run, end in zip(runs[1:], ends, strict=False):
        if end > cut and run.break_before >= strength:
            return end - cut
    return ends[-1] - cut


def _stays_whole(runs: list[_Run], ends: list[int], cut: int) -> bool:
    """True if the unit at `cut` is a list item, or has lines that belong together: code, a table."""
    first, *others = [run for run, end in zip(runs, ends, strict=True) if end > cut][:2]
    return is_item(first.text) or any(other.break_before in (Break.INSIDE, Break.NESTED) for other in others)


def _split_at(runs: list[_Run], at: int, *, forward: bool = False) -> tuple[list[_Run], list[_Run]]:
    """Divides runs at a token position, moved to the start of a character (back, or forward) if it falls within one."""
    before: list[_Run] = []
    for index, run in enumerate(runs):
        if at >= len(run.tokens):
            at -= len(run.tokens)
            before.append(run)
            continue
        while 0 < at < len(run.tokens) and not starts_character(run.tokens[at]):
            at += 1 if forward else -1
        left, right = _parted(run, at)
        return before + left, right + runs[index + 1 :]
    return before, []


def _parted(run: _Run, at: int) -> tuple[list[_Run], list[_Run]]:
    if not 0 < at < len(run.tokens):
        return ([run], []) if at else ([], [run])
    middle = characters_of(run.tokens[:at])
    left = _Run(run.text[:middle], run.start, run.tokens[:at], run.break_before, run.torn, run.code)
    right = _Run(run.text[middle:], run.start + middle, run.tokens[at:], Break.INSIDE, torn=True, code=run.code)
    return [left], [right]
