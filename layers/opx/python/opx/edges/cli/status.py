"""`opx status`: shows the size and the health of the knowledge base."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from opx.domain.record import Json
from opx.edges.cli.output import aligned, exit_unless, print_json, print_lines, readable_size, some_fields
from opx.edges.cli.session import Session, pass_session
from opx.operations.corpus import GetStatus, Status, get_status


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def status_command(session: Session, *, as_json: bool) -> None:
    """Show the location of the knowledge, its size, the number of waiting and failed documents, and damaged files.

    On a machine it checks databases and indexes for about a second. It skips documents, their chunks, large files of an
    index, and some pages of a large database. `opx reconcile --thorough` reads every file.

    Exit codes: 0 nothing damaged was found, 1 a file is damaged, 2 another error.
    """
    facts = _remote_facts(session) if session.is_remote else _local_facts(session)
    if as_json:
        print_json(facts)
        exit_unless(not facts.get("damage"))
        return
    if not session.has_knowledge:
        click.echo(f"no knowledge in {facts['home']}: run `opx ingest PATH...`")
        return
    print_lines(_lines(facts))
    exit_unless(not facts["damage"])


def _remote_facts(session: Session) -> Json:
    status = session.client.call(get_status, GetStatus())
    return {
        "backend": "api",
        "api": session.location,
        "scope": status.scope,
        **_facts(status),
        "keptOut": _kept_out(session),
    }


def _local_facts(session: Session) -> Json:
    settings = session.settings
    facts = {"backend": settings.backend, "home": session.location, "exists": session.has_knowledge}
    if not session.has_knowledge:
        return facts
    if settings.own_addresses:
        facts["addresses"] = settings.own_addresses
    size = size_of(settings.home_path) if settings.backend == "embedded" else None
    status = _facts(session.client.call(get_status, GetStatus()))
    return {**facts, "bytes": size, **status, "keptOut": _kept_out(session)}


def _facts(status: Status) -> Json:
    names = (
        "documents",
        "categories",
        "expired",
        "waiting",
        "backlog",
        "failed",
        "chunks",
        "embeddingModel",
        "confidence",
        "index",
        "damage",
        "plugins",
    )
    return some_fields(status, names)


def _lines(facts: Json) -> Iterator[str]:
    chunks = "unknown" if facts["chunks"] is None else f"{facts['chunks']:,}"
    rows = [
        *_location_rows(facts),
        ("documents", f"{facts['documents']:,}"),
        *((f"  {name}", f"{count:,}") for name, count in facts["categories"].items()),
        *_retention_rows(facts),
        ("chunks", chunks),
        ("embedding model", facts["embeddingModel"] or "unknown"),
        ("confidence", facts["confidence"] or "unknown"),
        ("index", facts["index"]),
        *(("damaged", f"{one} (`opx repair`)") for one in facts["damage"]),
        *(("plugins", problem) for problem in facts["plugins"]),
        *_waiting_row(facts),
        *_backlog_row(facts),
        ("failed", f"{facts['failed']:,}" + (" (see `opx failed`)" if facts["failed"] else "")),
    ]
    return aligned(rows)


def _retention_rows(facts: Json) -> Iterator[tuple[str, str]]:
    """Documents past their retention: those that are stored and hidden, and those of sources that were never stored."""
    for name, count in facts["expired"].items():
        yield "expired", f"{count:,} of {name}: hidden by its retention (see `opx list --remarks any`)"
    for source_id, line in facts["keptOut"].items():
        yield "kept out", f"source {source_id}: {line}"


def _kept_out(session: Session) -> Json:
    from opx.edges.cli.sources import kept_out_line, kept_out_sources

    return {view.source_id: kept_out_line(view) for view in kept_out_sources(session)}


def _location_rows(facts: Json) -> Iterator[tuple[str, str]]:
    if "api" in facts:
        yield "api", facts["api"]
        yield "your documents", facts["scope"]
        return
    size = f" ({readable_size(facts['bytes'])})" if facts["bytes"] is not None else ""
    yield "home", facts["home"] + size
    yield "backend", facts["backend"]
    yield from ((f"  {port}", address) for port, address in facts.get("addresses", {}).items())


def _waiting_row(facts: Json) -> Iterator[tuple[str, str]]:
    """Waiting documents of all clients; absent if the caller may only see those of one."""
    if facts["waiting"] is not None:
        yield "waiting", f"{facts['waiting']:,}" + (f" ({_worker_hint(facts)})" if facts["waiting"] else "")


def _backlog_row(facts: Json) -> Iterator[tuple[str, str]]:
    """Changes that the bucket announced and that are not ingested; on one machine, the waiting documents are all."""
    backlog = facts["backlog"]
    if backlog is None or facts["backend"] == "embedded":
        return
    more = " or more" if backlog["more"] else ""
    since = (
        f" of over 15 minutes ago, the oldest of {backlog['oldest']} (see `announced-not-ingested` in docs/deploy.md)"
    )
    yield "not yet ingested", f"{backlog['changes']:,}{more} announced changes{since if backlog['oldest'] else ''}"


def _worker_hint(facts: Json) -> str:
    return (
        "in the whole system; its workers ingest them"
        if "api" in facts
        else "the next `opx ingest` continues with them"
    )


def size_of(folder: Path) -> int:
    """Bytes of all files; those that vanish meanwhile don't count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(parent, name).stat().st_size
            except OSError:
                continue
    return total
