"""Records processed deliveries, so that none counts twice, and the newest known time of each document."""

from __future__ import annotations

import logging

from opx.connectors.deliveries import DocumentUpdate
from opx.domain.ids import stable_hash
from opx.errors import ConditionFailedError, StoreUnavailableError
from opx.ports import AllOf, AnyOf, Clock, Equals, KeyAbsent, LessThan, Table

log = logging.getLogger(__name__)

KEEP_DAYS = 90
"""Days for which a delivery is remembered. One that is sent again later still can't replace newer content: see `Order`."""

LEASE_SECONDS = 60
"""Lease of a document; longer than a request may take."""

FREE = 0.0


class Deliveries:
    """Processed deliveries in the table DELIVERIES. Raises `StoreUnavailableError` if it is unavailable: nothing is ingested
    then, as a replay could not be distinguished from a first delivery."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def is_known(self, delivery_id: str) -> bool:
        return self._table.get({"deliveryId": delivery_id}) is not None

    def remember(self, delivery_id: str, webhook: str, event: str) -> None:
        """Records that the delivery was processed, once all its changes are stored."""
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
    """Newest known time of each document, by the times in the payloads. Kept for good: an old delivery must not win because
    the newer one was forgotten. A lease keeps two deliveries from writing one document at once."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def begin(self, document: str, change: DocumentUpdate) -> float | None:
        """Returns the lease under which the change is to be written now, for `end`; None if a newer state is known, or a
        deletion of the same time. Raises `StoreUnavailableError` while another delivery writes the document."""
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
                raise StoreUnavailableError("another delivery about the same document is being processed") from exc
            return None
        return lease

    def end(self, document: str, change: DocumentUpdate, lease: float) -> None:
        """Records that the change is written. A state that another delivery recorded after the lease expired stays."""
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
    """Key of the item with the newest known time of an object."""
    return "document#" + stable_hash("document", document)
