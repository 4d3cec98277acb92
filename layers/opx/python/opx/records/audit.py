"""Audit log of queries: caller, time, scope and returned documents. Of the query itself only a keyed hash is stored."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from opx.domain.ids import beginning_so, stable_hash
from opx.domain.record import Record, about
from opx.domain.scopes import Identity, Scope
from opx.errors import ReceiptNotFoundError
from opx.ports import Clock, Item, KeyAbsent, KeyRange, Table
from opx.ports.search import CorpusState
from opx.ports.tables import put_if, readable

if TYPE_CHECKING:
    from opx.retrieval.query import Answered

# -- keyed hashes: without the installation's random key, guesses can't be compared with a hash

INSTALLATION = "#installation"
"""Partition key, in the table of gaps, of the secret with which this installation hashes questions."""

_KEY = {"scopeKey": INSTALLATION, "gapId": "key"}
"""Stored in the table of gaps, so that a reader of the audit log alone can't test guessed queries. No scope has that key."""

_BYTES = 32


class InstallationKey:
    """Computes keyed hashes. The key is created on first use and read once per process."""

    def __init__(self, gaps: Table, new_key: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._table = gaps
        self._new_key = new_key
        self._key = b""

    def hash(self, *parts: str) -> str:
        """The first 32 hex digits of an HMAC-SHA256 of the parts. Raises `StoreUnavailableError`."""
        self._key = self._key or self._stored()
        message = "\0".join(f"{len(part)}:{part}" for part in parts)
        digest = hmac.new(self._key, message.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return digest.hexdigest()[:32]

    def _stored(self) -> bytes:
        item = self._table.get(_KEY)
        if item is None or "key" not in item:
            item = {**_KEY, "key": self._new_key(_BYTES)}
            if not put_if(self._table, item, KeyAbsent("key")):  # another process was faster
                item = self._table.get(_KEY) or item
        return bytes(item["key"])


# -- the audit log

DOCUMENTS_KEPT = 20
"""Limit of returned documents in a record, each with chunk and confidence; `documentsInAll` has the total number."""

MAX_PRINCIPAL_CHARACTERS = 256
MAX_RECORDS = 1000
LAST = "last"
"""Alias for the receipt of the newest answer."""
_PREFIX = re.compile(r"[0-9a-f]{6,31}")

_INDEX = "who-askedAt-index"
SCOPES = "#scopes"
"""Partition key (`who`) of the items that list the scopes with records; such an item's `askedAt` is the scope."""

_DAY_SECONDS = 86_400


class ReturnedPassage(Record, frozen=True):
    """A returned passage of an answer."""

    document_id: str
    chunk_id: str
    confidence: float


class AuditRecord(Record, frozen=True, kw_only=True):
    """Record of one query. `who` is the key of the caller's scope. Returned passages are in the answer's order."""

    receipt_id: str
    who: Annotated[str, about("The caller's scope.")]
    principal: Annotated[str, about("The calling user or agent; empty if unknown.")]
    asked_at: str
    query_hash: Annotated[str, about("Hash of the query, with a key of this installation.")]
    config_hash: str
    mode: str
    corpus_version: str
    documents: tuple[ReturnedPassage, ...]
    documents_in_all: Annotated[int, about("Number of all results; only the first are listed.")]
    nearest: Annotated[str, about("The document that was shown as the nearest, if there was no answer.")]
    answer_hash: str
    partial: bool
    took_ms: int

    @property
    def document_ids(self) -> tuple[str, ...]:
        """The ids of the returned documents, by rank; then that of the nearest document, if there was no answer."""
        return tuple(dict.fromkeys(filter(None, (*(each.document_id for each in self.documents), self.nearest))))


def rank_missing(rank: int, titles: Sequence[str]) -> str:
    """The error for a rank that an answer with these documents doesn't have."""
    named = "".join(f"\n  {at}  {' '.join(title.split())}" for at, title in enumerate(titles, start=1))
    count = f"{len(titles)} document{'' if len(titles) == 1 else 's'}"
    return f"the answer has {count}, and none at rank {rank}:{named}"


@dataclass(eq=False)
class AuditLog:
    """Stores the audit records of an installation, each for `days`.

    A record costs one write, and the first of a scope in a process a second one, which lists the scope for the operator.
    """

    table: Table
    key: InstallationKey
    _: KW_ONLY
    days: int
    clock: Clock
    new_id: Callable[[], str] = lambda: secrets.token_hex(16)
    _known: set[str] = field(init=False, default_factory=set)

    def record(self, identity: Identity, answered: Answered, corpus: CorpusState) -> AuditRecord:
        """Store the record of an answer. Raises `StoreUnavailableError` and `InvalidScopeError`."""
        from opx.retrieval.receipts import answer_hash, plain_config

        now, answer, config = self.clock(), answered.answer, answered.config
        record = AuditRecord(
            receipt_id=self.new_id(),
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
            self.table.put({"receiptId": f"{SCOPES} {record.who}", "who": SCOPES, "askedAt": record.who})
            self._known.add(record.who)
        self.table.put({**_to_item(record), "expiresAt": int(now) + self.days * _DAY_SECONDS})
        return record

    def query_hash(self, query: str) -> str:
        """Keyed hash of a query, independent of case and white space; only this installation can compute it."""
        return self.key.hash("query", " ".join(unicodedata.normalize("NFKC", query).casefold().split()))

    def get(self, receipt_id: str, who: str) -> AuditRecord | None:
        """The record of a receipt, if it is of that scope; None also for a record of another one."""
        item = self.table.get({"receiptId": receipt_id}) if receipt_id else None
        return record_in(item) if item and item["who"] == who else None

    def of_receipt(self, receipt_id: str) -> AuditRecord | None:
        """The record of a receipt of any scope, for callers who may read the whole log."""
        item = self.table.get({"receiptId": receipt_id}) if receipt_id else None
        return record_in(item) if item and item["who"] != SCOPES else None

    def find(self, wanted: str, identity: Identity) -> AuditRecord | None:
        """The record of a receipt of the identity's own scope. `wanted` is its id, a prefix of 6 digits or more of one of
        the newest 1000, or `last` for the newest answer to the same principal. Raises `InvalidInputError` for an ambiguous
        prefix."""
        who, prefix = scope_of(identity), wanted.strip().lower()
        if prefix == LAST:
            newest = islice(self.records(who), MAX_RECORDS)
            return next((one for one in newest if one.principal == _kept_principal(identity)), None)
        if not _PREFIX.fullmatch(prefix):
            return self.get(wanted, who)
        newest = islice(self.records(who), MAX_RECORDS)
        return beginning_so(wanted, newest, lambda one: f"{one.receipt_id}  {one.asked_at}", kind="receipts")

    def records(self, who: str = "", *, since: str = "") -> Iterator[AuditRecord]:
        """The records of a scope, or of all scopes without one, the newest first. `since` is a time or its prefix. Read
        lazily, page by page."""
        scopes = [who] if who else self.scopes()
        each = (self._of_scope(scope, since) for scope in scopes)
        return merge(*each, key=lambda record: record.asked_at, reverse=True)

    def _of_scope(self, scope: str, since: str) -> Iterator[AuditRecord]:
        where = KeyRange(low=since) if since else None
        return readable(record_in, self.table.query(scope, index=_INDEX, where=where, reverse=True))

    def count(self, who: str, day: str) -> int:
        """The number of a scope's records of a day (`2026-11-24`). Their items are read, but not transferred."""
        return self.table.count(who, index=_INDEX, where=KeyRange(begins_with=day))

    def scopes(self) -> list[str]:
        """The keys of all scopes with records."""
        return [str(item["askedAt"]) for item in self.table.query(SCOPES, index=_INDEX)]


def matching(
    records: Iterator[AuditRecord], *, principal: str = "", document: str = "", limit: int = MAX_RECORDS
) -> list[AuditRecord]:
    """Up to `limit` records whose scope or principal contains `principal`, and that returned `document`, an id or its
    prefix."""
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


def unknown_receipt(wanted: str) -> ReceiptNotFoundError:
    """The error for a receipt that isn't on record in the caller's scope."""
    return ReceiptNotFoundError(f"the audit log has no receipt {wanted!r} of yours")


def scope_of(identity: Identity) -> str:
    """The key of an identity's own scope. Raises `InvalidScopeError`."""
    return Scope(identity.client_id, project_id=identity.project_id).key


def _kept_principal(identity: Identity) -> str:
    return identity.principal[:MAX_PRINCIPAL_CHARACTERS].encode("utf-8", "replace").decode()


def _precise_time(seconds: float) -> str:
    """ISO 8601 with milliseconds, so that queries within one second are in order."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _to_item(record: AuditRecord) -> Item:
    """The item of a record, with its passages as three lists: compact, as the secondary index duplicates the item."""
    documents = record.documents
    return {
        **record.to_json(),
        "documents": [each.document_id for each in documents],
        "chunks": [each.chunk_id for each in documents],
        "confidences": [each.confidence for each in documents],
    }


def record_in(item: Item) -> AuditRecord:
    """The record of an item."""
    documents = zip(item["documents"], item["chunks"], item["confidences"], strict=True)
    names = ("documentId", "chunkId", "confidence")
    return AuditRecord.from_json({**item, "documents": [dict(zip(names, each, strict=True)) for each in documents]})
