"""Loads files into the corpus and waits for their outcomes: on this machine, or by the workers of a deployed system."""

from __future__ import annotations

import io
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from opx.domain.documents import DocumentState, KnowledgeDocument, Remark, RemarkKind
from opx.edges.calling import OperationClient, all_pages
from opx.edges.client import AGAIN, ATTEMPTS, RemoteClient, pause_before
from opx.errors import DocumentNotFoundError, InvalidInputError, OpxError, StoreUnavailableError
from opx.ingestion.events import SIDECAR_SUFFIX, EventOutcome, PutFile, Result
from opx.ingestion.files import FileToIngest, file_digest, sidecar_of, unreadable
from opx.ingestion.states import NOTHING_TO_KNOW, ObjectPhase, ObjectState
from opx.operations import corpus
from opx.operations.context import unwatched
from opx.operations.documents import GetDocument, get_document

if TYPE_CHECKING:
    from opx.edges.client import Pause
    from opx.ingestion.manager import IngestionManager
    from opx.ingestion.worker import Waits
    from opx.operations.context import Context


Progress = Callable[[str, int], None]
"""Receives an object's key and the number of its chunks embedded so far."""


FILES_TOGETHER = 64
"""Files that wait for the disk together."""

KEYS_AT_ONCE = 100
KEYS_A_ROUND = 300
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0
PATIENCE_SECONDS = 900.0
"""Longer than the system's own retries of a document that fails temporarily, about 620 seconds in all. The work of a crashed
worker returns to the queue only after 1,800 seconds, which is too long to wait."""

SETTLING_SECONDS = 2.0
"""Patience with documents that another process of this machine has put, too, after the queue was found empty."""

_DONE = {ObjectPhase.INGESTED: Result.INGESTED, ObjectPhase.DELETED: Result.DELETED, ObjectPhase.FAILED: Result.FAILED}


class Loader(Protocol):
    """Loads files of this machine into the corpus."""

    def note_failures(self) -> None:
        """Records existing failures, which don't count as outcomes. Call it before sending other than by `put_files`."""

    def put_files(self, files: Sequence[FileToIngest], metadata: Mapping[str, Any]) -> Iterator[PutFile]:
        """Puts files, each with this metadata. An error of one file doesn't affect the others."""

    def outcomes(
        self, sent: Collection[str], progress: Progress | None = None, waits: Waits | None = None
    ) -> Iterator[EventOutcome]:
        """Outcomes of objects that were put or deleted, as they are ingested. `waits` gets the number of waiting documents
        while another process of this machine ingests them."""


class LocalLoader:
    """Puts files into the store of this process, and ingests waiting events."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def note_failures(self) -> None:
        """Does nothing: outcomes come from the ingestion itself."""

    def put_files(self, files: Sequence[FileToIngest], metadata: Mapping[str, Any]) -> Iterator[PutFile]:
        manager = self._manager()
        for at in range(0, len(files), FILES_TOGETHER):
            with manager.grouped():
                done = [_put(manager, file, metadata) for file in files[at : at + FILES_TOGETHER]]
            for file, outcome in zip(files[at:], done, strict=False):
                yield PutFile(corpus.object_key(self._context, file.source), outcome)

    def _manager(self) -> IngestionManager:
        return corpus.manager_of(self._context)

    def outcomes(
        self, sent: Collection[str], progress: Progress | None = None, waits: Waits | None = None
    ) -> Iterator[EventOutcome]:
        """Ingests all waiting events, of any sender; nothing if functions do it. Then come outcomes of sent objects that
        another process has ingested meanwhile."""
        drain = self._context.system.ingestion.drain
        if drain is None:
            return
        settled = set()
        for outcome in drain.run(progress=progress or unwatched, waits=waits):
            settled.add(outcome.object_key.removesuffix(SIDECAR_SUFFIX))
            yield outcome
        left = sorted({key.removesuffix(SIDECAR_SUFFIX) for key in sent} - settled)
        if left:
            states = Waiting(lambda keys: corpus.states_of(self._context.system, keys), patience=SETTLING_SECONDS)
            yield from states.outcomes(left, {})


def _put(manager: IngestionManager, file: FileToIngest, metadata: Mapping[str, Any]) -> EventOutcome | None:
    try:
        return manager.put_file(file, metadata)
    except InvalidInputError as exc:  # a name that no object can have; the other files are unaffected
        return EventOutcome(Result.FAILED, str(file.path), str(exc), error=exc)


class QuietLoader(LocalLoader):
    """Puts files without events of their changes: a bulk job ingests them."""

    def _manager(self) -> IngestionManager:
        manager = self._context.system.ingestion.quiet_manager_of(self._context.scope)
        return manager.by(corpus.channel_of(self._context))


class RemoteLoader:
    """Puts files into the bucket of a deployed system, and waits for its workers."""

    def __init__(self, client: RemoteClient) -> None:
        self._client = client
        self._known_failures: dict[str, str] | None = None

    def note_failures(self) -> None:
        """Records failures once per wait: files that were sent first may have failed when more are sent."""
        if self._known_failures is None:
            found = all_pages(self._client, corpus.list_failures, corpus.ListFailures())
            self._known_failures = {failure.object_key: failure.mark for page in found for failure in page.failures}

    def put_files(self, files: Sequence[FileToIngest], metadata: Mapping[str, Any]) -> Iterator[PutFile]:
        if files:
            self.note_failures()
            yield from Uploads(self._client).put_files(files, metadata)

    def outcomes(
        self,
        sent: Collection[str],
        progress: Progress | None = None,  # noqa: ARG002
        waits: Waits | None = None,  # noqa: ARG002
    ) -> Iterator[EventOutcome]:
        try:
            waiting = Waiting(self._states, pause=self._client.pause)
            yield from waiting.outcomes(sent, self._known_failures or {})
        finally:
            self._known_failures = None

    def _states(self, object_keys: Sequence[str]) -> list[ObjectState]:
        found = self._client.call(corpus.get_object_states, corpus.GetObjectStates(object_keys=tuple(object_keys)))
        return list(found.states)


@dataclass
class Waiting:
    """Polls the states of objects until they are settled, at growing intervals while nothing changes."""

    states: Callable[[Sequence[str]], list[ObjectState]]
    _: KW_ONLY
    pause: Pause = time.sleep
    now: Callable[[], float] = time.monotonic
    patience: float = PATIENCE_SECONDS

    def outcomes(self, sent: Collection[str], known_failures: Mapping[str, str]) -> Iterator[EventOutcome]:
        """Outcomes as objects are settled, until all are, or none was for `patience` seconds.

        `known_failures` has the marks of earlier failures by key, which don't count.
        """
        pending = sorted(set(sent))
        pause, last_news = FIRST_PAUSE_SECONDS, self.now()
        while pending:
            polled, later = pending[:KEYS_A_ROUND], pending[KEYS_A_ROUND:]
            settled = []
            for state in self._polled(polled):
                if state.state in _DONE and (not state.mark or state.mark != known_failures.get(state.object_key)):
                    settled.append(state.object_key)
                    yield _outcome(state)
            pending = [*later, *(key for key in polled if key not in settled)]
            if settled:
                pause, last_news = FIRST_PAUSE_SECONDS, self.now()
            elif self.now() - last_news >= self.patience:
                return
            if pending:
                self.pause(pause)
                pause = min(1.5 * pause, LONGEST_PAUSE_SECONDS)

    def _polled(self, keys: Sequence[str]) -> Iterator[ObjectState]:
        for at in range(0, len(keys), KEYS_AT_ONCE):
            yield from self.states(keys[at : at + KEYS_AT_ONCE])


def _outcome(state: ObjectState) -> EventOutcome:
    is_skipped = bool(state.kept_out) or state.reason in NOTHING_TO_KNOW
    return EventOutcome(
        Result.SKIPPED if is_skipped else _DONE[state.state],
        state.object_key,
        reason=state.kept_out or state.reason,
        document_id=state.document_id,
        title=state.title,
        chunks=state.chunks,
        error=OpxError(state.reason) if state.state is ObjectPhase.FAILED else None,
        remarks=(Remark(RemarkKind.EXPIRED, state.kept_out),) if state.kept_out else (),
    )


def remove_objects(client: OperationClient, object_keys: Sequence[str]) -> None:
    """Deletes objects, `MAX_BATCH` at a time."""
    for at in range(0, len(object_keys), corpus.MAX_BATCH):
        client.call(
            corpus.delete_objects, corpus.DeleteObjects(object_keys=tuple(object_keys[at : at + corpus.MAX_BATCH]))
        )


def remove_document(client: OperationClient, document_id: str) -> tuple[KnowledgeDocument, ...]:
    """Deletes a document; returns the deleted versions, also those that an earlier attempt without a reply deleted.

    Raises `DocumentNotFoundError`, and `HeldError`.
    """
    try:
        deleted = client.call(corpus.delete_document, corpus.DeleteDocument(document_id=document_id)).deleted
    except DocumentNotFoundError:
        found = client.call(get_document, GetDocument(document_id=document_id)).document
        if found.state is DocumentState.CURRENT:
            raise
        return (found,)
    return deleted or (client.call(get_document, GetDocument(document_id=document_id)).document,)


def stored_under(client: OperationClient, source: str) -> Iterator[str]:
    """Keys of the objects that came from a file of this name, or from files in a folder of it."""
    for page in all_pages(client, corpus.list_objects, corpus.ListObjects(under=source)):
        yield from page.object_keys


# -- uploads


FILES_AT_ONCE = 4
_CHANGED = ("BadDigest", "XAmzContentSHA256Mismatch", "InvalidDigest", "IncompleteBody", "EntityTooLarge")
"""Error codes of S3 for bytes other than those that the address was signed for."""

_CODE = re.compile(rb"<Code>([A-Za-z0-9]+)</Code>")


class _StoppedError(Exception):
    """The caller stopped: the rest is not sent."""


class Uploads:
    """Uploads files, a few at a time."""

    def __init__(self, client: RemoteClient) -> None:
        self._client = client

    def put_files(self, files: Sequence[FileToIngest], metadata: Mapping[str, Any]) -> Iterator[PutFile]:
        """One result per file, as they are done. A caller that stops leaves files unsent, but none partially."""
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
    """Upload of one file, which `stopped` ends between two blocks."""

    def __init__(self, client: RemoteClient, stopped: threading.Event) -> None:
        self._client = client
        self._stopped = stopped

    def put(self, file: FileToIngest, metadata: Mapping[str, Any]) -> PutFile:
        try:
            return self._put(file, metadata)
        except OSError as exc:
            return PutFile(file.source, unreadable(file.source, file.path, exc))
        except InvalidInputError as exc:  # the other files are unaffected
            return PutFile(file.source, EventOutcome(Result.FAILED, file.source, f"{file.source}: {exc}", error=exc))

    def _put(self, file: FileToIngest, metadata: Mapping[str, Any]) -> PutFile:
        sidecar = sidecar_of(file.path)
        facts = _facts(file.path)
        beside = _facts(sidecar) if sidecar else None
        wanted = corpus.PrepareUpload(
            source=file.source,
            sha256=facts.sha256,
            size=facts.size,
            metadata=file.described(metadata) if file.renamed else dict(metadata),
            sidecar=beside,
        )
        answer = self._client.call(corpus.prepare_upload, wanted)
        key = answer.object_key
        if answer.put is None:
            return PutFile(key, EventOutcome(Result.UNCHANGED, key, document_id=answer.document_id))
        if sidecar and answer.sidecar_put:
            _headers_for(answer.put, file.path)  # raises if the document changed, before its sidecar is sent
            self._send(answer.sidecar_put, sidecar)
        self._send(answer.put, file.path)
        if answer.remove_sidecar:  # not earlier: it belongs to the stored document until the new one is stored
            self._client.call(corpus.delete_objects, corpus.DeleteObjects(object_keys=(key + SIDECAR_SUFFIX,)))
        return PutFile(key)

    def _send(self, address: corpus.SignedPut, path: Path) -> None:
        """Puts a file at a signed address. Raises `InvalidInputError` if it changed meanwhile, and
        `StoreUnavailableError`."""
        for attempt in range(1, ATTEMPTS + 1):
            problem, headers = self._once(address, path)
            if not problem:
                return
            if attempt < ATTEMPTS:
                self._client.pause(pause_before(attempt, headers))
        raise StoreUnavailableError(f"can't send {path}: {problem}; files that were sent are kept, try again")

    def _once(self, address: corpus.SignedPut, path: Path) -> tuple[str, Mapping[str, str]]:
        """A temporary error and the answer's headers; "" once the file is stored."""
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
    """A file with the length that it had when it was opened, whose reads raise `_StoppedError` after a stop."""

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


def _headers_for(address: corpus.SignedPut, path: Path) -> dict[str, str]:
    """Headers of the request that puts a file. Raises `InvalidInputError` if its size is no longer that which
    the address was signed for."""
    size = str(path.stat().st_size)
    headers = {"content-length": size, **{name.lower(): value for name, value in address.headers.items()}}
    if headers["content-length"] != size:
        raise _changed(path, "another size")
    return headers


def _changed(path: Path, what: str) -> InvalidInputError:
    return InvalidInputError(f"{path} changed while it was sent ({what}): ingest it again")


def _facts(path: Path) -> corpus.FileFacts:
    return corpus.FileFacts(file_digest(path), path.stat().st_size)
