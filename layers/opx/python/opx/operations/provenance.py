"""The operation that explains where a document comes from, and proves that nobody touched it since."""

from __future__ import annotations

from typing import Annotated

from opx.domain.documents import KnowledgeDocument
from opx.domain.knowledge import Tier
from opx.domain.provenance import Provenance
from opx.domain.record import Record, about, like, replace
from opx.domain.requests import Request, Text
from opx.errors import DamagedStoreError, ObjectNotFoundError
from opx.ingestion.corpus.chunk_files import read_chunks
from opx.ingestion.corpus.proving import ObjectProof, TextProof, prove_object, prove_text
from opx.operations.context import Context
from opx.operations.documents import IdBeginning, VersionNumber, find_document, numbered, versions_of
from opx.operations.registry import operation
from opx.records.audit import unknown_receipt


class ExplainProvenance(Request, frozen=True):
    document_id: IdBeginning
    version: Annotated[
        VersionNumber | None, about("The version number; left out, the version with this document id.")
    ] = None
    name: Annotated[
        str, about("The end of its name, where documents of several names have the same text.", max_length=1024)
    ] = ""
    receipt_id: Annotated[
        Text, about("The id of a receipt of the caller's, or `last`: its passages of this document are compared.")
    ] = ""


class StatedField(Record, frozen=True):
    """A field that the document's author states about it, and that nobody verified."""

    field: str
    value: str


class ReceiptProof(Record, frozen=True):
    receipt_id: str
    asked_at: str
    chunk_ids: Annotated[tuple[str, ...], about("Passages of this document that the answer returned.")]
    stored: Annotated[bool, about("True if this version has all of them, with the same text.")]


class DocumentProvenance(Record, frozen=True):
    """Provenance of one version of a document: from the channel to the passages of an answer."""

    document_id: str
    title: str
    version: int
    scope: str
    category: str
    tier: Tier
    trust: float
    provenance: Annotated[Provenance | None, about("Null for a version that was ingested before it was recorded.")]
    claims: tuple[StatedField, ...]
    object: ObjectProof
    text: TextProof
    receipt: Annotated[ReceiptProof | None, about("Null without a receipt id.")] = None


@operation(http="GET /documents/{documentId}/provenance")
def explain_provenance(context: Context, request: ExplainProvenance) -> DocumentProvenance:
    """Explain where a document comes from: who put it, by which channel, and how that is proven; and compare its object and
    its text with their checksums.

    Principals are named to callers of the document's own scope only. Raises `DocumentNotFoundError`, and
    `ReceiptNotFoundError`.
    """
    found = _named(context, find_document(context, request.document_id), request.name)
    if request.version:
        found = numbered(tuple(versions_of(context, found)), request.version)
    store, provenance = context.system.store, context.system.corpus.catalog.provenance(found)
    return like(
        DocumentProvenance,
        found,
        scope=found.scope.key,
        provenance=_shown(context, found, provenance),
        claims=_claims(found, provenance),
        object=prove_object(context.system.ingestion.readable_store, found, provenance),
        text=prove_text(store, found),
        receipt=_receipt(context, found, request.receipt_id) if request.receipt_id else None,
    )


def _named(context: Context, document: KnowledgeDocument, name: str) -> KnowledgeDocument:
    """The document of this name with the same text as another one, which has many names in the corpus."""
    same = (
        one for one in context.system.corpus.catalog.find(document.document_id) if context.reader.may_see(one.scope)
    )
    end = f"/{name.strip().removeprefix('./').lstrip('/')}"
    return next((one for one in same if name and f"/{one.key.source}".endswith(end)), document)


def _shown(context: Context, document: KnowledgeDocument, provenance: Provenance | None) -> Provenance | None:
    """The provenance without the principal for callers of another scope: names of people stay with their own."""
    if provenance is None or context.caller.owns_system or document.scope == context.scope:
        return provenance
    return replace(provenance, channel=replace(provenance.channel, principal=""), reviewed_by="")


def _claims(document: KnowledgeDocument, provenance: Provenance | None) -> tuple[StatedField, ...]:
    values = {**document.to_json(), "author": document.author}
    return tuple(StatedField(name, str(values.get(name, ""))) for name in (provenance.claims if provenance else ()))


def _receipt(context: Context, document: KnowledgeDocument, wanted: str) -> ReceiptProof:
    record = context.system.records.audit.find(wanted, context.identity)
    if record is None:
        raise unknown_receipt(wanted)
    returned = tuple(one.chunk_id for one in record.documents if one.document_id == document.document_id)
    try:
        stored = {chunk.chunk_id for chunk in read_chunks(context.system.store, document.key, document.document_id)}
    except (DamagedStoreError, ObjectNotFoundError):
        stored = set()
    return ReceiptProof(record.receipt_id, record.asked_at, returned, bool(returned) and stored.issuperset(returned))
