"""What parsers are given and what they give back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from opx.domain.knowledge import Category
from opx.domain.remarks import Remark
from opx.ports.reading import ParsingTools

HEAD_BYTES = 8 * 1024
BLOCK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """An opened object. `head` holds its first 8 KiB, which are already taken from `stream`.

    `tools` read what is no text.
    """

    name: str
    head: bytes
    stream: BinaryIO
    category: Category
    tools: ParsingTools = field(default_factory=ParsingTools)

    def blocks(self) -> Iterator[bytes]:
        """All bytes, from the beginning, in pieces of at most 64 KiB. Can be consumed once."""
        yield self.head
        while block := self.stream.read(BLOCK_BYTES):
            yield block


@dataclass(frozen=True, slots=True)
class ParsedSource:
    """The title that the format declares, if it does; metadata as found, unvalidated; and the text.

    `lines` is consumed once. It yields normalised Markdown in lines that end with `\\n` (the last may not); a line of
    more than 64 Ki characters comes in several pieces. Joined they are the document's text. What is wrong beyond the
    first bytes shows only while reading: iterating raises `UnparsableDocumentError`, too. So may `remarks` grow, about
    what was left out: they are whole once `lines` is at its end.
    """

    title: str | None
    metadata: dict[str, Any]
    lines: Iterator[str]
    remarks: list[Remark] = field(default_factory=list)


Parser = Callable[[Source], ParsedSource]
"""Reads one format. Raises `UnparsableDocumentError` that names the file, what is wrong and what to do."""
