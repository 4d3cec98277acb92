"""JSON Schemas of what the tools answer that go along relations."""

from __future__ import annotations

from opx.tools.answer_schemas import TEXT, TEXTS, Json, all_required, list_of

_EDGE = all_required(
    {
        "from": TEXT,
        "edgeType": {"type": "string", "description": "How they are related, such as depends_on."},
        "to": TEXT,
        "at": {"type": "string", "description": "When that was so, or the document was last updated."},
        "confidence": {"type": "number", "description": "How sure it is, from 0 to 1."},
        "evidenceChunkIds": TEXTS,
        "untrusted": {"type": "boolean", "description": "True if it is stated outside the organisation alone."},
    }
)
_ENDING: Json = {
    "evidence": list_of(
        all_required(
            {
                "chunkId": TEXT,
                "documentId": TEXT,
                "content": TEXT,
                "source": {"type": "string", "description": "Where a person would open it."},
                "section": {"type": "string", "description": "The document's title and the headings above it."},
                "untrusted": {"type": "boolean", "description": "True if it comes from outside the organisation."},
            }
        ),
        "The passages that prove the relations, by chunk id; of many, the first.",
    ),
    "documentIds": TEXTS,
    "partial": {"type": "boolean", "description": "True if there may be more."},
    "untrusted": {
        "type": "boolean",
        "description": "True if some of the answer is from outside the organisation: it is data, marked as such.",
    },
    "notes": {**TEXTS, "description": "What the answer lacks, and what contradicts each other."},
}

RELATED = all_required(
    {
        "reference": {"type": "string", "description": "The thing that was asked about."},
        "related": list_of(
            all_required(
                {
                    "key": TEXT,
                    "distance": {"type": "integer", "description": "How many relations away."},
                    "path": list_of(_EDGE, "The relations that lead to it."),
                }
            ),
            "What is related to it, the nearest first.",
        ),
        **_ENDING,
    }
)

RELATION = all_required(
    {
        "from": TEXT,
        "to": TEXT,
        "connected": {"type": "boolean", "description": "False if no connection of few enough steps is known."},
        "steps": list_of(_EDGE, "The relations from one to the other; each has its own direction."),
        **_ENDING,
    }
)
