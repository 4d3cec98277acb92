"""Replaces the bytes of objects in an S3 bucket by others for the same content, and erases the earlier versions.

The replacement is a new version of the object: it is put on the condition that the object is as it was read, and has its
metadata, tags and headers, with a note of its etag, digest and time. S3 sends an event for it, with which the pipeline finds
the object unchanged, as `S3ObjectStore.head` returns the etag of the note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import dropwhile, islice
from typing import Any
from urllib.parse import quote, urlencode

from botocore.exceptions import ClientError

from opx.errors import InvalidInputError, StoreUnavailableError
from opx_aws.object_store import (
    CHANGED,
    MISSING,
    ORIGINAL,
    InBucket,
    from_headers,
    original_note,
    original_tag,
    to_headers,
    unquoted,
)
from opx_aws.object_versions import GONE
from opx_aws.vendor_errors import error_code, passed_over, translated_errors

MAX_TAGS = 10
_KEPT_HEADERS = (
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "ContentType",
    "StorageClass",
)


class S3ReplaceableObjects(InBucket):
    """`ReplaceableObjects` of a bucket, with or without versioning."""

    def replace(self, key: str, data: bytes, *, read: bytes, etag: str) -> bool:
        found = self._found(key, IfMatch=f'"{etag}"')
        if found is None or found["Body"].read() != read:
            return False
        note = original_note(etag, read, found["LastModified"])
        made = self._put(key, data, found, note, etag)
        if made is None:
            return False
        overtaken = self._overtaken(key, made.get("VersionId", ""), found.get("VersionId", ""))
        later = self._found(key, VersionId=overtaken) if overtaken else None
        if later is None:
            return True
        note = original_note(etag, read, later["LastModified"])
        return self._put(key, data, later, note, unquoted(made["ETag"])) is not None

    def earlier(self, key: str, *, without: bytes) -> Sequence[str]:
        versions = dropwhile(lambda version: not version["IsLatest"], self._versions(key))
        earlier = islice(versions, 1, None)
        return [one["VersionId"] for one in earlier if one["Size"] and not self._begins(key, one["VersionId"], without)]

    def erase_earlier(self, key: str, versions: Sequence[str]) -> Mapping[str, str]:
        left = {}
        for version in versions:
            try:
                with translated_errors(f"erase version {version} of {self._uri(key)}"):
                    self._client.delete_object(Bucket=self._bucket, Key=key, VersionId=version)
            except ClientError as exc:
                left[version] = error_code(exc)
            except StoreUnavailableError as exc:
                left[version] = _code_of(exc) or str(exc)
        return left

    def _found(self, key: str, **which: str) -> Any:
        """S3's answer with the object's bytes, headers and metadata, all of one version; None if there is no such object."""
        options: Any = which
        with _reported(f"read {self._uri(key)}"), passed_over(*MISSING, *GONE, *CHANGED):
            return self._client.get_object(Bucket=self._bucket, Key=key, **options)
        return None

    def _put(self, key: str, data: bytes, found: Mapping[str, Any], note: str, etag: str) -> Any:
        """Puts bytes with headers, metadata and tags of what was found, if the object has this etag; else returns None."""
        metadata = from_headers(found["Metadata"])
        metadata.pop(ORIGINAL, None)
        options: Any = {name: found[name] for name in _KEPT_HEADERS if name in found}
        tags = self._tags(key, found.get("VersionId", "")) | {ORIGINAL: original_tag(key, note)}
        if len(tags) > MAX_TAGS:
            raise InvalidInputError(f"{self._uri(key)} has {MAX_TAGS} tags, and needs one more: remove one of them")
        with _reported(f"replace {self._uri(key)}"), passed_over(*MISSING, *CHANGED):
            return self._client.put_object(
                Bucket=self._bucket,
                Key=key,
                Body=data,
                IfMatch=f'"{etag}"',
                Metadata={**to_headers(metadata), ORIGINAL: note},
                Tagging=urlencode(tags, quote_via=quote),
                **options,
            )
        return None

    def _tags(self, key: str, version: str) -> dict[str, str]:
        which: Any = {"VersionId": version} if version else {}
        with _reported(f"read the tags of {self._uri(key)}"):
            answer = self._client.get_object_tagging(Bucket=self._bucket, Key=key, **which)
        return {tag["Key"]: tag["Value"] for tag in answer["TagSet"]}

    def _overtaken(self, key: str, made: str, read: str) -> str:
        """The version directly before the one that was made, unless it is the one that was read: the same bytes were put
        again in between, perhaps with other metadata, which no condition of S3 excludes."""
        if made in ("", "null") or not read:  # without versioning, or while it is suspended
            return ""
        versions = dropwhile(lambda version: version["VersionId"] != made, self._versions(key))
        before = next(islice(versions, 1, None), None)
        return before["VersionId"] if before and before["VersionId"] != read else ""

    def _versions(self, key: str) -> Iterator[Mapping[str, Any]]:
        """Versions of the object, the newest first; no delete markers."""
        for versions, _ in self._listed(key):
            yield from versions

    def _begins(self, key: str, version: str, beginning: bytes) -> bool:
        """True if a version begins so, or is gone. One that is in an archive of S3 can't be read, only erased."""
        try:
            found = self._found(key, VersionId=version, Range=f"bytes=0-{len(beginning) - 1}")
        except StoreUnavailableError as exc:
            if _code_of(exc) == "InvalidObjectState":
                return False
            raise
        return found is None or found["Body"].read() == beginning


def _code_of(error: StoreUnavailableError) -> str:
    return error_code(error.__cause__) if isinstance(error.__cause__, ClientError) else ""


@contextmanager
def _reported(action: str) -> Iterator[None]:
    """Raises `StoreUnavailableError` for every error of S3: such an object stays as it is, and is listed."""
    try:
        with translated_errors(action):
            yield
    except ClientError as exc:
        raise StoreUnavailableError(f"can't {action}: {error_code(exc)}") from exc
