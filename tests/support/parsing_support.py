"""Helpers that parse documents."""

from __future__ import annotations

import io

import pytest

from opx.domain.knowledge import Category, Tier
from opx.errors import UnparsableDocumentError
from opx.formats.registry import parse
from opx.formats.source import ParsedSource


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
