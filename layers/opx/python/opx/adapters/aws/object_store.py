"""Objects in an S3 bucket."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from opx.adapters.aws.object_metadata import from_headers, to_headers
from opx.adapters.aws.streams import BodyStream, WholeReads
from opx.adapters.aws.vendor_errors import error_code, translated_errors
from opx.adapters.limits import MAX_OBJECT_KEY_BYTES, check_metadata, check_object_key
from opx.domain.times import iso_time
from opx.errors import ObjectNotFoundError
from opx.ports import ObjectInfo

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PART_BYTES = 8 * 1024 * 1024
"""Also the size from which an object is uploaded in parts, which shows in its etag: the same for bytes and streams."""

MISSING = ("NoSuchKey", "NotFound", "404", "KeyTooLongError")


_CHANGED = ("ConditionalRequestConflict", "PreconditionFailed")
"""Codes for an object that is not, or does not stay, what a condition says."""


class S3ObjectStore:
    """An `ObjectStore` in an S3 bucket.

    The etag is S3's: it depends on the content alone unless the bucket encrypts with KMS keys; then it also changes
    when the same content is put again. Reads accept keys that `put` refuses: other programs fill the bucket too.
    """

    def __init__(self, bucket: str, client: S3Client) -> None:
        self._bucket = bucket
        self._client = client
        # One part at a time: memory stays bounded, and no thread outlives the call.
        self._transfer = TransferConfig(
            multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, use_threads=False
        )

    def put(self, key: str, data: bytes | BinaryIO, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        check_object_key(key)
        check_metadata(metadata or {})
        headers = to_headers(metadata or {})
        if isinstance(data, bytes) and len(data) < PART_BYTES:
            with translated_errors(f"store {self._uri(key)}"):
                answer = self._client.put_object(Bucket=self._bucket, Key=key, Body=data, Metadata=headers)
            return ObjectInfo(key, len(data), _etag(answer["ETag"]), self._uri(key), dict(metadata or {}))
        return self._upload(key, io.BytesIO(data) if isinstance(data, bytes) else data, headers)

    def open(self, key: str) -> BinaryIO:
        missing = ObjectNotFoundError(f"no object {self._uri(key)}")
        if not _can_exist(key):
            raise missing
        with translated_errors(f"read {self._uri(key)}"):
            try:
                body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"]
            except ClientError as exc:
                if error_code(exc) in MISSING:
                    raise missing from exc
                raise
        return cast("BinaryIO", io.BufferedReader(BodyStream(body, self._uri(key)), buffer_size=256 * 1024))

    def head(self, key: str) -> ObjectInfo | None:
        if not _can_exist(key):
            return None
        with translated_errors(f"read {self._uri(key)}"):
            try:
                facts = self._client.head_object(Bucket=self._bucket, Key=key)
            except ClientError as exc:
                if error_code(exc) in MISSING:
                    return None
                raise
        etag, metadata = _etag(facts["ETag"]), from_headers(facts["Metadata"])
        return ObjectInfo(key, facts["ContentLength"], etag, self._uri(key), metadata)

    def delete(self, key: str, *, etag: str = "") -> bool:
        """Conditions are those of "How to perform conditional deletes" in the Amazon S3 user guide."""
        if not _can_exist(key):
            return True
        condition: Any = {"IfMatch": f'"{etag}"'} if etag else {}
        with translated_errors(f"delete {self._uri(key)}"):
            try:
                self._client.delete_object(Bucket=self._bucket, Key=key, **condition)
            except ClientError as exc:
                if etag and error_code(exc) in MISSING:
                    return True
                if etag and error_code(exc) in _CHANGED:
                    return False
                raise
        return True

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        pages = iter(self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix))
        while True:
            with translated_errors(f"list {self._uri(prefix)}"):
                page = next(pages, None)
            if page is None:
                return
            for entry in page.get("Contents", []):
                key = entry["Key"]
                modified = iso_time(entry["LastModified"].timestamp())
                yield ObjectInfo(key, entry["Size"], _etag(entry["ETag"]), self._uri(key), modified=modified)

    def _upload(self, key: str, stream: BinaryIO, headers: dict[str, str]) -> ObjectInfo:
        source = WholeReads(stream)
        readable = cast("BinaryIO", source)
        with translated_errors(f"store {self._uri(key)}"):
            self._client.upload_fileobj(
                readable, self._bucket, key, ExtraArgs={"Metadata": headers}, Config=self._transfer
            )
            etag = self._client.head_object(Bucket=self._bucket, Key=key)["ETag"]
        return ObjectInfo(key, source.count, _etag(etag), self._uri(key), from_headers(headers))

    def _uri(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"


def _etag(quoted: str) -> str:
    return quoted.strip('"')


def _can_exist(key: str) -> bool:
    """Whether a bucket can hold the key at all. It may hold some that `put` refuses, such as `a//b`."""
    try:
        return 0 < len(key.encode()) <= MAX_OBJECT_KEY_BYTES
    except UnicodeEncodeError:
        return False
