"""JSON Schemas of what the tools answer that are about what work taught."""

from __future__ import annotations

from opx.domain.learning import EntryState, EntryType
from opx.tools.answer_schemas import TEXT, TEXTS, Json, all_required, list_of

_NUMBER: Json = {"type": "number"}
_COUNT: Json = {"type": "integer"}
_NOTES: Json = {**TEXTS, "description": "What was masked or left out."}

ENTRY = all_required(
    {
        "entryId": {**TEXT, "description": "What verify_solution takes."},
        "state": {
            **TEXT,
            "enum": [state.value for state in EntryState],
            "description": "Whether it waits to be verified, is ready for the next checkpoint, or was taken in.",
        },
        "notes": _NOTES,
    }
)

OUTCOME = all_required(
    {
        "outcomeId": TEXT,
        "documentId": TEXT,
        "counted": {**TEXT, "description": "new, known if it was told before, or corrected."},
        "explanation": {**TEXT, "description": "What is known of the document, such as `4 of 5 resolved`."},
        "warningId": {**TEXT, "description": "The entry that warns of what made things worse; empty without one."},
    }
)

PATTERNS = all_required(
    {
        "patterns": list_of(
            all_required(
                {
                    "patternId": TEXT,
                    "problem": TEXT,
                    "solution": TEXT,
                    "whenToTry": TEXT,
                    "successCount": _COUNT,
                    "failureCount": _COUNT,
                    "similarity": {**_NUMBER, "description": "To the question, from 0 to 1."},
                    "score": {**_NUMBER, "description": "Gives the order."},
                    "confidenceBound": {**_NUMBER, "description": "Lower bound of its success rate, from 0 to 1."},
                    "entryType": {**TEXT, "enum": [kind.value for kind in EntryType]},
                    "technology": TEXT,
                    "documentId": TEXT,
                    "warnings": {**TEXTS, "description": "What was tried like it, and didn't help."},
                    "evidence": {**TEXTS, "description": "Ids of entries that it was learned from."},
                }
            ),
            "What was learned, the best first.",
        ),
        "notes": _NOTES,
    }
)

CONTEXT = all_required({"context": {**TEXT, "description": "The text for the prompt; empty if nothing is known."}})
