"""Configuration files as code blocks: they are searched by their words."""

from __future__ import annotations

from itertools import chain
from pathlib import PurePosixPath

from opx.ingestion.parsing.decoding import cut_lines, not_blank, text_lines
from opx.ingestion.parsing.source import ParsedSource, Source
from opx.ingestion.parsing.writing import fenced, heading

LANGUAGES = {
    ".toml": "toml",
    ".ini": "ini",
    ".cfg": "ini",
    ".conf": "conf",
    ".cnf": "ini",
    ".properties": "properties",
    ".env": "sh",
    ".service": "ini",
}
"""The name of the language in the code blocks, by the extension."""


def parse_config(source: Source) -> ParsedSource:
    """The file, lazily, with its path as title."""
    lines = not_blank(text_lines(source), source.name, "there is nothing but white space in it; upload it again")
    language = LANGUAGES.get(PurePosixPath(source.name).suffix.lower(), "")
    blocks = chain([heading(1, source.name)], fenced(lines, language))
    return ParsedSource(source.name, {}, cut_lines(blocks, source.name))
