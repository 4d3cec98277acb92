"""Operations of an installation's operator: clients, and the index.

They work on the stores directly, over all clients, and may run long. Over HTTP, those that change all stores work only
where the process has them all: on AWS the functions of the API have rights on few.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from opx.domain.ids import iso_time
from opx.domain.policy import Action
from opx.domain.record import Record, about
from opx.domain.requests import Request, Text
from opx.errors import ForbiddenError, InvalidInputError, ReindexBusyError
from opx.ingestion.corpus.clients import Client, ClientState, ClientView
from opx.ingestion.corpus.stores import AnnouncingObjectStore
from opx.ingestion.corpus.version import renew
from opx.ingestion.indexing.book import EditionState
from opx.lifecycle.reindex.job import Progress, ReindexJob, ReindexPhase
from opx.lifecycle.report import RemovalReport, read_report
from opx.operations.context import Context
from opx.operations.registry import Function, operation
from opx.ports.tables import GRAPH

if TYPE_CHECKING:
    from opx.ingestion.indexing.book import Edition
    from opx.lifecycle.clients.offboarding import Administration
    from opx.lifecycle.reindex.reindexing import Reindexer

STEP_SECONDS = 2.0
"""Seconds of work on an index between reports of progress."""

LONGEST_WAIT = 5.0
REBUILD_ELSEWHERE = (
    "rebuild works on a folder of this machine. A deployed system gets a new index by a message (docs/rebuild.md), or "
    "by a deployment (docs/deploy.md); then `opx ingest` of the same files sends again what that index lacks"
)

WITH_STORES = (
    "the functions of the API have no rights on all stores: use the command with access to them (OPX_BACKEND=aws and the "
    "settings of the functions)"
)

ClientId = Annotated[Text, about("A client.")]


# -- clients


class ListClients(Request, frozen=True):
    pass


class ClientList(Record, frozen=True):
    clients: tuple[ClientView, ...]


@operation(http="GET /clients", action=Action.ADMINISTER)
def list_clients(context: Context, request: ListClients) -> ClientList:  # noqa: ARG001 - as all operations
    """List the clients by id, removed ones included."""
    return ClientList(tuple(_administration(context).clients()))


class GetClient(Request, frozen=True):
    client_id: ClientId


class ClientInventory(Record, frozen=True):
    client_id: str
    state: ClientState
    since: Annotated[str, about("Since when it is in its state; empty if never recorded.")]
    stores: Annotated[dict[str, int], about("Number of its items, by store.")]


@operation(http="GET /clients/{clientId}", function=Function.MANAGE, action=Action.ADMINISTER)
def get_client(context: Context, request: GetClient) -> ClientInventory:
    """Count a client's items in each store.

    Raises `InvalidScopeError` for a malformed id, `InvalidInputError` over HTTP on AWS, and `StoreUnavailableError`.
    """
    require_stores(context)
    administration = _administration(context)
    stores = administration.inventory(request.client_id)
    client = context.system.corpus.clients.get(request.client_id) or Client(request.client_id)
    return ClientInventory(client.client_id, client.state, client.since, stores)


class AddClient(Request, frozen=True):
    client_id: ClientId


@operation(http="PUT /clients/{clientId}", function=Function.MANAGE, action=Action.ADMINISTER)
def add_client(context: Context, request: AddClient) -> Client:
    """Add a client, also one that was removed: it starts empty.

    Raises `InvalidInputError` while it is being removed, and for an empty id.
    """
    return _administration(context).add(request.client_id)


class RemoveClient(Request, frozen=True):
    client_id: ClientId


@operation(http="DELETE /clients/{clientId}", function=Function.MANAGE, action=Action.ADMINISTER)
def remove_client(context: Context, request: RemoveClient) -> RemovalReport:
    """Remove all data of a client, or continue an interrupted removal, and verify every store afterwards.

    From then on its documents and queries are refused. Raises `InvalidInputError` for a client without data and over HTTP
    on AWS, `HeldError` while a legal hold covers some of it, and `StoreUnavailableError`: then call it again.
    """
    require_stores(context)
    return _administration(context).remove(request.client_id)


class GetRemovalReport(Request, frozen=True):
    client_id: ClientId


@operation(http="GET /clients/{clientId}/removal", function=Function.MANAGE, action=Action.ADMINISTER)
def get_removal_report(context: Context, request: GetRemovalReport) -> RemovalReport:
    """Get the report of a client's removal, which proves that nothing is left in any store.

    Raises `InvalidInputError` for a client that was not removed and over HTTP on AWS.
    """
    require_stores(context)
    client = context.system.corpus.clients.get(request.client_id)
    if client is None or client.state is not ClientState.REMOVED:
        raise InvalidInputError(f"client {request.client_id} was not removed: there is no report")
    return read_report(context.system.store, client.removal)


def require_stores(context: Context) -> None:
    """Raises `InvalidInputError` where this process can't work on all stores: in a function of the API."""
    if not _has_stores(context):
        raise InvalidInputError(WITH_STORES)


def _has_stores(context: Context) -> bool:
    return context.caller.owns_system or context.system.tables.in_folder


def _administration(context: Context) -> Administration:
    return context.system.tenants.administration(context.identity.principal, progress=_steps(context))


def _steps(context: Context) -> Callable[[str], None]:
    return lambda step: context.progress(step, 0)


# -- the index


class Rebuild(Request, frozen=True):
    graph: Annotated[bool, about("All documents, to rebuild the graph.")] = False


class Enqueued(Record, frozen=True):
    """Objects that wait to be ingested."""

    object_keys: tuple[str, ...]


@operation(action=Action.ADMINISTER)
def rebuild(context: Context, request: Rebuild) -> Enqueued:
    """Enqueue every stored document, for the worker to ingest those that the index lacks.

    A worker that was running before a rebuild of the graph began would skip them as unchanged: restart it. Raises
    `InvalidInputError` for a system whose store enqueues changes by itself.
    """
    store = context.system.store
    if not isinstance(store, AnnouncingObjectStore):
        raise InvalidInputError(REBUILD_ELSEWHERE)
    if request.graph:
        renew(context.system.tables.table(GRAPH))
    return Enqueued(tuple(store.announce_all()))


class GetIndexStatus(Request, frozen=True):
    pass


class IndexEdition(Record, frozen=True, omit_defaults=True):
    """An edition of the index, with its embedding model, the model's name in the settings, and its search collection where a
    deployment can have two. The first edition of an installation has no name, and its model is unknown until another one
    is built."""

    name: str
    state: EditionState
    embedding_model: str
    made_at: str
    model: str = ""
    collection: str = ""


class IndexJob(Record, frozen=True, omit_defaults=True):
    """Progress of a reindex job. `lacking` documents have no chunk file; `report` lists findings of the checks.
    `rollback`: it returns to the previous edition. `goes_on_at`: the job waits until then."""

    index: str
    phase: ReindexPhase
    documents: int
    chunks: int
    renewed: Annotated[int, about("Changes of the corpus that were replayed.")]
    lacking: int
    report: dict[str, Any]
    rollback: bool = False
    goes_on_at: str = ""


class IndexStatus(Record, frozen=True):
    """`target` is the name of the edition that is to answer next, null if there is none."""

    indexes: tuple[IndexEdition, ...]
    target: str | None
    job: IndexJob | None


@operation(http="GET /index", function=Function.MANAGE, action=Action.ADMINISTER)
def get_index_status(context: Context, request: GetIndexStatus) -> IndexStatus:  # noqa: ARG001 - as all operations
    """List the editions of the index, with the progress of a reindex job."""
    state, job = context.system.lifecycle.reindexer.status()
    editions = (_edition(one) for one in state.editions if one.state is not EditionState.DISCARDED)
    return IndexStatus(tuple(editions), state.target, _job(context, job) if job else None)


MODEL_PATH_HERE = "the folder of a model is chosen on the machine itself: opx reindex --model-path"


class Reindex(Request, frozen=True):
    model: Annotated[Text, about("Another embedding model.")] = ""
    model_path: Annotated[str, about("The folder of one, for the machine's owner alone.", max_length=4096)] = ""
    dimension: Annotated[int, about("Numbers of its vectors, where the model leaves a choice.", ge=0)] = 0
    collection: Annotated[str, about("The search collection to build it in, on AWS.", max_length=32)] = ""


@operation(http="POST /index", function=Function.MANAGE, action=Action.ADMINISTER)
def reindex(context: Context, request: Reindex) -> IndexJob:
    """Build a new index from the stored chunk files and switch to it, or continue the running job.

    The job ends as done, or as refused if the new index finds less. Where functions build it, they continue if this is
    interrupted. Raises `InvalidInputError` for a model that doesn't exist and while another index is in the way,
    `EmbeddingError` for one that can't be called, `ReindexBusyError`, and `StoreUnavailableError`; `ForbiddenError` for a
    folder that isn't chosen on the machine itself. Over HTTP on AWS it only orders it; `get_index_status` shows the
    progress.
    """
    if request.model_path and not context.caller.owns_system:
        raise ForbiddenError(MODEL_PATH_HERE)
    if not _has_stores(context):
        chosen = {"model": request.model, "dimension": request.dimension, "collection": request.collection}
        return _ordered(context, {"do": "reindex", **chosen})
    with context.system.work.exclusive_reindex():
        reindexer = context.system.lifecycle.reindexer
        if request.model or request.model_path or request.collection or not reindexer.is_under_way:
            edition = reindexer.start(
                model=request.model,
                model_path=request.model_path,
                dimension=request.dimension,
                collection=request.collection,
            )
            context.progress(f"a new index for {edition.model_id}", 0)
        return _finished(context, reindexer)


class SwitchIndex(Request, frozen=True):
    pass


@operation(action=Action.ADMINISTER)
def force_reindex(context: Context, request: SwitchIndex) -> IndexJob:  # noqa: ARG001 - as all operations
    """Switch to the new index although its checks found it worse.

    Raises as `reindex` does.
    """
    with context.system.work.exclusive_reindex():
        context.system.lifecycle.reindexer.force()
        return _finished(context, context.system.lifecycle.reindexer)


@operation(http="POST /index/rollback", function=Function.MANAGE, action=Action.ADMINISTER)
def roll_back_reindex(context: Context, request: SwitchIndex) -> IndexJob:  # noqa: ARG001 - as all operations
    """Switch back to the previous edition of the index.

    Raises as `reindex` does, and `InvalidInputError` if there is none that can be used. Over HTTP on AWS it only orders it.
    """
    if not _has_stores(context):
        return _ordered(context, {"do": "rollback"})
    with context.system.work.exclusive_reindex():
        context.system.lifecycle.reindexer.roll_back()
        return _finished(context, context.system.lifecycle.reindexer)


class DiscardedIndexes(Record, frozen=True):
    indexes: tuple[IndexEdition, ...]


@operation(action=Action.ADMINISTER)
def discard_indexes(context: Context, request: SwitchIndex) -> DiscardedIndexes:  # noqa: ARG001 - as all operations
    """Remove the editions that don't answer, and abandon a running job.

    Raises `ReindexBusyError`, and `InvalidInputError` while one of them may still be searched.
    """
    with context.system.work.exclusive_reindex():
        return DiscardedIndexes(tuple(map(_edition, context.system.lifecycle.reindexer.discard())))


def _ordered(context: Context, command: dict[str, Any]) -> IndexJob:
    """Has the function that builds indexes do this; returns the last known state."""
    if context.system.ports.functions.rebuilds is None:
        raise InvalidInputError(WITH_STORES)
    context.system.ports.functions.rebuilds.send(json.dumps(command))
    job = context.system.lifecycle.reindexer.status()[1]
    return _job(context, job) if job else IndexJob("", ReindexPhase.WAITING, 0, 0, 0, 0, {})


def _finished(context: Context, reindexer: Reindexer) -> IndexJob:
    """Works on the job until it ends, or waits for the function that does."""
    if context.system.ports.functions.rebuilds:
        return _job(context, _delegated(context, reindexer))
    job = _worked(context, reindexer)
    if job.phase is ReindexPhase.DONE:
        calibrate_after_reindex(context)
    return _job(context, job)


def calibrate_after_reindex(context: Context) -> None:
    """Calibrates for the current embedding model, if that was never done; a failure doesn't affect the index."""
    from opx.retrieval.calibration.calibrating import attempt_if_due

    if line := attempt_if_due(lambda: context.system.lifecycle.calibrator(context.progress)):
        context.progress(line, 0)


def _worked(context: Context, reindexer: Reindexer) -> ReindexJob:
    reindexer.compare_again()
    while True:
        ends = time.monotonic() + STEP_SECONDS
        progress = reindexer.advance(lambda: time.monotonic() >= ends)  # noqa: B023 - called within this iteration
        _show(context, progress.job)
        if progress.finished:
            return progress.job
        time.sleep(min(progress.wait_seconds, LONGEST_WAIT))


def _delegated(context: Context, reindexer: Reindexer) -> ReindexJob:
    from opx.lifecycle.reindex.reindexing import GO_ON

    assert context.system.ports.functions.rebuilds is not None
    with suppress(ReindexBusyError):  # a function is already working on it
        reindexer.compare_again()
    context.system.ports.functions.rebuilds.send(GO_ON)
    context.progress("a function works on it; Ctrl-C ends watching, and `opx reindex` watches again", 0)
    while True:
        time.sleep(LONGEST_WAIT)
        job = reindexer.status()[1]
        if job:
            _show(context, job)
            if Progress(job).finished:
                return job


def _show(context: Context, job: ReindexJob) -> None:
    context.progress(progress_of(_job(context, job)), 0)


def progress_of(job: IndexJob) -> str:
    """`building: 300 documents, 1,200 chunks, 0 changes made up for`."""
    counts = f"{job.documents:,} documents, {job.chunks:,} chunks, {job.renewed:,} changes made up for"
    return f"{job.phase}: {counts}"


def _edition(edition: Edition) -> IndexEdition:
    about = (edition.model_id, edition.made_at, edition.model, edition.collection)
    return IndexEdition(edition.name, edition.state, *about)


def _job(context: Context, job: ReindexJob) -> IndexJob:
    waits = job.not_before > context.system.clock()
    return IndexJob(
        job.edition,
        job.phase,
        job.documents,
        job.chunks,
        job.renewed,
        job.lacking_count,
        job.report,
        rollback=job.rollback,
        goes_on_at=iso_time(job.not_before) if waits else "",
    )
