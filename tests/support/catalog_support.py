"""Reads the index of tags, which agents and people query by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from opx.domain.documents import DocumentState, KnowledgeDocument
from opx.ingestion.corpus.catalog import Catalog, document_from_item
from opx.ports import KeyRange


def tagged(catalog: Catalog, tag: str) -> Iterator[KnowledgeDocument]:
    """Current documents with a tag, the last updated first."""
    for item in catalog.documents.query(tag, index="tags-index", reverse=True):
        prefix = KeyRange(begins_with=f"document#{item['keyId']}#")
        found = next(catalog.documents.query(item["documentId"], where=prefix, reverse=True, limit=1), None)
        if found and found["state"] == DocumentState.CURRENT and tag in found["tags"]:
            yield document_from_item(found)
