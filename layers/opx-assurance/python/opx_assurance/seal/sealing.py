"""Seals an installation: computes the root of all its contents, signs and stores it, and compares it later.

The seal has a root for each part, and the hash of each leaf, so that a comparison names what differs. Only its signature
proves that nobody changed the seal with the data: without a key, or with a key beside the data, it shows accidents alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from opx import __version__
from opx.domain.documents import KnowledgeDocument
from opx.domain.ids import iso_time
from opx.domain.record import Record, replace
from opx.errors import AlteredSealError, ReceiptNotFoundError, SealNotFoundError, UntrustedSealError
from opx.ingestion.corpus.catalog import document_from_item
from opx.learning.outcome_store import head_key
from opx.ports import Clock, KeyRange, Table
from opx.ports.tables import AUDIT, BASELINES, GAPS, OUTCOMES, PATTERNS, SOURCES, STAGING, USAGE, USES
from opx.retrieval.receipts import Receipt, TamperedReceiptError
from opx_assurance.seal.contents import DOCUMENTS_PART, VERSIONS_PART, Leaf, SealedContents
from opx_assurance.seal.records import Hashes, Seal, SealStore, parts_of, root_of
from opx_assurance.seal.signing import SigningKey, is_signed

MOST_NAMED = 100
_SECONDS = len("2026-01-01T00:00:00")
"""Beginning of a time that all times have: those of answers also have milliseconds."""
ALTERED = "altered"


class SealDifference(Record, frozen=True):
    """A thing that was `added`, `removed` or `altered` since the seal. `since` is when it was ingested after the seal, ""
    if it wasn't: then nothing that the catalog knows of explains the difference. `is_expected`: it comes with the use of
    the installation, such as a record of an answer."""

    part: str
    kind: str
    name: str
    since: str = ""
    is_expected: bool = False

    @property
    def is_unexplained(self) -> bool:
        """True for a document, a version or a record of the audit log that was altered without an ingestion: nothing of the
        program does that, but for one that ingests them again by other rules."""
        return self.kind == ALTERED and not self.since and is_lasting(self.part)


class SealComparison(Record, frozen=True):
    """The last seal, the present root, and what differs: the first hundred of `count`, unexplained ones first and the
    `expected` ones last. `is_trusted`: the signature is that of the key that the caller knows."""

    seal: Seal
    root: str
    count: int
    differences: tuple[SealDifference, ...]
    is_trusted: bool
    expected: int = 0

    @property
    def is_same(self) -> bool:
        return self.root == self.seal.root

    @property
    def unexpected(self) -> int:
        """Number of differences that don't come with the use of the installation."""
        return self.count - self.expected


class SealedReceipt(Record, frozen=True):
    """A receipt that is as it was issued, by the seal of a time. `public_key` is empty if the seal is not signed;
    `is_trusted`: it is signed by the key that the caller knows."""

    receipt_id: str
    sealed_at: str
    root: str
    public_key: str
    is_trusted: bool


def is_lasting(part: str) -> bool:
    return part in (DOCUMENTS_PART, VERSIONS_PART) or part.startswith(f"{AUDIT.short_name} ")


_APPENDED = {spec.short_name for spec in (AUDIT, BASELINES, GAPS, OUTCOMES, PATTERNS, STAGING, USAGE, USES)}
"""Tables to which use adds rows: answers, questions, outcomes, learned entries, measurements."""

_SUMS = head_key("", "")["place"]
_COUNTED = {BASELINES.short_name: "", GAPS.short_name: "", OUTCOMES.short_name: _SUMS, USES.short_name: ""}
"""Tables in which use also changes rows, with the beginning of their names: a repeated question, an outcome added up."""


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


@dataclass(eq=False)
class Sealing:
    """Makes and compares seals. `key` returns the signing key, None without one."""

    contents: SealedContents
    store: SealStore
    documents: Table
    key: Callable[[], SigningKey | None]
    clock: Clock

    def seal(self) -> Seal:
        """Compute, sign and store the seal of the present contents. Raises `InvalidInputError` for a key that can't be used,
        and `StoreUnavailableError`."""
        self.key()  # a key that can't be used is found before everything is read
        at = iso_time(self.clock())
        return self.sign(at, _Tree.of(self.contents.leaves()).hashes)

    def sign(self, at: str, hashes: Hashes) -> Seal:
        """Sign and store the seal of these leaves, whose reading began `at` that time. Raises as `seal`."""
        key, parts = self.key(), parts_of(hashes)
        public, is_recorded = key.public if key else "", self.contents.is_recorded
        sealed = Seal(at, root_of(parts), parts, __version__, public, is_recorded=is_recorded)
        sealed = replace(sealed, signature=key.sign(sealed.message)) if key else sealed
        self.store.put(sealed, hashes)
        return sealed

    def trusted_last(self) -> Seal | None:
        """The last seal for one that is to replace it; None before the first. Raises as `compare`, and `UntrustedSealError`
        if it is signed and there is no key now: a seal that is signed is not replaced by one that isn't."""
        try:
            last = self.store.last()
        except SealNotFoundError:
            return None
        self._checked(last, "", "")
        if last.signature and not self.key():
            raise UntrustedSealError(
                f"the seal of {last.at} is signed by the key {last.public_key}, which is missing now"
            )
        return last

    def compare(self, *, root: str = "", public_key: str = "") -> SealComparison:
        """Compare the present contents with the last seal. `root` is one that was noted elsewhere, `public_key` that of the
        signing key, which is known without it if this installation has the key.

        Raises `SealNotFoundError`, `AlteredSealError` if the seal isn't the one of that root or was altered itself, and
        `UntrustedSealError` if another key signed it, or none although one is known.
        """
        sealed = self.store.last()
        is_trusted = self._checked(sealed, root, public_key)
        before = self.store.leaves(sealed)
        now = _Tree.of(self.contents.leaves())
        different = self._differences(sealed, before, now)
        found = [replace(one, is_expected=self._is_expected(one, sealed)) for one in different]
        found.sort(key=lambda one: (one.is_expected, not one.is_unexplained))
        root, expected = root_of(parts_of(now.hashes)), sum(one.is_expected for one in found)
        return SealComparison(sealed, root, len(found), tuple(found[:MOST_NAMED]), is_trusted, expected)

    def prove(self, receipt: Receipt, *, root: str = "", public_key: str = "") -> SealedReceipt:
        """Prove by the last seal that an answer was given as its receipt states it: the record in the audit log has its hash,
        and is as it was sealed.

        Raises as `compare`, `ReceiptNotFoundError`, `SealNotFoundError` for an answer after the seal, and
        `TamperedReceiptError` if receipt or record was altered.
        """
        sealed = self.store.last()
        is_trusted = self._checked(sealed, root, public_key)
        receipt_id = str(receipt["receiptId"])
        found = self.contents.answer(receipt_id)
        if found is None:
            raise ReceiptNotFoundError(f"no answer with the receipt {receipt_id} is on record")
        item, leaf = found
        if item.get("answerHash") != receipt["answerHash"]:
            raise TamperedReceiptError("the receipt was changed after it was issued: the audit log has another answer")
        known = self.store.leaves(sealed).get(leaf.part, {}).get(leaf.id)
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
        key = self.key()
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

    # -- differences

    def _differences(self, sealed: Seal, before: Hashes, now: _Tree) -> Iterator[SealDifference]:
        for part in sorted({*before, *now.hashes}):
            old, new = before.get(part, {}), now.hashes.get(part, {})
            for leaf in sorted({*old, *new}):
                if old.get(leaf) != new.get(leaf):
                    kind = ALTERED if leaf in old and leaf in new else "added" if leaf in new else "removed"
                    name = now.names.get((part, leaf), "")
                    yield self.described(sealed, SealDifference(part, kind, name or leaf), leaf)

    def _is_expected(self, found: SealDifference, sealed: Seal) -> bool:
        """True for what the use of the installation adds, ingested versions among it with those that they replace, and for
        what it counts in rows of before. A record of an answer that was added to a day before the seal is none of these."""
        table, _, day = found.part.partition(" ")
        if found.kind == "removed":
            return False
        if found.part == DOCUMENTS_PART:
            return bool(found.since) and self.contents.is_as_ingested(found.name)
        if found.part == VERSIONS_PART:  # what was there when it was sealed changes later only
            return found.since[:_SECONDS] > (sealed.at[:_SECONDS] if found.kind == ALTERED else "")
        if table == SOURCES.short_name:  # the progress of pulls; definitions are in partitions with a mark
            return not found.name.startswith("#")
        if found.kind == ALTERED:
            return table in _COUNTED and found.name.startswith(_COUNTED[table])
        return table in _APPENDED and day >= (day and sealed.at[:10])

    def described(self, sealed: Seal, found: SealDifference, leaf: str) -> SealDifference:
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
        versions = self.documents.query(key_id, index="documentKey-version-index", where=where, reverse=True, limit=1)
        item = next(versions, None)
        return document_from_item(item) if item else None
