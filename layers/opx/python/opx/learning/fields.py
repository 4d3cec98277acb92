"""Validates and cleans the fields of captured entries, and reads learning events.

Text is cleaned as documents are: secrets masked, invisible characters removed. Masking is reported in remarks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from opx.domain.ids import epoch_seconds, normalise
from opx.domain.learning import (
    MAX_ERROR,
    MAX_LINE,
    MAX_NAME,
    MAX_STEPS,
    MAX_STEPS_TEXT,
    MAX_TEXT,
    CheckpointType,
    EntryType,
    TriedEffect,
)
from opx.domain.scopes import GLOBAL_KEY, Identity, Scope, scope_of_key
from opx.errors import InvalidInputError, InvalidScopeError
from opx.formats.source import well_formed
from opx.hygiene import invisible
from opx.hygiene.secrets import mask

_LEFT_OUT = "\n…\n"


@dataclass(frozen=True, slots=True)
class EntryField:
    """A field of at most `maximum` characters, on one line unless it is `long`; a list of strings with that many characters
    together if it holds `several`. A longer value is cut to `kept` characters, if set: its beginning and its end."""

    name: str
    maximum: int
    long: bool = False
    several: bool = False
    kept: int = 0


FIELDS = {
    field.name: field
    for field in (
        EntryField("agent_type", MAX_NAME),
        EntryField("task_type", MAX_NAME),
        EntryField("technology", MAX_NAME),
        EntryField("failure_description", MAX_TEXT, long=True),
        EntryField("error_message", MAX_ERROR, long=True, kept=MAX_TEXT // 2),
        EntryField("solution_steps", MAX_STEPS_TEXT, long=True, several=True),
        EntryField("gate_type", MAX_NAME),
        EntryField("human_feedback", MAX_TEXT, long=True),
        EntryField("revision_approach", MAX_TEXT, long=True),
        EntryField("approved_approach", MAX_TEXT, long=True),
        EntryField("incident", MAX_NAME),
        EntryField("reference", MAX_LINE),
        EntryField("effect", MAX_NAME),
    )
}
_NEEDED = {
    EntryType.FAILURE_SOLUTION: ("failure_description",),
    EntryType.GATE_REJECTION: ("gate_type",),
    EntryType.GATE_APPROVAL: ("gate_type",),
    EntryType.WARNING: ("solution_steps", "effect"),
}
_CALLED = {
    (EntryType.WARNING, "solution_steps"): "tried",
    (EntryType.WARNING, "failure_description"): "problem",
}
"""Public names of fields, where they differ from the entry's."""


@dataclass(frozen=True, slots=True)
class CheckedEntry:
    """The fields of an entry that have a value, cleaned, and what was masked in them."""

    values: Mapping[str, Any]
    remarks: tuple[str, ...]


def checked(entry_type: EntryType, given: Mapping[str, Any]) -> CheckedEntry:
    """Validated fields of an entry. Raises `InvalidInputError`, naming a field that is missing, too long, or no string."""
    values: dict[str, Any] = {}
    remarks: list[str] = []
    for name, value in given.items():
        found = _value(FIELDS[name], _CALLED.get((entry_type, name), name), value, remarks)
        if found:
            values[name] = found
    for name in _NEEDED[entry_type]:
        if name not in values:
            called = _CALLED.get((entry_type, name), name)
            raise InvalidInputError(f"a {entry_type} needs {called}: set it to a string that is not empty")
    if "effect" in values:
        values["effect"] = effect_of(values["effect"]).value
    return CheckedEntry(values, tuple(remarks))


def effect_of(text: str) -> TriedEffect:
    """The effect of this name. Raises `InvalidInputError`."""
    try:
        return TriedEffect(text)
    except ValueError as exc:
        raise InvalidInputError(f"unknown effect {str(text)[:60]!r}; there are: {', '.join(TriedEffect)}") from exc


def cleaned_line(name: str, value: Any, maximum: int = MAX_LINE) -> str:
    """A cleaned single-line value that isn't a field of an entry, such as the name of an occurrence. Raises
    `InvalidInputError`."""
    return _text(EntryField(name, maximum), name, value, [])


def _value(field: EntryField, called: str, value: Any, remarks: list[str]) -> str | tuple[str, ...]:
    if not field.several:
        return _text(field, called, value, remarks)
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or len(given) > MAX_STEPS:
        raise InvalidInputError(f"{called} must be a string, or a list of at most {MAX_STEPS} strings")
    texts = [_text(field, called, one, remarks) for one in given]
    if sum(map(len, texts)) > field.maximum:
        raise InvalidInputError(f"{called} may have {field.maximum:,} characters together; keep the instructions only")
    return tuple(text for text in texts if text)


def _text(field: EntryField, called: str, value: Any, remarks: list[str]) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInputError(f"{called} must be a string, not {type(value).__name__}")
    if len(value) > field.maximum:
        raise InvalidInputError(f"{called} may have {field.maximum:,} characters, not {len(value):,}")
    text, _ = invisible.removed(normalise(well_formed(value)))
    text, findings = mask(text)
    remarks.extend(f"{called}: {each.label} masked (fingerprint {each.fingerprint})" for each in findings)
    text = text.strip() if field.long else " ".join(text.split())
    if field.kept and len(text) > field.kept:
        remarks.append(f"{called}: the middle of its {len(text):,} characters was left out")
        half = (field.kept - len(_LEFT_OUT)) // 2
        return text[:half] + _LEFT_OUT + text[-half:]
    return text


# -- events


SOURCE = "opx.learning"
CLIENT_FIELD, PROJECT_FIELD, SCOPE_FIELD = "client_id", "project_id", "scope"
PRINCIPAL = "learning events"
"""Principal of entries that were captured through events."""

ENVELOPE_REASON, ENVELOPE_EVENT = "reason", "event"
_QUOTED = 60


class EntryKind(StrEnum):
    """Detail types."""

    FAILURE_SOLVED = "FailureSolved"
    GATE_REJECTED = "GateRejected"
    GATE_APPROVED = "GateApproved"
    WARNING_NOTED = "WarningNoted"
    VERIFIED = "Verified"
    OUTCOME = "Outcome"
    CHECKPOINT = "Checkpoint"


@dataclass(frozen=True, slots=True)
class LearningEvent:
    """A parsed event. `at` is its time in seconds since the epoch; None if the event has none."""

    kind: EntryKind
    identity: Identity
    detail: Mapping[str, Any]
    at: float | None = None


def read_event(body: str, configured: Identity) -> LearningEvent:
    """Parses a message: an event as EventBridge sends it, or a rejected one that is sent again in its envelope.

    Raises `InvalidInputError` with the reason.
    """
    event = _object(_json(body), "the event")
    if ENVELOPE_EVENT in event and ENVELOPE_REASON in event:
        event = _object(event[ENVELOPE_EVENT], "the event")
    if event.get("source") != SOURCE:
        raise InvalidInputError(f"the event's source is {quoted(event.get('source'))}, not {SOURCE}")
    detail = dict(_object(event.get("detail"), "the event's detail"))
    identity = _identity(detail, configured)
    return LearningEvent(_kind(event.get("detail-type")), identity, detail, epoch_seconds(str(event.get("time"))))


def checkpoint_message(scope: Scope, project_id: str, checkpoint_type: CheckpointType) -> str:
    """An event that requests a checkpoint of the entries that one scope captured for a project."""
    detail = {SCOPE_FIELD: scope.key, PROJECT_FIELD: project_id, "checkpoint_type": checkpoint_type.value}
    return json.dumps({"source": SOURCE, "detail-type": EntryKind.CHECKPOINT.value, "detail": detail})


def _identity(detail: dict[str, Any], configured: Identity) -> Identity:
    """The identity that the event is for; removes the client from the detail. Raises `InvalidScopeError` for a malformed one,
    and for a client other than the installation's."""
    project = text_of(detail, PROJECT_FIELD)
    if SCOPE_FIELD in detail:
        scope = scope_of_key(text_of(detail, SCOPE_FIELD))
        client, project = scope.client_id, scope.project_id
    else:
        client = text_of(detail, CLIENT_FIELD) or configured.client_id
        project = (configured.project_id or project) if client else ""
    detail.pop(CLIENT_FIELD, None)
    if configured.client_id and client != configured.client_id:
        raise InvalidScopeError(
            f"the event is of client {client or GLOBAL_KEY!r}, which is not the client of this installation"
        )
    Scope(client, project_id=project)
    return Identity(client, project, PRINCIPAL)


def _kind(value: object) -> EntryKind:
    try:
        return EntryKind(str(value))
    except ValueError:
        raise InvalidInputError(f"the detail-type {quoted(value)} is not one of {', '.join(EntryKind)}") from None


def text_of(detail: Mapping[str, Any], name: str) -> str:
    """A string field of the detail, "" if it is missing. Raises `InvalidInputError` for other types."""
    value = detail.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} must be a string, not {type(value).__name__}")
    return value.strip()


def _json(body: str) -> object:
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise InvalidInputError("the message is not JSON") from exc
    return found


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{what} is not a JSON object")
    return value


def quoted(value: object) -> str:
    """The beginning of the value's representation, for error messages."""
    return repr(value)[:_QUOTED]
