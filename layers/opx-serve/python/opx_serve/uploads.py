"""Direct uploads to a local server: signed addresses that accept one file each, as presigned URLs of S3 do."""

from __future__ import annotations

import base64
import hmac
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
from starlette.requests import Request

from opx.domain.record import Json, Record, prepared
from opx.edges.failures import attempt
from opx.edges.http import reply
from opx.errors import ObjectNotFoundError
from opx.ingestion.corpus.stores import guarded_signer
from opx.operations.system import System
from opx.ports import ObjectStore, SignedUpload, Storage

PREFIX = "/uploads/"

_ADDRESS: ContextVar[str] = ContextVar("opx.serving.address", default="")


class UploadGrant(Record, frozen=True):
    """One file that may be stored: its key, size, SHA-256 (hex) and metadata, until a time; or the part `number` of an
    upload."""

    key: str
    size: int
    sha256: str
    metadata: dict[str, str]
    until: float
    upload_id: str = ""
    number: int = 0


class SignedUploads:
    """An `UploadSigner` whose addresses lead to this server, and stores the files that are sent there. Addresses are
    signed with a key of this process, and nothing is kept of them. `arrived` is called after each file; parts of files wait
    in `folder`."""

    def __init__(
        self,
        storage: Storage,
        store: ObjectStore,
        arrived: Callable[[], object],
        folder: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._parts = PartFolder(folder)
        self._storage = storage
        self._store = store
        self._arrived = arrived
        self._clock = clock
        self._key = secrets.token_bytes(32)

    @contextmanager
    def at(self, address: str) -> Iterator[None]:
        """Addresses that are signed in the block, or in a thread of it, begin with the one that the caller used."""
        token = _ADDRESS.set(address)
        try:
            yield
        finally:
            _ADDRESS.reset(token)

    def sign_put(
        self, key: str, *, size: int, sha256: str, metadata: Mapping[str, str] | None = None, seconds: int = 900
    ) -> SignedUpload:
        known = dict(metadata or {})
        self._storage.check(key, known)
        return self._signed(UploadGrant(key, size, sha256, known, self._clock() + seconds))

    def _signed(self, grant: UploadGrant) -> SignedUpload:
        payload = base64.urlsafe_b64encode(msgspec.json.encode(grant)).decode()
        address = f"{_ADDRESS.get()}{PREFIX}{payload}.{self._signature(payload)}"
        return SignedUpload(address, {"content-length": str(grant.size)})

    # -- in parts

    def begin(self, key: str, *, metadata: Mapping[str, str] | None = None) -> str:
        known = dict(metadata or {})
        self._storage.check(key, known)
        return self._parts.begin(key, known, self._clock())

    def sign_part(
        self, key: str, upload_id: str, number: int, *, size: int, sha256: str, seconds: int = 900
    ) -> SignedUpload:
        until = self._clock() + seconds
        return self._signed(UploadGrant(key, size, sha256, {}, until, upload_id=upload_id, number=number))

    def arrived(self, key: str, upload_id: str) -> Mapping[int, int]:
        return self._parts.sizes(key, upload_id)

    def complete(self, key: str, upload_id: str) -> None:
        with self._parts.joined(key, upload_id) as (data, metadata):
            self._store.put(key, data, metadata=metadata)
        self._arrived()

    def sha256_of(self, key: str) -> str:
        info = self._store.head(key)
        return info.etag if info else ""  # the etags of a folder are just that

    def granted(self, token: str) -> UploadGrant | None:
        """The grant of an address; None for one that wasn't signed here, or is too old."""
        payload, _, signature = token.partition(".")
        if not hmac.compare_digest(self._signature(payload).encode(), signature.encode("utf-8", "replace")):
            return None
        grant = msgspec.json.decode(base64.urlsafe_b64decode(payload), type=prepared(UploadGrant))
        return grant if self._clock() <= grant.until else None

    def put(self, grant: UploadGrant, body: bytes) -> Json:
        """Stores a file if it is the one of the grant. The reply has the form of `opx.edges.http.reply`. Never raises."""

        def work() -> Json:
            if len(body) != grant.size or sha256(body).hexdigest() != grant.sha256:
                return refused(400, "BadDigest")
            if grant.number:
                self._parts.put(grant.key, grant.upload_id, grant.number, body)
                return reply(200, {})
            self._store.put(grant.key, body, metadata=grant.metadata)
            self._arrived()
            return reply(200, {})

        return attempt(work, lambda failure, _: refused(failure.status, failure.code), "an upload")

    def _signature(self, payload: str) -> str:
        return hmac.new(self._key, payload.encode("utf-8", "replace"), "sha256").hexdigest()


class PartFolder:
    """Keeps parts of uploads in folders of their own until they are joined, for a week at most."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, key: str, metadata: Mapping[str, str], now: float) -> str:
        """Makes a folder for an upload, and removes those that are too old."""
        for old in self._folder.glob("*"):
            if old.stat().st_mtime < now - KEEP_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
        upload_id = secrets.token_hex(16)
        folder = self._folder / upload_id
        folder.mkdir(parents=True)
        (folder / _FACTS).write_bytes(msgspec.json.encode({"key": key, "metadata": dict(metadata)}))
        return upload_id

    def put(self, key: str, upload_id: str, number: int, data: bytes) -> None:
        """Stores a part, atomically. Raises `ObjectNotFoundError` for an unknown upload."""
        folder, _ = self._upload(key, upload_id)
        writing = folder / f".{secrets.token_hex(8)}"
        writing.write_bytes(data)
        writing.replace(folder / str(number))

    def sizes(self, key: str, upload_id: str) -> dict[int, int]:
        folder, _ = self._upload(key, upload_id)
        return {int(part.name): part.stat().st_size for part in _in_order(folder)}

    @contextmanager
    def joined(self, key: str, upload_id: str) -> Iterator[tuple[BinaryIO, dict[str, str]]]:
        """All parts as one file, with the metadata; the upload ends with the block, unless it raises."""
        folder, metadata = self._upload(key, upload_id)
        with tempfile.TemporaryFile(dir=folder) as whole:
            for part in _in_order(folder):
                with part.open("rb") as data:
                    shutil.copyfileobj(data, whole)
            whole.seek(0)
            yield cast("BinaryIO", whole), metadata
        shutil.rmtree(folder, ignore_errors=True)

    def _upload(self, key: str, upload_id: str) -> tuple[Path, dict[str, str]]:
        folder = self._folder / upload_id
        facts = folder / _FACTS
        known = msgspec.json.decode(facts.read_bytes()) if _ID.fullmatch(upload_id) and facts.is_file() else {}
        if known.get("key") != key:
            raise ObjectNotFoundError(f"there is no upload {upload_id[:100]!r} of {key}")
        return folder, known["metadata"]


KEEP_SECONDS = 7 * 86_400
_FACTS = "upload.json"
_ID = re.compile(r"[0-9a-f]{32}")


def _in_order(folder: Path) -> list[Path]:
    return sorted((part for part in folder.iterdir() if part.name.isdecimal()), key=lambda part: int(part.name))


def serve_uploads(system: System, arrived: Callable[[], object]) -> SignedUploads:
    """Uploads to a system whose store has no signed addresses of its own, from now on."""
    folder = Path(system.settings.home).expanduser() / "uploads"
    uploads = SignedUploads(system.storage, system.store, arrived, folder)
    if system.corpus.upload_signer is None:
        system.corpus.upload_signer = guarded_signer(uploads, system.corpus.clients.check)
    return uploads


def refused(status: int, code: str) -> Json:
    """The reply to a file that isn't stored, in the form of S3's, as its clients expect."""
    return {
        "statusCode": status,
        "headers": {"content-type": "application/xml"},
        "body": f"<Error><Code>{code}</Code></Error>",
    }


def requested_at(request: Request) -> str:
    """The address of the server as the caller wrote it, also before a proxy with TLS. A caller who forges it deceives
    itself only."""
    scheme = "https" if request.headers.get("x-forwarded-proto") == "https" else "http"
    return f"{scheme}://{request.headers.get('host', '')}"
