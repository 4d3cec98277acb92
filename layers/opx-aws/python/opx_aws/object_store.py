"""Stores objects in an S3 bucket, and signs upload addresses for clients.

User metadata are in S3's headers for them, which are lower-case ASCII.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from opx.adapters.limits import (
    MAX_CONDITIONAL_BYTES,
    MAX_OBJECT_KEY_BYTES,
    check_conditional_put,
    check_etag,
    check_metadata,
    check_object_key,
)
from opx.domain.ids import iso_time, stable_hash
from opx.domain.provenance import CHANNEL_METADATA
from opx.errors import ConditionFailedError, ObjectNotFoundError, StoreUnavailableError
from opx.ports import ObjectInfo, SignedUpload
from opx.runtime.threads import Each
from opx_aws.vendor_errors import error_code, passed_over, raised_as, translated_errors, translated_pages

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from botocore.response import StreamingBody
    from mypy_boto3_s3 import S3Client

ENCODED = "opx-metadata"
"""The header that holds, as base64 of JSON, the metadata that can't be headers of their own."""

ORIGINAL = "opx-original"
"""The header and the tag of an object that has other bytes in place of the original: a note of the original's etag, digest
and time, and its hash. Who has no right to tag objects can't have the installation take one object for another."""

# Runs of spaces are excluded: signatures collapse them. So is `=?`: S3 treats it as an encoded word (RFC 2047).
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_VALUE = re.compile(r"(?!=\?)[!-~]+( [!-~]+)*")


def to_headers(metadata: Mapping[str, str]) -> dict[str, str]:
    """Encodes metadata: plain names and values stay readable for other programs; the rest goes into one encoded header."""
    plain = {name: value for name, value in metadata.items() if _is_plain(name, value)}
    rest = {name: value for name, value in metadata.items() if name not in plain}
    if rest:
        text = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))
        plain[ENCODED] = base64.b64encode(text.encode()).decode("ascii")
    return plain


def from_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Decodes metadata as they were put; also those put by another program, with encoded words (RFC 2047)."""
    metadata = {name: _decoded_words(value) for name, value in headers.items() if name != ENCODED}
    if ENCODED in headers:
        metadata.update(json.loads(base64.b64decode(headers[ENCODED])))
    return metadata


def _is_plain(name: str, value: str) -> bool:
    return name not in (ENCODED, ORIGINAL) and bool(_NAME.fullmatch(name)) and bool(_VALUE.fullmatch(value))


def _decoded_words(value: str) -> str:
    if not value.startswith("=?"):
        return value
    try:
        return str(make_header(decode_header(value)))
    except (HeaderParseError, LookupError, UnicodeDecodeError, binascii.Error):
        return value


BLOCK = 1024 * 1024


class WholeReads:
    """A stream that returns as many bytes as requested until it ends, and counts them.

    boto3 treats a short read as the end of the stream, but sockets and pipes may return one at any time. It closes its
    input, which is the caller's, and it determines the size of a seekable stream: this can do neither.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        blocks: list[bytes] = []
        wanted = size
        while wanted and (block := self._stream.read(BLOCK if wanted < 0 else wanted)):
            blocks.append(block)
            wanted -= len(block) if size > 0 else 0
        whole = b"".join(blocks)
        self.count += len(whole)
        return whole


class BodyStream(io.RawIOBase):
    """The body of a response; if its connection breaks, raises `StoreUnavailableError`."""

    def __init__(self, body: StreamingBody, name: str) -> None:
        self._body = body
        self._name = name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        with translated_errors(f"read {self._name}"):
            data = self._body.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._body.close()
        super().close()


TAG = CHANNEL_METADATA
"""Tag of objects that the installation put: the hash of key and channel. It needs `s3:PutObjectTagging`, which people
who upload documents have no use for."""


def attestation_of(key: str, metadata: Mapping[str, str]) -> str:
    """The value of the tag for an object with these metadata; "" for one that states no channel."""
    stated = metadata.get(CHANNEL_METADATA)
    return stable_hash("channel", key, stated) if stated else ""


def attestation(key: str, metadata: Mapping[str, str]) -> dict[str, Any]:
    """The parameter of S3's calls that tags such an object."""
    value = attestation_of(key, metadata)
    return {"Tagging": f"{TAG}={value}"} if value else {}


def original_note(etag: str, data: bytes, stored: datetime) -> str:
    """The note of an original with this etag and these bytes, and the time at which it was stored."""
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode("ascii")
    return f"{etag} {digest} {iso_time(stored.timestamp())}"


def original_tag(key: str, note: str) -> str:
    """The value of the tag for an object with this note."""
    return stable_hash("original", key, note)


PART_BYTES = MAX_CONDITIONAL_BYTES
"""Also the size from which an object is uploaded in parts, which affects its etag: the same for bytes and streams."""

MISSING = ("NoSuchKey", "NotFound", "404", "KeyTooLongError")

KEYS_A_REQUEST = 1000
"""Objects that S3 deletes in a request at most."""

DELETING_THREADS = 8

CHANGED = ("ConditionalRequestConflict", "PreconditionFailed")
"""Codes for an object that doesn't match, or no longer matches, a condition."""


class InBucket:
    """Something that works on the objects of one S3 bucket."""

    def __init__(self, bucket: str, client: S3Client) -> None:
        self._bucket = bucket
        self._client = client

    def _uri(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"

    def _facts(self, key: str, **options: Any) -> Any:
        """S3's answer about an object; None if there is no such object."""
        with translated_errors(f"read {self._uri(key)}"), passed_over(*MISSING):
            return self._client.head_object(Bucket=self._bucket, Key=key, **options)
        return None

    def _listed(self, key: str) -> Iterator[tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]]:
        """Versions of the object, the newest first, and its delete markers, page by page."""
        pages = self._client.get_paginator("list_object_versions").paginate(Bucket=self._bucket, Prefix=key)
        for page in translated_pages(pages, f"list versions of {self._uri(key)}"):
            kinds: list[Any] = [page.get("Versions", []), page.get("DeleteMarkers", [])]
            versions, removals = ([one for one in found if one["Key"] == key] for found in kinds)
            yield versions, removals
            if any(one["Key"] > key for found in kinds for one in found):  # in order: the rest are other objects
                return


class S3ObjectStore(InBucket):
    """An `ObjectStore` in an S3 bucket.

    The etag is S3's: it depends on the content alone unless the bucket encrypts with KMS keys; then it also changes
    when the same content is put again. Reads accept keys that `put` refuses: other programs fill the bucket too.
    """

    def __init__(self, bucket: str, client: S3Client) -> None:
        super().__init__(bucket, client)
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
                answer = self._client.put_object(
                    Bucket=self._bucket, Key=key, Body=data, Metadata=headers, **attestation(key, metadata or {})
                )
            return ObjectInfo(key, len(data), unquoted(answer["ETag"]), self._uri(key), dict(metadata or {}))
        stream = io.BytesIO(data) if isinstance(data, bytes) else data
        return self._upload(key, stream, headers, attestation(key, metadata or {}))

    def put_if(self, key: str, data: bytes, *, etag: str, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        """Puts conditionally by "How to prevent object overwrites with conditional writes" in the Amazon S3 user guide, with
        a checksum, as signed uploads have."""
        check_object_key(key)
        check_metadata(metadata or {})
        check_conditional_put(key, data)
        found = self._stored(key)  # with an etag of its own, if the bytes of that original were replaced
        known = as_original(self._client, self._bucket, found).etag if found else ""
        check_etag(key, etag, known)
        condition: Any = {"IfMatch": f'"{found.etag}"'} if found else {"IfNoneMatch": "*"}
        changed = ConditionFailedError(f"object {key} was changed meanwhile")
        with translated_errors(f"store {self._uri(key)}"), raised_as(changed, *MISSING, *CHANGED):
            answer = self._client.put_object(
                Bucket=self._bucket,
                Key=key,
                Body=data,
                ChecksumAlgorithm=_ALGORITHM,
                ChecksumSHA256=base64.b64encode(hashlib.sha256(data).digest()).decode("ascii"),
                Metadata=to_headers(metadata or {}),
                **condition,
                **attestation(key, metadata or {}),
            )
        return ObjectInfo(key, len(data), unquoted(answer["ETag"]), self._uri(key), dict(metadata or {}))

    def open(self, key: str) -> BinaryIO:
        missing = ObjectNotFoundError(f"no object {self._uri(key)}")
        if not _can_exist(key):
            raise missing
        with translated_errors(f"read {self._uri(key)}"), raised_as(missing, *MISSING):
            body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"]
        return cast("BinaryIO", io.BufferedReader(BodyStream(body, self._uri(key)), buffer_size=256 * 1024))

    def head(self, key: str) -> ObjectInfo | None:
        if not _can_exist(key):
            return None
        found = self._stored(key)
        return found and as_original(self._client, self._bucket, found)

    def _stored(self, key: str) -> ObjectInfo | None:
        """The object as S3 has it."""
        facts = self._facts(key)
        if facts is None:
            return None
        etag, metadata = unquoted(facts["ETag"]), from_headers(facts["Metadata"])
        version = facts.get("VersionId", "")
        return ObjectInfo(key, facts["ContentLength"], etag, self._uri(key), metadata, version=version)

    def attests(self, info: ObjectInfo) -> bool:
        """By a tag of the object: a right to put objects is none to tag them."""
        wanted = attestation_of(info.key, info.metadata)
        return bool(wanted) and _is_tagged(self._client, self._bucket, info, TAG, wanted)

    def delete(self, key: str, *, etag: str = "") -> bool:
        """Deletes conditionally by "How to perform conditional deletes" in the Amazon S3 user guide."""
        if not _can_exist(key) or self._delete(key, etag):
            return True
        found = self._stored(key)  # with an etag of its own, if the bytes of that original were replaced
        if found is None or as_original(self._client, self._bucket, found).etag != etag:
            return found is None
        return self._delete(key, found.etag)

    def _delete(self, key: str, etag: str) -> bool:
        condition: Any = {"IfMatch": f'"{etag}"'} if etag else {}
        with translated_errors(f"delete {self._uri(key)}"):
            try:
                self._client.delete_object(Bucket=self._bucket, Key=key, **condition)
            except ClientError as exc:
                if etag and error_code(exc) in MISSING:
                    return True
                if etag and error_code(exc) in CHANGED:
                    return False
                raise
        return True

    def delete_many(self, keys: Iterable[str]) -> None:
        """Deletes a thousand objects a request, several requests at once."""
        left = filter(_can_exist, keys)
        batches = list(iter(lambda: list(islice(left, KEYS_A_REQUEST)), []))
        Each(DELETING_THREADS)(self._delete_batch, batches)

    def _delete_batch(self, keys: Sequence[str]) -> None:
        wanted: Any = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        with translated_errors(f"delete objects of bucket {self._bucket}"):
            errors = self._client.delete_objects(Bucket=self._bucket, Delete=wanted).get("Errors", [])
        if errors:
            code, key = errors[0].get("Code", ""), errors[0].get("Key", "")
            raise StoreUnavailableError(
                f"can't delete {len(errors)} of {len(keys)} objects: {code} for {self._uri(key)}"
            )

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=prefix, StartAfter=after
        )
        for page in translated_pages(pages, f"list {self._uri(prefix)}"):
            for entry in page.get("Contents", []):
                key = entry["Key"]
                modified = iso_time(entry["LastModified"].timestamp())
                yield ObjectInfo(key, entry["Size"], unquoted(entry["ETag"]), self._uri(key), modified=modified)

    def _upload(self, key: str, stream: BinaryIO, headers: dict[str, str], tags: dict[str, str]) -> ObjectInfo:
        source = WholeReads(stream)
        readable = cast("BinaryIO", source)
        with translated_errors(f"store {self._uri(key)}"):
            self._client.upload_fileobj(
                readable, self._bucket, key, ExtraArgs={"Metadata": headers, **tags}, Config=self._transfer
            )
            etag = self._client.head_object(Bucket=self._bucket, Key=key)["ETag"]
        return ObjectInfo(key, source.count, unquoted(etag), self._uri(key), from_headers(headers))


def unquoted(quoted: str) -> str:
    return quoted.strip('"')


def as_original(client: S3Client, bucket: str, info: ObjectInfo) -> ObjectInfo:
    """The object with etag and metadata of the original, if the installation replaced its bytes."""
    note = info.metadata.get(ORIGINAL, "")
    if not note or not _is_tagged(client, bucket, info, ORIGINAL, original_tag(info.key, note)):
        return info
    metadata = {name: value for name, value in info.metadata.items() if name != ORIGINAL}
    return replace(info, etag=note.partition(" ")[0], metadata=metadata)


def _is_tagged(client: S3Client, bucket: str, info: ObjectInfo, name: str, value: str) -> bool:
    version = {"VersionId": info.version} if info.version else {}
    tags: list[Any] = []
    with translated_errors(f"read the tags of s3://{bucket}/{info.key}"), passed_over(*MISSING):
        answer = client.get_object_tagging(Bucket=bucket, Key=info.key, **version)  # type: ignore[arg-type]
        tags += answer["TagSet"]
    return {"Key": name, "Value": value} in tags


def _can_exist(key: str) -> bool:
    """True if a bucket can hold the key at all. It may hold some that `put` refuses, such as `a//b`."""
    try:
        return 0 < len(key.encode()) <= MAX_OBJECT_KEY_BYTES
    except UnicodeEncodeError:
        return False


_META = "x-amz-meta-"
_ALGORITHM: Literal["SHA256"] = "SHA256"


class S3UploadSigner(InBucket):
    """An `UploadSigner` for an S3 bucket.

    Size, checksum and metadata are signed as headers, so that S3 refuses a request with others, and content with another
    checksum. S3 keeps the checksum with the object. The client must sign with version 4 (`s3v4`), as version 2 covers neither
    size nor checksum, and use virtual-hosted addresses (`virtual`): else botocore signs addresses of S3's global endpoint,
    which redirects to regions where the signature is not valid.
    """

    def sign_put(
        self, key: str, *, size: int, sha256: str, metadata: Mapping[str, str] | None = None, seconds: int = 900
    ) -> SignedUpload:
        check_object_key(key)
        check_metadata(metadata or {})
        headers = to_headers(metadata or {})
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode("ascii")
        tags = attestation(key, metadata or {})
        url = self._client.generate_presigned_url(
            "put_object",
            Params={
                "Bucket": self._bucket,
                "Key": key,
                "ContentLength": size,
                "ChecksumAlgorithm": _ALGORITHM,
                "ChecksumSHA256": checksum,
                "Metadata": headers,
                **tags,
            },
            ExpiresIn=seconds,
        )
        signed = {
            "content-length": str(size),
            "x-amz-checksum-sha256": checksum,
            "x-amz-sdk-checksum-algorithm": _ALGORITHM,
            **({"x-amz-tagging": tags["Tagging"]} if tags else {}),
        }
        return SignedUpload(url, signed | {_META + name: value for name, value in headers.items()})

    # -- in parts

    def begin(self, key: str, *, metadata: Mapping[str, str] | None = None) -> str:
        check_object_key(key)
        check_metadata(metadata or {})
        with translated_errors(f"begin an upload of {self._uri(key)}"):
            found = self._client.create_multipart_upload(
                Bucket=self._bucket,
                Key=key,
                ChecksumAlgorithm=_ALGORITHM,
                Metadata=to_headers(metadata or {}),
                **cast("Any", attestation(key, metadata or {})),
            )
        return found["UploadId"]

    def sign_part(
        self, key: str, upload_id: str, number: int, *, size: int, sha256: str, seconds: int = 900
    ) -> SignedUpload:
        check_object_key(key)
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode("ascii")
        url = self._client.generate_presigned_url(
            "upload_part",
            Params={
                "Bucket": self._bucket,
                "Key": key,
                "UploadId": upload_id,
                "PartNumber": number,
                "ContentLength": size,
                "ChecksumAlgorithm": _ALGORITHM,
                "ChecksumSHA256": checksum,
            },
            ExpiresIn=seconds,
        )
        headers = {"x-amz-checksum-sha256": checksum, "x-amz-sdk-checksum-algorithm": _ALGORITHM}
        return SignedUpload(url, {"content-length": str(size), **headers})

    def arrived(self, key: str, upload_id: str) -> Mapping[int, int]:
        return {part["PartNumber"]: part["Size"] for part in self._parts(key, upload_id)}

    def complete(self, key: str, upload_id: str) -> None:
        named = ("PartNumber", "ETag", "ChecksumSHA256")
        parts = [{name: part[name] for name in named if name in part} for part in self._parts(key, upload_id)]
        with translated_errors(f"complete an upload of {self._uri(key)}"):
            self._client.complete_multipart_upload(
                Bucket=self._bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": cast("Any", parts)}
            )

    def _parts(self, key: str, upload_id: str) -> list[Any]:
        """The stored parts, in order. Raises `ObjectNotFoundError`."""
        pages = self._client.get_paginator("list_parts").paginate(Bucket=self._bucket, Key=key, UploadId=upload_id)
        missing = ObjectNotFoundError(f"there is no upload {upload_id[:100]!r} of {key}")
        with translated_errors(f"list the parts of {self._uri(key)}"), raised_as(missing, "NoSuchUpload"):
            return [part for page in pages for part in page.get("Parts", [])]

    def sha256_of(self, key: str) -> str:
        facts = self._facts(key, ChecksumMode="ENABLED")
        if facts is None:
            return ""
        headers = from_headers(facts["Metadata"])
        info = ObjectInfo(key, 0, "", "", headers, version=facts.get("VersionId", ""))
        if as_original(self._client, self._bucket, info) is not info:
            return base64.b64decode(headers[ORIGINAL].split(" ")[1]).hex()
        # An object that was put in parts has a checksum of their checksums, followed by the number of parts.
        checksum = facts.get("ChecksumSHA256", "")
        return "" if "-" in checksum else base64.b64decode(checksum).hex()
