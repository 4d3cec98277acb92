"""Operations on the corpus: ingestion, uploads, objects, deletion and restoring of documents, and failed items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, UnsetType

from opx import plugins
from opx.domain.documents import KnowledgeDocument
from opx.domain.knowledge import Tier
from opx.domain.policy import EVERYTHING, Action
from opx.domain.provenance import Channel, ChannelKind
from opx.domain.record import Record, about
from opx.domain.requests import Filled, FilledText, Request, RequestError, Text
from opx.domain.scopes import scope_of_object
from opx.domain.versions import Restored
from opx.errors import DocumentNotFoundError, InvalidScopeError, OpxError, TooLargeError
from opx.ingestion.corpus.announcements import Backlog
from opx.ingestion.corpus.failures import Failure
from opx.ingestion.events import DOCUMENTS_FOLDER, SIDECAR_SUFFIX
from opx.ingestion.files import OBJECT_METADATA, described
from opx.ingestion.states import ObjectState, ObjectStates
from opx.operations.context import Context
from opx.operations.documents import (
    DocumentId,
    IdBeginning,
    VersionNumber,
    check_not_expired,
    expired_since,
    find_document,
    numbered,
    stored_documents,
    versions_of,
)
from opx.operations.forms import put_form
from opx.operations.paging import MAX_PAGE, After, Limit, Next, fitting, page_of, read_token
from opx.operations.registry import Function, operation
from opx.ports import SearchFilter

if TYPE_CHECKING:
    from opx.ingestion.corpus.failures import FailedItem
    from opx.ingestion.manager import IngestionManager
    from opx.operations.system import System
    from opx.ports import ObjectInfo, UploadSigner

API_VERSION = 1
"""Incremented when a client of the old version would misunderstand an answer. The status contains it, and a client
refuses that of a newer system."""

MAX_BATCH = 100
"""Objects that one request changes: each takes S3 some tens of milliseconds, and a request has 30 seconds."""

MAX_STATES = 500
MAX_PUT_BYTES = 5 * 1024**3
"""The largest object that S3 accepts in one request."""

KEYS_A_PAGE = 5000
"""Each page lists the keys of the pages before again, hence few and long pages."""

MAX_KEY_CHARACTERS = 1024
_METADATA = (
    "What is known about it: title, tags, author, version, severity, services, language, source_uri, and source, the "
    "name that stays when the document changes. Other names are kept and returned: strings, numbers, booleans and lists "
    "of these, up to 100 names and 8 KB."
)

ObjectKey = Annotated[Filled, Meta(max_length=MAX_KEY_CHARACTERS)]
ObjectKeys = Annotated[tuple[ObjectKey, ...], about("Keys of the corpus, as the API returns them.", min_length=1)]
Content = Annotated[
    str | dict[str, Any], about("A document: Markdown text, or an object that is read as JSON of the category.")
]
Batch = Annotated[tuple[Content, ...], Meta(max_length=MAX_BATCH)]
Metadata = Annotated[dict[str, Any], about(_METADATA)]
Sha256 = Annotated[str, about("The SHA-256 of its bytes, in hexadecimal.", max_length=64, pattern="^[0-9a-f]{64}$")]
Size = Annotated[int, about("Its size in bytes.", ge=0, le=MAX_PUT_BYTES)]


class GetStatus(Request, frozen=True):
    pass


SHARE_IN_PROGRESS = 0.01
"""Share of the chunks that may be missing while documents are ingested."""


class Status(Record, frozen=True, kw_only=True):
    """Counts of the corpus, and the state of the index. `chunks` is None if the index can't be read; `index` then states
    the reason.

    `scope` owns the caller's new documents, `categories` counts the documents that the caller sees.
    """

    scope: str
    documents: int
    waiting: Annotated[
        int | None, about("Objects of all clients that wait for a worker; null unless the caller is an operator.")
    ]
    backlog: Annotated[
        Backlog | None,
        about(
            "Changes of all clients that are not ingested; where the bucket announces them, those of more than "
            "15 minutes ago, also if their messages are lost. Null unless the caller is an operator."
        ),
    ] = None
    failed: Annotated[
        int | None, about("The caller's objects that could not be ingested; null for readers without a client.")
    ]
    index: Annotated[str, about("`ok`, or its error.")]
    chunks: int | None = None
    embedding_model: str = ""
    confidence: Annotated[
        str,
        about(
            "The models of confidence: `calibrated` on this corpus, `fitted` for the embedding model, `general`; "
            "or why a calibration is ignored. Empty if the index can't be read."
        ),
    ] = ""
    categories: dict[str, int] = msgspec.field(default_factory=dict)
    expired: Annotated[
        dict[str, int],
        about("Documents that the caller may see and that are hidden past their retention, by category."),
    ] = msgspec.field(default_factory=dict)
    damage: Annotated[
        tuple[str, ...],
        about(
            "Damaged files of this machine that a glance at databases and indexes finds, each with its problem; "
            "documents are not read. Empty unless the caller is an operator."
        ),
    ] = ()
    plugins: Annotated[
        tuple[str, ...],
        about("Plugins that can't be used or are slow, each with the reason. Empty unless the caller is an operator."),
    ] = ()
    api_version: int = API_VERSION


@operation(http="GET /status")
def get_status(context: Context, request: GetStatus) -> Status:  # noqa: ARG001 - as all operations
    """Show counts of documents, waiting and failed objects, changes not ingested, and the state of the index."""
    damage = _damage(context)  # first: a missing database is made when it is read
    counts, expired, chunks_expected = _counts(context)
    chunks, model, confidence, index = _index_facts(context, chunks_expected)
    shared = context.may(Action.WATCH, EVERYTHING)  # the length of the queue reveals activity of others
    counted = context.may(Action.READ_RECORDS, context.scope)
    return Status(
        scope=context.scope.key,
        documents=sum(counts.values()),
        waiting=context.system.queue.waiting() if shared else None,
        backlog=context.system.corpus.backlog() if shared else None,
        failed=sum(1 for _ in _failed_items(context)) if counted else None,
        index=index,
        chunks=chunks,
        embedding_model=model,
        confidence=confidence,
        categories=dict(sorted(counts.items())),
        expired=dict(sorted(expired.items())),
        damage=damage,
        plugins=tuple(plugins.problems(of_others=True)) if shared else (),
    )


def _damage(context: Context) -> tuple[str, ...]:
    files = context.system.ports.files if context.may(Action.WATCH, EVERYTHING) else None
    return tuple(f"{one.file}: {one.problem}" for one in files.glance()) if files else ()


def _is_searched(context: Context, category: str) -> bool:
    found = context.system.installation.knowledge.categories.get(category)
    return found is None or bool(found.embed)


def _counts(context: Context) -> tuple[Counter[str], Counter[str], int]:
    """Numbers of documents by category: shown ones, and expired ones; and the number of index entries of those shown."""
    shown: Counter[str] = Counter()
    expired: Counter[str] = Counter()
    entries = 0
    for document in stored_documents(context):
        if expired_since(context, document):
            expired[document.category] += 1
            continue
        shown[document.category] += 1
        entries += document.chunk_count if _is_searched(context, document.category) else 0
    return shown, expired, entries


def _index_facts(context: Context, expected: int) -> tuple[int | None, str, str, str]:
    """Facts of the index, of which `expected` entries are known. A broken index or a missing model is part of the status:
    reported, not raised."""
    try:
        model = context.system.indexing.document_embedder.model_id
        kept = context.system.questions.calibrations.read(model)
        chunks = context.system.index.count(SearchFilter(context.reader.visible))
    except OpxError as exc:
        return None, "", "", str(exc)
    return chunks, model, kept.problem or kept.models_of(model), _completeness(chunks, expected)


def _completeness(chunks: int, expected: int) -> str:
    """`ok`, or how much the index lacks of what the catalog has, with the remedy."""
    if chunks >= expected * (1 - SHARE_IN_PROGRESS):
        return "ok"
    if not chunks:
        return f"empty, although the catalog has {expected:,} chunks: `opx rebuild` (on AWS: `opx reindex`) restores it"
    return f"{chunks:,} of the {expected:,} chunks of the catalog: `opx reconcile` lists what is missing"


# -- ingestion


class IngestForm(Request, frozen=True, rename=None):
    source: Annotated[str, about("The stable name of a single file; else each file's own.", max_length=1000)] = ""
    title: Annotated[str, about("The title, of a single file.", max_length=500)] = ""
    tags: Annotated[tuple[Text, ...], about("A tag; may be given several times.", max_length=50)] = ()
    services: Annotated[
        tuple[Text, ...], about("A service that it is about; may be given several times.", max_length=50)
    ] = ()
    author: Annotated[str, about("The author.", max_length=500)] = ""
    version: Annotated[Text, about("Its version.")] = ""
    severity: Annotated[Text, about("Its severity.")] = ""
    language: Annotated[Text, about("Its language, such as en.")] = ""
    source_uri: Annotated[str, about("The address of the original, of a single file.", max_length=2048)] = ""


class Ingest(Request, frozen=True):
    tier: Annotated[Tier, about("The category's tier.")]
    category: Annotated[Text, about("A category: its path, slashes included.")]
    document: Content | UnsetType = msgspec.UNSET
    metadata: Metadata | UnsetType = msgspec.UNSET
    documents: Annotated[
        Batch | UnsetType, about("Documents: Markdown texts, or objects that are read as JSON of the category.")
    ] = msgspec.UNSET
    dedupe: Annotated[bool | UnsetType, about("Ingest equal ones of `documents` once (the default).")] = msgspec.UNSET


class Accepted(Record, frozen=True):
    object_key: str


class RefusedFile(Record, frozen=True):
    index: int
    reason: str


class Ingested(Record, frozen=True):
    accepted: tuple[Accepted, ...]
    refused: tuple[RefusedFile, ...] = ()


@operation(
    http="POST /ingest/{tier}/{category+}", function=Function.MANAGE, status=202, action=Action.WRITE, form=IngestForm
)
def ingest(context: Context, request: Ingest) -> Ingested:
    """Ingest documents: one with its metadata, or several. Accepted ones are processed asynchronously."""
    manager = manager_of(context)
    category = manager.category_of_tier(request.tier, request.category)
    if context.files is not None:
        accepted, refused = put_form(manager, category, context.files, context.form or {})
        return Ingested(tuple(map(Accepted, accepted)), tuple(RefusedFile(*one) for one in refused))
    if (request.document is msgspec.UNSET) == (request.documents is msgspec.UNSET):
        raise RequestError("give either document, with its metadata, or documents")
    if not isinstance(request.document, UnsetType):
        _refuse(request.dedupe, "dedupe", "documents")
        metadata = {} if isinstance(request.metadata, UnsetType) else request.metadata
        return Ingested((Accepted(manager.put_document(category, request.document, metadata)),))
    _refuse(request.metadata, "metadata", "document")
    if not request.documents:
        raise RequestError("documents is empty")
    dedupe = True if isinstance(request.dedupe, UnsetType) else request.dedupe
    put = manager.put_batch(category, request.documents, dedupe=dedupe)
    keys = dict.fromkeys(one for one in put if isinstance(one, str))
    refusals = (RefusedFile(index, str(one)) for index, one in enumerate(put) if not isinstance(one, str))
    return Ingested(tuple(map(Accepted, keys)), tuple(refusals))


def _refuse(value: object, name: str, only_with: str) -> None:
    if value is not msgspec.UNSET:
        raise RequestError(f"{name} goes with {only_with} only")


class FileFacts(Record, frozen=True, forbid_unknown_fields=True):
    sha256: Sha256
    size: Size


class PrepareUpload(Request, frozen=True):
    source: Annotated[Filled, about("The file's stable name in the corpus.", max_length=1000)]
    sha256: Sha256
    size: Size
    metadata: Metadata = msgspec.field(default_factory=dict)
    sidecar: Annotated[FileFacts, about("The metadata file beside it, if there is one.")] | None = None


class SignedPut(Record, frozen=True):
    url: Annotated[str, about("URL to send it to, with the method PUT, within 15 minutes.")]
    headers: Annotated[dict[str, str], about("Headers that must be sent with it.")]


class UploadAddress(Record, frozen=True, omit_defaults=True):
    """Presigned uploads of a file and its sidecar, or that the file is already stored unchanged."""

    state: Literal["unchanged", "upload"]
    object_key: str
    document_id: str = ""
    put: SignedPut | None = None
    sidecar_put: SignedPut | None = None
    remove_sidecar: Annotated[
        bool,
        about(
            "True if a metadata file is stored that the file no longer has: once the file is put, remove the "
            "object of this key with `.metadata.json` behind it."
        ),
    ] = False


@operation(http="POST /uploads", function=Function.MANAGE, action=Action.WRITE)
def prepare_upload(context: Context, request: PrepareUpload) -> UploadAddress:
    """Prepare an upload: presigned URLs that accept exactly this file, valid for 15 minutes.

    A stored sidecar that the file no longer has must be removed by the caller after the upload: removed before, the
    document to be replaced would lose its category and tags even if the file never arrives. Raises `InvalidInputError`
    for a name that no object can have, and `TooLargeError`.
    """
    signer = context.system.corpus.upload_signer
    if signer is None:
        raise RequestError("this knowledge base accepts no uploads")
    if request.source.endswith(SIDECAR_SUFFIX):
        raise RequestError(f"names that end with {SIDECAR_SUFFIX} are for metadata: give it as `sidecar`")
    sidecar = request.sidecar
    size, limit = request.size + (sidecar.size if sidecar else 0), context.system.settings.max_document_bytes
    if size > limit:
        raise TooLargeError(f"the file has {size:,} bytes with its metadata; at most {limit:,} are accepted")
    key = object_key(context, request.source)
    metadata = upload_metadata(context, request.source, request.metadata)
    put = _signed(signer, key, FileFacts(request.sha256, request.size), metadata)
    text = metadata[OBJECT_METADATA]
    current = manager_of(context).current_if(key, text, lambda *stored: _is_stored(signer, stored, request))
    if current:
        return UploadAddress("unchanged", key, current)
    return UploadAddress(
        "upload",
        key,
        put=put,
        sidecar_put=_signed(signer, key + SIDECAR_SUFFIX, sidecar, {}) if sidecar else None,
        remove_sidecar=not sidecar and context.system.store.head(key + SIDECAR_SUFFIX) is not None,
    )


def _is_stored(signer: UploadSigner, stored: tuple[ObjectInfo, ObjectInfo | None], request: PrepareUpload) -> bool:
    info, sidecar = stored
    if signer.sha256_of(info.key) != request.sha256:
        return False
    return (signer.sha256_of(sidecar.key) if sidecar else "") == (request.sidecar.sha256 if request.sidecar else "")


def _signed(signer: UploadSigner, key: str, file: FileFacts, metadata: Mapping[str, str]) -> SignedPut:
    put = signer.sign_put(key, size=file.size, sha256=file.sha256, metadata=metadata)
    return SignedPut(put.url, dict(put.headers))


# -- objects


class ListObjects(Request, frozen=True):
    under: Annotated[Filled, about("The name of a file, or of a folder of files.", max_length=MAX_KEY_CHARACTERS)]
    after: After = ""


class ObjectPage(Record, frozen=True, omit_defaults=True):
    object_keys: tuple[str, ...]
    next: Next = ""


@operation(http="GET /objects")
def list_objects(context: Context, request: ListObjects) -> ObjectPage:
    """List keys of the caller's own stored documents."""
    keys = dropwhile(lambda key: key <= request.after, _stored_under(context, request.under))
    found, more = fitting(keys, KEYS_A_PAGE)
    return ObjectPage(found, found[-1] if more else "")


def _stored_under(context: Context, source: str) -> Iterator[str]:
    """Keys of the objects of this file or of the files in this folder, sidecars left out; in order."""
    key = object_key(context, source).rstrip("/")
    if context.system.store.head(key):
        yield key
    for info in context.system.store.list(key + "/"):
        if not info.key.endswith(SIDECAR_SUFFIX):
            yield info.key


class GetObjectStates(Request, frozen=True):
    object_keys: Annotated[ObjectKeys, Meta(max_length=MAX_STATES)]


class ObjectStatesFound(Record, frozen=True):
    states: tuple[ObjectState, ...]


@operation(http="POST /objects/states", function=Function.MANAGE, action=Action.WRITE)
def get_object_states(context: Context, request: GetObjectStates) -> ObjectStatesFound:
    """Show the ingestion state of the caller's own objects.

    Raises `InvalidScopeError` for a key of another scope.
    """
    return ObjectStatesFound(tuple(states_of(context.system, _own_keys(context, request.object_keys))))


def states_of(system: System, keys: Sequence[str]) -> list[ObjectState]:
    """The ingestion states of objects of any scope."""
    states = ObjectStates(
        store=system.store,
        catalog=system.corpus.catalog,
        failures=system.corpus.failures,
        fingerprint=system.ingestion.pipeline.fingerprint,
        threads=system.storage.read_threads,
    )
    return states.of(keys)


class DeleteObjects(Request, frozen=True):
    object_keys: Annotated[ObjectKeys, Meta(max_length=MAX_BATCH)]


class DeletedObjects(Record, frozen=True):
    deleted: int


@operation(http="POST /objects/delete", function=Function.MANAGE, action=Action.WRITE)
def delete_objects(context: Context, request: DeleteObjects) -> DeletedObjects:
    """Remove some of the caller's own objects with their metadata files, or metadata files only.

    Raises `InvalidScopeError` for a key of another scope, and `HeldError`, before anything is removed.
    """
    keys = _own_keys(context, request.object_keys)
    context.system.lifecycle.check_removal(keys)
    manager = manager_of(context)
    for key in keys:
        manager.delete_object(key)
    return DeletedObjects(len(keys))


def _own_keys(context: Context, keys: Sequence[str]) -> tuple[str, ...]:
    """The keys without duplicates. Raises `RequestError` for an invalid key, such as one that leaves its folder."""
    found = tuple(dict.fromkeys(keys))
    for key in found:
        if {"", ".", ".."} & set(key.split("/")):
            raise RequestError(f"{key[:100]!r} is no object key: a part of it is empty, `.` or `..`")
    for key in found:
        if not _is_own(context, key, Action.WRITE):
            raise InvalidScopeError(f"object {key[:100]!r} does not belong to {context.scope.key}")
    return found


def _is_own(context: Context, key: str, action: Action) -> bool:
    """True for the key of a document whose scope is in the caller's reach."""
    try:
        scope, source = scope_of_object(key)
    except InvalidScopeError:
        return False
    return context.may(action, scope) and source.startswith(DOCUMENTS_FOLDER)


# -- deleting and restoring documents


class DeleteDocument(Request, frozen=True):
    document_id: DocumentId


class DeletedDocuments(Record, frozen=True):
    deleted: tuple[KnowledgeDocument, ...]


@operation(http="DELETE /documents/{documentId}", function=Function.MANAGE, action=Action.WRITE)
def delete_document(context: Context, request: DeleteDocument) -> DeletedDocuments:
    """Delete one of the caller's own documents; its versions stay readable. For one that is already deleted, none is
    removed.

    Idempotent: without a reply, call again. Raises `DocumentNotFoundError`, and `HeldError`.
    """
    document_id = request.document_id.lower()
    found = [one for one in context.system.corpus.catalog.find(document_id) if context.may(Action.WRITE, one.scope)]
    context.system.lifecycle.holds.check((one.key, one.category) for one in found)
    try:
        return DeletedDocuments(tuple(manager_of(context).delete(document_id)))
    except DocumentNotFoundError:
        if not found:
            raise
        return DeletedDocuments(())


class RestoreDocument(Request, frozen=True):
    document_id: IdBeginning
    version: Annotated[
        VersionNumber | None, about("The version number; left out, the version with this document id.")
    ] = None


@operation(http="POST /documents/{documentId}/restore", function=Function.MANAGE, status=202, action=Action.WRITE)
def restore_document(context: Context, request: RestoreDocument) -> Restored:
    """Restore an old version of one of the caller's own documents. It becomes a new version once it is ingested.

    Raises `DocumentNotFoundError`, `InvalidInputError` for the current version and `InvalidScopeError`.
    """
    from opx.lifecycle.versions.differences import Restorer

    found = find_document(context, request.document_id)
    chosen = numbered(tuple(versions_of(context, found)), request.version) if request.version else found
    if not context.may(Action.WRITE, chosen.scope):
        raise InvalidScopeError(
            f"document {chosen.document_id} belongs to {chosen.scope.key}, you may restore only {context.scope.key}"
        )
    check_not_expired(context, chosen)
    system = context.system
    return Restorer(store=system.store, writer=manager_of(context), past=system.storage.past).restore(chosen)


# -- failures


class ListFailures(Request, frozen=True):
    limit: Limit = MAX_PAGE
    after: After = ""


class FailurePage(Record, frozen=True, omit_defaults=True):
    failures: tuple[Failure, ...]
    next: Next = ""


@operation(http="GET /failures", action=Action.READ_RECORDS)
def list_failures(context: Context, request: ListFailures) -> FailurePage:
    """List the caller's own documents that could not be ingested, the oldest first."""
    position = read_token(request.after, 2)
    failures, following = page_of(
        (item.failure for item in _failed_items(context, since=position[0] if position else "")),
        order=lambda failure: (failure.failed_at,),
        name=lambda failure: failure.failure_id,
        limit=request.limit,
        after=position,
    )
    return FailurePage(failures, following)


def _failed_items(context: Context, since: str = "") -> Iterator[FailedItem]:
    """Failed items of the caller's own scope; of all scopes for the owner of the system."""
    scope = "" if context.may(Action.READ_RECORDS, EVERYTHING) else context.scope.key
    found = context.system.corpus.failures.items(since=since, scope=scope)
    return (item for item in found if not scope or _is_own(context, item.object_key, Action.READ_RECORDS))


class RetryFailures(Request, frozen=True):
    failure_ids: Annotated[tuple[FilledText, ...], about("Ids of failed items.", max_length=MAX_BATCH)] = ()
    all: Annotated[bool, about(f"True: all of the caller's own, {MAX_PAGE} at most.")] = False


class RetriedFailures(Record, frozen=True):
    sent: int
    object_keys: tuple[str, ...]


@operation(http="POST /failures/retry", function=Function.MANAGE, action=Action.WRITE)
def retry_failures(context: Context, request: RetryFailures) -> RetriedFailures:
    """Retry the ingestion of failed items.

    Objects are ingested as they are stored now. Unknown ids are ignored: they were resolved meanwhile.
    """
    if bool(request.failure_ids) == request.all:
        raise RequestError("give either failureIds, or all as true")
    ids = request.failure_ids or [one.failure_id for one in list_failures(context, ListFailures()).failures]
    found = (context.system.corpus.failures.get(failure_id) for failure_id in ids)
    every = context.may(Action.READ_RECORDS, EVERYTHING)
    own = [one for one in found if one and (every or _is_own(context, one.object_key, Action.WRITE))]
    for item in own:
        context.system.queue.send(item.event)
    return RetriedFailures(len(own), tuple(item.object_key for item in own))


# -- corpus of the caller's scope


def manager_of(context: Context) -> IngestionManager:
    """The manager that writes to the corpus in the caller's scope, by the caller's channel."""
    return context.system.ingestion.manager_of(context.scope).by(channel_of(context))


def channel_of(context: Context) -> Channel:
    """The channel of what the caller puts into the corpus."""
    caller = context.caller
    if caller.owns_system:
        return Channel(ChannelKind.COMMAND, "", context.author, "rights of the home's owner")
    if caller.agent:
        return Channel(ChannelKind.AGENT, "", context.author, "its grant of tools")
    return Channel(ChannelKind.API, "", context.author, "IAM" if caller.token_scopes is None else "token")


def upload_metadata(context: Context, source: str, metadata: Mapping[str, Any]) -> dict[str, str]:
    """The metadata of the object for a file with this source name: what is known about it, and how it came. Raises
    `InvalidInputError` for metadata that can't be kept."""
    from opx.ingestion.channels import channel_metadata
    from opx.ingestion.corpus_writer import metadata_text
    from opx.ingestion.given_documents import check_facts

    check_facts(metadata, source)
    text = metadata_text(described(source, metadata))
    return {OBJECT_METADATA: text, **channel_metadata(channel_of(context))}


def object_key(context: Context, source: str) -> str:
    """The object key of a file with this source name, or the prefix of a folder."""
    return f"{context.scope.prefix}{DOCUMENTS_FOLDER}{source.lstrip('/')}"
