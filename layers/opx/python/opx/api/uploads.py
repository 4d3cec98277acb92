"""Files on their way into the corpus past the API, which they may be too large for: it says where each is to be put."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opx.api.fields import Json
from opx.api.http_events import TooLargeError
from opx.ingestion.corpus_writer import metadata_text
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.ingestion.files import described
from opx.ingestion.reading import OBJECT_METADATA
from opx.operations.requests import RequestError
from opx.ports import ObjectInfo, SignedPut, UploadSigner

if TYPE_CHECKING:
    from opx.local_knowledge_base import LocalKnowledgeBase
    from opx.services import Services


class Uploads:
    """Upload addresses for the scope of a knowledge base. Raises `RequestError` where the corpus has no such things."""

    def __init__(self, services: Services, base: LocalKnowledgeBase) -> None:
        if services.upload_signer is None:
            raise RequestError("this knowledge base takes no uploads")
        self._signer: UploadSigner = services.upload_signer
        self._services = services
        self._base = base

    def prepare(self, asked: Mapping[str, Any]) -> Json:
        """Either that the file is taken in as it is, or where to put it.

        A stored sidecar that the file no longer has is for the caller to remove once the file is there: without it, the
        document that the file replaces would lose its category and tags, whether or not the file ever arrives. Raises
        `InvalidInputError` for a name that no object can have, and `TooLargeError`.
        """
        source, sidecar = asked["source"], asked.get("sidecar")
        if source.endswith(SIDECAR_SUFFIX):
            raise RequestError(f"names that end with {SIDECAR_SUFFIX} are for metadata: give it as `sidecar`")
        self._check_size(asked["size"] + (sidecar["size"] if sidecar else 0))
        key = self._base.object_key(source)
        text = metadata_text(described(source, asked.get("metadata", {})))
        put = self._signed(key, asked, {OBJECT_METADATA: text})
        current = self._base.manager.current_if(key, text, lambda *stored: self._is_stored(stored, asked))
        if current:
            return {"state": "unchanged", "objectKey": key, "documentId": current}
        found: Json = {"state": "upload", "objectKey": key, "put": put}
        if sidecar:
            found["sidecarPut"] = self._signed(key + SIDECAR_SUFFIX, sidecar, {})
        elif self._services.store.head(key + SIDECAR_SUFFIX):
            found["removeSidecar"] = True
        return found

    def _check_size(self, size: int) -> None:
        limit = self._services.settings.max_document_bytes
        if size > limit:
            raise TooLargeError(f"the file has {size:,} bytes with its metadata; at most {limit:,} are taken in")

    def _is_stored(self, stored: tuple[ObjectInfo, ObjectInfo | None], asked: Mapping[str, Any]) -> bool:
        info, sidecar = stored
        wanted: str = (asked.get("sidecar") or {}).get("sha256", "")
        if self._signer.sha256_of(info.key) != asked["sha256"]:
            return False
        return (self._signer.sha256_of(sidecar.key) if sidecar else "") == wanted

    def _signed(self, key: str, file: Mapping[str, Any], metadata: Mapping[str, str]) -> Json:
        put: SignedPut = self._signer.sign_put(key, size=file["size"], sha256=file["sha256"], metadata=metadata)
        return {"url": put.url, "headers": dict(put.headers)}
