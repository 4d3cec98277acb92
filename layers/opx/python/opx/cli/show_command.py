"""`opx show`: one document, whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from opx.cli.documents import find_versions
from opx.cli.operations import whole
from opx.cli.output import SHORT_ID, aligned, print_json
from opx.cli.remarks import remark_line
from opx.cli.session import Session, pass_session
from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.ingestion.chunk_files import joined_text
from opx.operations.documents import ReadChunks, read_chunks


@click.command("show")
@click.argument("document_id", metavar="DOCUMENT_ID")
@click.option("--chunks", "with_chunks", is_flag=True, help="Print the chunks instead of the text.")
@click.option("--json", "as_json", is_flag=True, help="Print it all as JSON.")
@pass_session
def show_command(session: Session, document_id: str, *, with_chunks: bool, as_json: bool) -> None:
    """Print a document: title, metadata, versions, and its text as it was taken in.

    The beginning of an id is enough for current documents. Old and deleted versions are shown too, by their full id.
    """
    session.require_knowledge()
    found = find_versions(session.client, document_id)
    document, versions = found.document, found.versions
    chunks = whole(session.client, read_chunks, ReadChunks(document_id=document.document_id), "chunks").chunks
    if as_json:
        print_json(_as_json(document, versions, chunks, with_chunks=with_chunks))
        return
    for line in _head(document, versions):
        click.echo(line)
    if with_chunks:
        for chunk in chunks:
            click.echo(_chunk_head(chunk))
            click.echo(chunk.content, nl=not chunk.content.endswith("\n"))
        return
    click.echo("".join(joined_text(chunks)), nl=False)


def _head(document: KnowledgeDocument, versions: Sequence[KnowledgeDocument]) -> Iterator[str]:
    yield click.style(document.title, bold=True)
    facts = {
        "document id": document.document_id,
        "category": f"{document.category} ({document.tier.value}, trust {document.trust:g})",
        "source": document.source_uri,
        "owner": document.key.scope.key,
        "tags": ", ".join(document.tags),
        "author": document.author,
        "severity": document.severity,
        "services": ", ".join(document.services),
        "language": document.language,
        "updated": document.last_updated,
        "state": document.state.value,
        "size": f"{document.chunk_count} chunks, {document.token_count:,} tokens",
    }
    yield from (f"  {line}" for line in aligned([(name, value) for name, value in facts.items() if value]))
    for version in versions:
        here = "  <- this one" if version.version == document.version else ""
        ended = f" {version.superseded_at}" if version.superseded_at else ""
        short = version.document_id[:SHORT_ID] if here else version.document_id
        yield f"  version {version.version}  {short}  {version.state.value}{ended}{here}"
    if document.remarks:
        yield "  remarks:"
        yield from (f"    {remark_line(remark)}" for remark in document.remarks)
    yield ""


def _chunk_head(chunk: DocumentChunk) -> str:
    section = " > ".join(chunk.section)
    facts = f"chunk {chunk.chunk_index}, characters {chunk.start:,} to {chunk.end:,}, {chunk.token_count} tokens"
    return click.style(f"--- {facts}" + (f", {section}" if section else ""), bold=True)


def _as_json(
    document: KnowledgeDocument,
    versions: Sequence[KnowledgeDocument],
    chunks: Sequence[DocumentChunk],
    *,
    with_chunks: bool,
) -> dict[str, Any]:
    found = {
        **document.to_json(),
        "scope": document.key.scope.key,
        "versions": [
            {
                "documentId": version.document_id,
                "version": version.version,
                "state": version.state.value,
                "supersededAt": version.superseded_at,
            }
            for version in versions
        ],
        "text": "".join(joined_text(chunks)),
    }
    if with_chunks:
        found["chunks"] = [
            {
                "chunkId": chunk.chunk_id,
                "chunkIndex": chunk.chunk_index,
                "section": list(chunk.section),
                "start": chunk.start,
                "end": chunk.end,
                "tokenCount": chunk.token_count,
                "content": chunk.content,
            }
            for chunk in chunks
        ]
    return found
