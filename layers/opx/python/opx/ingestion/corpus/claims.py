"""Claims on documents: leases that let one worker at a time apply a new event.

The item of a document key has a `revision` that every write checks and increments (an optimistic lock). `writing` names the
documents that an attempt began to write and didn't finish, each with the token of that attempt: the next attempt has to
clean up after it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

from msgspec import Struct

from opx.domain.documents import DocumentKey, DocumentState
from opx.errors import ConditionFailedError, StoreUnavailableError
from opx.ingestion.events import ObjectEvent
from opx.ports import Clock, Equals, Item, KeyAbsent, Table
from opx.ports.tables import delete_if

REMOVAL = "removal"
"""Stands in `writing` for a document id when an attempt removes a document."""

_WRITES = 5
"""Attempts of a write that conflicts with others: only a worker that lost its claim causes conflicts."""


class Claim(Struct, frozen=True):
    """The lock on one document. `head` is the key's item as it was read, empty for a new key."""

    key: DocumentKey
    event: ObjectEvent
    token: str
    head: Item

    @property
    def current_id(self) -> str:
        """The document id that is in the index; "" if none is."""
        return current_id(self.head)

    @property
    def interrupted(self) -> bool:
        """True if an earlier attempt began to write and didn't finish."""
        return bool(self.head.get("writing"))

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Ids of the documents that interrupted attempts may have written partially."""
        return tuple(document for document in self.head.get("writing") or {} if document != REMOVAL)

    @property
    def attempts(self) -> int:
        """Number of attempts since the last success, this one included."""
        return int(self.head.get("tries", 0)) + 1

    @property
    def waits_since(self) -> float:
        """Time of the first attempt since the last success that was not counted, as it had to wait; 0 if there was none."""
        return float(self.head.get("waitsSince", 0))


class StaleEventError(Exception):
    """The event is not newer than the last applied one."""


class BusyError(Exception):
    """Another worker is changing the document."""


class Claims:
    """The only writer of the keys table. With `lease_seconds` of 0 a claim lasts until another worker claims the document.

    The item of a claimed key is kept as it was written last: the next write of the claim needn't read it, and fails on
    its revision if another worker changed it.
    """

    def __init__(self, keys: Table, *, clock: Clock, lease_seconds: int) -> None:
        self._keys = keys
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._written: dict[str, Item] = {}

    def head(self, key: DocumentKey) -> Item | None:
        return self._keys.get({"documentKey": key.id})

    def heads(self, key_ids: Iterable[str]) -> list[Item]:
        """The items of those keys that exist."""
        return self._keys.get_many([{"documentKey": key_id} for key_id in key_ids])

    def claim(self, key: DocumentKey, event: ObjectEvent) -> Claim:
        """Claims a document to apply an event. Raises `StaleEventError` or `BusyError`.

        An old event suffices to clean up after an interrupted attempt, since the object is always read in its newest state.
        """
        head = self.head(key) or {}
        leased = self._is_leased(head)
        if is_applied(event, head) and (leased or not head.get("writing")):
            raise StaleEventError(event.key)
        if leased:
            raise BusyError(event.key)
        token = secrets.token_hex(8)
        facts = {"source": key.source, "scope": key.scope.key, "leaseToken": token, "leaseUntil": self._lease_end()}
        try:
            self._written[token] = self._write(key, head, facts)
        except ConditionFailedError as exc:
            raise BusyError(event.key) from exc
        return Claim(key, event, token, head)

    def start_writing(self, claim: Claim, document_id: str) -> None:
        """Records that index and catalog are about to change, to `document_id` or, if that is "", to none, so that the next
        attempt detects a crash from here on. Raises `ConditionFailedError` if the claim was lost."""

        def facts(head: Item) -> Item:
            begun = {**(head.get("writing") or {}), document_id or REMOVAL: claim.token}
            return {"writing": begun, "leaseUntil": self._lease_end()}

        self._update(claim, facts)

    def renew(self, claim: Claim) -> None:
        """Renews the lease. Raises `ConditionFailedError` if the claim was lost."""
        self._update(claim, lambda _: {"leaseUntil": self._lease_end()})

    def settle(self, claim: Claim, facts: Item) -> None:
        """Ends the claim with the event applied. Writes that were recorded as begun after the claim stay recorded."""
        known = {claim.token, *(claim.head.get("writing") or {}).values()}

        def settled(head: Item) -> Item:
            begun = {name: token for name, token in (head.get("writing") or {}).items() if token not in known}
            return {**facts, **_applied(claim.event, head), **_free(), "writing": begun}

        self._update(claim, settled)

    def release(self, claim: Claim, *, applied: bool, counted: bool = True) -> bool:
        """Releases a claim without a change; `applied` marks the event as applied. Otherwise an attempt failed, unless it is
        not `counted`. False if the claim was lost already."""

        def released(head: Item) -> Item:
            if applied:
                return {**_applied(claim.event, head), **_free()}
            if not counted:
                return {**_free(), "waitsSince": claim.waits_since or self._clock()}
            return {**_free(), "tries": claim.attempts}

        try:
            self._update(claim, released)
        except ConditionFailedError:
            return False
        return True

    def forget(self, claim: Claim) -> None:
        """Deletes the item of a key that this claim created, unless another worker has claimed it since."""
        self._written.pop(claim.token, None)
        delete_if(self._keys, {"documentKey": claim.key.id}, Equals("leaseToken", claim.token))

    def remove(self, key: DocumentKey) -> bool:
        """Deletes the item of a key without a current document. False if it is claimed, or an attempt was interrupted."""
        head = self.head(key)
        if head is None:
            return True
        leased = self._is_leased(head)
        if leased or head.get("writing") or current_id(head):
            return False
        return delete_if(self._keys, {"documentKey": key.id}, Equals("revision", int(head.get("revision", 0))))

    def note_unfinished(self, key: DocumentKey, document_id: str) -> None:
        """Makes the next event of the document, old or new, clean up: a worker without a claim wrote to the index."""
        for _ in range(_WRITES):
            head = self.head(key) or {}
            begun = {**(head.get("writing") or {}), document_id or REMOVAL: secrets.token_hex(8)}
            try:
                self._write(key, head, {"scope": key.scope.key, "source": key.source, "writing": begun})
            except ConditionFailedError:
                continue
            return
        raise StoreUnavailableError(f"{key.source} is being changed by other workers")

    def _is_leased(self, head: Item) -> bool:
        return is_leased(float(head.get("leaseUntil", 0)), self._clock(), self._lease_seconds)

    def _lease_end(self) -> float:
        return self._clock() + self._lease_seconds

    def _update(self, claim: Claim, facts: Callable[[Item], Item]) -> None:
        """Updates the item while the claim holds. Raises `ConditionFailedError` if it doesn't."""
        known = self._written.pop(claim.token, None)
        for _ in range(_WRITES):
            head = known or self.head(claim.key) or {}
            known = None
            if head.get("leaseToken") != claim.token:
                break
            try:
                written = self._write(claim.key, head, facts(head))
            except ConditionFailedError:
                continue
            if written["leaseToken"]:
                self._written[claim.token] = written
            return
        raise ConditionFailedError(f"another worker took over {claim.key.source}")

    def _write(self, key: DocumentKey, head: Item, facts: Item) -> Item:
        revision = int(head.get("revision", 0))
        condition = Equals("revision", revision) if revision else KeyAbsent("revision")
        written = {**head, **facts, "documentKey": key.id, "revision": revision + 1}
        self._keys.put(written, condition=condition)
        return written


def current_id(head: Item) -> str:
    """The current document id in a key's item; "" if there is none."""
    return str(head.get("documentId", "")) if head.get("state") == DocumentState.CURRENT else ""


def is_applied(event: ObjectEvent, head: Item) -> bool:
    """True if the event is not newer than the last applied one. Without a sequencer it might be: applying it again is
    idempotent."""
    return bool(event.sequencer.strip("0")) and event.sequencer <= str(head.get(_sequence_name(event), ""))


def _applied(event: ObjectEvent, head: Item) -> Item:
    name = _sequence_name(event)
    return {name: max(event.sequencer, str(head.get(name, ""))), "tries": 0, "waitsSince": 0}


def _free() -> Item:
    return {"leaseUntil": 0, "leaseToken": ""}


def _sequence_name(event: ObjectEvent) -> str:
    """Attribute of the last applied sequencer. A sidecar's can't be compared with its document's."""
    return "sidecarSequencer" if event.is_sidecar else "sequencer"


CLOCKS_DIFFER = 300.0
"""Seconds by which the clocks of two workers may differ."""


def is_leased(until: float, now: float, seconds: float) -> bool:
    """True while a lease until this time lasts, if leases last so many seconds; of 0 seconds none does.

    One that is longer than any lease was taken before the clock went back: its worker would be waited for until the clock
    has come back.
    """
    left = until - now
    return 0 < left <= (seconds + CLOCKS_DIFFER if seconds else 0)
