"""An object store that takes no documents of clients that were removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

from opx.domain.scopes import scope_of_object
from opx.ingestion.events import DOCUMENTS_FOLDER
from opx.ports import ObjectInfo, ObjectStore, SignedPut, UploadSigner

Check = Callable[[str], None]
"""Raises `ClientRemovedError` for the id of a client that was removed."""


class GuardedObjectStore:
    """An `ObjectStore` whose `put` also raises `ClientRemovedError` for a document of such a client. What is made of
    documents is let through: whoever is at work on one when its client is removed is waited for."""

    def __init__(self, store: ObjectStore, check: Check) -> None:
        self._store = store
        self._check = check

    def put(self, key: str, data: bytes | BinaryIO, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        check_owner(key, self._check)
        return self._store.put(key, data, metadata=metadata)

    def open(self, key: str) -> BinaryIO:
        return self._store.open(key)

    def head(self, key: str) -> ObjectInfo | None:
        return self._store.head(key)

    def delete(self, key: str, *, etag: str = "") -> bool:
        return self._store.delete(key, etag=etag)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self._store.list(prefix)


class GuardedUploadSigner:
    """An `UploadSigner` that signs nothing for such a client."""

    def __init__(self, signer: UploadSigner, check: Check) -> None:
        self._signer = signer
        self._check = check

    def sign_put(
        self, key: str, *, size: int, sha256: str, metadata: Mapping[str, str] | None = None, seconds: int = 900
    ) -> SignedPut:
        check_owner(key, self._check)
        return self._signer.sign_put(key, size=size, sha256=sha256, metadata=metadata, seconds=seconds)

    def sha256_of(self, key: str) -> str:
        return self._signer.sha256_of(key)


def check_owner(object_key: str, check: Check) -> None:
    """Raise what `check` does for the owner of a document's object, and `InvalidScopeError` for a malformed one."""
    scope, source = scope_of_object(object_key)
    if scope.client_id and source.startswith(DOCUMENTS_FOLDER):
        check(scope.client_id)
