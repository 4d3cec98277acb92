"""Callers of a system, in this process and over HTTP, and the parts of replies that contracts look at."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from opx.adapters.connections import Connections
from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.domain.queries import QueryConfig
from opx.domain.requests import Request, read_request
from opx.domain.results import Answer
from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient, OperationClient, all_pages
from opx.edges.client import RemoteClient, bearer
from opx.edges.loading import Loader, LocalLoader, RemoteLoader
from opx.ingestion.corpus.failures import Failure
from opx.ingestion.events import EventOutcome, PutFile
from opx.ingestion.files import FileToIngest
from opx.operations.context import Caller, Context
from opx.operations.corpus import (
    DeleteDocument,
    DeleteObjects,
    GetStatus,
    ListFailures,
    ListObjects,
    RetryFailures,
    Status,
    delete_document,
    delete_objects,
    get_status,
    list_failures,
    list_objects,
    retry_failures,
)
from opx.operations.documents import (
    DocumentVersions,
    GetDocument,
    ListDocuments,
    ReadChunks,
    get_document,
    list_documents,
    read_chunks,
)
from opx.operations.projects import AssignProject, assign_project
from opx.operations.registry import REGISTRY, Run
from opx.operations.search import Query, query
from opx.operations.system import System
from tests.doubles.api_gateway import DeployedSystem

Q = TypeVar("Q", bound=Request)
R = TypeVar("R")

TOKEN = "token"


@dataclass(frozen=True)
class CallerAccess:
    """Calls operations for one caller, and loads files as the command does."""

    client: OperationClient
    loader: Loader

    def call(self, run: Run[Q, R], request: Q) -> R:
        """The reply of an operation. Earlier failures don't count as its outcome."""
        operation = REGISTRY.of(run)
        if operation.route is not None and operation.route.method != "GET":
            self.loader.note_failures()
        return self.client.call(run, request)

    def put_files(self, files: Sequence[FileToIngest], metadata: Mapping[str, object]) -> list[PutFile]:
        return list(self.loader.put_files(files, metadata))

    def work(self, sent: Collection[str]) -> list[EventOutcome]:
        """Ingest waiting objects: all of them on this machine, or `sent` by the workers of a deployed system."""
        return list(self.loader.outcomes(sent))


def local_access(services: System, identity: Identity, *, owns_system: bool = False) -> CallerAccess:
    """A caller of a system in this process."""
    context = Context(services, Caller(identity, owns_system=owns_system))
    return CallerAccess(LocalClient(context), LocalLoader(context))


@contextmanager
def remote_access(services: System, claims: Mapping[str, Any]) -> Iterator[CallerAccess]:
    """A caller with these claims of a system that is deployed on this machine."""
    with DeployedSystem(services, tokens={TOKEN: claims}) as system, open_access(system) as access:
        yield access


@contextmanager
def open_access(system: DeployedSystem, token: str = TOKEN) -> Iterator[CallerAccess]:
    """The caller with this token."""
    client = RemoteClient(system.endpoint, bearer(token), Connections(), pause=_at_once)
    try:
        yield CallerAccess(client, RemoteLoader(client))
    finally:
        client.close()


def given(access: CallerAccess, run: Run[Q, R], **fields: object) -> R:
    """The reply to a request of these fields, named as in JSON. Raises `RequestError` for invalid ones."""
    return access.call(run, read_request(REGISTRY.of(run).request, fields))


def every_failure(access: CallerAccess) -> list[Failure]:
    """Failed items of all pages."""
    return [one for page in all_pages(access.client, list_failures, ListFailures()) for one in page.failures]


def _at_once(_seconds: float) -> None:
    """No pause between attempts."""


def a_file(folder: Path, name: str, text: str) -> FileToIngest:
    """A file on disk, under the name that it has from the folder above."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return FileToIngest(path, f"docs/{name}")


def put_all(
    access: CallerAccess, files: Sequence[FileToIngest], metadata: dict[str, object] | None = None
) -> list[PutFile]:
    return access.put_files(files, metadata or {})


def ingest_files(
    access: CallerAccess, files: Sequence[FileToIngest], metadata: dict[str, object] | None = None
) -> list[EventOutcome]:
    """Outcomes that say how a document is now, one each."""
    done = put_all(access, files, metadata)
    sent = [put.object_key for put in done if put.outcome is None]
    worked = {outcome.object_key.removesuffix(".metadata.json"): outcome for outcome in access.work(sent)}
    return [*(put.outcome for put in done if put.outcome), *worked.values()]


def retried_keys(access: CallerAccess, failure_ids: Sequence[str]) -> tuple[str, ...]:
    return access.call(retry_failures, RetryFailures(failure_ids=tuple(failure_ids))).object_keys


def retried(access: CallerAccess, failure_ids: Sequence[str]) -> list[EventOutcome]:
    return access.work(retried_keys(access, failure_ids))


def documents(access: CallerAccess, **fields: Any) -> tuple[KnowledgeDocument, ...]:
    return access.call(list_documents, ListDocuments(**fields)).documents


def failures(access: CallerAccess) -> tuple[Failure, ...]:
    return access.call(list_failures, ListFailures()).failures


def stored_under(access: CallerAccess, source: str) -> list[str]:
    return list(access.call(list_objects, ListObjects(under=source)).object_keys)


def ask(access: CallerAccess, question: str, config: QueryConfig, *, receipt: bool = False) -> Answer:
    return access.call(query, Query(query=question, config=config, receipt=receipt))


def status_of(access: CallerAccess) -> Status:
    return access.call(get_status, GetStatus())


def shown(access: CallerAccess, wanted: str) -> DocumentVersions:
    return access.call(get_document, GetDocument(document_id=wanted))


def pieces(access: CallerAccess, document_id: str, *, after: int = 0) -> list[DocumentChunk]:
    return list(access.call(read_chunks, ReadChunks(document_id=document_id, after=after)).chunks)


def delete_all(access: CallerAccess, object_keys: Sequence[str]) -> None:
    access.call(delete_objects, DeleteObjects(object_keys=tuple(object_keys)))


def deleted_by(access: CallerAccess, document_id: str) -> tuple[KnowledgeDocument, ...]:
    return access.call(delete_document, DeleteDocument(document_id=document_id)).deleted


def assign(access: CallerAccess, client: str, project: str, group: str) -> None:
    access.call(assign_project, AssignProject(client_id=client, project_id=project, group_id=group))


def titles(access: CallerAccess, *, category: str = "") -> list[str]:
    return [document.title for document in documents(access, category=category)]
