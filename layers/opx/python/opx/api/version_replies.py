"""JSON Schemas of what the routes of versions reply."""

from __future__ import annotations

from opx.api.fields import Json
from opx.api.schema_parts import COUNT, FLAG, TEXT, list_of, object_of

_NAME = object_of(
    {
        "version": COUNT,
        "documentId": TEXT,
        "since": {**TEXT, "description": "Since when it was current, empty if unknown."},
    }
)

VERSION_REPLIES: dict[str, Json] = {
    "document_diff": object_of(
        {
            "source": {**TEXT, "description": "The document's name in the corpus, in its scope."},
            "before": _NAME,
            "after": _NAME,
            "changes": {
                **list_of(object_of({"field": TEXT, "before": TEXT, "after": TEXT})),
                "description": "Metadata with another value.",
            },
            "diff": {**TEXT, "description": "A unified diff of the texts, empty if they are equal."},
            "added": {**COUNT, "description": "Lines that are only in the later text."},
            "removed": {**COUNT, "description": "Lines that are only in the earlier text."},
            "cut": {**FLAG, "description": "True if the diff is longer than what is shown of it."},
        }
    ),
    "restore_document": object_of(
        {
            "objectKey": {**TEXT, "description": "The object that waits to be taken in."},
            "restored": _NAME,
            "original": {
                **FLAG,
                "description": "True if the object is the one of then; else it is the text that was read of it.",
            },
            "notes": {**list_of(TEXT), "description": "What is not as it was."},
        }
    ),
}
"""What a request that succeeds is answered with, by the route's name."""
