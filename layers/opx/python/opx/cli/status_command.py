"""`opx status`: what there is, and whether it works."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opx.cli.documents import reader_of_installation, visible_documents
from opx.cli.output import aligned, print_json, readable_size
from opx.cli.session import Session, pass_session
from opx.errors import OpxError
from opx.ports import SearchFilter

if TYPE_CHECKING:
    from opx.bootstrap import Services


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def status_command(session: Session, *, as_json: bool) -> None:
    """Show where the knowledge is kept, how much there is, what waits and what failed."""
    settings = session.settings
    facts: dict[str, Any] = {
        "backend": settings.backend,
        "home": str(settings.home_path),
        "exists": session.has_knowledge,
    }
    if session.has_knowledge:
        facts |= _facts(session.services)
    if as_json:
        print_json(facts)
        return
    if not session.has_knowledge:
        click.echo(f"no knowledge in {facts['home']}: run `opx ingest PATH...`")
        return
    for line in _lines(facts):
        click.echo(line)


def _facts(services: Services) -> dict[str, Any]:
    counts = Counter(document.category for document in visible_documents(services))
    return {
        "bytes": _size(services.settings.home_path) if services.settings.backend == "embedded" else None,
        "documents": sum(counts.values()),
        "categories": dict(sorted(counts.items())),
        "waiting": services.queue.waiting(),
        "failed": sum(1 for _ in services.failures.items()),
        **_index_facts(services),
    }


def _index_facts(services: Services) -> dict[str, Any]:
    """A broken index or a missing model is what this command is asked about: it is told, not raised."""
    try:
        model = services.embedder.model_id
        chunks = services.index.count(SearchFilter(reader_of_installation(services).visible))
    except OpxError as exc:
        return {"chunks": None, "embeddingModel": "", "index": str(exc)}
    return {"chunks": chunks, "embeddingModel": model, "index": "ok"}


def _lines(facts: dict[str, Any]) -> list[str]:
    size = f" ({readable_size(facts['bytes'])})" if facts["bytes"] is not None else ""
    chunks = "unknown" if facts["chunks"] is None else f"{facts['chunks']:,}"
    rows = [
        ("home", facts["home"] + size),
        ("backend", facts["backend"]),
        ("documents", f"{facts['documents']:,}"),
        *((f"  {name}", f"{count:,}") for name, count in facts["categories"].items()),
        ("chunks", chunks),
        ("embedding model", facts["embeddingModel"] or "unknown"),
        ("index", facts["index"]),
        ("waiting", f"{facts['waiting']:,}" + (" (any `opx ingest` goes on with them)" if facts["waiting"] else "")),
        ("failed", f"{facts['failed']:,}" + (" (see `opx failed`)" if facts["failed"] else "")),
    ]
    return list(aligned(rows))


def _size(folder: Path) -> int:
    """Bytes of all files; those that vanish meanwhile don't count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(parent, name).stat().st_size
            except OSError:
                continue
    return total
