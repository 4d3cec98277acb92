"""Splits runbooks for LangChain: the splitter of ingestion as a `TextSplitter` that works without an installation.

    splitter = RunbookSplitter(chunk_size=500, chunk_overlap=50)
    documents = splitter.create_documents([text], [{"source": "disk-full.md"}])

Importing this module imports LangChain, which takes up to a second; ingestion doesn't.
"""

from __future__ import annotations

import copy
import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from langchain_core.documents import Document
from langchain_text_splitters import TextSplitter

from opx.formats.markdown_lines import scan
from opx.ingestion.chunking import DEFAULT_OVERLAP, DEFAULT_TOKENS, check_window, split_lines
from opx.text.tokenizer import count_tokens

__all__ = ["RunbookSplitter"]

SECTION = "section"
"""Metadata of a chunk: its path of headings, joined by ` > `."""

START = "start_index"
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_LINE_BREAK = re.compile(r"\r\n?")


class RunbookSplitter(TextSplitter):
    """Splits Markdown at headings, and long sections into overlapping windows that keep commands, tables and steps whole.

    Sizes are tokens of `cl100k_base`, counted without network. Each chunk is an exact slice of its text, so `start_index`
    and the chunk's length cite it; sections under one heading that are too small to stand alone are one chunk. Code that is
    longer than a window is cut at definitions of the language that its fence names. Both sizes are in tokens.
    Raises `InvalidInputError` unless 0 <= chunk_overlap < chunk_size and 8 <= chunk_size.
    """

    def __init__(
        self, chunk_size: int = DEFAULT_TOKENS, chunk_overlap: int = DEFAULT_OVERLAP, *, add_start_index: bool = True
    ) -> None:
        check_window(chunk_size, chunk_overlap)
        super().__init__(
            chunk_size=chunk_size,
            chunk_overlap=chunk_overlap,
            length_function=count_tokens,
            keep_separator=True,
            add_start_index=add_start_index,
            strip_whitespace=False,
        )

    def split_text(self, text: str) -> list[str]:
        """Chunks, in order."""
        return [text[start:end] for start, end, _ in self._slices(text)]

    def create_documents(self, texts: list[str], metadatas: list[dict[Any, Any]] | None = None) -> list[Document]:
        """The chunks of texts as documents, each with the metadata of its text, its `section` and `start_index`.

        A `section` that the text's metadata have already stays. Raises `ValueError` unless there are metadata for every text.
        """
        given = metadatas if metadatas is not None else [{} for _ in texts]
        return [
            Document(page_content=text[start:end], metadata=self._metadata(metadata, start, section))
            for text, metadata in zip(texts, given, strict=True)
            for start, end, section in self._slices(text)
        ]

    def _metadata(self, given: dict[Any, Any], start: int, section: tuple[str, ...]) -> dict[Any, Any]:
        metadata = {SECTION: " > ".join(section)} if section else {}
        return metadata | copy.deepcopy(given) | ({START: start} if self._add_start_index else {})

    def _slices(self, text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Start, end and section of each chunk. Lines may end with any of the three line breaks."""
        dropped = [found.start() for found in _LINE_BREAK.finditer(text) if len(found[0]) > 1]
        lines = _LINES.findall(_LINE_BREAK.sub("\n", text))
        shifted = [at - count for count, at in enumerate(dropped)]
        for piece in split_lines(scan(lines), tokens=self._chunk_size, overlap=self._chunk_overlap):
            start, end = piece.start, piece.start + len(piece.text)
            yield start + bisect_left(shifted, start), end + bisect_left(shifted, end), piece.section
