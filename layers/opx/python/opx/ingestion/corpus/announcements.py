"""The ledger of announced changes: those that the bucket announced and that no worker has settled yet.

The queue of changes deletes a message after `KEPT_DAYS`, without a dead letter. The ledger keeps a row for each announcement
until the change is ingested or recorded as failed, so that a lost message is found, and its change announced again.

An announcement is delivered `DELAY_SECONDS` after the change, when most changes are ingested already, and is recorded only
if the catalog lacks its change and there is something to do. A worker deletes the row of each event that it settles. A row
that was written in between stays until the next check finds it settled. Rows are keyed by object and sequencer, as messages
are: nothing depends on the order of deliveries.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import islice

from msgspec import Struct

from opx.domain.documents import DocumentKey
from opx.domain.ids import iso_time, stable_hash
from opx.domain.record import Record
from opx.domain.scopes import GLOBAL_KEY, scope_of_object
from opx.errors import (
    ClientRemovedError,
    InvalidInputError,
    InvalidScopeError,
    StoreUnavailableError,
)
from opx.ingestion.corpus.claims import current_id, is_applied
from opx.ingestion.corpus.clients import ClientRegistry
from opx.ingestion.corpus.failures import failure_id
from opx.ingestion.events import DOCUMENTS_FOLDER, ObjectEvent, parse_event
from opx.ports import Clock, Equals, Item, KeyRange, ObjectStore, Queue, Table
from opx.ports.queues import KEPT_DAYS
from opx.ports.tables import put_if
from opx.runtime.threads import Each

log = logging.getLogger(__name__)

ANNOUNCE_AGAIN: Mapping[str, object] = {"task": "announce_again"}
"""The scheduler's event for announcing lost changes again."""

DELAY_SECONDS = 900
"""The longest that a queue of SQS delays a message."""

CHECKED_AFTER_SECONDS = 6 * 3600
"""Age of announcements that are checked: younger ones are being ingested, or retried."""

LOST_AFTER_SECONDS = 24 * 3600
"""Age of a message that is lost if the queue has few. A day, as it may be a dead letter with which the function fails."""

FEW_WAITING = 1000
"""Messages that workers process in minutes, so that older ones aren't among them. An error costs a second delivery."""

EXPIRED_AFTER_SECONDS = (KEPT_DAYS * 24 + 1) * 3600
"""Age of a message that the queue has deleted for certain."""

MOST_COUNTED = 1000
AT_ONCE = 100
THREADS = 8

_WAITING = "waiting"
_POSITION = {"clientId": GLOBAL_KEY, "announcementId": "position"}
"""Key of the item that has the time of the announcement at which the next run goes on. Without a state, it is not in the
index of announcements."""


class Announcement(Struct, frozen=True):
    """An announced change. `sent_at` is when its event was last put into the queue of changes (ISO 8601)."""

    event: ObjectEvent
    announced_at: str
    sent_at: str

    @property
    def key(self) -> dict[str, str]:
        """The row's key. Objects with a malformed owner are no client's."""
        try:
            client = scope_of_object(self.event.key)[0].client_id
        except InvalidScopeError:
            client = ""
        announcement = stable_hash("announcement", self.event.key, self.event.sequencer)
        return {"clientId": client or GLOBAL_KEY, "announcementId": announcement}

    @property
    def item(self) -> Item:
        return {
            **self.key,
            "objectKey": self.event.key,
            "sequencer": self.event.sequencer,
            "deleted": self.event.deleted,
            "announcedAt": self.announced_at,
            "sentAt": self.sent_at,
            "state": _WAITING,
        }


class Backlog(Record, frozen=True):
    """Announced changes that are not ingested: their number, which is a minimum if `more`, and the time of the oldest."""

    changes: int
    more: bool = False
    oldest: str = ""


class CheckedAnnouncements(Record, frozen=True):
    """Numbers of announcements that a run found settled, sent again, and left in the queue. `finished` is false if it ran
    out of time."""

    settled: int
    sent: int
    queued: int
    finished: bool


@dataclass(eq=False)
class Announcements:
    """Records announcements, deletes settled ones, and announces lost changes again.

    `keys` and `failures` are the tables of document keys and of failed items, which decide what is settled; `store` is the
    corpus.
    """

    table: Table
    _: KW_ONLY
    keys: Table
    failures: Table
    store: ObjectStore
    clients: ClientRegistry
    clock: Clock

    def __post_init__(self) -> None:
        self._each = Each(THREADS)

    # -- writing

    def record(self, messages: Iterable[tuple[str, float]]) -> int:
        """Records announcements, each a message's body with the time of its sending, unless they are settled or have nothing
        to ingest or to remove. Returns the number of those recorded. Raises `StoreUnavailableError`: then all may be
        recorded again."""
        found = list(self._read(messages))
        recorded = 0
        for at in range(0, len(found), AT_ONCE):
            unfinished = self._unfinished(self._unsettled(found[at : at + AT_ONCE]))
            self.table.put_many(one.item for one in unfinished)
            recorded += len(unfinished)
        return recorded

    @staticmethod
    def _read(messages: Iterable[tuple[str, float]]) -> Iterator[Announcement]:
        for body, sent_at in messages:
            try:
                event = parse_event(body)
            except InvalidInputError as exc:
                log.warning("dropped an announcement that is no event: %s", exc)
                continue
            yield Announcement(event, iso_time(sent_at), iso_time(sent_at))

    def settle(self, event: ObjectEvent) -> None:
        """Deletes the row of an event that needs no further delivery. A failure is only logged: the next check finds the
        row settled."""
        try:
            self.table.delete(Announcement(event, "", "").key)
        except StoreUnavailableError:
            log.warning("an announcement stays in the ledger until it is checked", exc_info=True)

    # -- reading

    def backlog(self, most: int = MOST_COUNTED) -> Backlog:
        """The announced changes that are not ingested, counted up to `most`."""
        rows = list(islice(self._waiting(KeyRange()), most + 1))
        oldest = rows[0].announced_at if rows else ""
        return Backlog(min(len(rows), most), more=len(rows) > most, oldest=oldest)

    def waiting_objects(self) -> frozenset[str]:
        """Keys of objects whose changes are announced and not ingested, up to `MOST_COUNTED`, the oldest first."""
        return frozenset(one.event.document_key for one in islice(self._waiting(KeyRange()), MOST_COUNTED))

    def _waiting(self, announced: KeyRange) -> Iterator[Announcement]:
        """Announcements of these times, the oldest first."""
        for item in self.table.query(_WAITING, index="waiting-index", where=announced):
            event = ObjectEvent(item["objectKey"], item["deleted"], item["sequencer"])
            yield Announcement(event, item["announcedAt"], item["sentAt"])

    # -- announcing again

    def announce_again(self, queue: Queue, *, seconds: float) -> CheckedAnnouncements:
        """Checks announcements older than `CHECKED_AFTER_SECONDS`, the oldest first: deletes settled ones, and sends those
        whose messages are lost to the queue of changes again. Ends after `seconds`; the next run goes on from there, and
        the one after the last announcement begins with the first.

        A message is lost when the queue keeps it no longer, or a day after it was sent if the queue has few. Raises
        `StoreUnavailableError`: then the next run repeats this one.
        """
        end, settled, sent, queued = self.clock() + seconds, 0, 0, 0
        few = queue.waiting() < FEW_WAITING
        lost = self._before(LOST_AFTER_SECONDS if few else EXPIRED_AFTER_SECONDS)
        position = self.table.get(_POSITION) or {}
        waiting = self._waiting(KeyRange(position.get("announcedAt"), self._before(CHECKED_AFTER_SECONDS)))
        while batch := list(islice(waiting, AT_ONCE)):
            if self.clock() >= end:
                self.table.put({**_POSITION, "announcedAt": batch[0].announced_at})
                return CheckedAnnouncements(settled, sent, queued, finished=False)
            unsettled = self._unsettled(batch)
            done = [one for one in batch if one not in unsettled]
            again = [one for one in unsettled if one.sent_at <= lost]
            self._each(lambda one: self.table.delete(one.key), done)
            self._each(lambda one: self._send(one, queue), again)
            settled += len(done)
            sent += len(again)
            queued += len(unsettled) - len(again)
        self.table.delete(_POSITION)
        return CheckedAnnouncements(settled, sent, queued, finished=True)

    def _send(self, announced: Announcement, queue: Queue) -> None:
        """Sends first: after a crash in between, the event is sent twice."""
        queue.send(announced.event.to_json())
        item = {**announced.item, "sentAt": iso_time(self.clock())}
        put_if(self.table, item, Equals("sentAt", announced.sent_at))  # unless a worker settled it meanwhile

    def _before(self, seconds: float) -> str:
        return iso_time(self.clock() - seconds)

    # -- comparing with the catalog

    def _unsettled(self, announced: Sequence[Announcement]) -> dict[Announcement, Item]:
        """Those whose event was neither applied nor recorded as failed, and whose client was not removed, in order; each
        with the item of its document's key."""
        keys = {one: _key_id(one.event) for one in announced}
        found = self.keys.get_many([{"documentKey": key} for key in dict.fromkeys(filter(None, keys.values()))])
        heads = {str(item["documentKey"]): item for item in found}
        unapplied = {one: heads.get(key, {}) for one, key in keys.items() if key}
        unapplied = {one: head for one, head in unapplied.items() if not is_applied(one.event, head)}
        failed = self._failed(unapplied)
        removed = self._removed({one.key["clientId"] for one in unapplied} - {GLOBAL_KEY})
        return {
            one: head
            for one, head in unapplied.items()
            if one.key["clientId"] not in removed and one.announced_at > failed.get(one.event.document_key, "")
        }

    def _unfinished(self, unsettled: Mapping[Announcement, Item]) -> list[Announcement]:
        """Those with an object to ingest, or a document to remove. The catalog doesn't note the event of an object that was
        gone before it was ingested."""
        unknown = [one for one, head in unsettled.items() if not current_id(head) and not head.get("writing")]
        found = self._each(lambda one: self._exists(one.event.document_key), unknown)
        gone = {one for one, exists in zip(unknown, found, strict=True) if not exists}
        return [one for one in unsettled if one not in gone]

    def _exists(self, document_key: str) -> bool:
        """True for an invalid key: the worker records its reason."""
        try:
            return self.store.head(document_key) is not None
        except InvalidInputError:
            return True

    def _failed(self, announced: Iterable[Announcement]) -> dict[str, str]:
        """The time of each object's failure. It covers what was announced by then, of the document and of its sidecar: an
        attempt reads both."""
        ids = dict.fromkeys(failure_id(one.event.document_key) for one in announced)
        items = self.failures.get_many([{"failureId": one} for one in ids])
        return {str(item["objectKey"]): str(item["failedAt"]) for item in items}

    def _removed(self, clients: Iterable[str]) -> set[str]:
        removed = set()
        for client in clients:
            try:
                self.clients.check(client)
            except ClientRemovedError:
                removed.add(client)
        return removed


def _key_id(event: ObjectEvent) -> str:
    """Id of the document's key; "" if the object is no document. The catalog has no documents of malformed owners."""
    try:
        key = DocumentKey(*scope_of_object(event.document_key))
    except InvalidScopeError:
        return "malformed"
    return key.id if key.source.startswith(DOCUMENTS_FOLDER) else ""
