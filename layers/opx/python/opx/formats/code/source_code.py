"""Source files: a section for each class and function, under its signature, with its comment as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import PurePosixPath

from opx.domain.remarks import Remark, RemarkKind
from opx.formats.code.languages import LANGUAGES, Language
from opx.formats.decoding import cut_lines, filled_lines, read_up_to
from opx.formats.source import ParsedSource, Source
from opx.formats.writing import fenced, heading

MAX_CHARACTERS = 512 * 1024
"""Larger files are generated, nearly always; a syntax tree takes up to 200 times the size of a hostile one."""

_MAX_LINE = 400
"""Characters of a line, on average, above which code was written by a program for a program."""

_MAX_OPENINGS = 2_000
_OPENINGS = {"bash": "<<", "rust": 'r#"'}
"""What begins a here-document or a raw text: the grammars look for the end of each in all that follows, within a step
that can't be stopped."""


def parse_code(source: Source) -> ParsedSource:
    """The file as Markdown, with its path as title. A file without a grammar, too large or minified has no sections."""
    language = LANGUAGES.get(PurePosixPath(source.name).suffix.lower()) or Language("")
    lines = filled_lines(source)
    remarks: list[Remark] = []
    blocks = chain([heading(1, source.name)], _blocks(lines, language, source.name, remarks))
    return ParsedSource(source.name, {}, cut_lines(blocks, source.name), remarks)


def _blocks(lines: Iterator[str], language: Language, name: str, remarks: list[Remark]) -> Iterator[str]:
    if not language.grammar:
        yield from fenced(lines, language.name)
        return
    held, size = read_up_to(lines, MAX_CHARACTERS)
    problem = _problem(held, size, language)
    found: Iterable[str] | None = None
    if not problem:
        from opx.formats.code.outline import outline  # only here: tree-sitter is native code

        found = outline("".join(held), language)
    if found is None:
        text = f"{name}: {problem or 'its syntax is too tangled'}, so it is kept without sections for its functions"
        remarks.append(Remark(RemarkKind.IRREGULAR, text))
        found = fenced(chain(held, lines), language.name)
    yield from found


def readable_code(lines: Iterable[str], language: Language) -> str:
    """The text of a file that gets sections for its functions, if its syntax allows it; "" for another one."""
    held, size = read_up_to(lines, MAX_CHARACTERS)
    return "" if _problem(held, size, language) else "".join(held)


def _problem(lines: list[str], size: int, language: Language) -> str:
    opening = _OPENINGS.get(language.name)
    if opening and sum(line.count(opening) for line in lines) > _MAX_OPENINGS:
        return f"it has more than {_MAX_OPENINGS:,} of {opening}"
    if size > MAX_CHARACTERS:
        return f"it has more than {MAX_CHARACTERS // 1024} KiB of code"
    return "its lines are as long as a program's output" if size > _MAX_LINE * (len(lines) + 4) else ""
