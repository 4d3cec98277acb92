"""Versions, delete markers and unfinished uploads of an S3 bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from opx.adapters.aws.vendor_errors import translated_errors
from opx.errors import InvalidInputError, StoreUnavailableError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_AT_ONCE = 1000
"""Objects a call of DeleteObjects takes (Amazon S3 API Reference, "DeleteObjects")."""


class S3ObjectHistory:
    """`ObjectHistory` of a bucket, which may keep versions or not."""

    def __init__(self, bucket: str, client: S3Client) -> None:
        self._bucket = bucket
        self._client = client

    def held(self, prefix: str) -> Iterator[str]:
        _check(prefix)
        yield from (version["Key"] for version in self._versions(prefix))
        yield from (upload["Key"] for upload in self._uploads(prefix))

    def erase(self, prefix: str) -> int:
        _check(prefix)
        count = 0
        for upload in list(self._uploads(prefix)):
            self._abort(upload)
            count += 1
        versions = self._versions(prefix)
        while batch := list(islice(versions, _AT_ONCE)):
            self._delete(batch)
            count += len(batch)
        return count

    def _versions(self, prefix: str) -> Iterator[dict[str, str]]:
        """Also of a bucket without versions, in which each object has the version `null`."""
        for page in self._pages("list_object_versions", prefix):
            for version in (*page.get("Versions", []), *page.get("DeleteMarkers", [])):
                yield {"Key": version["Key"], "VersionId": version["VersionId"]}

    def _uploads(self, prefix: str) -> Iterator[dict[str, str]]:
        for page in self._pages("list_multipart_uploads", prefix):
            for upload in page.get("Uploads", []):
                yield {"Key": upload["Key"], "UploadId": upload["UploadId"]}

    def _pages(self, operation: Any, prefix: str) -> Iterator[Mapping[str, Any]]:
        pages = iter(self._client.get_paginator(operation).paginate(Bucket=self._bucket, Prefix=prefix))
        while True:
            with translated_errors(f"list what {self._uri(prefix)} holds"):
                page: Mapping[str, Any] | None = next(pages, None)
            if page is None:
                return
            yield page

    def _abort(self, upload: Mapping[str, str]) -> None:
        with translated_errors(f"abort an upload to {self._uri(upload['Key'])}"):
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=upload["Key"], UploadId=upload["UploadId"])

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

    def _uri(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"


def _check(prefix: str) -> None:
    if not prefix.endswith("/") or prefix == "/":
        raise InvalidInputError(f"{prefix!r} is not a folder: it ends with no '/'")
