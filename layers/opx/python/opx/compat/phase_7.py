"""The parts of the Phase 7 design that agents call: `retrieve` in Bedrock's form, the documents' table, and citations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opx.domain.documents import KnowledgeDocument
from opx.domain.ids import stable_hash
from opx.domain.queries import Band, QueryConfig
from opx.domain.results import RetrievalResult
from opx.errors import DocumentNotFoundError, InvalidInputError
from opx.facade.knowledge import Knowledge
from opx.text.tokenizer import cl100k

__all__ = [
    "BedrockKnowledgeBase",
    "Document",
    "DocumentsTable",
    "KnowledgeRetrieval",
    "detokenize",
    "format_results",
    "short_category",
    "stable_hash",
    "tokenize",
]

Document = dict[str, Any]
MINIMUM_RELEVANCE = Band.LIKELY.least
"""The design's bar of .7 as confidence: more likely right than wrong."""
_SHORT = {"runbooks": "runbook", "postmortems": "postmortem"}


def short_category(path: str) -> str:
    """The design's name of a category: `runbook` for `runbooks/procedures`; others unchanged."""
    return _SHORT.get(path.partition("/")[0], path)


def tokenize(text: str) -> list[int]:
    """The cl100k tokens of the text."""
    return cl100k().encode_ordinary(text)


def detokenize(tokens: list[int]) -> str:
    """The text of the cl100k tokens."""
    return cl100k().decode(tokens)


class BedrockKnowledgeBase:
    """Answers `retrieve` as the client of a Bedrock knowledge base does, from any knowledge."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    def retrieve(
        self,
        *,
        knowledgeBaseId: str = "",  # noqa: N803, ARG002 - Bedrock's names; there is one knowledge
        retrievalQuery: Mapping[str, str],  # noqa: N803
        retrievalConfiguration: Mapping[str, Any] | None = None,  # noqa: N803
    ) -> dict[str, Any]:
        """Returns `retrievalResults` that are at least likely. A filter may be `equals` of `category` or `tags`. Raises
        `InvalidInputError` for another one."""
        search = (retrievalConfiguration or {}).get("vectorSearchConfiguration", {})
        config = QueryConfig(
            max_results=int(search.get("numberOfResults", 5)),
            min_confidence=MINIMUM_RELEVANCE,
            plain=True,
            **_filters(search.get("filter")),
        )
        found = self._knowledge.query(retrievalQuery["text"], config)
        return {"retrievalResults": [_retrieved(one) for one in found]}


def _filters(given: Mapping[str, Any] | None) -> dict[str, Any]:
    if not given:
        return {}
    equals = given.get("equals")
    names = {"category": "categories", "tags": "tags"}
    if len(given) != 1 or not isinstance(equals, Mapping) or equals.get("key") not in names:
        raise InvalidInputError("a filter is {'equals': {'key': 'category' or 'tags', 'value': ...}}")
    return {names[equals["key"]]: (str(equals["value"]),)}


def _retrieved(found: RetrievalResult) -> dict[str, Any]:
    facts = {
        **found.metadata,
        "title": found.title,
        "category": short_category(found.category),
        "documentId": found.document_id,
    }
    return {
        "content": {"type": "TEXT", "text": found.content},
        "location": {"type": "S3", "s3Location": {"uri": found.source}},
        "score": found.confidence,
        "metadata": facts,
    }


def format_results(results: Mapping[str, Any]) -> list[Document]:
    """The results of `retrieve` as `format_citation` reads them."""
    return [
        {
            "content": one["content"]["text"],
            "score": one["score"],
            "metadata": one["metadata"],
            "documentId": one["metadata"]["documentId"],
        }
        for one in results["retrievalResults"]
    ]


class KnowledgeRetrieval:
    """The action group's functions as plain calls."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._base = BedrockKnowledgeBase(knowledge)

    def search_runbooks(self, query: str, max_results: int = 5) -> list[Document]:
        """Searches the runbooks."""
        return self._search(query, "runbooks", max_results)

    def search_postmortems(self, query: str, max_results: int = 5) -> list[Document]:
        """Searches the postmortems."""
        return self._search(query, "postmortems", max_results)

    def get_document_details(self, document_id: str) -> Document:
        """Returns the metadata and the text of a document. Raises `DocumentNotFoundError`."""
        document = self._knowledge.document(document_id)
        return {**item_of(document), "content": self._knowledge.read(document_id, "all").content}

    def _search(self, query: str, category: str, max_results: int) -> list[Document]:
        wanted = {"equals": {"key": "category", "value": category}}
        search = {"vectorSearchConfiguration": {"numberOfResults": max_results, "filter": wanted}}
        return format_results(self._base.retrieve(retrievalQuery={"text": query}, retrievalConfiguration=search))


class DocumentsTable:
    """The table of documents as the design keys it: by `documentId`, and by category."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    def get_item(self, *, Key: Mapping[str, str]) -> dict[str, Any]:  # noqa: N803 - DynamoDB's name
        """Returns `{"Item": ...}`, or nothing for an unknown id."""
        try:
            return {"Item": item_of(self._knowledge.document(Key["documentId"]))}
        except DocumentNotFoundError:
            return {}

    def by_category(self, category: str) -> list[Document]:
        """The items of a category, such as `runbook`, the last updated first."""
        return [item_of(one) for one in self._knowledge.documents(category)]


def item_of(document: KnowledgeDocument) -> Document:
    """A document with the design's fields."""
    return {
        "documentId": document.document_id,
        "title": document.title,
        "category": short_category(document.category),
        "tags": list(document.tags),
        "s3Location": document.location,
        "metadata": {
            **document.attributes,
            "author": document.metadata.author,
            "version": document.metadata.version,
            "lastUpdated": document.metadata.last_updated,
        },
        "createdAt": document.created_at,
    }
