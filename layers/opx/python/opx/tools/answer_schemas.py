"""JSON Schemas of what the tools answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
TEXTS: Json = {"type": "array", "items": TEXT}
_COUNT: Json = {"type": "integer"}


def object_of(properties: Json, required: Sequence[str]) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


def all_required(properties: Json) -> Json:
    return object_of(properties, tuple(properties))


def list_of(items: Json, about: str) -> Json:
    return {"type": "array", "items": items, "description": about}


_STATE: Json = {
    "partial": {"type": "boolean", "description": "True if something could not be searched."},
    "untrusted": {
        "type": "boolean",
        "description": "True if some of the answer is quoted from outside the organisation: it is data, marked as such.",
    },
    "notes": {**TEXTS, "description": "What the answer lacks, and why."},
}
_DOCUMENT_IDS: Json = {**TEXTS, "description": "The documents that the results are from, the best first."}
_RECEIPT_ID: Json = {**TEXT, "description": "The record of this answer in the audit log, empty if there is none."}
_PASSAGE: Json = {
    "content": TEXT,
    "source": {"type": "string", "description": "Where a person would open it."},
    "section": {"type": "string", "description": "The headings above it, such as `Modules > Hooks`."},
    "untrusted": {"type": "boolean", "description": "True if it comes from outside the organisation."},
}
_WARNINGS: Json = {
    "warnings": {**TEXTS, "description": "Which of its steps were tried before in vain, or made things worse; if any."}
}

SEARCH_ANSWER = all_required(
    {
        "answer": {"type": "string", "description": "The results with their sources, or that there is none."},
        "documentIds": _DOCUMENT_IDS,
        "receiptId": _RECEIPT_ID,
        **_STATE,
    }
)

DOCS_ANSWER = all_required(
    {
        "results": list_of(
            object_of(
                {
                    **_PASSAGE,
                    "relevance": {"type": "string", "description": "How likely it is an answer, such as `87%`."},
                    **_WARNINGS,
                },
                (*_PASSAGE, "relevance"),
            ),
            "What was found, the best first.",
        ),
        "documentIds": _DOCUMENT_IDS,
        "receiptId": _RECEIPT_ID,
        **_STATE,
    }
)

RESEARCH = all_required(
    {
        "topic": TEXT,
        "searchesPerformed": _COUNT,
        "findings": list_of(
            object_of({**_PASSAGE, **_WARNINGS}, tuple(_PASSAGE)), "What was found out, the best first."
        ),
        "documentIds": _DOCUMENT_IDS,
        "gaps": {**TEXTS, "description": "Parts of the topic that nothing good was found for."},
        **_STATE,
        "trace": list_of({"type": "object"}, "What was searched for, in order, and why."),
    }
)

DOCUMENT = object_of(
    {
        "documentId": TEXT,
        "title": TEXT,
        "category": TEXT,
        "tier": {"type": "string", "description": "internal, specialized or internet, in falling order of trust."},
        "tags": TEXTS,
        "s3Location": {"type": "string", "description": "Where the object is kept."},
        "source": {"type": "string", "description": "Where a person would open it."},
        "language": TEXT,
        "severity": TEXT,
        "services": TEXTS,
        "metadata": all_required({"author": TEXT, "version": TEXT, "lastUpdated": TEXT}),
        "version": {"type": "integer", "description": "Counts the versions of the document from 1."},
        "state": {"type": "string", "description": "current, superseded or deleted."},
        "chunkCount": _COUNT,
        "remarks": list_of(
            all_required({"kind": TEXT, "text": TEXT}),
            "What of the document could not be read, was masked, or looks wrong.",
        ),
        "untrusted": {"type": "boolean", "description": "True if it comes from outside the organisation."},
        "createdAt": TEXT,
        "currentSince": {
            "type": "string",
            "description": "Since when questions are answered from it, empty if unknown.",
        },
        "supersededAt": {
            "type": "string",
            "description": "Since when no question is any more; empty if it is current.",
        },
        "expires": {"type": "string", "description": "The day from which on it isn't shown, if it says so itself."},
        "reviewBy": {
            "type": "string",
            "description": "The day by which its owner is to look at it again, if one is set.",
        },
        "owner": {"type": "string", "description": "Who looks after it, if it says so."},
    },
    ("documentId", "title", "category", "tags", "s3Location", "metadata", "version", "state", "createdAt"),
)

ERROR = object_of({"error": all_required({"code": TEXT, "message": TEXT})}, ("error",))
