"""Markdown with optional front matter."""

from __future__ import annotations

from itertools import chain

from opx.ingestion.parsing.decoding import not_blank, text_lines
from opx.ingestion.parsing.front_matter import read_front_matter
from opx.ingestion.parsing.source import ParsedSource, Source


def parse_markdown(source: Source) -> ParsedSource:
    """Title and metadata from the front matter, and the text below it. A first heading is left to the reader."""
    lines = text_lines(source)
    metadata, read = read_front_matter(lines, source.name)
    if metadata is None:
        problem = "there is nothing but white space in it; upload it again"
    else:
        problem = "there is only front matter and no text below it; add the text"
    title = (metadata or {}).get("title")
    return ParsedSource(
        title=title if isinstance(title, str) else None,
        metadata=metadata or {},
        lines=not_blank(chain(read, lines), source.name, problem),
    )
