"""Turns the bytes of an object into normalised Markdown text and unvalidated metadata, a file a format."""

from __future__ import annotations

from opx.ingestion.parsing.registry import parse
from opx.ingestion.parsing.source import ParsedSource, Parser, Source

__all__ = ["ParsedSource", "Parser", "Source", "parse"]
