"""JSON Schemas of what the routes reply that are about what work taught, and what came of acting upon documents."""

from __future__ import annotations

from opx.api.fields import Json
from opx.api.schema_parts import COUNT, FLAG, NUMBER, TEXT, list_of, named, object_of
from opx.domain.learning import CheckpointType, EntryState, EntryType

_TEXTS = list_of(TEXT)
_COUNTS = object_of({"resolved": COUNT, "noEffect": COUNT, "madeWorse": COUNT})
_TALLY: Json = {
    "now": {**_COUNTS, "description": "Of the version that is there now."},
    "earlier": {**_COUNTS, "description": "Of versions that were replaced; each counts half."},
}
_TEXTS_OF_ENTRIES = (
    "scope",
    "project_id",
    "agent_type",
    "task_type",
    "technology",
    "failure_description",
    "error_message",
    "gate_type",
    "human_feedback",
    "revision_approach",
    "approved_approach",
    "timestamp",
    "embedded_at",
    "incident",
    "effect",
    "pattern_id",
    "reference",
)
_COUNTED: Json = {"successCount": COUNT, "failureCount": COUNT}
_TOLD: Json = {
    "problem": TEXT,
    "solution": TEXT,
    "whenToTry": TEXT,
    "technology": TEXT,
    "entryType": {**TEXT, "enum": [kind.value for kind in EntryType]},
    **_COUNTED,
    "evidence": {**_TEXTS, "description": "Ids of entries that it was learned from; of many, the latest."},
}

LEARNING_SCHEMAS: Json = {
    "LearningEntry": object_of(
        {
            "id": TEXT,
            "entry_type": {**TEXT, "enum": [kind.value for kind in EntryType]},
            **dict.fromkeys(_TEXTS_OF_ENTRIES, TEXT),
            "solution_steps": _TEXTS,
            "success_verified": {"type": ["boolean", "null"], "description": "Null until somebody said so."},
            "embedded": {**FLAG, "description": "Whether a checkpoint has taken it in."},
            "state": {**TEXT, "enum": [state.value for state in EntryState]},
            "remarks": {**_TEXTS, "description": "What was masked in it, or is missing for it to be learned from."},
        }
    ),
    "Pattern": object_of(
        {
            "patternId": TEXT,
            "scope": {**TEXT, "description": "Who shares it."},
            **_TOLD,
            "errorMessage": TEXT,
            "agentTypes": _TEXTS,
            "taskTypes": _TEXTS,
            "gateType": TEXT,
            "embeddedAt": {**TEXT, "description": "When it was last seen to work or to fail."},
            "firstSeen": TEXT,
            "projects": _TEXTS,
        }
    ),
    "FoundPattern": object_of(
        {
            "patternId": TEXT,
            **_TOLD,
            "similarity": {**NUMBER, "description": "To the question, from 0 to 1."},
            "score": {**NUMBER, "description": "Gives the order."},
            "confidenceBound": {**NUMBER, "description": "Lower bound of its success rate, from 0 to 1."},
            "documentId": TEXT,
            "warnings": {**_TEXTS, "description": "What was tried like it, and made things worse or had no effect."},
        }
    ),
    "Checkpoint": object_of(
        {
            "projectId": TEXT,
            "checkpointType": {**TEXT, "enum": [kind.value for kind in CheckpointType]},
            "takenIn": COUNT,
            "patternsNew": COUNT,
            "patternsConfirmed": COUNT,
            "warnings": COUNT,
            "waiting": {**_TEXTS, "description": "Entries that nobody verified yet, or without a solution."},
            "refused": list_of(object_of({"entryId": TEXT, "reason": TEXT})),
            "tookMs": NUMBER,
        }
    ),
    "Outcomes": object_of(
        {
            "documentId": TEXT,
            "version": COUNT,
            "title": TEXT,
            **_TALLY,
            "sections": {
                "type": "object",
                "additionalProperties": object_of(_TALLY),
                "description": "By the headings above, as results show them.",
            },
            "factor": {
                **NUMBER,
                "description": "What its scores are multiplied with; 1 until there is enough evidence.",
            },
            "explanation": TEXT,
            "updatedAt": TEXT,
            "told": {
                **list_of(
                    object_of(
                        {
                            "outcomeId": TEXT,
                            "result": TEXT,
                            "documentId": TEXT,
                            "version": COUNT,
                            "receiptId": TEXT,
                            "at": TEXT,
                            **dict.fromkeys(("section", "step", "incident", "note", "occurrence", "principal"), TEXT),
                        }
                    )
                ),
                "description": "The latest outcomes one by one, where they were asked for and there are any.",
            },
        },
        optional=("told",),
    ),
}

_FOUND = object_of({"patterns": list_of(named("FoundPattern"))})

LEARNING_REPLIES: dict[str, Json] = {
    "learning_entries": object_of(
        {"entries": list_of(named("LearningEntry")), "next": {**TEXT, "description": "`after` of the next page."}},
        optional=("next",),
    ),
    "patterns": object_of({"patterns": list_of(named("Pattern"))}),
    "pattern": object_of(
        {
            "pattern": named("Pattern"),
            "occurrences": list_of(
                object_of(
                    {
                        "entryId": TEXT,
                        "projectId": TEXT,
                        "worked": FLAG,
                        "at": TEXT,
                        "incident": TEXT,
                        "reason": {**TEXT, "description": "Why it is counted: the same text (key), or similarity."},
                        "key": {**TEXT, "description": "What its text is found by."},
                    }
                )
            ),
            "more": {**FLAG, "description": "True if there are more occurrences than these."},
        }
    ),
    "patterns_for_task": _FOUND,
    "patterns_for_failure": _FOUND,
    "task_context": object_of({"context": {**TEXT, "description": "Empty if nothing is known."}}),
    "document_outcomes": named("Outcomes"),
    "capture_entry": object_of({"id": TEXT}),
    "verify_entry": named("LearningEntry"),
    "checkpoint": object_of(
        {
            "asked": {**FLAG, "description": "True if it is done afterwards, by another function."},
            "report": named("Checkpoint"),
        },
        optional=("report",),
    ),
    "record_outcome": object_of(
        {
            "outcomeId": TEXT,
            "documentId": TEXT,
            "title": TEXT,
            "section": TEXT,
            "result": TEXT,
            "counted": {**TEXT, "description": "new, known if it was told before, or corrected."},
            "standing": named("Outcomes"),
            "warningId": {**TEXT, "description": "The entry that warns of what made things worse; empty without one."},
        }
    ),
}
"""What a request that succeeds is answered with, by the route's name."""
