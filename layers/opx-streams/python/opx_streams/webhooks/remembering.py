"""Records processed deliveries, so that none counts twice, and the newest known time of each document."""

from __future__ import annotations

import json
import logging
import zlib
from dataclasses import dataclass

from opx.connectors.deliveries import DocumentUpdate
from opx.domain.ids import stable_hash
from opx.domain.record import replace
from opx.errors import ConditionFailedError, StoreUnavailableError
from opx.hygiene.secrets import mask
from opx.ports import Clock, Equals, Item, KeyAbsent, Table

log = logging.getLogger(__name__)

KEEP_DAYS = 90
"""Days for which a delivery is remembered. One that is sent again later still can't replace newer content: see `Order`."""

LEASE_SECONDS = 60
"""Lease of a document; longer than a request may take."""

FREE = 0.0

MAX_POSTS_BYTES = 200_000
"""Bytes of the comments of a document; a row of DynamoDB has 400 KB, and the document itself is in it, too."""


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


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write a document's new state; `item` is its row meanwhile."""

    state: DocumentUpdate
    item: Item


class Order:
    """Newest known time of each document, by the times in the payloads. Kept for good: an old delivery must not win because
    the newer one was forgotten. A lease keeps two deliveries from writing one document at once.

    Of a document with comments, which come one by one, the row has the newest state of each part, until it is deleted: no
    delivery has them all, and the function that receives deliveries may not read documents. Secrets in them are masked."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def begin(self, document: str, change: DocumentUpdate) -> Lease | None:
        """Returns the lease under which the new state is to be written now, for `end`; None if a newer one is known, or a
        deletion of the same time. Raises `StoreUnavailableError` while another delivery writes the document."""
        now = self._clock()
        known = self._table.get({"deliveryId": order_id(document)})
        busy = StoreUnavailableError("another delivery about the same document is being processed")
        if known is not None and known["busyUntil"] >= now:
            raise busy
        state = _after(known, change)
        if state is None:
            return None
        revision = int(known.get("revision", 0)) if known else 0
        lease = Lease(state, {**_item(document, state), "busyUntil": now + LEASE_SECONDS, "revision": revision + 1})
        try:
            self._table.put(lease.item, condition=Equals("revision", revision) if revision else KeyAbsent("revision"))
        except ConditionFailedError as exc:
            raise busy from exc
        return lease

    def end(self, lease: Lease) -> None:
        """Records that the state is written. One that another delivery recorded after the lease expired stays."""
        try:
            self._table.put({**lease.item, "busyUntil": FREE}, condition=Equals("revision", lease.item["revision"]))
        except ConditionFailedError:
            document = lease.item["document"]
            log.warning("a delivery took longer than %d seconds; another wrote %s meanwhile", LEASE_SECONDS, document)


def _after(known: Item | None, change: DocumentUpdate) -> DocumentUpdate | None:
    """The state of a document after a change; None if all of it is outdated. A deletion wins over an equal time."""
    same = known is not None and known["time"] == change.time
    newer = known is None or known["time"] < change.time or (same and (change.deleted or not known["deleted"]))
    if change.posts is None or known is None or known["deleted"]:
        return change if newer else None
    head, posts = _parts(known)
    fresh = {key: post for key, post in change.posts.items() if _is_fresh(posts.get(key), post)}
    if not (newer or (head and fresh)) or (same and change.posts and not fresh):
        return None
    return replace(head if head and not newer else change, posts=_bounded({**posts, **fresh}))


def _is_fresh(known: tuple[str, str] | None, post: tuple[str, str]) -> bool:
    return known is None or known[0] < post[0] or (known[0] == post[0] and bool(known[1] or not post[1]))


def _bounded(posts: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """The comments that fit into a row, the newest."""
    left = MAX_POSTS_BYTES
    for key in sorted(posts, reverse=True):
        left -= len(posts[key][1].encode("utf-8", "replace"))
        if left < 0 and posts[key][1]:
            log.warning("a comment is left out, as those after it have %s bytes already", f"{MAX_POSTS_BYTES:,}")
            posts[key] = (posts[key][0], "")
    return posts


def _item(document: str, state: DocumentUpdate) -> Item:
    item: Item = {"deliveryId": order_id(document), "document": document, "time": state.time, "deleted": state.deleted}
    if state.posts is not None:
        posts = {key: (time, mask(text)[0]) for key, (time, text) in state.posts.items()}
        item["parts"] = zlib.compress(json.dumps([mask(state.text)[0], state.metadata, posts]).encode())
    return item


def _parts(item: Item) -> tuple[DocumentUpdate | None, dict[str, tuple[str, str]]]:
    """The document without its comments, None if the row doesn't have it, and the comments."""
    if "parts" not in item:
        return None, {}
    text, metadata, posts = json.loads(zlib.decompress(item["parts"]))
    head = DocumentUpdate("", item["time"], text, metadata)
    return head, {key: (time, section) for key, (time, section) in posts.items()}


def order_id(document: str) -> str:
    """Key of the item with the newest known time of an object."""
    return "document#" + stable_hash("document", document)
