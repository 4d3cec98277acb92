"""A bucket in memory: an object store, and the part of S3's API by which batch inference reads and writes.

For runs of many documents: a request takes microseconds, where moto's S3 takes milliseconds.
"""

from __future__ import annotations

import hashlib
import io
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, BinaryIO

from opx.adapters.limits import check_conditional_put, check_etag, check_metadata, check_object_key
from opx.errors import ForbiddenAddressError, ObjectNotFoundError
from opx.ports import ObjectInfo, ObjectStore

_BLOCK = 64 * 1024


class MemoryObjects:
    """An `ObjectStore`."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket
        self._objects: dict[str, tuple[ObjectInfo, bytes]] = {}
        self._ordered: Sequence[str] = ()
        self._is_ordered = True
        self._lock = threading.RLock()

    def put(self, key: str, data: bytes | BinaryIO, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        check_object_key(key)
        check_metadata(metadata or {})
        content = data if isinstance(data, bytes) else b"".join(iter(lambda: data.read(_BLOCK), b""))
        etag = hashlib.md5(content, usedforsecurity=False).hexdigest()
        info = ObjectInfo(key, len(content), etag, self.location(key), dict(metadata or {}))
        with self._lock:
            self._is_ordered = self._is_ordered and key in self._objects
            self._objects[key] = info, content
        return info

    def put_if(self, key: str, data: bytes, *, etag: str, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        check_object_key(key)
        check_conditional_put(key, data)
        with self._lock:
            known = self.head(key)
            check_etag(key, etag, known.etag if known else "")
            return self.put(key, data, metadata=metadata)

    def open(self, key: str) -> BinaryIO:
        found = self._objects.get(key)
        if found is None:
            raise ObjectNotFoundError(f"no object {self.location(key)}")
        return io.BytesIO(found[1])

    def head(self, key: str) -> ObjectInfo | None:
        found = self._objects.get(key)
        return found and found[0]

    def attests(self, info: ObjectInfo) -> bool:
        return True

    def delete(self, key: str, *, etag: str = "") -> bool:
        with self._lock:
            known = self.head(key)
            if known and etag and known.etag != etag:
                return False
            if known:
                del self._objects[key]
                self._is_ordered = False
        return True

    def delete_many(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.delete(key)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        ordered = self._in_order()
        for position in range(bisect_left(ordered, max(prefix, after)), len(ordered)):
            key = ordered[position]
            if not key.startswith(prefix):
                return
            info = self.head(key)
            if info and key > after:
                yield info

    def _in_order(self) -> Sequence[str]:
        with self._lock:
            if not self._is_ordered:
                self._ordered, self._is_ordered = sorted(self._objects), True
            return self._ordered

    def location(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"


class MemoryStorage:
    """`Storage` in memory, in place of a bucket; without earlier contents and signed uploads."""

    read_threads = 1
    integrity = past = signer = history = replaceable = None

    def __init__(self, objects: MemoryObjects) -> None:
        self.objects = objects

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def grouped(self) -> AbstractContextManager[None]:
        return nullcontext()

    def location(self, key: str) -> str:
        return self.objects.location(key)

    def check(self, key: str, metadata: Mapping[str, str]) -> None:
        check_object_key(key)
        check_metadata(metadata)

    def other_bucket(self, name: str) -> ObjectStore:
        raise ForbiddenAddressError(f"there is no bucket {name}")


class MemoryS3:
    """The requests of a client of S3 that batch inference makes, for one bucket."""

    def __init__(self, objects: MemoryObjects) -> None:
        self._objects = objects

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> dict[str, Any]:  # noqa: N803
        return {"ETag": f'"{self._objects.put(Key, Body).etag}"'}

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        return {"Body": self._objects.open(Key)}

    def copy_object(self, *, Bucket: str, Key: str, CopySource: Mapping[str, str]) -> dict[str, Any]:  # noqa: N803
        with self._objects.open(CopySource["Key"]) as stream:
            return self.put_object(Bucket=Bucket, Key=Key, Body=stream.read())

    def list_objects_v2(self, *, Bucket: str, Prefix: str = "", **_: Any) -> dict[str, Any]:  # noqa: N803
        return {"Contents": [{"Key": info.key, "Size": info.size} for info in self._objects.list(Prefix)]}

    def get_paginator(self, _operation: str) -> Any:
        return self

    def paginate(self, **request: Any) -> list[dict[str, Any]]:
        return [self.list_objects_v2(**request)]
