"""Puts documents into the corpus store, detects unchanged ones, and removes them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Self

from opx.domain.baselines import BASELINES_CATEGORY
from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.ids import stable_hash
from opx.domain.knowledge import KnowledgeModel
from opx.domain.provenance import Channel, ChannelKind
from opx.domain.scopes import Scope
from opx.errors import (
    ConditionFailedError,
    DocumentNotFoundError,
    InvalidInputError,
    ObjectNotFoundError,
)
from opx.formats.metadata import MAX_BYTES
from opx.formats.registry import is_known
from opx.ingestion.channels import channel_metadata
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.events import DOCUMENTS_FOLDER, SIDECAR_SUFFIX, EventOutcome, Result
from opx.ingestion.files import (
    OBJECT_METADATA,
    FileToIngest,
    described,
    file_digest,
    sidecar_of,
    stated_facts,
    unreadable,
)
from opx.ingestion.given_documents import Content, check_facts, read_document
from opx.ingestion.object_names import with_extension
from opx.ingestion.originals import MAGIC
from opx.ingestion.reviews import Review, carried_metadata, review_metadata
from opx.ports import ObjectInfo, ObjectStore

MAX_OBJECT_METADATA = 800
"""Maximum bytes of facts on the object itself: S3 allows 2 KB, in an encoding that makes some text a third longer, and the
channel is beside them."""

_ON_OBJECT = ("category", "name")
"""Facts that stay on an object where the others are in a sidecar: in that, `name` would be an attribute."""

MAX_REVIEWED_BYTES = 8 * 1024**2 - 1
"""The largest object that stores put again on a condition."""

OWNER = Channel(ChannelKind.COMMAND, proof="rights of the home's owner")
"""The channel of the owner of a home, who runs this program on it."""


@dataclass(eq=False, kw_only=True)
class CorpusWriter:
    """Puts and removes documents of one scope by one channel, which is recorded on each object; the pipeline ingests them
    from there.

    `fingerprint` is the pipeline's: it computes from an object and its sidecar the fingerprint that the catalog records.
    `records` is called with each record of `operations/baselines` before it is put, to store it among the baselines.
    Documents that are put in a block of `grouped` may be stored only when it ends, and then aren't if it raises.
    """

    store: ObjectStore
    catalog: Catalog
    knowledge: KnowledgeModel
    fingerprint: Callable[[ObjectInfo, ObjectInfo | None], str]
    scope: Scope = field(default_factory=Scope)
    records: Callable[[Mapping[str, Any]], object] | None = None
    channel: Channel = OWNER
    grouped: Callable[[], AbstractContextManager[None]] = nullcontext

    def by(self, channel: Channel) -> Self:
        """The same writer for objects of another channel."""
        other = copy(self)
        other.channel = channel
        return other

    def put_batch(
        self, category: str, documents: Iterable[Content | object], *, dedupe: bool = True
    ) -> list[str | InvalidInputError]:
        """Puts several documents for asynchronous ingestion, as `ingest_batch` does. Returns for each, in order, its
        object key (equal ones may share it), or the error. Raises `UnknownCategoryError`."""
        path = self.knowledge.category(category).path
        copies: Counter[str] = Counter()
        put: list[str | InvalidInputError] = []
        keys: dict[str, str] = {}
        for document in documents:
            try:
                content, facts = read_document(document)
                digest = _digest(stored_bytes(content) + (metadata_text(facts).encode() if facts else b""))
                if not (dedupe and copies[digest]):
                    named = {} if dedupe else {"source": f"batch/{digest}-{copies[digest]}"}
                    keys[digest] = self.put_document(path, content, {**named, **facts})
            except InvalidInputError as exc:
                put.append(exc)
            else:
                copies[digest] += 1
                put.append(keys[digest])
        return put

    def category_of_tier(self, tier: str, category: str) -> str:
        """The path of a category. Raises `UnknownCategoryError`, and `InvalidInputError` if it is of another tier."""
        known = self.knowledge.category(category)
        if known.tier.value != tier:
            raise InvalidInputError(f"category {known.path} is of tier {known.tier.value}, not {tier!r}")
        return known.path

    def put_document(self, category: str, document: Content, metadata: Mapping[str, Any]) -> str:
        """Puts a document into the corpus store and returns its object key; the pipeline ingests it.

        `metadata` as for `ingest_document`. Raises `UnknownCategoryError`, and `InvalidInputError` for a mapping that
        can't be written as JSON, for text that isn't Unicode, and for a name that is not allowed.
        """
        known = self.knowledge.category(category)
        facts = dict(metadata)
        data = stored_bytes(document)
        name = str(facts.pop("source", "") or _digest(data) + _suffix(facts))
        stored = with_extension(name, document)
        if name.endswith(SIDECAR_SUFFIX) or stored.endswith(SIDECAR_SUFFIX):
            raise InvalidInputError(
                f"{name}: names that end with {SIDECAR_SUFFIX} are for metadata; choose another name"
            )
        key = f"{self.scope.prefix}{DOCUMENTS_FOLDER}{known.path}/{stored}"
        check_facts(facts, name)
        if self.records is not None and known.path == BASELINES_CATEGORY and isinstance(document, Mapping):
            self.records(document)
        self.put_described(key, data, {**facts, "category": known.path})
        return key

    def put_described(self, key: str, data: bytes, facts: Mapping[str, Any]) -> None:
        """Puts an object with its facts: in the object's metadata, or in a sidecar if they are long. Raises
        `InvalidInputError` if they are too long for a sidecar."""
        text = metadata_text(facts)
        if len(text.encode("utf-8")) > MAX_OBJECT_METADATA:
            long = {field: value for field, value in facts.items() if field != "name"}
            sidecar = metadata_text({"metadataAttributes": long}).encode("utf-8")
            if len(sidecar) > MAX_BYTES:
                have = f"the metadata of {key} have {len(sidecar):,} bytes"
                raise InvalidInputError(f"{have}; at most {MAX_BYTES:,} are kept: shorten them")
            self.store.put(key + SIDECAR_SUFFIX, sidecar)
            text = metadata_text({field: facts[field] for field in _ON_OBJECT if field in facts})
        elif self.store.head(key + SIDECAR_SUFFIX):
            self.store.delete(key + SIDECAR_SUFFIX)
        self.store.put(key, data, metadata={OBJECT_METADATA: text, **channel_metadata(self.channel)})

    # -- new contents of stored objects

    def put_text(self, key: str, text: str, *, etag: str) -> ObjectInfo:
        """Puts text in place of the content with this etag, "" for a new object. Facts that describe the object stay, but
        for the time of the earlier update, and a category that the installation didn't attest. Raises
        `ConditionFailedError`, and `InvalidInputError` for text that isn't Unicode."""
        info = self.store.head(key)
        facts = described(key.partition(DOCUMENTS_FOLDER)[2], {}) if info is None else _kept_facts(self.store, info)
        kept = {} if info is None else carried_metadata(self.store, info)
        metadata = {**kept, OBJECT_METADATA: metadata_text(facts), **channel_metadata(self.channel)}
        return self.store.put_if(key, stored_bytes(text), etag=etag, metadata=metadata)

    def put_review(self, key: str, review: Review, checksum: str) -> None:
        """Records a review on an object; its content and its channel stay. Raises `ObjectNotFoundError`,
        `ConditionFailedError` if it has another SHA-256 by now ("": unknown) or is changed at the same time, and
        `InvalidInputError` for an encrypted or large one."""
        info = self.store.head(key)
        if info is None:
            raise ObjectNotFoundError(f"no object {key}")
        with self.store.open(key) as stream:
            data = stream.read(MAX_REVIEWED_BYTES + 1)
        if data.startswith(MAGIC):
            raise InvalidInputError("its original is encrypted, as it has secrets: upload it without them")
        if len(data) > MAX_REVIEWED_BYTES:
            raise InvalidInputError(
                f"it has {info.size:,} bytes; up to {MAX_REVIEWED_BYTES:,} can be marked as reviewed"
            )
        if checksum and hashlib.sha256(data).hexdigest() != checksum:
            raise ConditionFailedError(f"object {key} is another one by now")
        metadata = {**carried_metadata(self.store, info), **review_metadata(review)}
        self.store.put_if(key, data, etag=info.etag, metadata=metadata)

    # -- files

    def put_file(self, file: FileToIngest, metadata: Mapping[str, Any]) -> EventOutcome | None:
        """Copies a file and its sidecar into the corpus store. Returns an outcome only if nothing was put: `UNCHANGED`, or
        `FAILED` because the file can't be read. Raises `InvalidInputError` for metadata that can't be kept."""
        key = f"{self.scope.prefix}{DOCUMENTS_FOLDER}{file.source.lstrip('/')}"
        check_facts(metadata, file.source)
        text = metadata_text(file.described(metadata))
        try:
            digest = file_digest(file.path)
            current = self.current_if(key, text, lambda info, stored: _same(info, digest, stored, file.path))
            if current:
                return EventOutcome(Result.UNCHANGED, key, document_id=current)
            self._put_sidecar(key, file.path)
            with file.path.open("rb") as stream:
                self.store.put(key, stream, metadata={OBJECT_METADATA: text, **channel_metadata(self.channel)})
        except OSError as exc:
            return unreadable(key, file.path, exc)
        return None

    def current_if(self, key: str, text: str, same: Callable[[ObjectInfo, ObjectInfo | None], bool]) -> str:
        """The document id if the stored object has this metadata, `same` is true for it and its sidecar, and it is indexed
        by the current rules; else "", and for one that retention keeps out: it may be kept by now."""
        info = self.store.head(key)
        if info is None or info.metadata.get(OBJECT_METADATA) != text:
            return ""
        stored = self.store.head(key + SIDECAR_SUFFIX)
        if not same(info, stored):
            return ""
        head = self.catalog.head(self._key(key))
        if head is None or head.get("writing") or head.get("keptOut"):
            return ""
        if head.get("fingerprint") != self.fingerprint(info, stored):
            return ""
        return current_id(head)

    def _key(self, object_key: str) -> DocumentKey:
        return DocumentKey(self.scope, object_key.removeprefix(self.scope.prefix))

    def _put_sidecar(self, key: str, path: Path) -> None:
        sidecar = sidecar_of(path)
        if sidecar:
            self.store.put(key + SIDECAR_SUFFIX, sidecar.read_bytes())
        elif self.store.head(key + SIDECAR_SUFFIX):
            self.store.delete(key + SIDECAR_SUFFIX)

    # -- removing

    def delete(self, document_id: str) -> list[KnowledgeDocument]:
        """Removes the current documents with this id from the corpus; their versions stay readable.

        Raises `DocumentNotFoundError`.
        """
        found = [
            document
            for document in self.catalog.find(document_id)
            if document.key.scope == self.scope and document.state is DocumentState.CURRENT
        ]
        if not found:
            raise DocumentNotFoundError(f"no current document {document_id}")
        for document in found:
            self.delete_object(document.key.scope.prefix + document.key.source)
        return found

    def delete_object(self, key: str) -> None:
        self.store.delete(key)
        if self.store.head(key + SIDECAR_SUFFIX):
            self.store.delete(key + SIDECAR_SUFFIX)


_UPDATES = ("lastUpdated", "last_updated", "updated")


def _kept_facts(store: ObjectStore, info: ObjectInfo) -> dict[str, Any]:
    """The facts of an object that also hold for its next content."""
    left_out = (*_UPDATES, *(() if store.attests(info) else ("category",)))
    return {name: value for name, value in stated_facts(info).items() if name not in left_out}


def stored_bytes(document: Content) -> bytes:
    """The document's bytes as stored. Raises `InvalidInputError` if it can't be encoded."""
    if isinstance(document, bytes):
        return document
    try:
        text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False, sort_keys=True)
        return text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise InvalidInputError(f"the document is not valid Unicode at character {exc.start}; correct it") from exc
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInputError(f"the document can't be written as JSON: {exc}") from exc


def _digest(data: bytes) -> str:
    try:
        return stable_hash(data.decode("utf-8"))
    except UnicodeDecodeError:
        return stable_hash(hashlib.sha256(data).hexdigest())


def _suffix(facts: Mapping[str, Any]) -> str:
    """The extension of the file's name, if it is one of a known format."""
    suffix = PurePosixPath(str(facts.get("name") or "")).suffix
    return suffix if is_known(suffix) else ""


def _same(info: ObjectInfo, digest: str, stored: ObjectInfo | None, path: Path) -> bool:
    """True if a file and its sidecar are stored already: etags are digests."""
    if info.etag != digest:
        return False
    sidecar = sidecar_of(path)
    return (stored.etag if stored else "") == (file_digest(sidecar) if sidecar else "")


def metadata_text(facts: Mapping[str, Any]) -> str:
    """Facts of a document as JSON for its object's metadata: deterministic."""
    return json.dumps(facts, ensure_ascii=False, sort_keys=True)
