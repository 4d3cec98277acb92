"""Ports of the corpus store: objects, presigned uploads, and earlier contents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol, runtime_checkable

from msgspec import Struct

from opx.errors import ObjectNotFoundError


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """`etag` changes exactly when the content does; `location` is its address, as `Storage.location`; `metadata` as it was
    put. `modified` is when it was put (ISO 8601), in listings of stores that report it; `version` the store's own version of
    the object, in heads of stores that keep versions."""

    key: str
    size: int
    etag: str
    location: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    modified: str = field(default="", compare=False)
    version: str = field(default="", compare=False)


class ObjectStore(Protocol):
    """Bytes by key. Keys are `/`-separated, non-empty, without `..` segments, at most 1,024 UTF-8 bytes."""

    def put(self, key: str, data: bytes | BinaryIO, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        """Store `data` whole or not at all, replacing what was there. A stream is read from its position to its end,
        in bounded memory. Raises `InvalidInputError` for a malformed key."""

    def put_if(self, key: str, data: bytes, *, etag: str, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        """Store `data` as `put` does, on the condition that the object has this etag by now; "" for one that doesn't exist.
        Raises `ConditionFailedError`, and stores nothing; `InvalidInputError` also for data of 8 MB or more."""

    def open(self, key: str) -> BinaryIO:
        """A readable stream of the object. Raises `ObjectNotFoundError`. The caller closes it."""

    def head(self, key: str) -> ObjectInfo | None:
        """Metadata of the object, or None if it doesn't exist."""

    def attests(self, info: ObjectInfo) -> bool:
        """True if the installation itself put this object with these metadata; false if anyone with a right to put objects
        into the store may have."""

    def delete(self, key: str, *, etag: str = "") -> bool:
        """Remove the object; with an etag only while it has that one. False if it has another by now, and stays. Removing
        a missing object does nothing."""

    def delete_many(self, keys: Iterable[str]) -> None:
        """Remove these objects, in few requests where the store can; those that are missing are passed over. After an error
        some may be left: repeat it."""

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """All objects whose key starts with `prefix`, in the order of their keys' UTF-8 bytes; those behind the key `after`,
        which needn't exist. `metadata` may be empty."""


class WrappedObjectStore:
    """An `ObjectStore` that passes everything on to another one: a wrapper overrides what it changes."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def put(self, key: str, data: bytes | BinaryIO, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        return self._store.put(key, data, metadata=metadata)

    def put_if(self, key: str, data: bytes, *, etag: str, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        return self._store.put_if(key, data, etag=etag, metadata=metadata)

    def open(self, key: str) -> BinaryIO:
        return self._store.open(key)

    def head(self, key: str) -> ObjectInfo | None:
        return self._store.head(key)

    def attests(self, info: ObjectInfo) -> bool:
        return self._store.attests(info)

    def delete(self, key: str, *, etag: str = "") -> bool:
        return self._store.delete(key, etag=etag)

    def delete_many(self, keys: Iterable[str]) -> None:
        self._store.delete_many(keys)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return self._store.list(prefix, after=after)


def read_object(store: ObjectStore, key: str) -> bytes | None:
    """The content of an object; None if it is missing. Raises `StoreUnavailableError`."""
    try:
        with store.open(key) as stream:
            return stream.read()
    except ObjectNotFoundError:
        return None


class ReplaceableObjects(Protocol):
    """A store that can hold other bytes for the same content, such as encrypted ones. Raises `StoreUnavailableError`."""

    def replace(self, key: str, data: bytes, *, read: bytes, etag: str) -> bool:
        """Store `data` in place of the bytes that were `read` of an object with this etag; it keeps etag and metadata. False
        if the object has others by now, or is gone. An event that follows finds the object unchanged. Raises
        `InvalidInputError` for an object that has no room for a note of its etag."""

    def earlier(self, key: str, *, without: bytes) -> Sequence[str]:
        """Versions before the present one whose bytes don't begin with `without`; none in a store that keeps none."""

    def erase_earlier(self, key: str, versions: Sequence[str]) -> Mapping[str, str]:
        """Permanently remove these versions, and return those that stay with the store's reason, such as a lock."""


class SignedUpload(Struct, frozen=True):
    """A presigned upload (HTTP PUT): the URL and the exact headers."""

    url: str
    headers: Mapping[str, str]


class UploadSigner(Protocol):
    """Lets a caller without permissions of its own upload one object, whose bytes are fixed in advance."""

    def sign_put(
        self, key: str, *, size: int, sha256: str, metadata: Mapping[str, str] | None = None, seconds: int = 900
    ) -> SignedUpload:
        """A URL that accepts `size` bytes with this SHA-256 (in hex) and nothing else, valid for `seconds`. Raises
        `InvalidInputError` for a malformed key, and for metadata that `ObjectStore.put` refuses."""

    def sha256_of(self, key: str) -> str:
        """The SHA-256 (in hex) of an object uploaded with `sign_put`; "" if it was stored otherwise, or is missing."""


@runtime_checkable
class PartedUploads(Protocol):
    """Uploads of one object in parts, so that an interrupted one needs only the missing parts. Parts of an upload that isn't
    completed are removed after a week."""

    def begin(self, key: str, *, metadata: Mapping[str, str] | None = None) -> str:
        """Begins an upload, and returns its id. Raises `InvalidInputError` as `sign_put`."""

    def sign_part(
        self, key: str, upload_id: str, number: int, *, size: int, sha256: str, seconds: int = 900
    ) -> SignedUpload:
        """A URL that accepts this part, `size` bytes with this SHA-256 (in hex), and nothing else. A part that is sent again
        replaces the former one. Parts are numbered from 1; all but the last have at least 5 MiB."""

    def arrived(self, key: str, upload_id: str) -> Mapping[int, int]:
        """The sizes of the parts that are stored, by number. Raises `ObjectNotFoundError` for an upload that doesn't exist,
        or ended."""

    def complete(self, key: str, upload_id: str) -> None:
        """Stores the object of all parts in order. Raises `ObjectNotFoundError` as `arrived`."""


class Storage(Protocol):
    """The bucket or folder of the corpus: objects, history, earlier contents and signed uploads.

    `read_threads` is the useful number of parallel reads.
    """

    read_threads: int

    @property
    def objects(self) -> ObjectStore: ...

    def together(self) -> AbstractContextManager[None]:
        """New objects without metadata that this thread puts in the block may be durable only when it ends, so that they wait
        for the disk together. Leaving the block raises `StoreUnavailableError` if that fails."""

    def grouped(self) -> AbstractContextManager[None]:
        """Objects that this thread puts in the block, without a condition, may be stored only when it ends, so that they wait
        for the disk together, and then aren't if it raises. Leaving the block raises `StoreUnavailableError`; some may be
        stored then."""

    @property
    def history(self) -> ObjectHistory: ...

    @property
    def past(self) -> PastObjects | None:
        """Earlier contents of objects; None if the store keeps none."""

    @property
    def integrity(self) -> ObjectIntegrity | None:
        """Verifies stored bytes; None if the service does so itself."""

    @property
    def replaceable(self) -> ReplaceableObjects:
        """Replaces the bytes of objects."""

    @property
    def signer(self) -> UploadSigner | None:
        """Signs uploads that bypass this process; None if the store can't."""

    def location(self, key: str) -> str:
        """The address of an object, whether or not it exists: a URI, or in a folder its key, which says nothing of the
        machine."""

    def check(self, key: str, metadata: Mapping[str, str]) -> None:
        """Raises `InvalidInputError` for a key or metadata that `objects` wouldn't store."""

    def other_bucket(self, name: str) -> ObjectStore:
        """The objects of another bucket. Raises `SourceRefusedError` where there are no buckets, and
        `ForbiddenAddressError` for the corpus itself: a source that copied it would copy other clients' documents, and its
        own."""


# -- object history


class ObjectHistory(Protocol):
    """Everything stored below a prefix, whether or not `ObjectStore.list` shows it: earlier versions, delete markers,
    incomplete multipart uploads, files beside objects. Raises `StoreUnavailableError`."""

    def held(self, prefix: str) -> Iterator[str]:
        """The key of each thing that is stored below a prefix that ends with `/`; a key comes once for each of them."""

    def erase(self, prefix: str) -> int:
        """Permanently remove all of it, without events; returns the number removed. Idempotent."""


class ObjectIntegrity(Protocol):
    """Compares the bytes of objects with the digests that were recorded when they were put."""

    def is_intact(self, key: str) -> bool:
        """False if the bytes are not those that were put. True for a missing object. Raises `StoreUnavailableError` for a
        file that can't be read, and `DamagedStoreError` if the record can't."""


class PastObject(Struct, frozen=True):
    """Content of an object from a time on (ISO 8601): bytes and metadata under a version name, or none if `removed`."""

    name: str
    stored_at: str
    removed: bool = False


class PastObjects(Protocol):
    """Earlier contents of single objects. Raises `StoreUnavailableError`."""

    def of(self, key: str) -> Iterator[PastObject]:
        """Current and earlier contents of the object, the newest first; empty for one that never existed."""

    def bring_back(self, key: str, name: str) -> None:
        """Restore the object's content of this version name, with its metadata. Raises `ObjectNotFoundError` if it is
        gone."""
