"""What was taken in before: deliveries, so that none counts twice, and how new each document is."""

from __future__ import annotations

import logging

from opx.connectors.deliveries import DocumentUpdate
from opx.domain.ids import stable_hash
from opx.errors import ConditionFailedError, StoreUnavailableError
from opx.ports import AllOf, AnyOf, Clock, Equals, KeyAbsent, LessThan, Table

log = logging.getLogger(__name__)

KEEP_DAYS = 90
"""How long a delivery is remembered. What is sent again later still can't replace what is newer: see `Order`."""

LEASE_SECONDS = 60
"""Longer than a request may take."""

FREE = 0.0


class Deliveries:
    """Over the table DELIVERIES. Raises `StoreUnavailableError` when it can't be asked: nothing is taken in then, as a
    replay could not be told from a first delivery."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def is_known(self, delivery_id: str) -> bool:
        return self._table.get({"deliveryId": delivery_id}) is not None

    def remember(self, delivery_id: str, webhook: str, event: str) -> None:
        """Note that the delivery was taken in, once all that it changes is stored."""
        now = self._clock()
        self._table.put(
            {
                "deliveryId": delivery_id,
                "webhook": webhook,
                "event": event[:100],
                "receivedAt": int(now),
                "expiresAt": int(now) + KEEP_DAYS * 86_400,
            }
        )


class Order:
    """Which state of each document is the newest, by the times in the payloads. Kept for good: an old delivery must not
    win because the newer one was forgotten. Two that are about one document don't write it at once."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def begin(self, document: str, change: DocumentUpdate) -> float | None:
        """The lease under which the change is to be written now, for `end`; None if it is older than what is known, or
        is overtaken by a deletion. Raises `StoreUnavailableError` while another delivery writes the document."""
        now = self._clock()
        lease = now + LEASE_SECONDS
        free = LessThan("busyUntil", now)
        newer = AnyOf((LessThan("time", change.time), *self._as_new(change)))
        try:
            self._table.put(
                {**self._item(document, change), "busyUntil": lease},
                condition=AnyOf((KeyAbsent(), AllOf((free, newer)))),
            )
        except ConditionFailedError as exc:
            known = self._table.get(self._key(document))
            if known is not None and known["busyUntil"] >= now:
                raise StoreUnavailableError("another delivery about the same document is being taken in") from exc
            return None
        return lease

    def end(self, document: str, change: DocumentUpdate, lease: float) -> None:
        """The change is written. What another delivery noted after the lease was over stays."""
        try:
            self._table.put({**self._item(document, change), "busyUntil": FREE}, condition=Equals("busyUntil", lease))
        except ConditionFailedError:
            log.warning("a delivery took longer than %d seconds; another wrote %s meanwhile", LEASE_SECONDS, document)

    @staticmethod
    def _as_new(change: DocumentUpdate) -> tuple[Equals | AllOf, ...]:
        same = Equals("time", change.time)
        return (same,) if change.deleted else (AllOf((same, Equals("deleted", value=False))),)

    def _item(self, document: str, change: DocumentUpdate) -> dict[str, object]:
        return {**self._key(document), "document": document, "time": change.time, "deleted": change.deleted}

    @staticmethod
    def _key(document: str) -> dict[str, str]:
        return {"deliveryId": order_id(document)}


def order_id(document: str) -> str:
    """Under which key it is kept how new the document with this object key is."""
    return "document#" + stable_hash("document", document)
