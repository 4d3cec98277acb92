"""The knowledge base of a deployed system, over its HTTP API."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import opx
from opx import wire
from opx.adapters.remote.connections import Connections
from opx.adapters.remote.http import ApiClient, Authorizer, Pause, Query
from opx.adapters.remote.versions import RemoteVersions
from opx.domain.documents import DocumentChunk, DocumentState, KnowledgeDocument
from opx.domain.knowledge import KnowledgeModel
from opx.domain.queries import QueryConfig
from opx.domain.research import DEFAULT_ITERATIONS, ResearchReport
from opx.domain.results import Answer
from opx.errors import DocumentNotFoundError, InvalidInputError, OpxError
from opx.ingestion.failures import Failure
from opx.ingestion.states import ObjectState
from opx.knowledge_base import (
    MAX_PAGE,
    DocumentVersions,
    Page,
    Progress,
    PutFile,
    Status,
    checked_id,
    every_failure,
)

if TYPE_CHECKING:
    from opx.ingestion.files import FileToIngest
    from opx.ingestion.outcomes import Outcome

T = TypeVar("T")
_KNOWLEDGE_BASE = "default"
_MANY = 100
"""Keys or ids that one request may have."""

_MAX_QUESTION = 100_000
"""Characters that the API takes; it searches for far fewer, and says so."""


class RemoteKnowledgeBase(RemoteVersions):
    """A `KnowledgeBase` that asks the API at `endpoint`. Who the caller is follows from what `authorize` proves."""

    def __init__(
        self, endpoint: str, authorize: Authorizer, connections: Connections, *, pause: Pause = time.sleep
    ) -> None:
        self._connections = connections
        self._pause = pause
        self._api = ApiClient(endpoint, authorize, connections, pause=pause)
        self._known_failures: dict[str, str] | None = None

    @property
    def endpoint(self) -> str:
        return self._api.endpoint

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    # -- reading

    @cached_property
    def knowledge(self) -> KnowledgeModel:
        return self._read(wire.categories_from_json, self._api.call("GET", "categories"))

    def search(self, query: str, config: QueryConfig, *, receipt: bool = False) -> Answer:
        body: dict[str, Any] = {"query": query[:_MAX_QUESTION], "config": wire.config_to_json(config)}
        if receipt:  # a system of before there were any would refuse the field
            body["receipt"] = True
        return self._read(
            wire.answer_from_json, self._api.call("POST", "knowledge", _KNOWLEDGE_BASE, "query", body=body)
        )

    def research_topic(
        self, topic: str, max_iterations: int = DEFAULT_ITERATIONS, config: QueryConfig | None = None
    ) -> ResearchReport:
        bounds = wire.config_to_json(config or QueryConfig())
        body = {"topic": topic[:_MAX_QUESTION], "maxIterations": max_iterations, "config": bounds}
        return self._read(wire.research_from_json, self._api.call("POST", "research", body=body))

    def documents(
        self, *, category: str = "", all_versions: bool = False, limit: int = MAX_PAGE, after: str = ""
    ) -> Page[KnowledgeDocument]:
        query: dict[str, str | int] = {"limit": limit}
        if category:
            query["category"] = category
        if all_versions:
            query["allVersions"] = "true"
        return self._page("documents", query, after, wire.document_from_json)

    def document(self, wanted: str) -> DocumentVersions:
        found = self._api.call("GET", "documents", checked_id(wanted))
        document, versions = self._read(_document_and_versions, found)
        while "next" in found:
            found = self._api.call("GET", "documents", document.document_id, query={"after": found["next"]})
            versions += self._read(_document_and_versions, found)[1]
        return DocumentVersions(document, versions)

    def chunks(self, document_id: str, *, after: int = 0) -> Iterator[DocumentChunk]:
        following: int | None = after
        while following is not None:
            found = self._api.call("GET", "documents", document_id, "chunks", query={"after": following})
            yield from self._read(lambda data: list(map(wire.chunk_from_json, data["chunks"])), found)
            following = found.get("next")

    def status(self) -> Status:
        return self._read(self._status, self._api.call("GET", "status"))

    def _status(self, data: Mapping[str, Any]) -> Status:
        if data["apiVersion"] > wire.API_VERSION:
            raise OpxError(f"the system at {self.endpoint} is newer than this command: update opx ({opx.__version__})")
        return wire.status_from_json(data)

    def own_scope(self) -> str:
        return self.status().scope

    # -- writing

    def put_files(self, files: Sequence[FileToIngest], metadata: Mapping[str, Any]) -> Iterator[PutFile]:
        from opx.adapters.remote.uploads import Uploads

        if not files:
            return
        self._note_failures()
        yield from Uploads(self._api, self._connections, pause=self._pause).put_files(files, metadata)

    def put_evidence(self, evidence: Mapping[str, Any]) -> str:
        from opx.ingestion.evidence import read_evidence

        body = read_evidence(evidence).to_json()
        self._note_failures()
        return self._read(lambda data: str(data["objectKey"]), self._api.call("POST", "evidence", body=body))

    def stored_under(self, source: str) -> Iterator[str]:
        after = ""
        while True:
            page = self._page("objects", {"under": source}, after, str, name="objectKeys")
            yield from page.items
            after = page.next
            if not after:
                return

    def delete_objects(self, object_keys: Sequence[str]) -> None:
        self._note_failures()
        for some in _portions(object_keys):
            self._api.call("POST", "objects", "delete", body={"objectKeys": some})

    def delete(self, document_id: str) -> tuple[KnowledgeDocument, ...]:
        self._note_failures()
        found, repeated = self._api.delete("documents", checked_id(document_id))
        answer = {"deleted": []} if found is None else found
        deleted = self._read(lambda data: tuple(map(wire.document_from_json, data["deleted"])), answer)
        return deleted or self._deleted_before(document_id, repeated=repeated)

    def _deleted_before(self, document_id: str, *, repeated: bool) -> tuple[KnowledgeDocument, ...]:
        """What an earlier attempt at a deletion removed. Raises `DocumentNotFoundError` if none did."""
        found = self.document(document_id).document if repeated else None
        if found is None or found.state is DocumentState.CURRENT:
            raise DocumentNotFoundError(f"no current document {document_id}")
        return (found,)

    def work(self, sent: Collection[str], progress: Progress) -> Iterator[Outcome]:  # noqa: ARG002 - workers don't tell
        """Waits for the system's workers."""
        from opx.adapters.remote.waiting import Waiting

        try:
            yield from Waiting(self._states, pause=self._pause).outcomes(sent, self._known_failures or {})
        finally:
            self._known_failures = None

    def _states(self, object_keys: Sequence[str]) -> list[ObjectState]:
        found = self._api.call("POST", "objects", "states", body={"objectKeys": list(object_keys)})
        return self._read(lambda data: list(map(wire.state_from_json, data["states"])), found)

    def failures(self, *, limit: int = MAX_PAGE, after: str = "") -> Page[Failure]:
        return self._page("failures", {"limit": limit}, after, wire.failure_from_json)

    def retry(self, failure_ids: Sequence[str]) -> tuple[str, ...]:
        self._note_failures()
        keys: list[str] = []
        for some in _portions(failure_ids):
            keys += self._api.call("POST", "failures", "retry", body={"failureIds": some})["objectKeys"]
        return tuple(keys)

    def _note_failures(self) -> None:
        """Remember what failed before anything is sent, to tell it from what fails afterwards.

        Once until the next wait is over: what is sent first may have failed when more is sent.
        """
        if self._known_failures is None:
            self._known_failures = {failure.object_key: failure.mark for failure in every_failure(self)}

    # -- pages and JSON

    def _page(self, route: str, query: Query, after: str, read: Callable[[Any], T], *, name: str = "") -> Page[T]:
        found = self._api.call("GET", route, query={**query, **({"after": after} if after else {})})
        return self._read(lambda data: Page(tuple(map(read, data[name or route])), data.get("next", "")), found)

    def _read(self, read: Callable[[Any], T], data: Any) -> T:
        """What an answer says. Raises `OpxError` for one that this version doesn't understand."""
        try:
            return read(data)
        except (InvalidInputError, KeyError, TypeError, AttributeError) as exc:
            raise OpxError(
                f"{self.endpoint} answered in a way that opx {opx.__version__} doesn't understand ({exc}): "
                "one of the two is newer, bring both to the same version"
            ) from exc


def _document_and_versions(data: Any) -> tuple[KnowledgeDocument, tuple[KnowledgeDocument, ...]]:
    return wire.document_from_json(data["document"]), tuple(map(wire.document_from_json, data["versions"]))


def _portions(values: Sequence[str]) -> Iterator[list[str]]:
    for at in range(0, len(values), _MANY):
        yield list(values[at : at + _MANY])
