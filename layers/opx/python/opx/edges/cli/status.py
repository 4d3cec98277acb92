"""`opx status`: what there is, and whether it works."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from opx.domain.record import Json
from opx.edges.cli.output import aligned, print_json, print_lines, readable_size, some_fields
from opx.edges.cli.session import Session, pass_session
from opx.operations.corpus import GetStatus, Status, get_status


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def status_command(session: Session, *, as_json: bool) -> None:
    """Show where the knowledge is kept, how much there is, what waits and what failed."""
    facts = _remote_facts(session) if session.is_remote else _local_facts(session)
    if as_json:
        print_json(facts)
        return
    if not session.has_knowledge:
        click.echo(f"no knowledge in {facts['home']}: run `opx ingest PATH...`")
        return
    print_lines(_lines(facts))


def _remote_facts(session: Session) -> Json:
    status = session.client.call(get_status, GetStatus())
    return {"backend": "api", "api": session.location, "scope": status.scope, **_facts(status)}


def _local_facts(session: Session) -> Json:
    settings = session.settings
    facts = {"backend": settings.backend, "home": session.location, "exists": session.has_knowledge}
    if not session.has_knowledge:
        return facts
    if settings.own_addresses:
        facts["addresses"] = settings.own_addresses
    size = _size(settings.home_path) if settings.backend == "embedded" else None
    return {**facts, "bytes": size, **_facts(session.client.call(get_status, GetStatus()))}


def _facts(status: Status) -> Json:
    names = ("documents", "categories", "waiting", "failed", "chunks", "embeddingModel", "confidence", "index")
    return some_fields(status, names)


def _lines(facts: Json) -> Iterator[str]:
    chunks = "unknown" if facts["chunks"] is None else f"{facts['chunks']:,}"
    rows = [
        *_place_rows(facts),
        ("documents", f"{facts['documents']:,}"),
        *((f"  {name}", f"{count:,}") for name, count in facts["categories"].items()),
        ("chunks", chunks),
        ("embedding model", facts["embeddingModel"] or "unknown"),
        ("confidence", facts["confidence"] or "unknown"),
        ("index", facts["index"]),
        *_waiting_row(facts),
        ("failed", f"{facts['failed']:,}" + (" (see `opx failed`)" if facts["failed"] else "")),
    ]
    return aligned(rows)


def _place_rows(facts: Json) -> Iterator[tuple[str, str]]:
    if "api" in facts:
        yield "api", facts["api"]
        yield "your documents", facts["scope"]
        return
    size = f" ({readable_size(facts['bytes'])})" if facts["bytes"] is not None else ""
    yield "home", facts["home"] + size
    yield "backend", facts["backend"]
    yield from ((f"  {port}", address) for port, address in facts.get("addresses", {}).items())


def _waiting_row(facts: Json) -> Iterator[tuple[str, str]]:
    """What waits is that of all clients: those of one aren't told."""
    if facts["waiting"] is not None:
        yield "waiting", f"{facts['waiting']:,}" + (f" ({_who_goes_on(facts)})" if facts["waiting"] else "")


def _who_goes_on(facts: Json) -> str:
    return "in the whole system; its workers are on them" if "api" in facts else "any `opx ingest` goes on with them"


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
