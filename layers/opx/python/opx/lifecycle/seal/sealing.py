"""Seals an installation: computes the root of all its contents, signs and stores it, and compares it later.

The seal has a root for each part, and the hash of each leaf, so that a comparison names what differs. Only its signature
proves that nobody changed the seal with the data: without a key, or with a key beside the data, it shows accidents alone.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opx import __version__
from opx.domain.documents import KnowledgeDocument
from opx.domain.ids import iso_time
from opx.domain.record import Record
from opx.errors import AlteredSealError, ReceiptNotFoundError, SealNotFoundError, UntrustedSealError
from opx.ingestion.corpus.catalog import document_from_item
from opx.lifecycle.seal.contents import DOCUMENTS_PART, VERSIONS_PART, Leaf, SealedContents
from opx.lifecycle.seal.merkle import leaf_hash, tree_hash
from opx.lifecycle.seal.signing import SigningKey, is_signed
from opx.ports import Clock, Item, KeyRange, Table
from opx.ports.tables import AUDIT
from opx.retrieval.receipts import Receipt, TamperedReceiptError

SUBJECT = "seal"
"""Partition key of the last seal in the lifecycle table."""

_LAST, _PAGES = "last", "leaves#"
_LEAVES_A_PAGE = 2000
"""140 bytes each, below the 400 KB of an item of DynamoDB."""

_CONTEXT = b"opx seal 1\n"
"""Beginning of what is signed, so that a signature of a seal is one of nothing else."""

MOST_NAMED = 100
_SECONDS = len("2026-01-01T00:00:00")
"""Beginning of a time that all times have: those of answers also have milliseconds."""
ALTERED = "altered"

Hashes = Mapping[str, Mapping[str, str]]
"""Hashes of leaves in hex by their ids, by part."""


class SealedPart(Record, frozen=True):
    part: str
    root: str
    count: int


class Seal(Record, frozen=True):
    """Root of the contents at a time, with the roots of its parts. `public_key` and `signature` are empty if there was no
    key."""

    at: str
    root: str
    parts: tuple[SealedPart, ...]
    program: str
    public_key: str = ""
    signature: str = ""

    @property
    def message(self) -> bytes:
        """The signed bytes."""
        content = {name: value for name, value in self.to_json().items() if name != "signature"}
        return _CONTEXT + json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


class SealDifference(Record, frozen=True):
    """A thing that was `added`, `removed` or `altered` since the seal. `since` is when it was ingested after the seal, ""
    if it wasn't: then nothing that the catalog knows of explains the difference."""

    part: str
    kind: str
    name: str
    since: str = ""


class SealComparison(Record, frozen=True):
    """The last seal, the present root, and what differs: the first hundred of `count`. `is_trusted`: the signature is that of
    the key that the caller knows."""

    seal: Seal
    root: str
    count: int
    differences: tuple[SealDifference, ...]
    is_trusted: bool

    @property
    def is_same(self) -> bool:
        return self.root == self.seal.root

    @property
    def unexplained(self) -> list[SealDifference]:
        """Documents, versions and records of the audit log that were altered without an ingestion: nothing of the program
        does that, but for one that ingests them again by other rules."""
        return [one for one in self.differences if one.kind == ALTERED and not one.since and _is_lasting(one.part)]


class SealedReceipt(Record, frozen=True):
    """A receipt that is as it was issued, by the seal of a time. `public_key` is empty if the seal is not signed;
    `is_trusted`: it is signed by the key that the caller knows."""

    receipt_id: str
    sealed_at: str
    root: str
    public_key: str
    is_trusted: bool


def _is_lasting(part: str) -> bool:
    return part in (DOCUMENTS_PART, VERSIONS_PART) or part.startswith(f"{AUDIT.short_name} ")


@dataclass(frozen=True, slots=True)
class _Tree:
    """Hashes of leaves by part and id, and names for people."""

    hashes: Hashes
    names: Mapping[tuple[str, str], str]

    @classmethod
    def of(cls, leaves: Iterator[Leaf]) -> _Tree:
        hashes: dict[str, dict[str, str]] = defaultdict(dict)
        names: dict[tuple[str, str], str] = {}
        for leaf in leaves:
            hashes[leaf.part][leaf.id] = leaf.hash.hex()
            names[leaf.part, leaf.id] = leaf.name
        return cls(hashes, names)


class Sealing:
    """Makes and compares seals. `key` returns the signing key, None without one."""

    def __init__(
        self,
        contents: SealedContents,
        table: Table,
        documents: Table,
        key: Callable[[], SigningKey | None],
        clock: Clock,
    ) -> None:
        self._contents = contents
        self._table = table
        self._documents = documents
        self._key = key
        self._clock = clock

    def seal(self) -> Seal:
        """Compute, sign and store the seal of the present contents. Raises `InvalidInputError` for a key that can't be used,
        and `StoreUnavailableError`."""
        key = self._key()
        hashes = _Tree.of(self._contents.leaves()).hashes
        parts = _parts(hashes)
        unsigned = Seal(iso_time(self._clock()), _root(parts), parts, __version__, key.public if key else "")
        signature = key.sign(unsigned.message) if key else ""
        sealed = Seal(unsigned.at, unsigned.root, parts, unsigned.program, unsigned.public_key, signature)
        self._store(sealed, hashes)
        return sealed

    def last(self) -> Seal:
        """The last seal. Raises `SealNotFoundError`."""
        item = self._table.get({"subject": SUBJECT, "entry": _LAST})
        if item is None:
            raise SealNotFoundError("nothing was sealed yet: `opx seal` does it")
        return _seal_of(item)

    def compare(self, *, root: str = "", public_key: str = "") -> SealComparison:
        """Compare the present contents with the last seal. `root` is one that was noted elsewhere, `public_key` that of the
        signing key, which is known without it if this installation has the key.

        Raises `SealNotFoundError`, `AlteredSealError` if the seal isn't the one of that root or was altered itself, and
        `UntrustedSealError` if another key signed it, or none although one is known.
        """
        sealed = self.last()
        is_trusted = self._checked(sealed, root, public_key)
        before = self._leaves(sealed)
        now = _Tree.of(self._contents.leaves())
        found = list(self._differences(sealed, before, now))
        return SealComparison(sealed, _root(_parts(now.hashes)), len(found), tuple(found[:MOST_NAMED]), is_trusted)

    def prove(self, receipt: Receipt, *, root: str = "", public_key: str = "") -> SealedReceipt:
        """Prove by the last seal that an answer was given as its receipt states it: the record in the audit log has its hash,
        and is as it was sealed.

        Raises as `compare`, `ReceiptNotFoundError`, `SealNotFoundError` for an answer after the seal, and
        `TamperedReceiptError` if receipt or record was altered.
        """
        sealed = self.last()
        is_trusted = self._checked(sealed, root, public_key)
        receipt_id = str(receipt["receiptId"])
        found = self._contents.answer(receipt_id)
        if found is None:
            raise ReceiptNotFoundError(f"no answer with the receipt {receipt_id} is on record")
        item, leaf = found
        if item.get("answerHash") != receipt["answerHash"]:
            raise TamperedReceiptError("the receipt was changed after it was issued: the audit log has another answer")
        known = self._leaves(sealed).get(leaf.part, {}).get(leaf.id)
        if known is None and str(item["askedAt"])[:_SECONDS] >= sealed.at[:_SECONDS]:
            raise SealNotFoundError(f"the answer is of {item['askedAt']}, after the last seal: `opx seal` covers it")
        if known != leaf.hash.hex():
            raise TamperedReceiptError(
                f"the audit log's record of this answer was changed after the seal of {sealed.at}"
            )
        return SealedReceipt(receipt_id, sealed.at, sealed.root, sealed.public_key, is_trusted)

    def _checked(self, sealed: Seal, root: str, public_key: str) -> bool:
        """True if the seal is signed by the key that the caller knows."""
        if root and root.strip().lower() != sealed.root:
            raise AlteredSealError(f"the seal of {sealed.at} has the root {sealed.root}, not {root}")
        key = self._key()
        known = public_key.strip().lower() or (key.public if key else "")
        if known and not sealed.signature:
            raise UntrustedSealError(f"the seal of {sealed.at} is not signed, and should be by the key {known}")
        if known and sealed.public_key != known:
            raise UntrustedSealError(
                f"the seal of {sealed.at} was signed by another key, {sealed.public_key}, not {known}"
            )
        if sealed.signature and not is_signed(sealed.message, sealed.signature, sealed.public_key):
            raise AlteredSealError(f"the seal of {sealed.at} was altered: its signature doesn't match its content")
        return bool(known)

    # -- storage

    def _store(self, sealed: Seal, hashes: Hashes) -> None:
        """Writes the pages of leaves, then the seal that names them, and then removes the pages of the seal before."""
        lines = [f"{part}\t{leaf}\t{value}" for part, leaves in hashes.items() for leaf, value in leaves.items()]
        prefix = f"{_PAGES}{sealed.root[:16]}#"
        pages = [lines[at : at + _LEAVES_A_PAGE] for at in range(0, len(lines), _LEAVES_A_PAGE)]
        for number, page in enumerate(pages):
            self._table.put({"subject": SUBJECT, "entry": f"{prefix}{number:05d}", "leaves": page})
        self._table.put({"subject": SUBJECT, "entry": _LAST, "seal": json.dumps(sealed.to_json())})
        for item in list(self._table.query(SUBJECT, where=KeyRange(begins_with=_PAGES))):
            if not str(item["entry"]).startswith(prefix):
                self._table.delete({"subject": SUBJECT, "entry": item["entry"]})

    def _leaves(self, sealed: Seal) -> Hashes:
        """The hashes of a seal. Raises `AlteredSealError`."""
        found: dict[str, dict[str, str]] = defaultdict(dict)
        for item in self._table.query(SUBJECT, where=KeyRange(begins_with=f"{_PAGES}{sealed.root[:16]}#")):
            for line in item["leaves"]:
                part, leaf, value = str(line).split("\t")
                found[part][leaf] = value
        if _root(_parts(found)) != sealed.root:
            raise AlteredSealError(f"the seal of {sealed.at} was altered: its hashes don't lead to its root")
        return found

    # -- differences

    def _differences(self, sealed: Seal, before: Hashes, now: _Tree) -> Iterator[SealDifference]:
        for part in sorted({*before, *now.hashes}):
            old, new = before.get(part, {}), now.hashes.get(part, {})
            for leaf in sorted({*old, *new}):
                if old.get(leaf) != new.get(leaf):
                    kind = ALTERED if leaf in old and leaf in new else "added" if leaf in new else "removed"
                    name = now.names.get((part, leaf), "")
                    yield self._described(sealed, SealDifference(part, kind, name or leaf), leaf)

    def _described(self, sealed: Seal, found: SealDifference, leaf: str) -> SealDifference:
        """The difference with the document's name, and the time of its last change if that was after the seal."""
        if found.part not in (DOCUMENTS_PART, VERSIONS_PART):
            return found
        key_id, _, number = leaf.partition("#")
        document = self._version(key_id, number) or self._version(key_id, "")
        if document is None:
            return found
        named = f"{document.scope.prefix}{document.source}"
        since = document.superseded_at or document.current_since
        name = f"version {number} of {named}" if number else named
        return SealDifference(found.part, found.kind, name, since if since >= sealed.at else "")

    def _version(self, key_id: str, number: str) -> KnowledgeDocument | None:
        """A version of a key, by default the newest."""
        where = KeyRange(int(number), int(number)) if number else None
        versions = self._documents.query(key_id, index="documentKey-version-index", where=where, reverse=True, limit=1)
        item = next(versions, None)
        return document_from_item(item) if item else None


def _parts(hashes: Hashes) -> tuple[SealedPart, ...]:
    found = []
    for part, leaves in sorted(hashes.items()):
        root = tree_hash([bytes.fromhex(leaves[leaf]) for leaf in sorted(leaves)])
        found.append(SealedPart(part, root.hex(), len(leaves)))
    return tuple(found)


def _root(parts: tuple[SealedPart, ...]) -> str:
    return tree_hash([leaf_hash(f"{one.part}\0{one.count}\0{one.root}".encode()) for one in parts]).hex()


def _seal_of(item: Item) -> Seal:
    try:
        content: Any = json.loads(item["seal"])
        return Seal.from_json(content)
    except (KeyError, TypeError, ValueError) as exc:
        raise AlteredSealError("the last seal can't be read: it was altered") from exc
