"""Events about what work taught, as EventBridge hands them on: who learned it, and what is to be done about it.

An event has the source `opx.learning`, one of the detail types of `Kind`, and as its detail the fields of what is captured.
`client_id` and `project_id` of the detail say whose it is: the project's of that client, as if an agent of it had told it.
Who may put events on the bus is trusted with that. An installation that is set up for one client takes events of no other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from opx.domain.learning import CheckpointType
from opx.domain.scopes import GLOBAL_KEY, Identity, Scope, scope_of_key
from opx.domain.times import epoch_seconds
from opx.errors import InvalidInputError, InvalidScopeError

SOURCE = "opx.learning"
CLIENT_FIELD, PROJECT_FIELD, SCOPE_FIELD = "client_id", "project_id", "scope"
PRINCIPAL = "learning events"
"""Who captured what came as an event."""

ENVELOPE_REASON, ENVELOPE_EVENT = "reason", "event"
_QUOTED = 60


class Kind(StrEnum):
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
    """An event that was read. `at` is when it happened, in seconds since the epoch; None if the event doesn't say."""

    kind: Kind
    identity: Identity
    detail: Mapping[str, Any]
    at: float | None = None


def read_event(body: str, configured: Identity) -> LearningEvent:
    """The event that a message holds: as EventBridge sends it, or one that was set aside with a reason and sent again.

    Raises `InvalidInputError` that says what is wrong.
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
    """An event that asks for a checkpoint of what one scope captured for a project."""
    detail = {SCOPE_FIELD: scope.key, PROJECT_FIELD: project_id, "checkpoint_type": checkpoint_type.value}
    return json.dumps({"source": SOURCE, "detail-type": Kind.CHECKPOINT.value, "detail": detail})


def _identity(detail: dict[str, Any], configured: Identity) -> Identity:
    """Whose event it is; the client is taken out of the detail. Raises `InvalidScopeError` for a malformed one, and for
    another client than the installation's."""
    project = text_of(detail, PROJECT_FIELD)
    if SCOPE_FIELD in detail:
        scope = scope_of_key(text_of(detail, SCOPE_FIELD))
        client, project = scope.client_id, scope.project_id
    else:
        client = text_of(detail, CLIENT_FIELD) or configured.client_id
        project = (configured.project_id or project) if client else ""
    detail.pop(CLIENT_FIELD, None)
    if configured.client_id and client != configured.client_id:
        raise InvalidScopeError(f"the event is of client {client or GLOBAL_KEY!r}, which is not the one here")
    Scope(client, project_id=project)
    return Identity(client, project, PRINCIPAL)


def _kind(value: object) -> Kind:
    try:
        return Kind(str(value))
    except ValueError:
        raise InvalidInputError(f"the detail-type {quoted(value)} is not one of {', '.join(Kind)}") from None


def text_of(detail: Mapping[str, Any], name: str) -> str:
    """A field of the detail, "" without one. Raises `InvalidInputError` for what is no text."""
    value = detail.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} must be a text, not {type(value).__name__}")
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
    """A little of it, for a message."""
    return repr(value)[:_QUOTED]
