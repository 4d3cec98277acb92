"""Small, valid objects for tests: every argument has a default, so that a test names only what it is about."""

from __future__ import annotations

from typing import Any

from opx.adapters.chosen import Ports
from opx.domain.documents import DocumentKey, KnowledgeDocument, Revision
from opx.domain.handover import DocumentAnswer
from opx.domain.knowledge import Tier
from opx.domain.record import replace
from opx.domain.results import Answer, RetrievalResult
from opx.domain.scopes import Scope
from opx.operations.system import System


def a_version(**fields: Any) -> KnowledgeDocument:
    """A version of a document; `key` and the fields of its `Revision` are given as those of the document."""
    key, revision = fields.pop("key"), _revision(fields)
    return KnowledgeDocument(scope=key.scope, source=key.source, metadata=Revision(**revision), **fields)


def changed(document: KnowledgeDocument, **fields: Any) -> KnowledgeDocument:
    """The same with other fields, given as in `a_version`."""
    if "key" in fields:
        key = fields.pop("key")
        fields |= {"scope": key.scope, "source": key.source}
    revision = _revision(fields)
    return replace(document, metadata=replace(document.metadata, **revision), **fields)


def _revision(fields: dict[str, Any]) -> dict[str, Any]:
    names = {"last_updated": "last_updated", "author": "author", "declared_version": "version"}
    return {names[name]: fields.pop(name) for name in names if name in fields}


def a_document(source: str = "documents/runbooks/page.md", title: str = "Page", **fields: Any) -> KnowledgeDocument:
    """A runbook of everybody's that was read and not chunked yet."""
    given: dict[str, Any] = {
        "document_id": "d",
        "key": DocumentKey(Scope(), source),
        "category": "runbooks/procedures",
        "tier": Tier.INTERNAL,
        "trust": 1.0,
        "location": "",
        "source_uri": "",
        "created_at": "",
        "last_updated": "",
    }
    return a_version(title=title, **{**given, **fields})


def a_document_answer(result: RetrievalResult, **changes: Any) -> DocumentAnswer:
    """The handover of a document whose best passage is all of its text."""
    facts: dict[str, Any] = {
        "document_id": result.document_id,
        "title": result.title,
        "section": result.section,
        "source": result.source,
        "category": result.category,
        "tier": result.tier,
        "trust": result.trust_score,
        "confidence": result.confidence,
        "judged": result.judged,
        "helps_by": result.helps_by,
        "score": result.score,
        "updated": result.timestamp,
        "why": "words #1",
        "content": result.content,
        "whole": True,
        "warnings": tuple(str(one["text"]) for one in result.warnings),
        "flags": result.flags,
        "outcome": str(result.outcome["text"]) if result.outcome else "",
    }
    return DocumentAnswer(**{**facts, **changes})


def an_answer_of(*results: RetrievalResult, query: str = "q") -> Answer:
    """An answer that hands over the documents of its results."""
    return Answer(query, results, documents=tuple(map(a_document_answer, results)))


def ports_of(system: System) -> Ports:
    """The adapters that a system was made with."""
    assert isinstance(system.ports, Ports)
    return system.ports
