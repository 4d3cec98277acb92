"""Lists, restores and erases versions of objects in an S3 bucket."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Any

from opx.domain.ids import batched, iso_time
from opx.errors import InvalidInputError, ObjectNotFoundError, StoreUnavailableError
from opx.ports import ObjectInfo
from opx.ports.objects import PastObject
from opx_aws.object_store import MISSING, ORIGINAL, InBucket, as_original, from_headers
from opx_aws.vendor_errors import passed_over, raised_as, translated_errors, translated_pages

_AT_ONCE = 1000
"""Objects per call of DeleteObjects (Amazon S3 API Reference, "DeleteObjects")."""


class S3ObjectHistory(InBucket):
    """`ObjectHistory` of a bucket, with or without versioning."""

    def held(self, prefix: str) -> Iterator[str]:
        _check(prefix)
        yield from (version["Key"] for version in self._versions(prefix))
        yield from (upload["Key"] for upload in self._uploads(prefix))

    def erase(self, prefix: str) -> int:
        _check(prefix)
        count = 0
        for upload in list(self._uploads(prefix)):
            with translated_errors(f"abort an upload to {self._uri(upload['Key'])}"):
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=upload["Key"], UploadId=upload["UploadId"])
            count += 1
        for batch in batched(self._versions(prefix), _AT_ONCE):
            self._delete(batch)
            count += len(batch)
        return count

    def _versions(self, prefix: str) -> Iterator[dict[str, str]]:
        """Lists versions, also of a bucket without versioning, in which each object has the version `null`."""
        for page in self._pages("list_object_versions", prefix):
            for version in (*page.get("Versions", []), *page.get("DeleteMarkers", [])):
                yield {"Key": version["Key"], "VersionId": version["VersionId"]}

    def _uploads(self, prefix: str) -> Iterator[dict[str, str]]:
        for page in self._pages("list_multipart_uploads", prefix):
            for upload in page.get("Uploads", []):
                yield {"Key": upload["Key"], "UploadId": upload["UploadId"]}

    def _pages(self, operation: Any, prefix: str) -> Iterator[Mapping[str, Any]]:
        pages = self._client.get_paginator(operation).paginate(Bucket=self._bucket, Prefix=prefix)
        return translated_pages(pages, f"list what {self._uri(prefix)} holds")

    def _delete(self, batch: list[dict[str, str]]) -> None:
        wanted: Any = {"Objects": batch, "Quiet": True}
        with translated_errors(f"erase objects of bucket {self._bucket}"):
            answer = self._client.delete_objects(Bucket=self._bucket, Delete=wanted)
        errors = answer.get("Errors", [])
        if errors:
            first = errors[0]
            raise StoreUnavailableError(
                f"can't erase {len(errors)} of {len(batch)} objects of bucket {self._bucket}: {first.get('Code', '')} for "
                f"{first.get('Key', '')}"
            )


def _check(prefix: str) -> None:
    if not prefix.endswith("/") or prefix == "/":
        raise InvalidInputError(f"{prefix!r} is not a folder: it ends with no '/'")


GONE = ("NoSuchKey", "NoSuchVersion", "404", "MethodNotAllowed")
"""S3 returns the last one for a delete marker."""


class S3PastObjects(InBucket):
    """`PastObjects` of a bucket. Without versioning it has only the current content of each object."""

    def of(self, key: str) -> Iterator[PastObject]:
        """S3 lists the versions of a key from the newest to the oldest, and delete markers apart from them (Amazon S3
        API Reference, "ListObjectVersions"). One with other bytes in place of an original is of the original's time."""
        versions, removals = list[Mapping[str, Any]](), list[Mapping[str, Any]]()
        for listed, markers in self._listed(key):
            versions += listed
            removals += markers
        stored = (
            PastObject(one["VersionId"], self._stored_at(one)) for one in sorted(versions, key=_time, reverse=True)
        )
        removed = [PastObject(one["VersionId"], _time(one), removed=True) for one in removals]
        removed.sort(key=lambda one: one.stored_at, reverse=True)
        yield from heapq.merge(stored, removed, key=lambda one: one.stored_at, reverse=True)

    def bring_back(self, key: str, name: str) -> None:
        source: Any = {"Bucket": self._bucket, "Key": key, "VersionId": name}
        missing = ObjectNotFoundError(f"no version {name} of {self._uri(key)}")
        with translated_errors(f"bring back {self._uri(key)}"), raised_as(missing, *GONE):
            self._client.copy_object(Bucket=self._bucket, Key=key, CopySource=source, TaggingDirective="REPLACE")

    def _stored_at(self, version: Mapping[str, Any]) -> str:
        key, name = version["Key"], version["VersionId"]
        facts: Any = None
        unreadable = (*GONE, *MISSING, "400")  # the last one for a key of the uploader's own
        with translated_errors(f"read a version of {self._uri(key)}"), passed_over(*unreadable):
            facts = self._client.head_object(Bucket=self._bucket, Key=key, VersionId=name)
        if facts is None:
            return _time(version)
        info = ObjectInfo(key, 0, "", "", from_headers(facts["Metadata"]), version=facts.get("VersionId", ""))
        is_original = as_original(self._client, self._bucket, info) is info
        return _time(version) if is_original else info.metadata[ORIGINAL].split(" ")[2]


def _time(version: Mapping[str, Any]) -> str:
    return iso_time(version["LastModified"].timestamp())
