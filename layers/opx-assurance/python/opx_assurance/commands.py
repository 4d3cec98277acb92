"""`opx repair`, `opx seal`, `opx export`, `opx import`, `opx reconcile`: rebuild damaged stores, prove that nobody changed
them, archive them, and repair differences between them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from opx.edges.cli.operations import operation_command, request_command
from opx.edges.cli.output import (
    CommandFailed,
    exit_unless,
    plural,
    print_either,
    print_json,
    print_table,
    printable,
    readable_size,
    warn,
)
from opx.edges.cli.session import Session
from opx.errors import ArchiveError, InvalidInputError
from opx.operations.context import Progress
from opx_assurance import operations
from opx_assurance.archive.report import ExportReport, ImportReport
from opx_assurance.consistency.differences import ReconcileReport, StoreDifference
from opx_assurance.consistency.repair import RepairReport
from opx_assurance.seal.records import Seal
from opx_assurance.seal.sealing import SealComparison, SealDifference

_WORKS_ON = (
    "works on a folder of this machine, or with OPX_BACKEND=aws on the stores of a deployed system: see docs/backup.md"
)
_RECORDED = "sealed by recorded checksums: all bytes were read now, and may differ from them since before the seal"
_UNSIGNED = "not signed: set OPX_SIGNING_KEY"
_CHANGED = "not as it was ingested; it was ingested as it is now, and `opx history` has the version before"
_KEPT = "that belong to nothing were kept: `opx reconcile` lists them, --repair removes them"


_EVERY_SECONDS = 0.2
_WIDTH = 100


@contextmanager
def phases() -> Iterator[Progress]:
    """Shows the current phase in one line on stderr, if that is a terminal, and clears the line at the end."""
    is_seen = sys.stderr.isatty()
    due = 0.0

    def show(step: str, count: int) -> None:
        nonlocal due
        if is_seen and (now := time.monotonic()) >= due:
            due = now + _EVERY_SECONDS
            text = f"{count:,} {step}" if count else step
            click.echo(f"\r\033[K{text[:_WIDTH]}", err=True, nl=False)

    try:
        yield show
    finally:
        if due:
            click.echo("\r\033[K", err=True, nl=False)


@operation_command(
    "repair",
    operations.repair_stores,
    fields={"dry_run": "List the damage, and change nothing."},
    elsewhere=f"repair {_WORKS_ON}",
    progress=phases,
    json="Print the report as JSON.",
)
def repair_command(report: RepairReport, *, as_json: bool) -> Iterator[str]:
    """Rebuild everything that intact data allows: index, chunk files, outlines, catalog, graph and tables. List the
    losses.

    End other opx processes first. It reads every file, reads a damaged database row by row, and builds a damaged index
    again from the documents. It moves damaged files to a folder `damaged-TIME` of the home folder, and deletes none.
    You can interrupt and repeat it at any time.

    On AWS the services keep files and pages intact: there it ingests documents again that a thorough comparison finds.

    Exit codes: 0 all is in order, 1 something is lost or left, 2 it could not be done.
    """
    if not as_json:
        yield from _repaired_lines(report)
        yield from _rest_lines(report)
    exit_unless(report.is_whole)


def _repaired_lines(report: RepairReport) -> Iterator[str]:
    yield from (f"damaged: {printable(one.file)}: {printable(one.problem)}" for one in report.damaged)
    if report.folder:
        yield f"the damaged files are in the folder {report.folder}: delete it when you don't need it any more"
    if report.rows:
        yield f"{plural(sum(report.rows.values()), 'row')} read from damaged databases"
    if report.heads:
        yield f"{plural(report.heads, 'document')} entered in the catalog again, from their versions"
    for problem, count in report.repaired.items():
        yield f"repaired: {plural(count, 'difference')} of the kind {problem.value.replace('_', ' ')}"
    yield from (f"changed: {printable(key)}: {_CHANGED}" for key in report.changed)
    verb = "would repair" if report.dry_run else "left"
    yield from (f"{verb}: {difference_line(left)}" for left in report.left)
    yield from (f"lost for good, unless a backup has it: {printable(loss)}" for loss in report.lost)


def _rest_lines(report: RepairReport) -> Iterator[str]:
    if report.waiting:
        yield f"{plural(report.waiting, 'document')} sent again; functions ingest them: then run it again"
    if report.failed:
        yield f"{plural(report.failed, 'document')} could not be ingested: `opx failed` lists the reasons"
    if report.surplus:
        yield f"{plural(report.surplus, 'item')} {_KEPT}"
    if report.is_whole and not report.waiting:
        yield "all stores are in order"


# -- seals


@request_command(
    "seal",
    operations.compare_seal,
    fields={
        "root": "HEX  With --verify: the expected root of the last seal.",
        "public_key": "HEX  With --verify: the public key of the expected signature.",
    },
    elsewhere=f"seal {_WORKS_ON}",
    anywhere=True,
)
@click.option("--verify", is_flag=True, help="Compare the stored data with the last seal, and list the differences.")
@click.option("--receipt", metavar="FILE", help="Prove by the last seal that a receipt is unchanged.")
@click.option("--new-key", metavar="FILE", help="Write a new signing key to this file.")
def seal_command(
    session: Session,
    request: operations.CompareSeal,
    *,
    verify: bool,
    receipt: str | None,
    new_key: str | None,
    as_json: bool,
) -> None:
    """Seal the stored data: compute one hash, the root, of all documents, versions with their files, audit records and
    other rows of an archive. Sign it, and store it. Keep the printed root elsewhere, too.

    \b
    opx seal --new-key ~/opx-key.pem       a key; keep it away from the data
    OPX_SIGNING_KEY=~/opx-key.pem opx seal
    opx seal --verify --public-key HEX     later additions, removals and changes
    opx seal --receipt incident.json       proof that a receipt is unchanged

    OPX_SIGNING_KEY (a file, or the name of a secret) signs the seal. A seal that isn't signed only shows accidents: an
    attacker can change it, too. Two homes that were restored from one archive have the same root.

    Additions by use since the seal (records of answers, outcomes, ingested versions) are listed apart; they don't count
    as differences.

    Exit codes: 0 sealed, or unchanged since; 1 something differs; 2 the seal itself was altered, is of another key, or
    another error.
    """
    if bool(new_key) + bool(receipt) + verify > 1 or ((request.root or request.public_key) and not (verify or receipt)):
        raise InvalidInputError(
            "give one of --verify, --receipt and --new-key; --root and --public-key belong to the first two"
        )
    if new_key:
        made = session.client.call(operations.make_signing_key, operations.MakeSigningKey(path=new_key))
        click.echo(f"{made.path}: a signing key, with the public key {made.public_key}")
        return
    session.require_knowledge()
    if receipt:
        _prove(session, receipt, request, as_json=as_json)
        return
    with phases() as progress:
        client = session.watched_client(progress)
        found: Seal | SealComparison = (
            client.call(operations.compare_seal, request)
            if verify
            else client.call(operations.seal_stores, operations.SealStores())
        )
    if as_json:
        print_json(found.to_json())
    elif isinstance(found, Seal):
        _print_seal(found)
    else:
        _print_comparison(found)
    exit_unless(isinstance(found, Seal) or not found.unexpected)


def _prove(session: Session, path: str, request: operations.CompareSeal, *, as_json: bool) -> None:
    try:
        receipt = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        raise InvalidInputError(f"{path} can't be read as a receipt: {exc}") from exc
    if not isinstance(receipt, dict):
        raise InvalidInputError(f"{path} is no receipt: `opx search --receipt FILE` writes one")
    wanted = operations.ProveReceipt(receipt=receipt, root=request.root, public_key=request.public_key)
    found = session.client.call(operations.prove_receipt, wanted)
    if as_json:
        print_json(found.to_json())
        return
    click.echo(
        f"the receipt {found.receipt_id} is as it was issued, by the seal of {found.sealed_at}, root {found.root}"
    )
    _print_signature(found.public_key, is_trusted=found.is_trusted)


def _print_signature(public_key: str, *, is_trusted: bool) -> None:
    if not public_key:
        click.echo(_UNSIGNED)
    elif not is_trusted:
        click.echo(f"signed by {public_key}: give --public-key to check that this is your key")


def _print_seal(seal: Seal) -> None:
    print_table(("PART", "ITEMS", "ROOT"), [(one.part, f"{one.count:,}", one.root[:16]) for one in seal.parts])
    click.echo(f"root {seal.root}")
    click.echo(f"signed by {seal.public_key}" if seal.signature else _UNSIGNED)


def _print_comparison(found: SealComparison) -> None:
    for one in found.differences:
        click.echo(_difference_line(one))
    if found.count > len(found.differences):
        click.echo(f"... and {found.count - len(found.differences):,} more")
    seal = found.seal
    _print_signature(seal.public_key, is_trusted=found.is_trusted)
    if seal.is_recorded:
        click.echo(_RECORDED)
    verdict = plural(found.unexpected, "difference") if found.unexpected else "all is as it was sealed"
    more = f", and {found.expected:,} items that use added since" if found.expected else ""
    click.echo(f"{verdict} on {seal.at}{more}; root {found.root}")


def _difference_line(one: SealDifference) -> str:
    since = f"; ingested on {one.since}" if one.since else ""
    kind = f"{one.kind} since the seal" if one.is_expected else one.kind
    return f"{kind}: {one.part}: {printable(one.name)}{since}"


# -- archives


@operation_command(
    "export", operations.export_archive, arguments=("path",), progress=phases, json="Print the report as JSON."
)
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
def export_command(report: ExportReport, request: operations.ExportArchive, *, as_json: bool) -> Iterator[str]:
    """Export everything that can't be rebuilt to FILE, for all clients: documents with all their versions, learned
    entries and outcomes, clients and projects, aliases, holds, baselines, gaps and sources.

    FILE omits secrets, index, graph and cached vectors; `opx import` rebuilds the last three. Others may keep working.
    FILE appears when it is complete. Only you may read it, as it has all knowledge.

    It works on a folder of this machine. On AWS it needs access to the stores (OPX_BACKEND=aws with the settings of the
    functions). docs/backup.md describes how to check a backup.
    """
    warn(*report.notes)
    if not as_json:
        documents, versions = (plural(report.counts[f"{noun}s"], noun) for noun in ("document", "version"))
        yield f"{request.path}: {readable_size(report.size)}, {documents} in {versions}"
        yield f"sha256 {report.sha256}"


@request_command(
    "import",
    operations.import_archive,
    arguments=("path",),
    fields={"dry_run": "Verify the archive, show what it would import, and change nothing."},
    anywhere=True,
    json="Print the report as JSON.",
)
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def import_command(session: Session, request: operations.ImportArchive, *, as_json: bool) -> None:
    """Import FILE, which `opx export` wrote, here or elsewhere, on a laptop or on AWS.

    It verifies every checksum and every line first. Then it restores the history of the documents and all other
    records, and ingests the documents, which rebuilds index and graph. Run it again to continue an interrupted import.

    With --merge, existing documents and records stay. If the archive has a newer document, it becomes a further
    version.

    It works on a folder of this machine. On AWS it needs access to the stores (OPX_BACKEND=aws with the settings of the
    functions), and functions ingest the documents.

    Exit codes: 0 done, 1 some documents could not be ingested (`opx failed`), 2 the archive was refused or a store failed.
    """
    try:
        with phases() as progress:
            report = session.watched_client(progress).call(operations.import_archive, request)
    except ArchiveError as exc:  # may quote an archive made by an attacker
        raise CommandFailed(printable(str(exc))) from exc
    warn(*(printable(note) for note in report.notes))
    print_either(report, _import_lines(report), as_json=as_json)
    exit_unless(not report.failed)


def _import_lines(report: ImportReport) -> Iterator[str]:
    facts = report.archive
    yield f"archive of {printable(facts.made)}, of a system on {printable(facts.backend)}: all checksums match"
    verb = "would be " if report.dry_run else ""
    yield from (f"{plural(count, 'document')} {verb}{fate.value}" for fate, count in report.documents.items())
    if report.dry_run:
        return
    yield f"{plural(sum(report.rows.values()), 'row')} and {plural(report.files, 'file')} restored"
    if report.waiting:
        yield f"functions ingest {plural(report.waiting, 'document')} now; `opx status` shows the progress"
    if report.failed:
        yield f"{plural(report.failed, 'document')} could not be ingested: `opx failed` lists the reasons"


# -- reconciliation


@operation_command(
    "reconcile",
    operations.reconcile,
    fields={"max_share": "SHARE  With --repair: remove up to this share of a kind.  [default: 0.2]"},
    json="Print the report as JSON.",
)
def reconcile_command(report: ReconcileReport, *, as_json: bool) -> Iterator[str]:
    """Compare corpus, catalog, chunk files, index, graph and calendar of all clients, and report differences.

    Others may keep working, and you can interrupt and repeat the run at any time. --repair ingests documents that
    differ again, or withdraws them, and removes entries that belong to no document. It refuses to remove more than a
    share of all: then a store is probably lost, and has to be restored from a backup (docs/backup.md). --thorough reads
    every file and compares it with its checksum. `opx repair` mends a damaged database or index.

    It works on a folder of this machine. On AWS it needs access to the stores (OPX_BACKEND=aws with the settings of the
    functions). There functions do the repairs, so compare again a few minutes later.

    Exit codes: 0 the stores agree or were repaired, 1 differences are left, 2 it could not be done.
    """
    if not as_json:
        yield from _difference_lines(report)
    if report.given_up:
        warn(
            f"{plural(report.given_up, 'import')} that was cut short is closed: the documents that it brought are in order"
        )
    left = report.total - report.repaired
    if report.held_back:
        warn(
            f"{plural(report.held_back, 'removal')} held back: so many indicate that a store was lost; restore it, or raise "
            "--max-share"
        )
    exit_unless(not left)


def _difference_lines(report: ReconcileReport) -> Iterator[str]:
    yield from map(difference_line, report.differences)
    if report.total > len(report.differences):
        yield f"... and {report.total - len(report.differences):,} more"
    yield (
        f"compared {plural(report.objects, 'object')}, {plural(report.documents, 'document')} of the catalog, "
        f"{plural(report.index_documents, 'document')} of the index, {plural(report.chunk_files, 'chunk file')}: "
        f"{plural(report.total, 'difference')}, {report.repaired:,} repaired"
    )
    if report.waiting:
        yield f"{plural(report.waiting, 'document')} sent again; functions ingest them"
    if report.in_flight:
        yield f"{plural(report.in_flight, 'document')} being ingested just now, not compared"
    if report.failed:
        yield f"{plural(report.failed, 'failed item')}: `opx failed` lists them"


def difference_line(one: StoreDifference) -> str:
    """`documents/a.md: the index lacks it; repair: ingest`."""
    return f"{printable(one.object_key) or f'scope {one.scope_key}'}: {printable(one.text)}; repair: {one.repair}"
