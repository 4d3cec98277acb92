"""JSON Schemas of what the routes about things and relations reply."""

from __future__ import annotations

from opx.api.fields import Json
from opx.api.schema_parts import COUNT, FLAG, NUMBER, OPEN, TEXT, list_of, named, object_of

_VALUES: Json = {**OPEN, "description": "Texts, numbers, true or false, by name."}
_EVIDENCE = object_of(
    {
        "documentId": TEXT,
        "chunkIds": list_of(TEXT),
        "tier": TEXT,
        "trust": NUMBER,
        "at": {**TEXT, "description": "When that was so, or the document was last updated."},
        "rule": {**TEXT, "description": "What found it in the text."},
        "confidence": {**NUMBER, "description": "How sure that rule can be."},
        "stated": {**list_of(TEXT), "description": "How the document writes the references, where that differs."},
    },
    optional=("stated",),
)
_NAMED_EDGE = object_of({"from": TEXT, "edgeType": TEXT, "to": TEXT})
_CUT = {**list_of(TEXT), "description": "Things of which not all relations were followed."}
_NAMES: Json = {
    "type": "object",
    "additionalProperties": TEXT,
    "description": "What things are called, by reference, where that says more.",
}
_PASSAGES = {**list_of(named("GraphPassage")), "description": "The text of evidence, by chunk id; of much, the first."}
_UNCOVERED = list_of(object_of({"key": TEXT, "firings": COUNT, "lastFired": TEXT}))
_ALIAS = object_of(
    {"alias": TEXT, "canonical": TEXT, "area": {**TEXT, "description": "The scope that it is of."}, "seenCount": COUNT}
)
_MERGE = object_of({"mergeId": TEXT, "area": TEXT, "source": TEXT, "into": TEXT, "state": TEXT})

GRAPH_SCHEMAS: Json = {
    "GraphNode": object_of(
        {
            "key": {**TEXT, "description": "namespace:value"},
            "type": TEXT,
            "properties": _VALUES,
            "ragChunks": {**list_of(TEXT), "description": "Chunks that name it."},
            "evidence": list_of(_EVIDENCE),
            "declared": {
                **FLAG,
                "description": "True if a document is about it, or lists it; else it is only mentioned.",
            },
        }
    ),
    "GraphEdge": object_of(
        {
            "edgeType": TEXT,
            "from": TEXT,
            "to": TEXT,
            "evidenceChunkIds": {**list_of(TEXT), "minItems": 1},
            "evidence": {**list_of(_EVIDENCE), "minItems": 1, "description": "The newest first."},
            "at": TEXT,
            "confidence": NUMBER,
            "properties": _VALUES,
        }
    ),
    "GraphPassage": object_of(
        {
            "chunkId": TEXT,
            "documentId": TEXT,
            "title": TEXT,
            "section": {**TEXT, "description": "The headings above it, as `A > B`."},
            "source": TEXT,
            "category": TEXT,
            "tier": TEXT,
            "untrusted": {**FLAG, "description": "True if it comes from outside the organisation."},
            "content": TEXT,
            "flags": {**list_of(TEXT), "description": "What readers are to be warned of."},
        },
        optional=("flags",),
    ),
    "GraphAnswer": object_of(
        {
            "question": TEXT,
            "explanation": {**TEXT, "description": "What was looked for, and what came of it."},
            "rows": list_of(
                object_of(
                    {"key": TEXT, "path": list_of(named("GraphEdge")), "at": TEXT, "values": _VALUES},
                    optional=("at", "values"),
                )
            ),
            "cut": {**FLAG, "description": "True if there may be more."},
            "passages": _PASSAGES,
        }
    ),
}

GRAPH_REPLIES: dict[str, Json] = {
    "graph_node": object_of(
        {
            "node": named("GraphNode"),
            "aliases": {**list_of(TEXT), "description": "Its other references, as far as the caller may know them."},
            "edges": list_of(named("GraphEdge")),
            "more": {**FLAG, "description": "True if it has more relations than these."},
            "passages": _PASSAGES,
            "names": _NAMES,
        }
    ),
    "graph_neighbours": object_of(
        {
            "start": TEXT,
            "reached": list_of(object_of({"key": TEXT, "distance": COUNT, "path": list_of(_NAMED_EDGE)})),
            "edges": list_of(named("GraphEdge")),
            "cut": _CUT,
            "contradicting": {**list_of(list_of(_NAMED_EDGE)), "description": "Pairs that can't both be."},
            "passages": _PASSAGES,
            "names": _NAMES,
        }
    ),
    "graph_path": object_of(
        {
            "from": TEXT,
            "to": TEXT,
            "found": {**FLAG, "description": "False if there is no way of few enough steps."},
            "steps": list_of(named("GraphEdge")),
            "cut": _CUT,
            "passages": _PASSAGES,
        }
    ),
    "graph_find": object_of({"nodes": list_of(named("GraphNode"))}),
    "graph_changes": named("GraphAnswer"),
    "graph_affected": named("GraphAnswer"),
    "graph_coverage": object_of(
        {
            "since": TEXT,
            "alertsWithoutRunbook": {**_UNCOVERED, "description": "Those that fired most first."},
            "runbooksNeverFired": {**_UNCOVERED, "description": "They are for alerts, none of which fired."},
            "runbooksWithoutAlert": _UNCOVERED,
            "servicesWithoutRunbook": _UNCOVERED,
            "lookedAt": {"type": "object", "additionalProperties": COUNT, "description": "Things by type."},
            "cut": {**list_of(TEXT), "description": "Types that have more than were looked at."},
        }
    ),
    "aliases": object_of({"aliases": list_of(_ALIAS)}),
    "merges": object_of({"merges": list_of(_MERGE)}),
    "add_alias": _ALIAS,
    "remove_alias": object_of({"removed": {**FLAG, "description": "False if there was none."}}),
    "merge_things": _MERGE,
    "undo_merge": _MERGE,
}
"""What a request that succeeds is answered with, by the route's name."""
