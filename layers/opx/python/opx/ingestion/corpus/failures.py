"""Failed items: objects whose ingestion failed, with the reason, until they are retried or replaced."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Annotated

from opx.domain.ids import iso_time, shortened, stable_hash
from opx.domain.record import Record, about
from opx.domain.scopes import scope_of_object
from opx.errors import InvalidScopeError
from opx.hygiene.secrets import mask
from opx.ingestion.events import ObjectEvent
from opx.ports import Clock, KeyRange, Table

MAX_REASON_CHARACTERS = 2000
"""A parser's message may quote a whole document, and a list of failures is to be readable and fit into a reply."""

_STATUS = "failed"


class Failure(Record, frozen=True, kw_only=True):
    """An object whose ingestion failed. `reason` is for people; `attempts` is the number of attempts."""

    failure_id: str
    object_key: str
    reason: str
    error: str
    attempts: int
    failed_at: str
    mark: Annotated[str, about("A new value for each failure of the object.")] = ""


class FailedItem(Failure, frozen=True, kw_only=True):
    """A failure with the `event` to send again."""

    event: str

    @property
    def failure(self) -> Failure:
        return Failure(**{name: getattr(self, name) for name in Failure.__struct_fields__})


class FailureLog:
    """Failed items, one per object: a later failure replaces the earlier one, a success removes it."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def record(self, event: ObjectEvent, error: BaseException, attempts: int) -> FailedItem:
        item = FailedItem(
            failure_id=failure_id(event.document_key),
            object_key=event.document_key,
            reason=shortened(mask(str(error))[0], MAX_REASON_CHARACTERS),
            error=type(error).__name__,
            attempts=attempts,
            failed_at=iso_time(self._clock()),
            event=event.to_json(),
            mark=secrets.token_hex(8),
        )
        owner = _owner(item.object_key)
        self._table.put({**item.to_json(), **owner, "status": _STATUS})
        return item

    def resolve(self, document_key: str) -> None:
        """Deletes the failure of an object, if there is one."""
        key = {"failureId": failure_id(document_key)}
        if self._table.get(key):
            self._table.delete(key)

    def get(self, failure: str) -> FailedItem | None:
        item = self._table.get({"failureId": failure})
        return FailedItem.from_json(item) if item else None

    def items(self, *, since: str = "", scope: str = "") -> Iterator[FailedItem]:
        """Failed items, the oldest first: of all scopes, or of the one with this key, without reading others."""
        where = KeyRange(low=since) if since else None
        partition, index = (scope, "scope-index") if scope else (_STATUS, "status-failedAt-index")
        for item in self._table.query(partition, index=index, where=where):
            yield FailedItem.from_json(item)


def _owner(object_key: str) -> dict[str, str]:
    """Scope attribute of an object, by which its failures are queried; none for a key without a valid scope."""
    try:
        return {"scope": scope_of_object(object_key)[0].key}
    except InvalidScopeError:
        return {}


def failure_id(document_key: str) -> str:
    return stable_hash("failure", document_key)
