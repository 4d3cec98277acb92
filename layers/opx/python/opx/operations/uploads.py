"""Operations on uploads in parts: an interrupted upload of a large file goes on with the parts that are missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from opx.domain.policy import Action
from opx.domain.record import Record, about
from opx.domain.requests import Filled, Request, RequestError
from opx.errors import ObjectNotFoundError, TooLargeError
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.operations.context import Context
from opx.operations.corpus import Metadata, Sha256, object_key, upload_metadata
from opx.operations.registry import Function, operation
from opx.ports import PartedUploads

PART_BYTES = 8 * 1024 * 1024
"""Size of all parts but the last; S3 takes no smaller ones than 5 MiB."""

MAX_SIGNED = 16
"""Parts that one call signs: addresses end after 15 minutes."""

Source = Annotated[Filled, about("The file's stable name in the corpus.", max_length=1000)]
UploadId = Annotated[str, about("The id of the upload.", max_length=1024)]
FileSize = Annotated[int, about("The size of the file in bytes.", ge=1, le=2**40)]


class UploadPart(Record, frozen=True, forbid_unknown_fields=True):
    number: Annotated[int, about("Its number; the first part has 1.", ge=1, le=10_000)]
    size: Annotated[int, about("Its size; all but the last have `partBytes`.", ge=1, le=PART_BYTES)]
    sha256: Sha256


class PrepareParts(Request, frozen=True):
    source: Source
    size: FileSize
    metadata: Metadata = field(default_factory=dict)
    upload_id: Annotated[
        str, about("The upload to go on with; left out or ended, a new one begins.", max_length=1024)
    ] = ""
    parts: Annotated[tuple[UploadPart, ...], about("Parts that are sent next.", max_length=MAX_SIGNED)] = ()


class SignedPart(Record, frozen=True):
    number: int
    url: Annotated[str, about("URL to send the part to, with the method PUT, within 15 minutes.")]
    headers: Annotated[dict[str, str], about("Headers that must be sent with it.")]


class PartAddresses(Record, frozen=True):
    upload_id: UploadId
    object_key: str
    part_bytes: Annotated[int, about("The size of all parts but the last.")]
    arrived: Annotated[tuple[int, ...], about("Numbers of the parts that are stored already.")]
    puts: Annotated[tuple[SignedPart, ...], about("Addresses of the parts that were asked for.")]


@operation(http="POST /uploads/parts", function=Function.MANAGE, action=Action.WRITE)
def prepare_parts(context: Context, request: PrepareParts) -> PartAddresses:
    """Begin an upload in parts, or go on with one: returns the parts that are stored, and presigned URLs of others. It is
    kept for a week.

    Raises `InvalidInputError` for a name that no object can have, and `TooLargeError`.
    """
    limit = context.system.settings.max_document_bytes
    if request.size > limit:
        raise TooLargeError(f"the file has {request.size:,} bytes; at most {limit:,} are accepted")
    if wrong := [one.number for one in request.parts if (one.number - 1) * PART_BYTES + one.size > request.size]:
        raise RequestError(f"part {wrong[0]} is beyond the size of the file")
    uploads, key = _uploads(context), _key(context, request.source)
    stored = _arrived(uploads, key, request.upload_id)
    upload_id = request.upload_id
    if stored is None:
        upload_id = uploads.begin(key, metadata=upload_metadata(context, request.source, request.metadata))
    puts = tuple(_signed(uploads, key, upload_id, one) for one in request.parts)
    return PartAddresses(upload_id, key, PART_BYTES, tuple(sorted(stored or ())), puts)


def _signed(uploads: PartedUploads, key: str, upload_id: str, part: UploadPart) -> SignedPart:
    put = uploads.sign_part(key, upload_id, part.number, size=part.size, sha256=part.sha256)
    return SignedPart(part.number, put.url, dict(put.headers))


class CompleteUpload(Request, frozen=True):
    source: Source
    size: FileSize
    upload_id: Annotated[Filled, about("The id of the upload.", max_length=1024)]


class CompletedUpload(Record, frozen=True):
    object_key: Annotated[str, about("The object, which waits to be ingested.")]


@operation(http="POST /uploads/complete", function=Function.MANAGE, status=202, action=Action.WRITE)
def complete_upload(context: Context, request: CompleteUpload) -> CompletedUpload:
    """Store the file of an upload whose parts have all arrived.

    Raises `InvalidInputError` while parts are missing, and for an upload that doesn't exist.
    """
    uploads, key = _uploads(context), _key(context, request.source)
    stored = _arrived(uploads, key, request.upload_id)
    if stored is None:
        raise RequestError("there is no such upload: it was completed, or is older than a week; begin a new one")
    last = -(-request.size // PART_BYTES)
    missing = [number for number in range(1, last + 1) if stored.get(number) != _size_of(number, request.size)]
    if missing or len(stored) > last:
        raise RequestError(f"parts of the file are missing: {', '.join(map(str, missing[:20])) or 'its size differs'}")
    uploads.complete(key, request.upload_id)
    if context.system.store.head(key + SIDECAR_SUFFIX):  # of a former version; the file's own facts are in its metadata
        context.system.store.delete(key + SIDECAR_SUFFIX)
    return CompletedUpload(key)


def _uploads(context: Context) -> PartedUploads:
    signer: object = context.system.corpus.upload_signer
    if isinstance(signer, PartedUploads):
        return signer
    raise RequestError("this knowledge base accepts no uploads in parts: use POST /uploads")


def _key(context: Context, source: str) -> str:
    if source.endswith(SIDECAR_SUFFIX):
        raise RequestError(f"names that end with {SIDECAR_SUFFIX} are for metadata, which is never that large")
    return object_key(context, source)


def _arrived(uploads: PartedUploads, key: str, upload_id: str) -> Mapping[int, int] | None:
    """The parts of an upload that are stored; None if it doesn't exist."""
    if not upload_id:
        return None
    try:
        return uploads.arrived(key, upload_id)
    except ObjectNotFoundError:
        return None


def _size_of(number: int, size: int) -> int:
    return min(PART_BYTES, size - (number - 1) * PART_BYTES)
