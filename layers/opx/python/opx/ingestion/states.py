"""How objects of the corpus stand, for those who put them and wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from opx.domain.documents import DocumentKey
from opx.domain.record import Record
from opx.domain.scopes import scope_of_object
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.corpus.failures import FailureLog, failure_id
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.ports import Item, ObjectInfo, ObjectStore
from opx.runtime.parallel import Each


class ObjectPhase(StrEnum):
    """Where an object is on its way into the knowledge."""

    WAITING = "waiting"
    INGESTED = "ingested"
    DELETED = "deleted"
    FAILED = "failed"


class ObjectState(Record, frozen=True, omit_defaults=True):
    """How an object of the corpus stands. `document_id`, `title` and `chunks` of what is ingested, `reason` and `mark`
    of what failed: `mark` tells a new failure from one that the object had before it was put again."""

    object_key: str
    state: ObjectPhase
    document_id: str = ""
    title: str = ""
    chunks: int = 0
    reason: str = ""
    mark: str = ""


class ObjectStates:
    """Compares what is stored with what the catalog has of it. `fingerprint` is the pipeline's."""

    def __init__(
        self,
        *,
        store: ObjectStore,
        catalog: Catalog,
        failures: FailureLog,
        fingerprint: Callable[[ObjectInfo, ObjectInfo | None], str],
        threads: int = 1,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._failures = failures
        self._fingerprint = fingerprint
        self._each = Each(threads)

    def of(self, object_keys: Sequence[str]) -> list[ObjectState]:
        """The state of each object, in order. Raises `InvalidScopeError` for a malformed key."""
        return self._each(self._state, object_keys)

    def _state(self, object_key: str) -> ObjectState:
        key = DocumentKey(*scope_of_object(object_key))
        head = self._catalog.head(key) or {}
        info = self._store.head(object_key)
        if info and self._is_taken_in(info, head):
            document = self._catalog.version(key, current_id(head))
            title, chunks = (document.title, document.chunk_count) if document else ("", 0)
            return ObjectState(object_key, ObjectPhase.INGESTED, current_id(head), title, chunks)
        failure = self._failures.get(failure_id(object_key))
        if failure:
            return ObjectState(object_key, ObjectPhase.FAILED, reason=failure.reason, mark=failure.mark)
        if info or current_id(head) or head.get("writing"):
            return ObjectState(object_key, ObjectPhase.WAITING)
        return ObjectState(object_key, ObjectPhase.DELETED)

    def _is_taken_in(self, info: ObjectInfo, head: Item) -> bool:
        if not current_id(head) or head.get("writing"):
            return False
        return bool(head.get("fingerprint") == self._fingerprint(info, self._store.head(info.key + SIDECAR_SUFFIX)))
