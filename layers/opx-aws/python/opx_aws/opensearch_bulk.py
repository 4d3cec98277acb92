"""Writes to OpenSearch in bulk requests of bounded size, new entries before the removal of what they replace."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from opensearchpy import ConnectionError, OpenSearch, TransportError  # noqa: A004

from opx.errors import IndexUnavailableError, IndexWakingError
from opx.ports import DocumentChange, IndexEntry
from opx.runtime.deadlines import remaining
from opx_aws.opensearch_calls import BUSY, LONGEST_WAIT, is_temporary
from opx_aws.opensearch_queries import safe_message, unquoted
from opx_aws.opensearch_schema import RECORD_FIELD, to_source
from opx_aws.vendor_errors import Backoff

MAX_ACTIONS = 500
MAX_BYTES = 5 * 1024 * 1024
"""The service accepts 10 MB per request and recommends half of that."""

_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class BulkLimits:
    actions: int = MAX_ACTIONS
    bytes: int = MAX_BYTES
    timeout: float = 60.0


@dataclass(eq=False, slots=True)
class _Action:
    """One action. `target` is its entry id, if known before; `done` receives the assigned id."""

    lines: bytes
    target: str = ""
    done: Callable[[str], None] | None = None


@dataclass(eq=False, slots=True)
class _Batch:
    actions: list[_Action] = field(default_factory=list)
    size: int = 0
    targets: set[str] = field(default_factory=set)

    def add(self, action: _Action) -> None:
        self.actions.append(action)
        self.size += len(action.lines)
        self.targets.add(action.target)

    def has_room_for(self, action: _Action, limits: BulkLimits) -> bool:
        """True if the action fits. One larger than a request goes alone; two actions on one id never share a request."""
        if not self.actions:
            return True
        if action.target and action.target in self.targets:
            return False
        return len(self.actions) < limits.actions and self.size + len(action.lines) <= limits.bytes


@dataclass(eq=False)
class BulkWriter:
    """Collects changes and sends them. Superseded entries are removed only when the new ones are stored.

    Raises `IndexUnavailableError` with the number of failed actions and the first reason, `IndexWakingError` if the service
    was asleep or too busy for them until the end. `finish` sends the rest. Without `records` entries have no judging record.
    """

    client: OpenSearch
    index_name: str
    _: KW_ONLY
    custom_ids: bool
    records: bool = True
    limits: BulkLimits = BulkLimits()
    backoff: Backoff = field(default_factory=Backoff)
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._batch = _Batch()
        self._deletes: dict[str, None] = {}

    def write(self, change: DocumentChange) -> list[str]:
        """Queues a change. The list is filled with the references of its entries until `finish` returns."""
        references: list[str] = []
        for position, entry in enumerate(change.entries):
            references.append("")
            self._put(entry, references, position)
        kept = set(references)
        self._deletes |= dict.fromkeys(ref for ref in change.superseded if ref and ref not in kept)
        return references

    def finish(self) -> None:
        while self._batch.actions or self._deletes:
            self._send_batch()

    def _put(self, entry: IndexEntry, references: list[str], position: int) -> None:
        entry_id = entry.indexed.entry_id if self.custom_ids else ""
        if entry_id in self._deletes:
            self.finish()  # an earlier change removes this entry: that must have happened before it is put again
        references[position] = entry_id
        header = {"index": {"_id": entry_id} if entry_id else {}}
        source = to_source(entry)
        if not self.records:
            del source[RECORD_FIELD]
        lines = _lines(header, source)
        action = _Action(lines, entry_id, lambda reference: references.__setitem__(position, reference))
        while not self._batch.has_room_for(action, self.limits):
            self._send_batch()
        self._batch.add(action)

    def _send_batch(self) -> None:
        """Sends the batch; the deletes that waited for it start the next one, as many as fit."""
        waiting = list(self._deletes)
        actions, self._batch = self._batch.actions, _Batch()
        if actions:
            self._send(actions)
        for reference in waiting[: self.limits.actions]:
            self._batch.add(_Action(_lines({"delete": {"_id": reference}}), reference))
            del self._deletes[reference]

    def _send(self, actions: Sequence[_Action]) -> None:
        """Sends actions, and repeats those that the service was too busy for, or asleep: with the pauses of the back-off, and
        longer if the caller's deadline allows it, for `LONGEST_WAIT` seconds at most."""
        left = list(actions)
        pauses = self.backoff.pauses()
        end = self.clock() + min(LONGEST_WAIT, _time_left())
        while True:
            left, why, error = self._attempt(left)
            if not left:
                return
            pause = next(pauses, None)
            if pause is None and self.clock() + self.backoff.longest < end:
                pause = self.backoff.longest
            if pause is None or pause >= _time_left(math.inf):
                raise error(f"{len(left)} of {len(actions)} writes to index {self.index_name} failed: {why}")
            self.sleep(pause)

    def _attempt(self, actions: list[_Action]) -> tuple[list[_Action], str, type[IndexUnavailableError]]:
        """Sends actions once; returns those to retry, the reason why the first of them failed, and the error that this is in
        the end."""
        body = b"".join(action.lines for action in actions)
        timeout = min(self.limits.timeout, max(1.0, _time_left(math.inf)))
        try:
            answer = self.client.bulk(body=body, index=self.index_name, request_timeout=timeout)
        except TransportError as exc:
            if is_temporary(exc) or isinstance(exc, ConnectionError):
                return actions, safe_message(exc), IndexWakingError if is_temporary(exc) else IndexUnavailableError
            raise IndexUnavailableError(f"writing to index {self.index_name} failed: {safe_message(exc)}") from exc
        return *self._sort_out(actions, answer["items"]), IndexWakingError

    def _sort_out(self, actions: list[_Action], items: list[dict[str, Any]]) -> tuple[list[_Action], str]:
        again: list[_Action] = []
        why = ""
        refused: list[str] = []
        for action, item in zip(actions, items, strict=True):
            ((operation, result),) = item.items()
            status = result["status"]
            if status in BUSY:
                again.append(action)
                why = why or _explain(result)
            elif status >= 400 and not _was_gone(operation, result):
                refused.append(_explain(result))
            elif action.done:
                action.done(result["_id"])
        if refused:
            message = f"index {self.index_name} refused {len(refused)} of {len(actions)} writes: {refused[0]}"
            raise IndexUnavailableError(message)
        return again, why


def _time_left(unlimited: float = 0.0) -> float:
    """Seconds until the caller's deadline; `unlimited` without one."""
    left = remaining()
    return unlimited if left is None else left


def _was_gone(operation: str, result: dict[str, Any]) -> bool:
    """True for a delete of a missing entry. A missing index has the same status, and an error."""
    return operation == "delete" and result["status"] == _NOT_FOUND and "error" not in result


def _explain(result: dict[str, Any]) -> str:
    """The kind and reason of a refusal: the reason alone only names a bad field."""
    error = result.get("error") or {}
    cause = (error.get("caused_by") or {}).get("reason")
    reason = unquoted(str(error.get("reason", ""))) + (f" ({unquoted(str(cause))})" if cause else "")
    return f"{result['status']} {error.get('type', '')}: {reason}"


def _lines(*values: object) -> bytes:
    """A line of JSON each; invalid Unicode becomes question marks, since the service refuses it."""
    lines = (json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n" for value in values)
    return "".join(lines).encode("utf-8", "replace")
