"""Files on their way into the corpus of a deployed system: past the API, straight into its bucket."""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, BinaryIO, cast

from opx.edges.api_requests import AGAIN, ATTEMPTS, pause_before
from opx.edges.client import RemoteClient
from opx.errors import InvalidInputError, OpxError, StoreUnavailableError
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.ingestion.files import FileToIngest, file_digest, sidecar_of, unreadable
from opx.ingestion.outcomes import Outcome, PutFile, Result
from opx.operations.corpus import DeleteObjects, FileFacts, PrepareUpload, SignedPut, delete_objects, prepare_upload

FILES_AT_ONCE = 4
_CHANGED = ("BadDigest", "XAmzContentSHA256Mismatch", "InvalidDigest", "IncompleteBody", "EntityTooLarge")
"""What S3 says when the bytes are not those that the address was made for."""

_CODE = re.compile(rb"<Code>([A-Za-z0-9]+)</Code>")


class _StoppedError(Exception):
    """The caller has gone: the rest is not sent."""


class Uploads:
    """Puts files, a few at a time."""

    def __init__(self, client: RemoteClient) -> None:
        self._client = client

    def put_files(self, files: Sequence[FileToIngest], metadata: Mapping[str, Any]) -> Iterator[PutFile]:
        """One result a file, as they are done. A caller that stops leaves files unsent, none in part."""
        stopped = threading.Event()
        pool = ThreadPoolExecutor(FILES_AT_ONCE, thread_name_prefix="opx-upload")
        try:
            tasks = [pool.submit(_Upload(self._client, stopped).put, file, metadata) for file in files]
            for task in as_completed(tasks):
                yield task.result()
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)


class _Upload:
    """One file. `stopped` ends it between two blocks."""

    def __init__(self, client: RemoteClient, stopped: threading.Event) -> None:
        self._client = client
        self._stopped = stopped

    def put(self, file: FileToIngest, metadata: Mapping[str, Any]) -> PutFile:
        try:
            return self._put(file, metadata)
        except OSError as exc:
            return PutFile(file.source, unreadable(file.source, file.path, exc))
        except InvalidInputError as exc:  # the other files are fine
            return PutFile(file.source, Outcome(Result.FAILED, file.source, f"{file.source}: {exc}", error=exc))

    def _put(self, file: FileToIngest, metadata: Mapping[str, Any]) -> PutFile:
        sidecar = sidecar_of(file.path)
        facts = _facts(file.path)
        beside = _facts(sidecar) if sidecar else None
        wanted = PrepareUpload(
            source=file.source, sha256=facts.sha256, size=facts.size, metadata=dict(metadata), sidecar=beside
        )
        answer = self._client.call(prepare_upload, wanted)
        key = answer.object_key
        if answer.put is None:
            return PutFile(key, Outcome(Result.UNCHANGED, key, document_id=answer.document_id))
        if sidecar and answer.sidecar_put:
            _headers_for(answer.put, file.path)  # a sidecar goes only before a document that follows
            self._send(answer.sidecar_put, sidecar)
        self._send(answer.put, file.path)
        if answer.remove_sidecar:  # not earlier: it belongs to the stored document until there is the new one
            self._client.call(delete_objects, DeleteObjects(object_keys=(key + SIDECAR_SUFFIX,)))
        return PutFile(key)

    def _send(self, address: SignedPut, path: Path) -> None:
        """Put a file where the API said. Raises `InvalidInputError` if it changed meanwhile, and
        `StoreUnavailableError`."""
        for attempt in range(1, ATTEMPTS + 1):
            problem, headers = self._once(address, path)
            if not problem:
                return
            if attempt < ATTEMPTS:
                self._client.pause(pause_before(attempt, headers))
        raise StoreUnavailableError(f"can't send {path}: {problem}; what was sent is kept, try again")

    def _once(self, address: SignedPut, path: Path) -> tuple[str, Mapping[str, str]]:
        """What was in the way for now and the answer's headers; "" once the file is stored."""
        headers = _headers_for(address, path)
        with cast("BinaryIO", _StoppableFile(path, self._stopped)) as stream:
            try:
                body = stream if headers["content-length"] != "0" else b""
                answer = self._client.connections.request("PUT", address.url, headers, body)
            except StoreUnavailableError as exc:
                return str(exc), {}
        if answer.status == 200:
            return "", {}
        code = _CODE.search(answer.data)
        reason = code[1].decode("ascii") if code else f"status {answer.status}"
        if reason in _CHANGED:
            raise _changed(path, reason)
        if answer.status in (*AGAIN, 500) or reason == "RequestTimeout":
            return reason, answer.headers
        raise OpxError(f"the corpus bucket refused {path} ({answer.status}, {reason})")


class _StoppableFile(io.FileIO):
    """A file as long as it was when it was opened, that can be read until somebody says stop."""

    def __init__(self, path: Path, stopped: threading.Event) -> None:
        super().__init__(path, "rb")
        self._stopped = stopped
        self._left = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        if self._stopped.is_set():
            raise _StoppedError
        wanted = self._left if size is None or size < 0 else min(size, self._left)
        data = super().read(wanted) or b""
        self._left -= len(data)
        return data


def _headers_for(address: SignedPut, path: Path) -> dict[str, str]:
    """Headers of the request that puts a file. Raises `InvalidInputError` if it hasn't the size any more that the
    address was made for."""
    size = str(path.stat().st_size)
    headers = {"content-length": size, **{name.lower(): value for name, value in address.headers.items()}}
    if headers["content-length"] != size:
        raise _changed(path, "another size")
    return headers


def _changed(path: Path, what: str) -> InvalidInputError:
    return InvalidInputError(f"{path} changed while it was sent ({what}): take it in again")


def _facts(path: Path) -> FileFacts:
    return FileFacts(file_digest(path), path.stat().st_size)
