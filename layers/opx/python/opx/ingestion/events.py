"""Events of corpus objects in the format of Amazon S3's notifications through EventBridge, and outcomes of events.

The embedded store sends the same format, so that one code path reads both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from opx.domain.documents import DocumentKey, Remark
from opx.domain.scopes import scope_of_object
from opx.errors import InvalidInputError, InvalidScopeError

SIDECAR_SUFFIX = ".metadata.json"
DOCUMENTS_FOLDER = "documents/"
CREATED = "Object Created"
DELETED = "Object Deleted"
SEQUENCER_WIDTH = 40
"""Sequencers of one key are compared as strings of equal length, padded with zeros on the left, as S3 documents it."""


def is_document(source: str) -> bool:
    """True if the object of this key (without its scope) is a document, not a sidecar or a derived file."""
    return source.startswith(DOCUMENTS_FOLDER) and not source.endswith(SIDECAR_SUFFIX)


def document_at(object_key: str) -> DocumentKey | None:
    """The key of the document that this object is; None for any other object."""
    try:
        key = DocumentKey(*scope_of_object(object_key))
    except InvalidScopeError:
        return None
    return key if is_document(key.source) else None


class ObjectEvent(Struct, frozen=True):
    """An object was created (or overwritten), or deleted. `sequencer` orders the events of one key."""

    key: str
    deleted: bool
    sequencer: str

    @property
    def is_sidecar(self) -> bool:
        return self.key.endswith(SIDECAR_SUFFIX)

    @property
    def document_key(self) -> str:
        """Key of the document: that of the object itself, or of the one that a sidecar describes."""
        return self.key.removesuffix(SIDECAR_SUFFIX)

    def to_json(self) -> str:
        detail = {"object": {"key": self.key, "sequencer": self.sequencer}}
        kind = DELETED if self.deleted else CREATED
        return json.dumps({"source": "aws.s3", "detail-type": kind, "detail": detail}, ensure_ascii=False)


def parse_event(body: str) -> ObjectEvent:
    """Parses an EventBridge envelope. Raises `InvalidInputError` for anything else."""
    try:
        event = json.loads(body)
    except (ValueError, RecursionError) as exc:  # json raises ValueError for numbers with thousands of digits, too
        raise InvalidInputError(f"the event is not JSON: {exc}") from exc
    if not isinstance(event, Mapping):
        raise InvalidInputError("the event is not a JSON object")
    kind = event.get("detail-type")
    if event.get("source") != "aws.s3" or kind not in (CREATED, DELETED):
        raise InvalidInputError(f"not an S3 object event: source {event.get('source')!r}, detail-type {kind!r}")
    return _object_event(event, deleted=kind == DELETED)


def _object_event(event: Mapping[str, Any], *, deleted: bool) -> ObjectEvent:
    try:
        changed = event["detail"]["object"]
        key, sequencer = changed["key"], changed.get("sequencer", "")
    except (KeyError, TypeError, AttributeError) as exc:
        raise InvalidInputError("the event has no detail.object.key") from exc
    if not (isinstance(key, str) and key and isinstance(sequencer, str)):
        raise InvalidInputError("the event's object key or sequencer is not a string")
    if len(sequencer) > SEQUENCER_WIDTH:
        raise InvalidInputError(f"the sequencer of {key} is over {SEQUENCER_WIDTH} characters")
    return ObjectEvent(key, deleted, sequencer.upper().rjust(SEQUENCER_WIDTH, "0"))


# -- outcomes


class Result(StrEnum):
    INGESTED = "ingested"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    SKIPPED = "skipped"
    FAILED = "failed"
    RETRY = "retry"


class EventOutcome(Struct, frozen=True):
    """Outcome of an event. `reason` is empty if all went as expected. `delay_seconds` is the delay of a `RETRY`.

    `attempts` counts failures of the document since its last success, as far as known. `stale` marks an event that was
    skipped because a newer one was applied: it doesn't describe the document's current state. `postponed` marks a `RETRY`
    that is no attempt: the quota of the embedding model is used up, or the index wakes up.
    """

    result: Result
    object_key: str
    reason: str = ""
    document_id: str = ""
    title: str = ""
    chunks: int = 0
    delay_seconds: float = 0
    error: Exception | None = None
    attempts: int = 0
    stale: bool = False
    postponed: bool = False
    remarks: tuple[Remark, ...] = ()


class IngestionResult(Struct, frozen=True):
    """The outcomes of a batch, with counts. `failures` have their reasons."""

    outcomes: tuple[EventOutcome, ...]

    def count(self, result: Result) -> int:
        return sum(outcome.result is result for outcome in self.outcomes)

    @property
    def document_ids(self) -> tuple[str, ...]:
        return tuple(outcome.document_id for outcome in self.outcomes if outcome.document_id)

    @property
    def chunks(self) -> int:
        return sum(outcome.chunks for outcome in self.outcomes)

    @property
    def failures(self) -> tuple[EventOutcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.result is Result.FAILED)


class PutFile(Struct, frozen=True):
    """A file that was put, and its outcome if it needs no work: unchanged or failed."""

    object_key: str
    outcome: EventOutcome | None = None
