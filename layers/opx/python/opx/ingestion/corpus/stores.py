"""Wrappers of the corpus store: one refuses documents of removed clients, one enqueues an event for each change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, BinaryIO

from opx.domain.scopes import scope_of_object
from opx.ingestion.events import DOCUMENTS_FOLDER, SEQUENCER_WIDTH, SIDECAR_SUFFIX, ObjectEvent
from opx.ports import ObjectInfo, ObjectStore, PartedUploads, Queue, SignedUpload, UploadSigner
from opx.ports.objects import WrappedObjectStore

Check = Callable[[str], None]
"""Raises `ClientRemovedError` for the id of a client that was removed."""


class GuardedObjectStore(WrappedObjectStore):
    """An `ObjectStore` whose `put` and `put_if` also raise `ClientRemovedError` for a document of a removed client. Derived
    files pass: a removal waits for workers that are processing documents of the client."""

    def __init__(self, store: ObjectStore, check: Check) -> None:
        super().__init__(store)
        self._check = check

    def put(self, key: str, data: bytes | BinaryIO, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        check_owner(key, self._check)
        return self._store.put(key, data, metadata=metadata)

    def put_if(self, key: str, data: bytes, *, etag: str, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        check_owner(key, self._check)
        return self._store.put_if(key, data, etag=etag, metadata=metadata)


class GuardedUploadSigner:
    """An `UploadSigner` that signs nothing for a removed client."""

    def __init__(self, signer: UploadSigner, check: Check) -> None:
        self._signer = signer
        self._check = check

    def sign_put(
        self, key: str, *, size: int, sha256: str, metadata: Mapping[str, str] | None = None, seconds: int = 900
    ) -> SignedUpload:
        check_owner(key, self._check)
        return self._signer.sign_put(key, size=size, sha256=sha256, metadata=metadata, seconds=seconds)

    def sha256_of(self, key: str) -> str:
        return self._signer.sha256_of(key)


class GuardedPartedUploads(GuardedUploadSigner):
    """The same for a signer that also takes uploads in parts."""

    def __init__(self, signer: UploadSigner, parts: PartedUploads, check: Check) -> None:
        super().__init__(signer, check)
        self._parts = parts

    def begin(self, key: str, *, metadata: Mapping[str, str] | None = None) -> str:
        check_owner(key, self._check)
        return self._parts.begin(key, metadata=metadata)

    def sign_part(
        self, key: str, upload_id: str, number: int, *, size: int, sha256: str, seconds: int = 900
    ) -> SignedUpload:
        check_owner(key, self._check)
        return self._parts.sign_part(key, upload_id, number, size=size, sha256=sha256, seconds=seconds)

    def arrived(self, key: str, upload_id: str) -> Mapping[int, int]:
        return self._parts.arrived(key, upload_id)

    def complete(self, key: str, upload_id: str) -> None:
        check_owner(key, self._check)
        self._parts.complete(key, upload_id)


def guarded_signer(signer: UploadSigner, check: Check) -> GuardedUploadSigner:
    """The signer, which signs nothing for a removed client."""
    if isinstance(signer, PartedUploads):
        return GuardedPartedUploads(signer, signer, check)
    return GuardedUploadSigner(signer, check)


def check_owner(object_key: str, check: Check) -> None:
    """Raises the error of `check` for the owner of a document's object, and `InvalidScopeError` for a malformed one."""
    scope, source = scope_of_object(object_key)
    if scope.client_id and source.startswith(DOCUMENTS_FOLDER):
        check(scope.client_id)


# -- events of changes


class AnnouncingObjectStore(WrappedObjectStore):
    """An `ObjectStore` that enqueues an event for each change of a document. `sequence` returns increasing numbers.

    A crash between the change and its event leaves an object that the catalog doesn't know: putting it again (as
    `opx ingest` does) enqueues the event again.
    """

    def __init__(
        self,
        store: ObjectStore,
        queue: Queue,
        sequence: Callable[[], int],
        *,
        unit_of_work: Callable[[], AbstractContextManager[Any]] = nullcontext,
        grouped: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        super().__init__(store)
        self._queue = queue
        self._sequence = sequence
        self._unit_of_work = unit_of_work
        self._grouped = grouped
        self._held = threading.local()

    @contextmanager
    def grouped(self) -> Iterator[None]:
        """Objects that this thread puts in the block are stored when it ends, and then their events are enqueued; neither if
        it raises."""
        put: list[str] = []
        self._held.put = put
        try:
            with self._grouped():
                yield
        finally:
            self._held.put = None
        with self._unit_of_work():
            for key in put:
                self._enqueue(key, deleted=False)

    def put(self, key: str, data: bytes | BinaryIO, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        _is_in_documents(key)  # refuses a malformed owner before anything is stored
        info = self._store.put(key, data, metadata=metadata)
        self._enqueue(key, deleted=False)
        return info

    def put_if(self, key: str, data: bytes, *, etag: str, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        _is_in_documents(key)
        info = self._store.put_if(key, data, etag=etag, metadata=metadata)
        self._enqueue(key, deleted=False)
        return info

    def delete(self, key: str, *, etag: str = "") -> bool:
        gone = self._store.delete(key, etag=etag)
        if gone:
            self._enqueue(key, deleted=True)
        return gone

    def delete_many(self, keys: Iterable[str]) -> None:
        deleted = list(keys)
        self._store.delete_many(deleted)
        with self._unit_of_work():
            for key in deleted:
                self._enqueue(key, deleted=True)

    def announce_all(self) -> Sequence[str]:
        """Enqueues an event for every document as if it had just been put; returns their keys."""
        keys = [info.key for info in self._store.list() if _is_document(info.key)]
        with self._unit_of_work():
            for key in keys:
                self._enqueue(key, deleted=False)
        return keys

    def _enqueue(self, key: str, *, deleted: bool) -> None:
        held: list[str] | None = getattr(self._held, "put", None)
        if held is not None and not deleted:
            held.append(key)
        elif _is_in_documents(key):
            with self._unit_of_work():
                sequencer = f"{self._sequence():0{SEQUENCER_WIDTH}X}"
                self._queue.send(ObjectEvent(key, deleted, sequencer).to_json())


def _is_in_documents(key: str) -> bool:
    return scope_of_object(key)[1].startswith(DOCUMENTS_FOLDER)


def _is_document(key: str) -> bool:
    return _is_in_documents(key) and not key.endswith(SIDECAR_SUFFIX)
