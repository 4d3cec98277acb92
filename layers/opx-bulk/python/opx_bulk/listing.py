"""The first stage: lists the documents of a job, and packs them into shards."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import unquote_plus

from msgspec import field

from opx.domain.record import Draft, from_json
from opx.errors import InvalidInputError, ObjectNotFoundError
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.events import document_at
from opx.ports import KeyRange, ObjectStore, Table
from opx_bulk.files import LISTING, MANIFEST, SHARDS, BulkFiles
from opx_bulk.job import Shard

SHARD_DOCUMENTS = 500
SHARD_BYTES = 32 * 1024 * 1024
"""Documents and bytes of objects of a shard; a document with more bytes is a shard of its own."""

LOCAL_SHARD_DOCUMENTS = 50
"""Documents of a shard on a machine, whose cores are to end at the same time: a local model takes seconds for them."""

Listed = tuple[dict[str, Any], int, str]
"""Line of a document in its shard's file, its size in bytes, and the position of the listing behind it."""


class Listing(Draft):
    """Progress of a listing: the shards that are written, and the position behind the last one."""

    shards: list[Shard] = field(default_factory=list)
    after: str = ""


def list_documents(
    files: BulkFiles, listed: Callable[[str], Iterator[Listed]], stop: Callable[[], bool], most: int = SHARD_DOCUMENTS
) -> bool:
    """Writes shards of up to `most` of the documents that `listed` yields behind a position, until `stop` returns True; the
    next call goes on. Returns True when the manifest is written: then all are."""
    if files.read(files.prefix + MANIFEST) is not None:
        return True
    known = files.read(files.prefix + LISTING)
    progress = from_json(Listing, json.loads(known)) if known else Listing()
    for lines, size, after in packed(listed(progress.after), most):
        number = len(progress.shards)
        files.put_lines(SHARDS, number, lines)
        progress.shards.append(Shard(number, len(lines), size))
        progress.after = after
        if stop():
            files.store.put(files.prefix + LISTING, json.dumps(progress.to_json()).encode())
            return False
    files.put_list(MANIFEST, progress.shards)
    return True


def packed(listed: Iterable[Listed], most: int = SHARD_DOCUMENTS) -> Iterator[tuple[list[dict[str, Any]], int, str]]:
    """Groups documents into shards, in order: the lines of each, its bytes, and the position behind it."""
    lines: list[dict[str, Any]] = []
    total, after = 0, ""
    for line, size, position in listed:
        if lines and (len(lines) == most or total + size > SHARD_BYTES):
            yield lines, total, after
            lines, total = [], 0
        lines.append(line)
        total += size
        after = position
    if lines:
        yield lines, total, after


# -- documents of the corpus


def objects(store: ObjectStore, prefix: str, after: str) -> Iterator[Listed]:
    """The documents of a corpus store whose keys begin with a prefix, in the order of their keys."""
    for info in store.list(prefix, after=after):
        if document_at(info.key):
            yield {"key": info.key}, info.size, info.key


def inventory(bucket: ObjectStore, manifest: str, prefix: str, after: str) -> Iterator[Listed]:
    """The documents of an S3 Inventory in CSV, by the key of its `manifest.json`. What it states may be a day old: documents
    that are gone by now are skipped when they are read, and newer ones come by their events.

    The position is the number of a file and of a row in it. Raises `InvalidInputError` for another format.
    """
    found = _manifest(bucket, manifest)
    columns = [name.strip() for name in str(found.get("fileSchema", "")).split(",")]
    if found.get("fileFormat") != "CSV" or not {"Key", "Size"} <= set(columns):
        raise InvalidInputError(f"the inventory {manifest} must be CSV with the fields Key and Size")
    key_at, size_at = columns.index("Key"), columns.index("Size")
    first_file, _, first_row = after.partition(":")
    for number, file in enumerate(found.get("files", ())):
        if number < int(first_file or 0):
            continue
        skip = int(first_row or 0) if number == int(first_file or 0) else 0
        for row, values in enumerate(_rows(bucket, str(file["key"])), start=1):
            key = unquote_plus(values[key_at])
            if row > skip and key.startswith(prefix) and document_at(key) and _is_latest(columns, values):
                yield {"key": key}, int(values[size_at] or 0), f"{number}:{row}"


def _manifest(bucket: ObjectStore, key: str) -> dict[str, Any]:
    try:
        with bucket.open(key) as stream:
            found = json.loads(stream.read())
    except ObjectNotFoundError as exc:
        raise InvalidInputError(f"there is no inventory {key}") from exc
    except ValueError as exc:
        raise InvalidInputError(f"the inventory {key} is not JSON: {exc}") from exc
    if not isinstance(found, dict):
        raise InvalidInputError(f"the inventory {key} is no manifest of S3 Inventory")
    return found


def _rows(bucket: ObjectStore, key: str) -> Iterator[list[str]]:
    with bucket.open(key) as stream, gzip.open(stream) as unpacked:
        yield from csv.reader(io.TextIOWrapper(unpacked, "utf-8", newline=""))


def _is_latest(columns: list[str], values: list[str]) -> bool:
    """False for a row of an earlier version, or of a delete marker, in an inventory of all versions."""
    stated = dict(zip(columns, values, strict=False))
    return stated.get("IsLatest", "true") != "false" and stated.get("IsDeleteMarker", "false") != "true"


# -- documents of the catalog


def heads(keys: Table, scopes: Iterable[str], after: str) -> Iterator[Listed]:
    """The current documents of the catalog, scope by scope. Keys of a scope that is added meanwhile are in the journal of
    the new edition."""
    scope_after, _, key_after = after.partition(" ")
    for scope in sorted(scopes):
        if scope >= scope_after:
            where = KeyRange(low=key_after + "\0") if scope == scope_after and key_after else None
            for head in keys.query(scope, index="scope-index", where=where):
                if current_id(head):
                    key = str(head["documentKey"])
                    yield {"documentKey": key}, 0, f"{scope} {key}"
