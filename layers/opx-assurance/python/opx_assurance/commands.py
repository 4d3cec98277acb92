"""`opx repair` and `opx seal`: rebuild damaged stores, and prove that nobody changed them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from opx.edges.cli.indexes import difference_line
from opx.edges.cli.operations import operation_command, request_command
from opx.edges.cli.output import exit_unless, plural, print_json, print_table, printable
from opx.edges.cli.retention import phases
from opx.edges.cli.session import Session
from opx.errors import InvalidInputError
from opx_assurance import operations as integrity
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


@operation_command(
    "repair",
    integrity.repair_stores,
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
    integrity.compare_seal,
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
    request: integrity.CompareSeal,
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
        made = session.client.call(integrity.make_signing_key, integrity.MakeSigningKey(path=new_key))
        click.echo(f"{made.path}: a signing key, with the public key {made.public_key}")
        return
    session.require_knowledge()
    if receipt:
        _prove(session, receipt, request, as_json=as_json)
        return
    with phases() as progress:
        client = session.watched_client(progress)
        found: Seal | SealComparison = (
            client.call(integrity.compare_seal, request)
            if verify
            else client.call(integrity.seal_stores, integrity.SealStores())
        )
    if as_json:
        print_json(found.to_json())
    elif isinstance(found, Seal):
        _print_seal(found)
    else:
        _print_comparison(found)
    exit_unless(isinstance(found, Seal) or not found.unexpected)


def _prove(session: Session, path: str, request: integrity.CompareSeal, *, as_json: bool) -> None:
    try:
        receipt = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        raise InvalidInputError(f"{path} can't be read as a receipt: {exc}") from exc
    if not isinstance(receipt, dict):
        raise InvalidInputError(f"{path} is no receipt: `opx search --receipt FILE` writes one")
    wanted = integrity.ProveReceipt(receipt=receipt, root=request.root, public_key=request.public_key)
    found = session.client.call(integrity.prove_receipt, wanted)
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
