"""Plain text: passed on as it is."""

from __future__ import annotations

from opx.ingestion.parsing.decoding import not_blank, text_lines
from opx.ingestion.parsing.source import ParsedSource, Source


def parse_plain(source: Source) -> ParsedSource:
    """The text without title or metadata."""
    problem = "there is nothing but white space in it; upload it again"
    return ParsedSource(None, {}, not_blank(text_lines(source), source.name, problem))
