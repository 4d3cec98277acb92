"""Who asked when, within which scope, and which documents were returned. Of a question nothing is kept but a hash."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from opx.domain.ids import beginning_so, stable_hash
from opx.domain.record import Record
from opx.domain.scopes import Identity, Scope
from opx.errors import ConditionFailedError
from opx.ports import Clock, Item, KeyAbsent, KeyRange, Table
from opx.ports.search import CorpusState

if TYPE_CHECKING:
    from opx.retrieval.query import Answered

# -- a random key of the installation: hashes of what can be guessed tell nothing to who lacks it

_KEY = {"scopeKey": "#installation", "gapId": "key"}
"""In the table of gaps: who may read the audit log alone can't try questions until a hash fits. No scope has that key."""

_BYTES = 32


class InstallationKey:
    """Keyed hashes. The key is made by the first who needs it, and read once a process."""

    def __init__(self, gaps: Table, new_key: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._table = gaps
        self._new_key = new_key
        self._key = b""

    def hash(self, *parts: str) -> str:
        """32 hex digits of a HMAC-SHA256 of the texts. Raises `StoreUnavailableError`."""
        self._key = self._key or self._stored()
        message = "\0".join(f"{len(part)}:{part}" for part in parts)
        digest = hmac.new(self._key, message.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return digest.hexdigest()[:32]

    def _stored(self) -> bytes:
        item = self._table.get(_KEY)
        if item is None:
            item = {**_KEY, "key": self._new_key(_BYTES)}
            try:
                self._table.put(item, condition=KeyAbsent())
            except ConditionFailedError:  # another process was quicker
                item = self._table.get(_KEY) or item
        return bytes(item["key"])


# -- the audit log

DOCUMENTS_KEPT = 20
"""Returned documents of which a record names chunk and confidence; of more, `documentsInAll` has the number."""

MAX_PRINCIPAL_CHARACTERS = 256
MAX_RECORDS = 1000
LAST = "last"
"""Stands for the receipt of the newest answer."""
_BEGINNING = re.compile(r"[0-9a-f]{6,31}")

_INDEX = "who-askedAt-index"
SCOPES = "#scopes"
"""`who` of the items that name the scopes which have records; such an item's `askedAt` is the scope."""

_DAY_SECONDS = 86_400


class ReturnedPassage(Record, frozen=True):
    """A passage of an answer."""

    document_id: str
    chunk_id: str
    confidence: float


class AuditRecord(Record, frozen=True, kw_only=True):
    """One question. `who` is the key of the scope that asked. Returned passages are in the answer's order."""

    receipt_id: str
    who: Annotated[str, Meta(description="The scope that asked.")]
    principal: Annotated[str, Meta(description="Who or what of it asked, empty if that is not known.")]
    asked_at: str
    query_hash: Annotated[str, Meta(description="Of the question, with a key of this installation.")]
    config_hash: str
    mode: str
    corpus_version: str
    documents: tuple[ReturnedPassage, ...]
    documents_in_all: Annotated[int, Meta(description="How many results there were; the first are named.")]
    nearest: Annotated[str, Meta(description="The document that was shown as the nearest, without an answer.")]
    answer_hash: str
    partial: bool
    took_ms: int


class AuditLog:
    """The records of an installation, each kept for `days`.

    A record costs one write, and the first of a scope in a process another one, by which the operator finds the scope.
    """

    def __init__(
        self,
        table: Table,
        key: InstallationKey,
        *,
        days: int,
        clock: Clock,
        new_id: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self._table = table
        self._key = key
        self._days = days
        self._clock = clock
        self._new_id = new_id
        self._known: set[str] = set()

    def record(self, identity: Identity, answered: Answered, corpus: CorpusState) -> AuditRecord:
        """Keep the record of an answer. Raises `StoreUnavailableError`, and `InvalidScopeError`."""
        from opx.retrieval.receipts import answer_hash, plain_config

        now, answer, config = self._clock(), answered.answer, answered.config
        record = AuditRecord(
            receipt_id=self._new_id(),
            who=scope_of(identity),
            principal=_kept_principal(identity),
            asked_at=_precise_time(now),
            query_hash=self.query_hash(answered.query),
            config_hash=stable_hash("config", plain_config(config)),
            mode=config.mode.value,
            corpus_version=corpus.version,
            documents=tuple(
                ReturnedPassage(
                    result.document_id, str(result.metadata.get("chunkId", "")), round(result.confidence, 4)
                )
                for result in answer.results[:DOCUMENTS_KEPT]
            ),
            documents_in_all=len(answer.results),
            nearest=answer.best_rejected.document_id if answer.best_rejected else "",
            answer_hash=answer_hash(answer),
            partial=answer.partial,
            took_ms=round(answered.took_ms),
        )
        if record.who not in self._known:
            self._table.put({"receiptId": f"{SCOPES} {record.who}", "who": SCOPES, "askedAt": record.who})
            self._known.add(record.who)
        self._table.put({**_to_item(record), "expiresAt": int(now) + self._days * _DAY_SECONDS})
        return record

    def query_hash(self, query: str) -> str:
        """The same for questions that differ in case and blanks alone; only this installation can compute it."""
        return self._key.hash("query", " ".join(unicodedata.normalize("NFKC", query).casefold().split()))

    def get(self, receipt_id: str, who: str) -> AuditRecord | None:
        """The record of a receipt, if that scope asked; None also for a record of another."""
        item = self._table.get({"receiptId": receipt_id}) if receipt_id else None
        return _from_item(item) if item and item["who"] == who else None

    def find(self, wanted: str, identity: Identity) -> AuditRecord | None:
        """The record of a receipt of the identity's own scope. `wanted` is its id, 6 digits or more of the beginning of one
        of the newest 1000, or `last` for the newest answer to the same principal. Raises `InvalidInputError` for a beginning
        that several have."""
        who, beginning = scope_of(identity), wanted.strip().lower()
        if beginning == LAST:
            newest = islice(self.records(who), MAX_RECORDS)
            return next((one for one in newest if one.principal == _kept_principal(identity)), None)
        if not _BEGINNING.fullmatch(beginning):
            return self.get(wanted, who)
        newest = islice(self.records(who), MAX_RECORDS)
        return beginning_so(wanted, newest, lambda one: f"{one.receipt_id}  {one.asked_at}", kind="receipts")

    def records(self, who: str = "", *, since: str = "") -> Iterator[AuditRecord]:
        """The records of a scope, the newest first; without one, of all scopes. `since` is a time or the beginning of
        one. Read page by page as the caller goes on."""
        scopes = [who] if who else self._scopes()
        each = (self._of_scope(scope, since) for scope in scopes)
        return merge(*each, key=lambda record: record.asked_at, reverse=True)

    def _of_scope(self, scope: str, since: str) -> Iterator[AuditRecord]:
        where = KeyRange(low=since) if since else None
        return map(_from_item, self._table.query(scope, index=_INDEX, where=where, reverse=True))

    def _scopes(self) -> list[str]:
        return [str(item["askedAt"]) for item in self._table.query(SCOPES, index=_INDEX)]


def matching(
    records: Iterator[AuditRecord], *, principal: str = "", document: str = "", limit: int = MAX_RECORDS
) -> list[AuditRecord]:
    """Up to `limit` of the records whose scope or principal has `principal` in it, and that returned `document`, the
    id or the beginning of one."""
    wanted = principal.casefold()
    found = (
        record
        for record in records
        if wanted in f"{record.who} {record.principal}".casefold()
        and (not document or any(each.startswith(document.lower()) for each in _shown(record)))
    )
    return list(islice(found, limit))


def _shown(record: AuditRecord) -> Iterator[str]:
    yield record.nearest
    yield from (each.document_id for each in record.documents)


def scope_of(identity: Identity) -> str:
    """The key of an identity's own scope. Raises `InvalidScopeError`."""
    return Scope(identity.client_id, project_id=identity.project_id).key


def _kept_principal(identity: Identity) -> str:
    return identity.principal[:MAX_PRINCIPAL_CHARACTERS].encode("utf-8", "replace").decode()


def _precise_time(seconds: float) -> str:
    """With milliseconds, so that questions of one second are in order."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _to_item(record: AuditRecord) -> Item:
    """The JSON of a record with its passages as three lists: short, as the item is there once more in the index."""
    documents = record.documents
    return {
        **record.to_json(),
        "documents": [each.document_id for each in documents],
        "chunks": [each.chunk_id for each in documents],
        "confidences": [each.confidence for each in documents],
    }


def _from_item(item: Item) -> AuditRecord:
    documents = zip(item["documents"], item["chunks"], item["confidences"], strict=True)
    names = ("documentId", "chunkId", "confidence")
    return AuditRecord.from_json({**item, "documents": [dict(zip(names, each, strict=True)) for each in documents]})
