"""Reports the ingestion state of objects to callers that wait, and requests runs of a managed knowledge base."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import PurePosixPath

from opx.domain.documents import DocumentKey, is_kept_out
from opx.domain.record import Record
from opx.domain.scopes import scope_of_object
from opx.errors import InvalidInputError, StoreUnavailableError, UnparsableDocumentError
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.corpus.failures import FailureLog, failure_id
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.ingestion.files import stated_facts
from opx.ports import IndexSync, Item, ObjectInfo, ObjectStore
from opx.runtime.threads import Each

log = logging.getLogger(__name__)


EMPTY_MARKER = "an empty file of code or of an unknown format, as packages have them: nothing to know"
FRONT_MATTER_ONLY = "the page of a section, with front matter and no text below it: nothing to know"
NOTHING_TO_KNOW = frozenset({EMPTY_MARKER, FRONT_MATTER_ONLY})
"""Reasons for which an object becomes no document and is no failure."""

_SECTION_PAGES = frozenset({"_index.md", "index.md"})
_SECTION_PAGE_BYTES = 65_536


def nothing_to_know(store: ObjectStore, object_key: str, info: ObjectInfo) -> str:
    """One of `NOTHING_TO_KNOW` for an empty marker (`__init__.py`, `py.typed`) and for a section's page without text, ""
    for other objects. Raises `ObjectNotFoundError`."""
    path = PurePosixPath(object_key)
    if not info.size:
        from opx.formats.registry import family_of, is_known

        return EMPTY_MARKER if family_of(object_key) == "code" or not is_known(path.suffix) else ""
    if path.name not in _SECTION_PAGES or info.size > _SECTION_PAGE_BYTES:
        return ""
    with store.open(object_key) as stream:
        lines = iter(stream.read().decode("utf-8", "replace").splitlines(keepends=True))
    from opx.formats.markup.plain import read_front_matter

    try:
        metadata, read = read_front_matter(lines, object_key)
    except UnparsableDocumentError:
        return ""
    return "" if metadata is None or any(map(str.strip, chain(read, lines))) else FRONT_MATTER_ONLY


class ObjectPhase(StrEnum):
    """Phase of an object's ingestion."""

    WAITING = "waiting"
    INGESTED = "ingested"
    DELETED = "deleted"
    FAILED = "failed"


class ObjectState(Record, frozen=True, omit_defaults=True):
    """State of an object of the corpus. `document_id`, `title` and `chunks` of an ingested one, `reason` and `mark` of a
    failed one: `mark` distinguishes a new failure from one that the object had before it was put again. `kept_out` is the
    reason why an ingested one is not indexed: it is past its retention. `file` is the name of the file that an ingested one
    was put from, and `etag` the object's."""

    object_key: str
    state: ObjectPhase
    document_id: str = ""
    title: str = ""
    chunks: int = 0
    reason: str = ""
    mark: str = ""
    kept_out: str = ""
    file: str = ""
    etag: str = ""


@dataclass(eq=False, kw_only=True)
class ObjectStates:
    """Compares stored objects with the catalog. `fingerprint` is the pipeline's."""

    store: ObjectStore
    catalog: Catalog
    failures: FailureLog
    fingerprint: Callable[[ObjectInfo, ObjectInfo | None], str]
    threads: int = 1

    def __post_init__(self) -> None:
        self._each = Each(self.threads)

    def of(self, object_keys: Sequence[str]) -> list[ObjectState]:
        """The state of each object, in order. Raises `InvalidScopeError` for a malformed key."""
        return self._each(self._state, object_keys)

    def _state(self, object_key: str) -> ObjectState:
        key = DocumentKey(*scope_of_object(object_key))
        head = self.catalog.head(key) or {}
        info = self.store.head(object_key)
        if info and self._is_ingested(info, head):
            document = self.catalog.version(key, current_id(head))
            title, chunks = (document.title, document.chunk_count) if document else ("", 0)
            kept_out = document.remarks[0].text if document and is_kept_out(document) else ""
            return ObjectState(
                object_key,
                ObjectPhase.INGESTED,
                current_id(head),
                title,
                0 if kept_out else chunks,
                kept_out=kept_out,
                file=str(stated_facts(info).get("source_uri") or ""),
                etag=info.etag,
            )
        failure = self.failures.get(failure_id(object_key))
        if failure:
            return ObjectState(object_key, ObjectPhase.FAILED, reason=failure.reason, mark=failure.mark)
        if info and not current_id(head) and (reason := nothing_to_know(self.store, object_key, info)):
            return ObjectState(object_key, ObjectPhase.DELETED, reason=reason)
        if info or current_id(head) or head.get("writing"):
            return ObjectState(object_key, ObjectPhase.WAITING)
        return ObjectState(object_key, ObjectPhase.DELETED)

    def _is_ingested(self, info: ObjectInfo, head: Item) -> bool:
        if not current_id(head) or head.get("writing"):
            return False
        return bool(head.get("fingerprint") == self.fingerprint(info, self.store.head(info.key + SIDECAR_SUFFIX)))


# -- runs of a managed knowledge base


def sync_request(since: float) -> str:
    """A message that requests a run that begins after `since`, in seconds since the epoch."""
    return json.dumps({"since": since})


def requested_since(body: str) -> float:
    """The `since` of a request. Raises `InvalidInputError` for other messages."""
    try:
        return float(json.loads(body)["since"])
    except (ValueError, TypeError, KeyError) as exc:
        raise InvalidInputError(f"not a request to index: {body[:100]!r}") from exc


def sync_batch(bodies: Iterable[str], sync: IndexSync) -> bool:
    """Starts one run for all requests. False if they must be retried, because it can't begin yet or the service is down."""
    moments = []
    for body in bodies:
        try:
            moments.append(requested_since(body))
        except InvalidInputError as exc:
            log.warning("dropped a message: %s", exc)
    if not moments:
        return True
    try:
        return sync.cover(max(moments))
    except StoreUnavailableError:
        log.warning("a requested run could not be started", exc_info=True)
        return False
