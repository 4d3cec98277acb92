"""Processes learning events from a queue."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from opx import errors
from opx.domain.learning import CheckpointReport, EntryType
from opx.domain.policy import Action
from opx.domain.requests import read_request
from opx.domain.scopes import Identity
from opx.edges.calling import perform
from opx.learning import fields
from opx.operations.context import Caller, Context
from opx.operations.learning import CaptureEntry, VerifyEntry, verify_entry
from opx.operations.outcomes import RecordOutcome, record_outcome
from opx.operations.registry import REGISTRY
from opx.operations.system import System
from opx.ports import Queue
from opx.runtime.metrics import Metric, Report, unreported

log = logging.getLogger(__name__)

LAST_WAIT = 3
"""Deliveries of an event about an unknown entry: the entry may arrive after it."""

_DAY_SECONDS = 86_400

_CAPTURED = {
    fields.EntryKind.FAILURE_SOLVED: EntryType.FAILURE_SOLUTION,
    fields.EntryKind.GATE_REJECTED: EntryType.GATE_REJECTION,
    fields.EntryKind.GATE_APPROVED: EntryType.GATE_APPROVAL,
    fields.EntryKind.WARNING_NOTED: EntryType.WARNING,
}
_CHECKPOINT = (fields.PROJECT_FIELD, "checkpoint_type", fields.SCOPE_FIELD)


Do = Callable[["System", fields.LearningEvent], object]


def handle_message(body: str, receives: int, services: System, do: Do, report: Report) -> bool:
    """Processes a message of a queue that was delivered `receives` times. False if it has to be delivered again: a store was
    unavailable, or its entry isn't there yet.

    A message that can never succeed is sent to the queue of refused events with the reason
    (`Functions.learning_failed`), and counts as processed. One with an unexpected error is delivered again until
    the queue moves it to its dead letters."""
    report(Metric.LEARNING_EVENTS)
    settings = services.settings
    try:
        event = fields.read_event(body, Identity(settings.client_id, settings.project_id))
        do(services, event)
        log.info("done: %s", event.kind.value)
    except (errors.StoreUnavailableError, errors.ConditionFailedError) as exc:
        log.warning("a learning event will be delivered again: %s", type(exc).__name__)
        return False
    except errors.EntryNotFoundError as exc:
        return receives >= LAST_WAIT and _refused(body, exc, services.ports.functions.learning_failed, report)
    except errors.OpxError as exc:
        return _refused(body, exc, services.ports.functions.learning_failed, report)
    except Exception:  # the outermost edge: one event must not take the others with it
        log.exception("a learning event failed")
        return False
    return True


def _refused(body: str, error: errors.OpxError, set_aside: Queue | None, report: Report) -> bool:
    """True if the event was sent to the queue of refused events. Log lines omit messages, which may quote the event."""
    report(Metric.LEARNING_REFUSED)
    log.warning("a learning event is refused: %s", type(error).__name__)
    if set_aside is None:
        return False
    try:
        set_aside.send(json.dumps({fields.ENVELOPE_REASON: str(error), fields.ENVELOPE_EVENT: _original_event(body)}))
    except (errors.StoreUnavailableError, errors.InvalidInputError):
        log.exception(
            "a refused event can't be set aside; it is delivered again, and then moved there without the reason"
        )
        return False
    return True


def _original_event(body: str) -> object:
    """The original event, unwrapped if it was refused before."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return body
    wrapped = isinstance(found, dict) and found.keys() == {fields.ENVELOPE_REASON, fields.ENVELOPE_EVENT}
    return found[fields.ENVELOPE_EVENT] if wrapped else found


def learn(services: System, event: fields.LearningEvent) -> str:
    """Processes an event other than a checkpoint; returns the id of the entry or outcome.

    An entry has the time of its event: one that is delivered or replayed much later is the same occurrence as at first.

    Raises `InvalidInputError`, `EntryNotFoundError`, `ReceiptNotFoundError` and `StoreUnavailableError`.
    """
    context = Context(services, Caller(event.identity))
    if event.kind in _CAPTURED:
        context.authorize(Action.WRITE)
        return _capture(services, event)
    if event.kind is fields.EntryKind.VERIFIED:
        verified = read_request(VerifyEntry, _given(event), attributes=True)
        return perform(REGISTRY.of(verify_entry), context, verified).id
    if event.kind is fields.EntryKind.OUTCOME:
        recorded = read_request(RecordOutcome, _given(event), attributes=True)
        return perform(REGISTRY.of(record_outcome), context, recorded).outcome_id
    raise errors.InvalidInputError(f"{event.kind.value} is handled by the function for checkpoints")


def _capture(services: System, event: fields.LearningEvent) -> str:
    given = {**event.detail, "entry_type": _CAPTURED[event.kind].value}
    if isinstance(steps := given.get("solution_steps"), str):
        given["solution_steps"] = [steps]
    request = read_request(CaptureEntry, given)
    return services.learning.capture(event.identity, _happened(event, services.clock())).capture(
        request.entry_type, request.given
    )


def _given(event: fields.LearningEvent) -> dict[str, object]:
    """The detail without the project and without empty strings, which templates may leave."""
    stripped = {name: value.strip() if isinstance(value, str) else value for name, value in event.detail.items()}
    return {name: value for name, value in stripped.items() if name != fields.PROJECT_FIELD and value != ""}


def _happened(event: fields.LearningEvent, now: float) -> float | None:
    """The time of the event; None if it is implausible: no clock is more than a day ahead."""
    return event.at if event.at is not None and 0 < event.at < now + _DAY_SECONDS else None


def checkpoint(services: System, event: fields.LearningEvent, report: Report = unreported) -> list[CheckpointReport]:
    """Processes the entries of a project: its own, and those that its client captured for it, unless the event names a scope.

    Raises `InvalidInputError`, `UnknownProjectError` if neither has entries, and `StoreUnavailableError`.
    """
    if event.kind is not fields.EntryKind.CHECKPOINT:
        raise errors.InvalidInputError(f"{event.kind.value} is not a checkpoint")
    for name in event.detail:
        if name not in _CHECKPOINT:
            raise errors.InvalidInputError(
                f"{fields.quoted(name)} doesn't go with {event.kind.value}; there are: {', '.join(_CHECKPOINT)}"
            )
    kind = fields.text_of(event.detail, "checkpoint_type")
    project = fields.text_of(event.detail, fields.PROJECT_FIELD) or event.identity.project_id
    reports: list[CheckpointReport] = []
    unknown: errors.UnknownProjectError | None = None
    for identity in _identities(event):
        try:
            reports.append(services.learning.checkpoints(identity).process_checkpoint(project, kind))
        except errors.UnknownProjectError as exc:
            unknown = unknown or exc
    if unknown and not reports:
        raise unknown
    report(Metric.ENTRIES_TAKEN_IN, sum(each.taken_in for each in reports))
    report(Metric.ENTRIES_REFUSED, sum(len(each.refused) for each in reports))
    for each in reports:
        log.info("%s: %d processed, %d refused", each.checkpoint_type.value, each.taken_in, len(each.refused))
    return reports


def _identities(event: fields.LearningEvent) -> list[Identity]:
    """Identities whose entries a checkpoint processes, the project's first."""
    own = event.identity
    if event.detail.get(fields.SCOPE_FIELD) or not own.project_id:
        return [own]
    return [own, Identity(own.client_id, "", own.principal)]
