"""Formats that are text already: Markdown with optional front matter, plain text, and configuration files."""

from __future__ import annotations

from itertools import chain
from pathlib import PurePosixPath

from opx.formats.decoding import NOTHING, cut_lines, filled_lines, not_blank, text_lines
from opx.formats.markup.front_matter import read_front_matter
from opx.formats.source import ParsedSource, Source
from opx.formats.writing import fenced, heading

LANGUAGES = {
    ".toml": "toml",
    ".ini": "ini",
    ".cfg": "ini",
    ".conf": "conf",
    ".cnf": "ini",
    ".properties": "properties",
    ".env": "sh",
    ".service": "ini",
    ".rules": "yaml",
}
"""The name of the language in the code blocks, by the extension."""


def parse_markdown(source: Source) -> ParsedSource:
    """Title and metadata from the front matter, and the text below it. A first heading is left to the reader."""
    lines = text_lines(source)
    metadata, read = read_front_matter(lines, source.name)
    problem = NOTHING if metadata is None else "there is only front matter and no text below it; add the text"
    title = (metadata or {}).get("title")
    return ParsedSource(
        title=title if isinstance(title, str) else None,
        metadata=metadata or {},
        lines=not_blank(chain(read, lines), source.name, problem),
    )


def parse_plain(source: Source) -> ParsedSource:
    """The text without title or metadata."""
    return ParsedSource(None, {}, filled_lines(source))


def parse_config(source: Source) -> ParsedSource:
    """The file as code blocks, lazily, with its path as title: it is searched by its words."""
    lines = filled_lines(source)
    language = LANGUAGES.get(PurePosixPath(source.name).suffix.lower(), "")
    blocks = chain([heading(1, source.name)], fenced(lines, language))
    return ParsedSource(source.name, {}, cut_lines(blocks, source.name))
