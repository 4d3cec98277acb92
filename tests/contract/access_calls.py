"""Operations called by a caller, each with the part of its reply that contracts look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.domain.queries import QueryConfig
from opx.domain.results import Answer
from opx.ingestion.corpus.failures import Failure
from opx.ingestion.events import EventOutcome, PutFile
from opx.ingestion.files import FileToIngest
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
from opx.operations.search import Query, query
from tests.contract.caller_access import CallerAccess


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
