"""Documents as items of the documents table, and back."""

from __future__ import annotations

from opx.domain.documents import DocumentKey, KnowledgeDocument
from opx.ports import Item


def version_prefix(key: DocumentKey) -> str:
    """What the sort keys of all versions of a document key begin with; the version follows, so that they sort by it."""
    return f"document#{key.id}#"


def version_place(key_id: str, version: int) -> str:
    """The sort key of a version."""
    return f"document#{key_id}#{version:08d}"


def category_place(category: str, last_updated: str = "") -> str:
    """Where a version is among those of its scope; without a time, where its category begins."""
    return f"{category}#{last_updated}"


def document_item(document: KnowledgeDocument) -> Item:
    """The item of a version: its JSON, with the scope's ids side by side, the names that the table had first, and the key
    attributes of `tables.DOCUMENTS`."""
    item = document.to_json()
    return {
        **item,
        **item.pop("scope"),
        "source": item.pop("key"),
        "sourceUri": item["source"],
        "entry": version_place(document.key.id, document.version),
        "documentKey": document.key.id,
        "scopeKey": document.scope.key,
        "categoryUpdated": category_place(document.category, document.last_updated),
        "lastUpdated": document.last_updated,
    }


def tag_items(document: KnowledgeDocument) -> list[Item]:
    """One item a tag: a list can't be the key of an index."""
    return [
        {
            "documentId": document.document_id,
            "entry": f"tag#{tag}#{document.key.id}",
            "tag": tag,
            "keyId": document.key.id,
            "lastUpdated": document.last_updated,
        }
        for tag in dict.fromkeys(document.tags)
    ]


def document_from_item(item: Item) -> KnowledgeDocument:
    """The version of an item, also of one that was written before the documents had all of today's fields."""
    data = {
        **item,
        "scope": {name: item[name] for name in ("clientId", "groupId", "projectId")},
        "metadata": {**item["metadata"], "lastUpdated": item["lastUpdated"]},
        "key": item["source"],
        "source": item["sourceUri"],
    }
    return KnowledgeDocument.from_json(data)
