"""JSON Schemas of what the routes about retention reply."""

from __future__ import annotations

from opx.api.fields import Json
from opx.api.schema_parts import COUNT, FLAG, NUMBER, TEXT, list_of, named, object_of

_HOLD_TEXTS = ("holdId", "reason", "by", "within", "category", "source", "since", "lifted", "liftedBy")
_REVIEW_TEXTS = ("documentId", "title", "category", "source", "scope", "owner", "reviewBy", "lastUpdated")
_COUNTS: Json = {"type": "object", "additionalProperties": COUNT}
_EXCESS = object_of(
    {
        "category": {**TEXT, "description": "Empty for all of them together."},
        "due": COUNT,
        "total": COUNT,
        "share": NUMBER,
        "retentionBefore": TEXT,
        "retention": TEXT,
    }
)

LIFECYCLE_SCHEMAS: Json = {
    "Hold": object_of(dict.fromkeys(_HOLD_TEXTS, TEXT)),
    "ReviewItem": object_of(
        {
            **dict.fromkeys(_REVIEW_TEXTS, TEXT),
            "overdueDays": {"type": "integer", "description": "Below 0: how many days are left."},
        }
    ),
    "Pruning": object_of(
        {
            **dict.fromkeys(("started", "finished", "until"), TEXT),
            "dryRun": FLAG,
            "versions": COUNT,
            "chunks": COUNT,
            "removed": {**_COUNTS, "description": "Versions of documents, by category."},
            "kept": {**_COUNTS, "description": "Versions that are due and had to stay, by why."},
            "held": {**_COUNTS, "description": "Versions that are due and stay, by hold."},
            "redated": _COUNTS,
            "stopped": {**list_of(_EXCESS), "description": "Of what too much would have gone, so that nothing did."},
            "unfinished": FLAG,
            "notes": list_of(TEXT),
        }
    ),
}

LIFECYCLE_REPLIES: Json = {
    "reviews": object_of(
        {
            "items": list_of(named("ReviewItem")),
            "more": FLAG,
            "owners": list_of(object_of({"owner": TEXT, "overdue": COUNT, "items": COUNT})),
        }
    ),
    "prunings": object_of({"prunings": list_of(named("Pruning"))}),
    "holds": object_of({"holds": list_of(named("Hold"))}),
    "add_hold": named("Hold"),
    "lift_hold": named("Hold"),
}
