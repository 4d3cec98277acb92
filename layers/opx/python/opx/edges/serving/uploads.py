"""Direct uploads to a local server: signed addresses that accept one file each, as presigned URLs of S3 do."""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256

import msgspec
from starlette.requests import Request

from opx.domain.record import Json, Record, prepared
from opx.edges.failures import attempt
from opx.edges.http import reply
from opx.ingestion.corpus.stores import GuardedUploadSigner
from opx.operations.system import System
from opx.ports import ObjectStore, SignedUpload, Storage

PREFIX = "/uploads/"

_ADDRESS: ContextVar[str] = ContextVar("opx.serving.address", default="")


class UploadGrant(Record, frozen=True):
    """One file that may be stored: its key, size, SHA-256 (hex) and metadata, until a time."""

    key: str
    size: int
    sha256: str
    metadata: dict[str, str]
    until: float


class SignedUploads:
    """An `UploadSigner` whose addresses lead to this server, and stores the files that are sent there. Addresses are
    signed with a key of this process, and nothing is kept of them. `arrived` is called after each file."""

    def __init__(
        self,
        storage: Storage,
        store: ObjectStore,
        arrived: Callable[[], object],
        clock: Callable[[], float] = time.time,
    ) -> None:
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
        payload = base64.urlsafe_b64encode(
            msgspec.json.encode(UploadGrant(key, size, sha256, known, self._clock() + seconds))
        ).decode()
        address = f"{_ADDRESS.get()}{PREFIX}{payload}.{self._signature(payload)}"
        return SignedUpload(address, {"content-length": str(size)})

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
            self._store.put(grant.key, body, metadata=grant.metadata)
            self._arrived()
            return reply(200, {})

        return attempt(work, lambda failure, _: refused(failure.status, failure.code), "an upload")

    def _signature(self, payload: str) -> str:
        return hmac.new(self._key, payload.encode("utf-8", "replace"), "sha256").hexdigest()


def serve_uploads(system: System, arrived: Callable[[], object]) -> SignedUploads:
    """Uploads to a system whose store has no signed addresses of its own, from now on."""
    uploads = SignedUploads(system.storage, system.store, arrived)
    if system.corpus.upload_signer is None:
        system.corpus.upload_signer = GuardedUploadSigner(uploads, system.corpus.clients.check)
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
