"""What evidence of agents may have, and what of it is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from opx.errors import InvalidInputError

MAX_TEXT = 20_000
_SHORT, _LINE, _ADDRESS = 100, 500, 2000


class Shape(StrEnum):
    """What a field holds. TEXTS takes one text alone too; TIME is ISO 8601."""

    TEXT = "text"
    TEXTS = "texts"
    TIME = "time"
    FLAG = "flag"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class EvidenceField:
    """A field of evidence: at most `maximum` characters, of each text if there are several, and `most` of those."""

    name: str
    shape: Shape
    about: str
    required: bool = False
    maximum: int = MAX_TEXT
    most: int = 200


FIELDS = (
    EvidenceField("agent_type", Shape.TEXT, "What kind of agent it was, such as investigator.", True, _SHORT),
    EvidenceField("outcome", Shape.TEXT, "How it ended, such as resolved, investigated or failed.", True, _SHORT),
    EvidenceField("evidence_id", Shape.TEXT, "Names it for good: sent again, it replaces what it was.", maximum=_LINE),
    EvidenceField("title", Shape.TEXT, "What it is about, in a line.", maximum=_LINE),
    EvidenceField("task", Shape.TEXT, "What the agent was asked to do."),
    EvidenceField("conclusion", Shape.TEXTS, "What it concluded."),
    EvidenceField("observations", Shape.TEXTS, "What it saw on the way."),
    EvidenceField("problem", Shape.TEXT, "What was wrong."),
    EvidenceField("solution", Shape.TEXT, "What put it right."),
    EvidenceField("verified", Shape.FLAG, "Whether somebody, or a check, saw that the solution works."),
    EvidenceField("incident", Shape.TEXT, "The incident's id.", maximum=_SHORT),
    EvidenceField("severity", Shape.TEXT, "The incident's severity.", maximum=_SHORT),
    EvidenceField("services", Shape.TEXTS, "Services that it is about.", maximum=_SHORT, most=50),
    EvidenceField("tags", Shape.TEXTS, "Tags of the document.", maximum=64, most=10),
    EvidenceField("url", Shape.TEXT, "Where the run or the incident can be looked at.", maximum=_ADDRESS),
    EvidenceField("run_id", Shape.TEXT, "The agent's run.", maximum=_LINE),
    EvidenceField("started_at", Shape.TIME, "When the work began (ISO 8601).", maximum=_SHORT),
    EvidenceField("finished_at", Shape.TIME, "When it ended (ISO 8601).", maximum=_SHORT),
    EvidenceField("sources", Shape.TEXTS, "Documents and addresses that it rests on.", maximum=_ADDRESS),
    EvidenceField("details", Shape.OBJECT, "Anything else; kept, and not searched."),
)
"""All that evidence may have, in the order in which it is described."""

BY_NAME = {field.name: field for field in FIELDS}


def checked(evidence: object) -> dict[str, Any]:
    """The fields that have a value; texts stripped, lists as lists. Raises `InvalidInputError` that names the field."""
    if not isinstance(evidence, Mapping):
        raise InvalidInputError("evidence must be an object (a mapping of fields)")
    for name in evidence:
        if name not in BY_NAME:
            known = ", ".join(BY_NAME)
            raise InvalidInputError(f"evidence has the unknown field {str(name)[:60]!r}; there are: {known}")
    found = {name: _value(BY_NAME[name], value) for name, value in evidence.items() if value is not None}
    found = {name: value for name, value in found.items() if value not in ("", [], {})}
    for field in FIELDS:
        if field.required and field.name not in found:
            raise InvalidInputError(f"evidence has no {field.name}: {field.about}")
    return found


def _value(field: EvidenceField, value: Any) -> Any:
    if field.shape is Shape.FLAG:
        if not isinstance(value, bool):
            raise InvalidInputError(f"evidence field {field.name} must be true or false")
        return value
    if field.shape is Shape.OBJECT:
        return _object(field, value)
    if field.shape is not Shape.TEXTS:
        return _text(field, value)
    entries = [value] if isinstance(value, str) else value
    if not isinstance(entries, list | tuple) or len(entries) > field.most:
        raise InvalidInputError(f"evidence field {field.name} must be a text or a list of at most {field.most} texts")
    return [text for text in (_text(field, entry) for entry in entries) if text]


def _text(field: EvidenceField, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"evidence field {field.name} must be a text, not {type(value).__name__}")
    if len(value) > field.maximum:
        limit = f"{field.maximum:,} characters, not {len(value):,}"
        raise InvalidInputError(f"evidence field {field.name} may have {limit}")
    text = value.strip()
    if field.shape is Shape.TIME and text:
        try:
            datetime.fromisoformat(text)
        except ValueError as exc:
            raise InvalidInputError(f"evidence field {field.name} must be a time such as 2025-02-04T10:30:00Z") from exc
    return text


def _object(field: EvidenceField, value: Any) -> Any:
    """As it was given, if it is a JSON object of a size that a record can carry."""
    try:
        size = len(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInputError(f"evidence field {field.name} can't be written as JSON: {exc}") from exc
    if not isinstance(value, Mapping) or size > field.maximum:
        limit = f"an object of at most {field.maximum:,} characters as JSON"
        raise InvalidInputError(f"evidence field {field.name} must be {limit}")
    return dict(value)
