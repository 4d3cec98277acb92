"""Encrypts the originals of documents with masked secrets, in place, so that only the pipeline can read them.

An encrypted object has the key, the etag and the metadata of the original, so that nothing else in the system sees a change:
the pipeline's fingerprint, reconciling, removals by etag and client removal work as before, and `opx ingest` of the same file
changes nothing. Its bytes are AES-256-GCM of the original, bound to the object's key: copied to another one, also to another
client's, they can't be read. The object is ciphertext to everything else, also in a backup or an archive.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import BinaryIO

from opx.domain.documents import Remark, RemarkKind
from opx.errors import InvalidInputError, OpxError, SecretNotFoundError, UnparsableDocumentError
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.ports import ObjectInfo, ObjectStore
from opx.ports.objects import ReplaceableObjects
from opx.ports.sources import Secrets, WritableSecrets

log = logging.getLogger(__name__)

MAGIC = b"OPX-ENCRYPTED-1\n"
KEY_BYTES = 32
_KEY_NAME, _NONCE = 8, 12
_ATTEMPTS = 5


class OriginalState(StrEnum):
    """State of the original of a document: as it was uploaded, encrypted, or gone."""

    PLAIN = "plain"
    ENCRYPTED = "encrypted"
    GONE = "gone"


class OriginalsKey:
    """The key of an installation's originals: base64 of 32 bytes in a secret, made on first use where secrets can be set."""

    def __init__(self, found: Callable[[], Secrets], name: str) -> None:
        self._secrets = found
        self._name = name
        self._key = b""

    def __call__(self) -> bytes:
        """Raises `SecretNotFoundError`, and `InvalidInputError` for a malformed key."""
        self._key = self._key or self._read()
        return self._key

    def _read(self) -> bytes:
        try:
            text = self._secrets().get(self._name)
        except SecretNotFoundError:
            text = self._made()
        try:
            key = base64.b64decode(text, validate=True)
        except binascii.Error:
            key = b""
        if len(key) != KEY_BYTES:
            raise InvalidInputError(
                f"secret {self._name} must be base64 of {KEY_BYTES} bytes: `openssl rand -base64 32`"
            )
        return key

    def _made(self) -> str:
        found = self._secrets()
        if not isinstance(found, WritableSecrets):
            return found.get(self._name)
        text = base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
        found.put(self._name, text)
        log.warning(
            "made the key of encrypted originals, secret %s: keep a copy, without it they can't be read", self._name
        )
        return text


def encrypted(key: bytes, object_key: str, data: bytes) -> bytes:
    """The bytes in an object of this key."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(_NONCE)
    return MAGIC + _name_of(key) + nonce + AESGCM(key).encrypt(nonce, data, object_key.encode())


def decrypted(key: bytes, object_key: str, data: bytes) -> bytes:
    """The bytes of the original. Raises `UnparsableDocumentError` if they were encrypted with another key, or for another
    object, or changed since."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    body = data[len(MAGIC) :]
    name, nonce, text = body[:_KEY_NAME], body[_KEY_NAME : _KEY_NAME + _NONCE], body[_KEY_NAME + _NONCE :]
    if name != _name_of(key):
        raise UnparsableDocumentError(
            f"{object_key} is encrypted with another key: set that of the installation it is from"
        )
    try:
        return AESGCM(key).decrypt(nonce, text, object_key.encode())
    except (InvalidTag, ValueError) as exc:
        raise UnparsableDocumentError(
            f"{object_key} can't be decrypted: it was changed, or copied from another object; upload the document again"
        ) from exc


def _name_of(key: bytes) -> bytes:
    return hashlib.sha256(b"opx originals" + key).hexdigest()[:_KEY_NAME].encode()


class DecryptingObjectStore:
    """An `ObjectStore` that returns originals in place of encrypted objects; for the pipeline alone."""

    def __init__(self, store: ObjectStore, key: Callable[[], bytes]) -> None:
        self._store = store
        self._key = key

    def put(self, key: str, data: bytes | BinaryIO, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        return self._store.put(key, data, metadata=metadata)

    def open(self, key: str) -> BinaryIO:
        """Raises `UnparsableDocumentError` too, and `SecretNotFoundError` without the key."""
        stream = self._store.open(key)
        if not (stream.seekable() and _is_encrypted(stream)):
            return stream
        with stream:
            return io.BytesIO(decrypted(self._key(), key, stream.read()))

    def head(self, key: str) -> ObjectInfo | None:
        return self._store.head(key)

    def attests(self, info: ObjectInfo) -> bool:
        return self._store.attests(info)

    def delete(self, key: str, *, etag: str = "") -> bool:
        return self._store.delete(key, etag=etag)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return self._store.list(prefix, after=after)


def _is_encrypted(stream: BinaryIO) -> bool:
    """True if the stream has ciphertext; it is at its beginning before and after."""
    beginning = stream.read(len(MAGIC))
    stream.seek(0)
    return beginning == MAGIC


class OriginalsProtection:
    """Encrypts originals. `store` reads them, `objects` is the store below it, which can replace bytes."""

    def __init__(self, store: ObjectStore, objects: ReplaceableObjects, key: Callable[[], bytes]) -> None:
        self._store = store
        self._objects = objects
        self._key = key

    def after_ingestion(self, object_key: str, remarks: Iterable[Remark]) -> None:
        """Encrypts the original of a document that was just ingested, if it has masked secrets. A failure is logged: the
        document is ingested, and `opx secret found` lists its original as plain."""
        if not has_masked_secrets(remarks):
            return
        try:
            self.protect(object_key)
        except OpxError as exc:
            log.error("the original of %s is not encrypted: %s", object_key, exc)  # noqa: TRY400 - the message says it all

    def protect(self, object_key: str) -> bool:
        """Encrypts an object and its sidecar; False if there was nothing to do. Raises `SecretNotFoundError`."""
        changed = [self._replace(key) for key in (object_key, object_key + SIDECAR_SUFFIX)]
        return any(changed)

    def _replace(self, object_key: str) -> bool:
        """Replaces the bytes that were read, and no others: a document that is uploaded meanwhile stays."""
        for _ in range(_ATTEMPTS):
            info = self._store.head(object_key)
            if info is None or self.state(object_key) is not OriginalState.PLAIN:
                return False
            with self._store.open(object_key) as stream:
                data = stream.read()
            if self._objects.replace(object_key, encrypted(self._key(), object_key, data), read=data, etag=info.etag):
                return True
        return False

    def state(self, object_key: str) -> OriginalState:
        return state_of(self._store, object_key)


def state_of(store: ObjectStore, object_key: str) -> OriginalState:
    """State of an original in a store that doesn't decrypt."""
    if store.head(object_key) is None:
        return OriginalState.GONE
    with store.open(object_key) as stream:
        is_encrypted = stream.read(len(MAGIC)) == MAGIC
    return OriginalState.ENCRYPTED if is_encrypted else OriginalState.PLAIN


def has_masked_secrets(remarks: Iterable[Remark]) -> bool:
    return any(remark.kind is RemarkKind.MASKED_SECRET for remark in remarks)
