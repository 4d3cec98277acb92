"""The knowledge base of the services in this process: a folder on a laptop, or the stores behind the HTTP API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from opx.domain.documents import KnowledgeDocument
from opx.domain.scopes import Identity, Scope, scope_of_object
from opx.errors import InvalidInputError, InvalidScopeError, OpxError
from opx.ingestion.failures import Failure
from opx.ingestion.states import ObjectState
from opx.knowledge_base import MAX_PAGE, Page, Progress, PutFile, Status
from opx.local_reading import LocalReading
from opx.local_versions import LocalVersions
from opx.paging import page_of, read_token
from opx.ports import SearchFilter

if TYPE_CHECKING:
    from opx.ingestion.failures import FailedItem
    from opx.ingestion.files import FileToIngest
    from opx.ingestion.manager import IngestionManager
    from opx.ingestion.outcomes import Outcome
    from opx.services import Services


class LocalKnowledgeBase(
    LocalReading,
    LocalVersions,
):
    """A `KnowledgeBase` over services, for one identity.

    With `whole_system` the caller owns the machine, and what failed in any scope is listed; else only what failed in
    the identity's own.
    """

    def __init__(self, services: Services, identity: Identity, *, whole_system: bool = False) -> None:
        super().__init__(services, identity)
        self._whole_system = whole_system

    def status(self) -> Status:
        counts = Counter(document.category for document in self._current())
        chunks, model, index = self._index_facts()
        return Status(
            scope=self.scope.key,
            documents=sum(counts.values()),
            waiting=self._waiting(),
            failed=sum(1 for _ in self._own_failures()),
            index=index,
            chunks=chunks,
            embedding_model=model,
            categories=dict(sorted(counts.items())),
        )

    def _waiting(self) -> int | None:
        """How much there is to do for everybody is a count of others, too."""
        if self._whole_system or not self._identity.client_id:
            return self._services.queue.waiting()
        return None

    def _index_facts(self) -> tuple[int | None, str, str]:
        """A broken index or a missing model is what is asked about: it is told, not raised."""
        try:
            model = self._services.document_embedder.model_id
            return self._services.index.count(SearchFilter(self._reader().visible)), model, "ok"
        except OpxError as exc:
            return None, "", str(exc)

    # -- writing, to the identity's own scope

    @cached_property
    def scope(self) -> Scope:
        """Where documents of the identity go. Raises `InvalidScopeError` for a malformed one."""
        return Scope(self._identity.client_id, project_id=self._identity.project_id)

    def own_scope(self) -> str:
        return self.scope.key

    @cached_property
    def manager(self) -> IngestionManager:
        """The ways in, for the identity's scope."""
        return self._services.manager_of(self.scope)

    def object_key(self, source: str) -> str:
        """The key of the object that a file of this source name becomes, or the folder of those below it."""
        from opx.ingestion.events import DOCUMENTS_FOLDER

        return f"{self.scope.prefix}{DOCUMENTS_FOLDER}{source.lstrip('/')}"

    def put_files(self, files: Sequence[FileToIngest], metadata: Mapping[str, Any]) -> Iterator[PutFile]:
        for file in files:
            yield PutFile(self.object_key(file.source), self._put_file(file, metadata))

    def _put_file(self, file: FileToIngest, metadata: Mapping[str, Any]) -> Outcome | None:
        from opx.ingestion.outcomes import Outcome, Result

        try:
            return self.manager.put_file(file, metadata)
        except InvalidInputError as exc:  # a name that no object can have: the other files are fine
            return Outcome(Result.FAILED, str(file.path), str(exc), error=exc)

    def put_evidence(self, evidence: Mapping[str, Any]) -> str:
        from opx.ingestion.evidence import put_evidence, read_evidence

        return put_evidence(self.manager, self._services.store, self._services.evidence_rules, read_evidence(evidence))

    def stored_under(self, source: str) -> Iterator[str]:
        from opx.ingestion.events import SIDECAR_SUFFIX

        key = self.object_key(source).rstrip("/")
        if self._services.store.head(key):
            yield key
        for info in self._services.store.list(key + "/"):
            if not info.key.endswith(SIDECAR_SUFFIX):
                yield info.key

    def delete_objects(self, object_keys: Sequence[str]) -> None:
        from opx.lifecycle.deleting import check_removal

        for key in object_keys:
            self._check_own(key)
        check_removal(self._services, object_keys)
        for key in object_keys:
            self.manager.delete_object(key)

    def delete(self, document_id: str) -> tuple[KnowledgeDocument, ...]:
        found = self._services.catalog.find(document_id)
        self._services.holds.check((one.key, one.category) for one in found if one.key.scope == self.scope)
        return tuple(self.manager.delete(document_id))

    def work(self, sent: Collection[str], progress: Progress) -> Iterator[Outcome]:  # noqa: ARG002
        """Here everything that waits is worked off, whoever sent it; nothing where functions do it."""
        drain = self._services.drain
        if drain is not None:
            yield from drain.run(progress=progress)

    # -- what failed

    def failures(self, *, limit: int = MAX_PAGE, after: str = "") -> Page[Failure]:
        place = read_token(after, 2)
        return page_of(
            (as_failure(item) for item in self._own_failures(since=place[0] if place else "")),
            order=lambda failure: (failure.failed_at,),
            name=lambda failure: failure.failure_id,
            limit=limit,
            after=place,
        )

    def retry(self, failure_ids: Sequence[str]) -> tuple[str, ...]:
        found = [self._services.failures.get(failure_id) for failure_id in failure_ids]
        own = [item for item in found if item and self._may_retry(item.object_key)]
        for item in own:
            self._services.queue.send(item.event)
        return tuple(item.object_key for item in own)

    def _own_failures(self, since: str = "") -> Iterator[FailedItem]:
        found = self._services.failures.items(since=since, scope="" if self._whole_system else self.scope.key)
        return (item for item in found if self._may_retry(item.object_key))

    def _may_retry(self, object_key: str) -> bool:
        return self._whole_system or self._is_own(object_key)

    def object_states(self, object_keys: Sequence[str]) -> list[ObjectState]:
        """How objects of the own scope stand, in order. Raises `InvalidScopeError` for a key of another scope."""
        from opx.ingestion.states import ObjectStates

        for key in object_keys:
            self._check_own(key)
        services = self._services
        states = ObjectStates(
            store=services.store,
            catalog=services.catalog,
            failures=services.failures,
            fingerprint=services.pipeline.fingerprint,
            threads=services.read_threads,
        )
        return states.of(object_keys)

    def _is_own(self, object_key: str) -> bool:
        from opx.ingestion.events import DOCUMENTS_FOLDER

        try:
            scope, source = scope_of_object(object_key)
        except InvalidScopeError:
            return False
        return scope == self.scope and source.startswith(DOCUMENTS_FOLDER)

    def _check_own(self, object_key: str) -> None:
        if not self._is_own(object_key):
            raise InvalidScopeError(f"object {object_key[:100]!r} does not belong to {self.scope.key}")


def as_failure(item: FailedItem) -> Failure:
    """A failed item without the event that is sent again."""
    return item.failure
