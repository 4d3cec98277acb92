"""Earlier versions of objects of an S3 bucket that keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from opx.adapters.aws.vendor_errors import error_code, translated_errors
from opx.domain.times import iso_time
from opx.errors import ObjectNotFoundError
from opx.ports.object_history import PastObject

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_GONE = ("NoSuchKey", "NoSuchVersion", "404", "MethodNotAllowed")
"""The last one is what S3 answers for a mark of a removal."""


class S3PastObjects:
    """`PastObjects` of a bucket. One that keeps no versions has the current content of each object alone."""

    def __init__(self, bucket: str, client: S3Client) -> None:
        self._bucket = bucket
        self._client = client

    def of(self, key: str) -> Iterator[PastObject]:
        """S3 lists the versions of a key from the newest to the oldest, and marks of removals apart from them
        (Amazon S3 API Reference, "ListObjectVersions")."""
        found = [*self._listed(key)]
        yield from sorted(found, key=lambda one: one.stored_at, reverse=True)

    def bring_back(self, key: str, name: str) -> None:
        source: Any = {"Bucket": self._bucket, "Key": key, "VersionId": name}
        with translated_errors(f"bring back s3://{self._bucket}/{key}"):
            try:
                self._client.copy_object(Bucket=self._bucket, Key=key, CopySource=source, TaggingDirective="REPLACE")
            except ClientError as exc:
                if error_code(exc) in _GONE:
                    raise ObjectNotFoundError(f"no version {name} of s3://{self._bucket}/{key}") from exc
                raise

    def _listed(self, key: str) -> Iterator[PastObject]:
        for page in self._pages(key):
            versions, removals = page.get("Versions", []), page.get("DeleteMarkers", [])
            for version in versions:
                if version["Key"] == key:
                    yield PastObject(version["VersionId"], _time(version))
            for removal in removals:
                if removal["Key"] == key:
                    yield PastObject(removal["VersionId"], _time(removal), removed=True)
            names = [one["Key"] for one in (*versions, *removals)]
            if names and max(names) > key:  # keys come in order: what follows is of other objects
                return

    def _pages(self, key: str) -> Iterator[Mapping[str, Any]]:
        pages = iter(self._client.get_paginator("list_object_versions").paginate(Bucket=self._bucket, Prefix=key))
        while True:
            with translated_errors(f"list versions of s3://{self._bucket}/{key}"):
                page: Mapping[str, Any] | None = next(pages, None)
            if page is None:
                return
            yield page


def _time(version: Mapping[str, Any]) -> str:
    return iso_time(version["LastModified"].timestamp())
