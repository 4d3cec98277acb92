"""Operations called from a seat, each with the part of its reply that contracts look at."""

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
from tests.contract.seats import Seat


def a_file(folder: Path, name: str, text: str) -> FileToIngest:
    """A file on disk, under the name that it has from the folder above."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return FileToIngest(path, f"docs/{name}")


def put_all(seat: Seat, files: Sequence[FileToIngest], metadata: dict[str, object] | None = None) -> list[PutFile]:
    return seat.put_files(files, metadata or {})


def ingest_files(
    seat: Seat, files: Sequence[FileToIngest], metadata: dict[str, object] | None = None
) -> list[EventOutcome]:
    """Outcomes that say how a document is now, one each."""
    done = put_all(seat, files, metadata)
    sent = [put.object_key for put in done if put.outcome is None]
    worked = {outcome.object_key.removesuffix(".metadata.json"): outcome for outcome in seat.work(sent)}
    return [*(put.outcome for put in done if put.outcome), *worked.values()]


def retried_keys(seat: Seat, failure_ids: Sequence[str]) -> tuple[str, ...]:
    return seat.call(retry_failures, RetryFailures(failure_ids=tuple(failure_ids))).object_keys


def retried(seat: Seat, failure_ids: Sequence[str]) -> list[EventOutcome]:
    return seat.work(retried_keys(seat, failure_ids))


def documents(seat: Seat, **fields: Any) -> tuple[KnowledgeDocument, ...]:
    return seat.call(list_documents, ListDocuments(**fields)).documents


def failures(seat: Seat) -> tuple[Failure, ...]:
    return seat.call(list_failures, ListFailures()).failures


def stored_under(seat: Seat, source: str) -> list[str]:
    return list(seat.call(list_objects, ListObjects(under=source)).object_keys)


def ask(seat: Seat, question: str, config: QueryConfig, *, receipt: bool = False) -> Answer:
    return seat.call(query, Query(query=question, config=config, receipt=receipt))


def status_of(seat: Seat) -> Status:
    return seat.call(get_status, GetStatus())


def shown(seat: Seat, wanted: str) -> DocumentVersions:
    return seat.call(get_document, GetDocument(document_id=wanted))


def pieces(seat: Seat, document_id: str, *, after: int = 0) -> list[DocumentChunk]:
    return list(seat.call(read_chunks, ReadChunks(document_id=document_id, after=after)).chunks)


def delete_all(seat: Seat, object_keys: Sequence[str]) -> None:
    seat.call(delete_objects, DeleteObjects(object_keys=tuple(object_keys)))


def deleted_by(seat: Seat, document_id: str) -> tuple[KnowledgeDocument, ...]:
    return seat.call(delete_document, DeleteDocument(document_id=document_id)).deleted


def assign(seat: Seat, client: str, project: str, group: str) -> None:
    seat.call(assign_project, AssignProject(client_id=client, project_id=project, group_id=group))


def titles(seat: Seat, *, category: str = "") -> list[str]:
    return [document.title for document in documents(seat, category=category)]
