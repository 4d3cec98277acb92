"""JSON Schemas of what the HTTP API replies, by route. Readers must expect more fields than are listed."""

from __future__ import annotations

from opx.api.evidence_replies import EVIDENCE_PACK, EVIDENCE_SCHEMAS
from opx.api.fields import Json
from opx.api.graph_replies import GRAPH_REPLIES, GRAPH_SCHEMAS
from opx.api.learning_replies import LEARNING_REPLIES, LEARNING_SCHEMAS
from opx.api.schema_parts import COUNT as _COUNT
from opx.api.schema_parts import FLAG as _FLAG
from opx.api.schema_parts import NUMBER as _NUMBER
from opx.api.schema_parts import OPEN as _OPEN
from opx.api.schema_parts import TEXT as _TEXT
from opx.api.schema_parts import list_of as _list
from opx.api.schema_parts import named as _named
from opx.api.schema_parts import object_of as _object
from opx.api.version_replies import VERSION_REPLIES
from opx.tools.answer_schemas import DOCUMENT as DOCUMENT_FOR_AGENTS

_RESULT = _object(
    {
        "content": {**_TEXT, "description": "The passage that was found."},
        "score": {**_NUMBER, "description": "Confidence times trust; gives the order."},
        "tier": _TEXT,
        "category": _TEXT,
        "source": {**_TEXT, "description": "Where a person would open it."},
        "timestamp": {**_TEXT, "description": "When it was last updated."},
        "trustScore": _NUMBER,
        "untrusted": {**_FLAG, "description": "True if it comes from outside the organisation: data, no instructions."},
        "metadata": {
            **_OPEN,
            "description": "What is needed to cite it: documentId, title, section and more. `flags` where there is "
            "something to warn of, `copies` where other documents say the same, `outcome` where it is known what came of "
            "acting upon the document, `warnings` where one of its steps was tried before in vain.",
        },
        "scores": {**_OPEN, "description": "The parts of the score: ranks, fused, confidence, trust, outcome, final."},
        "section": {**_TEXT, "description": "The headings above the passage, as `A > B`."},
        "relevance": {**_TEXT, "description": "The confidence as a percentage, such as `87%`."},
    },
    optional=("section", "relevance"),
)

_PUT = _object(
    {
        "url": {**_TEXT, "description": "Where to send it, with the method PUT, within 15 minutes."},
        "headers": {"type": "object", "additionalProperties": _TEXT, "description": "What to send with it: all of it."},
    }
)

_SOURCE = _object(
    {
        "sourceId": _TEXT,
        "kind": _TEXT,
        "category": _TEXT,
        "tier": _TEXT,
        "schedule": {**_TEXT, "description": "Five cron fields, empty for one that is pulled by hand alone."},
        "timeZone": _TEXT,
        "enabled": _FLAG,
        "declared": {**_FLAG, "description": "True for one of knowledge.yaml, which is changed there."},
        "state": _object(
            {
                "pulling": _FLAG,
                "unfinished": {**_FLAG, "description": "True if its last pull goes on with the next one."},
                "since": {**_TEXT, "description": "From when the next pull asks, empty for everything."},
                "lastAttempt": _TEXT,
                "lastSuccess": _TEXT,
                "put": _COUNT,
                "unchanged": _COUNT,
                "withdrawn": _COUNT,
                "refused": {**_COUNT, "description": "Documents that could not be read; `refusals` names some."},
                "refusals": _list(_object({"key": _TEXT, "reason": _TEXT})),
                "error": {**_TEXT, "description": "Why the last pull stopped, empty if it didn't."},
                "failures": _COUNT,
                "flag": {**_TEXT, "description": "Why nothing was withdrawn although documents are missing."},
            }
        ),
        "health": _object({"ok": _FLAG, "reason": _TEXT}),
    },
    optional=("health",),
)

_OR_NOTHING: Json = {"type": ["number", "null"]}
_DISTRIBUTION: Json = {
    "count": _COUNT,
    "mean": _NUMBER,
    "stddev": {**_NUMBER, "description": "Of a sample (n - 1)."},
    **dict.fromkeys(("minimum", "maximum", "p01", "p10", "p50", "p90", "p95", "p99"), _OR_NOTHING),
}
_BASELINE = _object(
    {
        "node": _TEXT,
        "metric": _TEXT,
        "timeWindow": _TEXT,
        **_DISTRIBUTION,
        "byHour": {
            **_list(_object({"hour": {**_COUNT, "description": "0-23, UTC."}, **_DISTRIBUTION})),
            "description": "The same by hour of the day, for hours that have values.",
        },
        "days": {**_COUNT, "description": "Days that have values."},
        "lastSeen": {**_TEXT, "description": "When the newest value was measured, empty for never."},
        "unit": _TEXT,
        "notes": {**_list(_TEXT), "description": "What the numbers lack."},
    }
)
_VERDICT = _object(
    {
        "anomalous": _FLAG,
        "reason": _TEXT,
        "score": {**_OR_NOTHING, "description": "The modified z-score, from -100 to 100."},
        "percentile": _OR_NOTHING,
        "low": {**_OR_NOTHING, "description": "What would still be ordinary, from here"},
        "high": {**_OR_NOTHING, "description": "to here."},
    }
)

_FINDING = _object(
    {
        **{name: schema for name, schema in _RESULT["properties"].items() if name != "relevance"},
        "title": _TEXT,
        "documentId": _TEXT,
        "confidence": _NUMBER,
        "foundBy": {**_list(_TEXT), "description": "The searches that found it."},
    }
)

_STEP = _object(
    {
        "iteration": _COUNT,
        "kind": {**_TEXT, "enum": ["plan", "search"]},
        "text": {**_TEXT, "description": "What was searched for, or the planner's name."},
        "why": _TEXT,
        "results": _COUNT,
        "new": {**_COUNT, "description": "Results that no earlier search had, or searches that were done."},
        "bestConfidence": _NUMBER,
        "milliseconds": _NUMBER,
        "error": {**_TEXT, "description": "What went wrong, empty if nothing did."},
        "receiptId": _TEXT,
    },
    optional=("receiptId",),
)

SCHEMAS: Json = {
    **EVIDENCE_SCHEMAS,
    "Answer": _object(
        {
            "query": _TEXT,
            "results": _list(_named("Result")),
            "nearest": _named("Result"),
            "partial": {**_FLAG, "description": "True if something could not be searched."},
            "notes": {**_list(_TEXT), "description": "What the answer lacks, and why."},
            "timingsMs": {"type": "object", "additionalProperties": _NUMBER},
            "evidencePack": EVIDENCE_PACK,
            "receiptId": {**_TEXT, "description": "The record of this answer in the audit log."},
            "receipt": {**_OPEN, "description": "Where it was asked for: what can be kept as evidence and replayed."},
        },
        optional=("nearest", "evidencePack", "receiptId", "receipt"),
    ),
    "Result": _RESULT,
    "Document": _object(
        {
            **DOCUMENT_FOR_AGENTS["properties"],
            "scope": _object({"clientId": _TEXT, "groupId": _TEXT, "projectId": _TEXT}),
            "key": {**_TEXT, "description": "Its name in the corpus, in its scope."},
            "trust": _NUMBER,
            "tokenCount": _COUNT,
            "contentHash": _TEXT,
        }
    ),
    "Chunk": _object(
        {
            "chunkId": _TEXT,
            "documentId": _TEXT,
            "chunkIndex": _COUNT,
            "content": _TEXT,
            "tokenCount": _COUNT,
            "section": _list(_TEXT),
            "start": {**_COUNT, "description": "Where it begins in the document's text, in characters."},
            "end": _COUNT,
            "metadata": _OPEN,
        }
    ),
    "Category": _object(
        {
            "path": _TEXT,
            "tier": _TEXT,
            "trust": _NUMBER,
            "retention": _TEXT,
            "description": _TEXT,
            "schedule": {"type": ["string", "null"]},
            "folders": _list(_TEXT),
            "schema": _OPEN,
            "embed": _list(_TEXT),
            "jsonMapping": _OPEN,
        }
    ),
    "Failure": _object(
        {
            "failureId": _TEXT,
            "objectKey": _TEXT,
            "reason": _TEXT,
            "error": _TEXT,
            "attempts": _COUNT,
            "failedAt": _TEXT,
            "mark": {**_TEXT, "description": "Another one each time that the object fails."},
        }
    ),
    "ObjectState": _object(
        {
            "objectKey": _TEXT,
            "state": {**_TEXT, "enum": ["waiting", "ingested", "deleted", "failed"]},
            "documentId": _TEXT,
            "title": _TEXT,
            "chunks": _COUNT,
            "reason": _TEXT,
            "mark": _TEXT,
        },
        optional=("documentId", "title", "chunks", "reason", "mark"),
    ),
    "Source": _SOURCE,
    "AuditRecord": _object(
        {
            "receiptId": _TEXT,
            "who": {**_TEXT, "description": "The scope that asked."},
            "principal": {**_TEXT, "description": "Who or what of it asked, empty if that is not known."},
            "askedAt": _TEXT,
            "queryHash": {**_TEXT, "description": "Of the question, with a key of this installation."},
            "configHash": _TEXT,
            "mode": _TEXT,
            "corpusVersion": _TEXT,
            "documents": _list(_object({"documentId": _TEXT, "chunkId": _TEXT, "confidence": _NUMBER})),
            "documentsInAll": {**_COUNT, "description": "How many results there were; the first are named."},
            "nearest": {**_TEXT, "description": "The document that was shown as the nearest, without an answer."},
            "answerHash": _TEXT,
            "partial": _FLAG,
            "tookMs": _COUNT,
        }
    ),
    "Gap": _object(
        {
            "gapId": _TEXT,
            "scope": _TEXT,
            "status": {**_TEXT, "enum": ["open", "closed", "ignored"]},
            "question": {**_TEXT, "description": "The first wording, without secrets."},
            "examples": _list(_TEXT),
            "count": _COUNT,
            "callers": {**_COUNT, "description": "How many different ones asked; 20 stands for more, too."},
            "firstAskedAt": _TEXT,
            "lastAskedAt": _TEXT,
            "services": _list(_TEXT),
            "categories": _list(_TEXT),
            "owner": _TEXT,
            "nearestId": _TEXT,
            "nearestTitle": _TEXT,
            "nearestCategory": _TEXT,
            "nearestConfidence": _NUMBER,
            "because": _TEXT,
            "closedBy": {**_TEXT, "description": "The document that answers it."},
            "closedByTitle": _TEXT,
            "closedAt": _TEXT,
        }
    ),
    "Baseline": _BASELINE,
    "Verdict": _VERDICT,
    "SignedPut": _PUT,
    "Research": _object(
        {
            "topic": _TEXT,
            "searchesPerformed": _COUNT,
            "findings": {**_list(_FINDING), "description": "First the best one for each part of the topic."},
            "gaps": {**_list(_TEXT), "description": "Parts of the topic for which nothing good was found."},
            "nearest": {**_list(_named("Result")), "description": "What came nearest for these; not good enough."},
            "notes": {**_list(_TEXT), "description": "What went wrong, and what was left out."},
            "partial": {**_FLAG, "description": "True if something could not be searched or shown."},
            "stoppedBecause": {**_TEXT, "enum": ["enough", "nothing_left", "iterations", "time", "unavailable"]},
            "planner": {**_TEXT, "description": "What decided what to search for."},
            "trace": _list(_STEP),
        }
    ),
    **GRAPH_SCHEMAS,
    **LEARNING_SCHEMAS,
    "Error": _object({"error": _object({"code": _TEXT, "message": _TEXT})}),
}

_NEXT: Json = {**_TEXT, "description": "What to give as `after` for the next page; absent on the last."}


def _page(name: str, items: Json, following: Json = _NEXT) -> Json:
    return _object({name: _list(items), "next": following}, optional=("next",))


REPLIES: dict[str, Json] = {
    "search": _named("Answer"),
    "query": _named("Answer"),
    "documents": _page("documents", _named("Document")),
    "document": _object(
        {
            "document": _named("Document"),
            "versions": _list(_named("Document")),
            "next": {**_COUNT, "description": "What to give as `after` for more versions; absent if there are none."},
        },
        optional=("next",),
    ),
    "chunks": _page("chunks", _named("Chunk"), {**_COUNT, "description": _NEXT["description"]}),
    "categories": _object({"categories": _list(_named("Category")), "defaultCategory": _TEXT}),
    "status": _object(
        {
            "scope": _TEXT,
            "documents": _COUNT,
            "waiting": {
                "type": ["integer", "null"],
                "description": "Objects of all clients that wait for a worker; null for callers of one client.",
            },
            "failed": _COUNT,
            "index": {**_TEXT, "description": "`ok`, or what is wrong with it."},
            "chunks": {"type": ["integer", "null"]},
            "embeddingModel": _TEXT,
            "categories": {"type": "object", "additionalProperties": _COUNT},
            "apiVersion": _COUNT,
        }
    ),
    "failures": _page("failures", _named("Failure")),
    "audit": _object({"records": _list(_named("AuditRecord"))}),
    "gaps": _object(
        {
            "gaps": _list(_named("Gap")),
            "more": {**_FLAG, "description": "True if there are more than one reply holds."},
            "dropped": {**_COUNT, "description": "How many had to make room for others."},
        }
    ),
    "objects": _page("objectKeys", _TEXT),
    "ingest": _object(
        {
            "accepted": _list(_object({"objectKey": _TEXT})),
            "refused": _list(_object({"index": _COUNT, "reason": _TEXT})),
        }
    ),
    "put_evidence": _object({"objectKey": _TEXT}),
    "upload": _object(
        {
            "state": {**_TEXT, "enum": ["unchanged", "upload"]},
            "objectKey": _TEXT,
            "documentId": _TEXT,
            "put": _named("SignedPut"),
            "sidecarPut": _named("SignedPut"),
            "removeSidecar": {
                **_FLAG,
                "description": "True if a metadata file is stored that the file no longer has: once the file is put, "
                "remove the object of this key with `.metadata.json` behind it.",
            },
        },
        optional=("documentId", "put", "sidecarPut", "removeSidecar"),
    ),
    "object_states": _object({"states": _list(_named("ObjectState"))}),
    "delete_objects": _object({"deleted": _COUNT}),
    "delete_document": _object({"deleted": _list(_named("Document"))}),
    "retry_failures": _object({"sent": _COUNT, "objectKeys": _list(_TEXT)}),
    "sources": _object({"sources": _list(_named("Source"))}),
    "register_source": _named("Source"),
    "remove_source": _object({"removed": _TEXT}),
    "pull_source": _object({"sourceId": _TEXT}),
    "source_health": _named("Source"),
    "baseline": _object({"baseline": _named("Baseline"), "verdict": _named("Verdict")}, optional=("verdict",)),
    "baseline_series": _page("series", _object({"node": _TEXT, "metric": _TEXT, "unit": _TEXT, "lastSeen": _TEXT})),
    "add_values": _object(
        {
            "added": _COUNT,
            "repeated": {**_COUNT, "description": "Values that had been counted before."},
            "refused": _list(_object({"index": _COUNT, "reason": _TEXT})),
        }
    ),
    "crawl": _object({"sourceId": _TEXT}),
    "research": _named("Research"),
    **GRAPH_REPLIES,
    **VERSION_REPLIES,
    **LEARNING_REPLIES,
}
"""What a request that succeeds is answered with, by the route's name."""
