"""Helpers that parse documents, and cut their text into chunks."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import strategies as st

from opx.domain.documents import DocumentChunk
from opx.domain.knowledge import Category, Tier
from opx.errors import UnparsableDocumentError
from opx.formats.markdown_lines import scan
from opx.formats.registry import parse
from opx.formats.source import ParsedSource
from opx.ingestion.chunking import DEFAULT_OVERLAP, DEFAULT_TOKENS, ChunkOwner, chunk_lines

PREFIXES = ("", "> ", "- ", "  ", "1. ", "> - ", "- > ", "   ", "    ", ">", "- - ", "10. ", "\t")
BODIES = (
    "# a", "###### b", "#", "#c", "text", "", "```", "```sh", "```not `a` fence", "````", "~~~", "~~~~ sh", "===", "---", "-",
    "***", "<!--", "-->", "<!-- x -->", "<!-- x --># d", "<!-- x -->```", "<!", "-- y -->", "<div>", "</div>", "<pre>",
    "</pre>", "<?x", "<b>", "[a]: /u", "| a |", "|---|", "`x`", "\\", "a\r# b",
)  # fmt: skip
MARKDOWN = st.lists(st.tuples(st.sampled_from(PREFIXES), st.sampled_from(BODIES)).map("".join), max_size=9).map(
    "\n".join
)
"""Lines that nest, open and close whatever lines of Markdown can."""


def a_category(**json_mapping: str) -> Category:
    return Category("notes", Tier.INTERNAL, 1.0, "permanent", json_mapping=json_mapping)


def parsed(data: bytes | str, name: str = "a.md", category: Category | None = None) -> ParsedSource:
    raw = data.encode() if isinstance(data, str) else data
    return parse(io.BytesIO(raw), name=name, category=category or a_category())


def text_of(data: bytes | str, name: str = "a.md", category: Category | None = None) -> str:
    return "".join(parsed(data, name, category).lines)


def refusal(data: bytes | str, name: str = "a.md", category: Category | None = None) -> str:
    """The reason why the document is refused, at once or while reading."""
    with pytest.raises(UnparsableDocumentError) as caught:
        text_of(data, name, category)
    assert str(caught.value).startswith(f"{name}: ")
    return str(caught.value)


def outcome(data: bytes | str, name: str = "a.md", category: Category | None = None) -> str:
    """`parsed`, or the message of the refusal. Any other error comes through."""
    try:
        text_of(data, name, category)
    except UnparsableDocumentError as exc:
        return str(exc)
    return "parsed"


def chunk_document(
    pieces: Iterable[str], owner: ChunkOwner, *, tokens: int = DEFAULT_TOKENS, overlap: int = DEFAULT_OVERLAP
) -> Iterator[DocumentChunk]:
    """Chunks of normalised text that is given in pieces: lines, very long ones cut."""
    return chunk_lines(scan(pieces), owner, tokens=tokens, overlap=overlap)
