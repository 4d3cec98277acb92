"""`opx why`: shows where a document comes from, and proves that nobody touched it since."""

from __future__ import annotations

from collections.abc import Iterator

import click

from opx.domain.record import replace
from opx.edges.cli.documents import NAME, version_named
from opx.edges.cli.operations import request_command
from opx.edges.cli.output import SHORT_ID, TAMPERED, Screen, aligned, plural, print_either, printable
from opx.edges.cli.session import Session
from opx.ingestion.corpus.proving import Integrity
from opx.operations.provenance import DocumentProvenance, ExplainProvenance, ReceiptProof, explain_provenance

_WORDS = {
    Integrity.INTACT: "as it was ingested",
    Integrity.ALTERED: "ALTERED since it was ingested",
    Integrity.GONE: "gone",
    Integrity.REPLACED: "replaced by a later version",
    Integrity.UNREADABLE: "encrypted, and its key is not here",
    Integrity.UNKNOWN: "no checksum was recorded",
}
_STYLES = {Integrity.ALTERED: "warning", Integrity.GONE: "caution", Integrity.INTACT: "string"}


@request_command(
    "why",
    explain_provenance,
    arguments=("document_id",),
    without=("name",),
    fields={"version": "N", "receipt_id": "--receipt ID"},
)
@NAME
def why_command(session: Session, request: ExplainProvenance, *, as_json: bool) -> None:
    """Show who added a document, by which channel, and the proof of that; and whether object or text was changed since.

    \b
    opx why kafka-disk-full.md
    opx why last 1                   the first document of the last answer
    opx why 3f9a1c --receipt last    the passages of the last answer, too

    Exit code 4 if something was altered.
    """
    named = version_named(session, request.document_id).document.document_id
    found = session.client.call(explain_provenance, replace(request, document_id=named, name=request.document_id))
    facts = (f"  {line}" for line in aligned([*_rows(found, Screen.current())]))
    print_either(found, (click.style(printable(found.title), bold=True), *facts), as_json=as_json)
    if Integrity.ALTERED in (found.object.integrity, found.text.integrity):
        click.get_current_context().exit(TAMPERED)


def _rows(found: DocumentProvenance, screen: Screen) -> Iterator[tuple[str, str]]:
    yield "document", f"{found.document_id}, version {found.version}, of {found.scope}"
    yield "trust", f"{found.category} ({found.tier.value}, trust {found.trust:g})"
    if found.provenance is None:
        yield "channel", "unknown: it was ingested before channels were recorded"
    else:
        yield from _channel_rows(found)
    for claim in found.claims:
        yield "claim", printable(f"{claim.field}: {claim.value}  (stated by its author, not verified)")
    version = f" (version {found.object.version})" if found.object.version else ""
    yield "object", f"{printable(found.object.key)}{version}"
    yield "", _checksum(found.object.checksum, found.object.integrity, screen)
    text = _checksum(found.text.checksum, found.text.integrity, screen)
    yield "text", f"{plural(found.text.chunks, 'chunk')}, {text}"
    if found.receipt:
        yield "receipt", _receipt(found.receipt)


def _channel_rows(found: DocumentProvenance) -> Iterator[tuple[str, str]]:
    provenance = found.provenance
    assert provenance
    channel = provenance.channel
    by = f", by {channel.principal}" if channel.principal else ""
    yield "channel", printable(f"{channel.title}{by}; proof: {channel.proof or 'none'}")
    if provenance.at_most:
        yield "may claim", f"{provenance.at_most} at most"
    yield "parsed as", f"{provenance.parser}, {provenance.ingested_at}"
    if provenance.reviewed_by:
        yield "reviewed", printable(f"last by {provenance.reviewed_by}")


def _checksum(checksum: str, integrity: Integrity, screen: Screen) -> str:
    words = screen.styled(_WORDS[integrity], _STYLES.get(integrity, ""))
    return f"sha256 {checksum}: {words}" if checksum else words


def _receipt(proof: ReceiptProof) -> str:
    name = f"{proof.receipt_id[:SHORT_ID]} of {proof.asked_at}"
    if not proof.chunk_ids:
        return f"{name} returned nothing of it"
    stored = "stored with the same text" if proof.stored else "NOT all stored with the same text"
    return f"{name} returned {plural(len(proof.chunk_ids), 'passage')} of it, {stored}"
