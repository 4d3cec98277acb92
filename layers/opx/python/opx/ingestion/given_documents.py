"""Reads documents in the forms that callers and sources have: text, bytes, mappings, `Document`, and objects like it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from opx.domain.ids import stable_hash
from opx.domain.sources import Document, SourceDocument
from opx.errors import InvalidInputError, SourceShapeError, UnparsableDocumentError
from opx.formats.metadata import check_given

Content = str | bytes | Mapping[str, Any]
"""A document's content: Markdown text, the bytes of a file, or a mapping that is read as JSON."""

_UNUSUAL = re.compile(r"[^\w./ -]+")
_CONTENTS = ("content", "page_content", "text")
"""Attributes that hold the text of a document, here and in frameworks."""


def read_document(given: object, metadata: Mapping[str, Any] | None = None) -> tuple[Content, dict[str, Any]]:
    """The content and the metadata of a document in any form; `metadata` counts before that of the document. A source that
    is an address is its `source_uri`, too. Raises `InvalidInputError` for something without content, and as
    `check_facts`."""
    if isinstance(given, str | bytes | Mapping):
        content, facts = given, dict(metadata or {})
    else:
        content, facts = document_of(given).content, {**document_of(given).facts(), **(metadata or {})}
        if "://" in str(facts.get("source") or ""):
            facts.setdefault("source_uri", facts["source"])
            facts["source"] = _key(str(facts["source"]))
    check_facts(facts, str(facts.get("source") or facts.get("title") or "the document"))
    return content, facts


def check_facts(facts: Mapping[str, Any], name: str) -> None:
    """Raises `InvalidInputError` for metadata of the document `name` that are invalid, or can't be kept."""
    try:
        check_given(facts, name=name)
    except UnparsableDocumentError as exc:
        raise InvalidInputError(str(exc)) from exc


def document_of(given: object) -> Document:
    """The document that an object is. Raises `InvalidInputError`."""
    if isinstance(given, Document):
        return given
    content = next((found for name in _CONTENTS if (found := getattr(given, name, None)) is not None), None)
    metadata = getattr(given, "metadata", None) or {}
    if not isinstance(content, str | bytes | Mapping) or not isinstance(metadata, Mapping):
        kind = type(given).__name__
        raise InvalidInputError(
            f"a document is text, bytes, a mapping, or an object with content and metadata, not {kind}"
        )
    title, uri = getattr(given, "title", ""), getattr(given, "source_uri", "") or getattr(given, "url", "")
    return Document(content, str(title or ""), metadata, str(getattr(given, "source", "") or ""), str(uri or ""))


def listed(fetched: object, source: str) -> Iterator[object]:
    """The documents that a source returned. Raises `SourceShapeError` for a coroutine, or nothing to go through."""
    if inspect.iscoroutine(fetched):
        fetched.close()
        raise SourceShapeError(f"source {source}: fetch is a coroutine function; return the documents themselves")
    if not isinstance(fetched, Iterable):
        raise SourceShapeError(f"source {source}: fetch returned {type(fetched).__name__} in place of documents")
    return iter(fetched)


def source_document(given: object) -> SourceDocument:
    """A document of a source. Its key is its stable name: `source`, its address, its title, or a hash of its content.
    Raises `InvalidInputError`."""
    if isinstance(given, SourceDocument):
        return given
    document = document_of(given)
    facts = document.facts()
    named = str(facts.pop("source", "") or facts.get("source_uri") or facts.get("title") or "")
    return SourceDocument(_key(named) or stable_hash("document", document.content), document.content, facts)


def _key(name: str) -> str:
    """A name, or an address, as parts that are joined by slashes; "" for one without any."""
    plain = _UNUSUAL.sub("_", name.partition("://")[2] if "://" in name else name)
    return "/".join(part for part in plain.split("/") if part.strip("."))[:500]
