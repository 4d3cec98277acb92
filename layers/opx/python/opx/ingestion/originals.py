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
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, BinaryIO

from opx.domain.documents import Remark, RemarkKind
from opx.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    OpxError,
    SecretNotFoundError,
    StoreUnavailableError,
    UnparsableDocumentError,
)
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.ports import ObjectStore
from opx.ports.objects import ReplaceableObjects, WrappedObjectStore
from opx.ports.sources import Secrets, WritableSecrets

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

log = logging.getLogger(__name__)

MAGIC = b"OPX-ENCRYPTED-1\n"
KEY_BYTES = 32
_KEY_NAME, _NONCE = 8, 12
_ATTEMPTS = 5
_BUFFER = 256 * 1024


class OriginalState(StrEnum):
    """State of the original of a document: as it was uploaded, encrypted, or gone."""

    PLAIN = "plain"
    ENCRYPTED = "encrypted"
    GONE = "gone"


class OriginalsKey:
    """The key of an installation's originals: base64 of 32 bytes in a secret, made on first use where secrets can be set. 43
    random letters and digits are base64 of 32 bytes, without padding."""

    def __init__(self, found: Callable[[], Secrets], name: str) -> None:
        self._secrets = found
        self._name = name
        self._key = b""

    def __call__(self) -> bytes:
        """Raises `SecretNotFoundError`, also without a name, and `InvalidInputError` for a malformed key."""
        if not self._name:
            raise SecretNotFoundError("this process reads no originals: only ingestion has their key")
        self._key = self._key or self._read()
        return self._key

    def _read(self) -> bytes:
        try:
            text = self._secrets().get(self._name)
        except SecretNotFoundError:
            text = self._made()
        try:
            key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
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


class DecryptingObjectStore(WrappedObjectStore):
    """An `ObjectStore` that returns originals in place of encrypted objects; for the pipeline alone."""

    def __init__(self, store: ObjectStore, key: Callable[[], bytes]) -> None:
        super().__init__(store)
        self._key = key

    def open(self, key: str) -> BinaryIO:
        """Raises `UnparsableDocumentError` too, and `SecretNotFoundError` without the key."""
        stream = self._store.open(key)
        beginning = stream.read(len(MAGIC))
        if beginning == MAGIC:
            with stream:
                return io.BytesIO(decrypted(self._key(), key, beginning + stream.read()))
        if stream.seekable():
            stream.seek(0)
            return stream
        return io.BufferedReader(_Rejoined(beginning, stream), _BUFFER)


class _Rejoined(io.RawIOBase):
    """A stream after its beginning, which was read from it."""

    def __init__(self, beginning: bytes, rest: BinaryIO) -> None:
        self._beginning = beginning
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        data = self._beginning[: len(view)] or self._rest.read(len(view))
        self._beginning = self._beginning[len(view) :]
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._rest.close()
        super().close()


class OriginalsProtection:
    """Encrypts originals, and erases their earlier versions. `store` reads them, `objects` replaces bytes in it."""

    def __init__(self, store: ObjectStore, objects: ReplaceableObjects, key: Callable[[], bytes]) -> None:
        self._store = store
        self._objects = objects
        self._key = key

    def after_ingestion(self, object_key: str, remarks: Callable[[], Iterable[Remark]]) -> None:
        """Encrypts the original of a document that was just ingested, if it has masked secrets. A failure is logged: the
        document is ingested, and `opx secret found` lists its original as plain."""
        try:
            if has_masked_secrets(remarks()):
                self.protect(object_key)
        except OpxError as exc:
            log.error("the original of %s still has secrets: %s", object_key, exc)  # noqa: TRY400 - the message says it all

    def protect(self, object_key: str) -> bool:
        """Encrypts an object and its sidecar, and erases earlier versions that are plain; False if there was nothing to do.
        Raises `SecretNotFoundError`, and `StoreUnavailableError` if a version stays."""
        names = _both(object_key)
        changed = [self._replace(name) for name in names]
        found = {name: self._plain_versions(name) for name in names}
        left = [self._objects.erase_earlier(name, versions) for name, versions in found.items()]
        reasons = Counter(reason for one in left for reason in one.values())
        if reasons:
            raise StoreUnavailableError(
                f"{reasons.total()} of the earlier versions of {object_key} can't be erased ({', '.join(sorted(reasons))}): "
                "a lock, a hold or a policy keeps them, with the secrets"
            )
        return any((*changed, *found.values()))

    def _replace(self, object_key: str) -> bool:
        """Replaces the bytes that were read, and no others: a document that is uploaded meanwhile stays."""
        for _ in range(_ATTEMPTS):
            info = self._store.head(object_key)
            if info is None or state_of(self._store, object_key) is not OriginalState.PLAIN:
                return False
            try:
                with self._store.open(object_key) as stream:
                    data = stream.read()
            except ObjectNotFoundError:
                return False
            if self._objects.replace(object_key, encrypted(self._key(), object_key, data), read=data, etag=info.etag):
                return True
        return False

    def state(self, object_key: str) -> OriginalState:
        """State of an object with its sidecar and their earlier versions: plain if any of these is."""
        own = state_of(self._store, object_key)
        if own is not OriginalState.ENCRYPTED:
            return own
        beside = state_of(self._store, object_key + SIDECAR_SUFFIX)
        if beside is OriginalState.PLAIN or any(self._plain_versions(name) for name in _both(object_key)):
            return OriginalState.PLAIN
        return own

    def _plain_versions(self, name: str) -> Sequence[str]:
        """Plain versions before one that is encrypted: those before a plain one are erased once it is encrypted."""
        if state_of(self._store, name) is not OriginalState.ENCRYPTED:
            return ()
        return self._objects.earlier(name, without=MAGIC)


def _both(object_key: str) -> tuple[str, str]:
    return object_key, object_key + SIDECAR_SUFFIX


def state_of(store: ObjectStore, object_key: str) -> OriginalState:
    """State of an object in a store that doesn't decrypt."""
    try:
        with store.open(object_key) as stream:
            is_encrypted = stream.read(len(MAGIC)) == MAGIC
    except ObjectNotFoundError:
        return OriginalState.GONE
    return OriginalState.ENCRYPTED if is_encrypted else OriginalState.PLAIN


def has_masked_secrets(remarks: Iterable[Remark]) -> bool:
    return any(remark.kind is RemarkKind.MASKED_SECRET for remark in remarks)
