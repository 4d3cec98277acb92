"""Documents as items of the documents table, and back."""

from __future__ import annotations

from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.knowledge import Tier
from opx.domain.remarks import Remark
from opx.domain.scopes import Scope
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
    """The item of a version. Its key attributes are those of `tables.DOCUMENTS`."""
    scope = document.key.scope
    return {
        "documentId": document.document_id,
        "entry": version_place(document.key.id, document.version),
        "documentKey": document.key.id,
        "source": document.key.source,
        "scopeKey": scope.key,
        "categoryUpdated": category_place(document.category, document.last_updated),
        "clientId": scope.client_id,
        "groupId": scope.group_id,
        "projectId": scope.project_id,
        "title": document.title,
        "category": document.category,
        "tier": document.tier.value,
        "trust": document.trust,
        "tags": list(document.tags),
        "s3Location": document.location,
        "sourceUri": document.source_uri,
        "language": document.language,
        "severity": document.severity,
        "services": list(document.services),
        "metadata": {
            "author": document.author,
            "version": document.declared_version,
            "lastUpdated": document.last_updated,
        },
        "lastUpdated": document.last_updated,
        "createdAt": document.created_at,
        "version": document.version,
        "state": document.state.value,
        "supersededAt": document.superseded_at,
        "chunkCount": document.chunk_count,
        "tokenCount": document.token_count,
        "contentHash": document.content_hash,
        "remarks": [remark.to_json() for remark in document.remarks],
        "currentSince": document.current_since,
        "expires": document.expires,
        "reviewBy": document.review_by,
        "owner": document.owner,
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
    scope = Scope(item["clientId"], item["groupId"], item["projectId"])
    metadata = item["metadata"]
    return KnowledgeDocument(
        document_id=item["documentId"],
        key=DocumentKey(scope, item["source"]),
        title=item["title"],
        category=item["category"],
        tier=Tier(item["tier"]),
        trust=float(item["trust"]),
        location=item["s3Location"],
        source_uri=item["sourceUri"],
        created_at=item["createdAt"],
        last_updated=item["lastUpdated"],
        tags=tuple(item["tags"]),
        language=item["language"],
        author=metadata["author"],
        severity=item["severity"],
        services=tuple(item["services"]),
        declared_version=metadata["version"],
        version=int(item["version"]),
        state=DocumentState(item["state"]),
        superseded_at=item["supersededAt"],
        chunk_count=int(item["chunkCount"]),
        token_count=int(item["tokenCount"]),
        content_hash=item["contentHash"],
        remarks=tuple(Remark.from_json(remark) for remark in item.get("remarks", ())),
        current_since=item.get("currentSince", ""),
        expires=item.get("expires", ""),
        review_by=item.get("reviewBy", ""),
        owner=item.get("owner", ""),
    )
