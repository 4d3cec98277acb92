"""Operations of an installation's operator that prove, archive, compare and repair its stores."""

from __future__ import annotations

import json
from typing import Annotated, Any

from opx.domain.policy import Action
from opx.domain.record import Record, about
from opx.domain.requests import Filled, Request, Share, Text
from opx.operations.administration import require_stores
from opx.operations.context import Context
from opx.operations.registry import Function, operation
from opx.retrieval.receipts import read_receipt
from opx.runtime.machine import path_here
from opx_assurance.archive.report import ExportReport, ImportReport
from opx_assurance.capability import assurance
from opx_assurance.consistency.differences import ReconcileReport
from opx_assurance.consistency.repair import RepairReport
from opx_assurance.seal.records import Seal
from opx_assurance.seal.sealing import SealComparison, SealedReceipt
from opx_assurance.seal.signing import write_new_key

FilePath = Annotated[Filled, about("The path of a file of this machine.", max_length=4096)]


class RepairStores(Request, frozen=True):
    dry_run: Annotated[bool, about("List the damage, and change nothing.")] = False


@operation(action=Action.ADMINISTER)
def repair_stores(context: Context, request: RepairStores) -> RepairReport:
    """Rebuild indexes, chunk files, catalog and graph from whatever is left, and list what is lost for good.

    No other process may have the stores open. Damaged files are moved aside, never deleted. Raises
    `StoreUnavailableError`: then call it again.
    """
    return context.system.part(assurance).repair(context.progress).run(dry_run=request.dry_run)


# -- seals


class SealStores(Request, frozen=True):
    pass


@operation(action=Action.ADMINISTER)
def seal_stores(context: Context, request: SealStores) -> Seal:  # noqa: ARG001 - as all operations
    """Compute the Merkle root of all contents, sign it with the installation's key if it has one, and store it.

    Two installations that were restored from one archive have the same root. Raises `InvalidInputError` for a key that can't
    be used, and `StoreUnavailableError`.
    """
    return context.system.part(assurance).sealing(context.progress).seal()


class CompareSeal(Request, frozen=True):
    root: Annotated[Text, about("The root that the last seal has to have, noted elsewhere.")] = ""
    public_key: Annotated[Text, about("The public key that has to have signed it, 64 hex digits.")] = ""


@operation(action=Action.ADMINISTER)
def compare_seal(context: Context, request: CompareSeal) -> SealComparison:
    """Compare all contents with the last seal, and name what differs.

    Raises `SealNotFoundError`, `AlteredSealError` for a seal that was altered or has another root, and `UntrustedSealError`
    if it is not signed by the known key.
    """
    sealing = context.system.part(assurance).sealing(context.progress)
    return sealing.compare(root=request.root, public_key=request.public_key)


class ProveReceipt(Request, frozen=True):
    receipt: Annotated[dict[str, Any], about("The receipt, as the query returned it.")]
    root: Annotated[Text, about("The root that the last seal has to have, noted elsewhere.")] = ""
    public_key: Annotated[Text, about("The public key that has to have signed it, 64 hex digits.")] = ""


@operation(action=Action.ADMINISTER)
def prove_receipt(context: Context, request: ProveReceipt) -> SealedReceipt:
    """Prove by the last seal that an answer was given as its receipt states it.

    Raises as `compare_seal`, `InvalidInputError` for something else than a receipt, `ReceiptNotFoundError`,
    `SealNotFoundError` for an answer after the seal, and `TamperedReceiptError` if receipt or record was altered.
    """
    receipt = read_receipt(json.dumps(request.receipt))
    sealing = context.system.part(assurance).sealing(context.progress)
    return sealing.prove(receipt, root=request.root, public_key=request.public_key)


class MakeSigningKey(Request, frozen=True):
    path: Annotated[Filled, about("The path of the new file.", max_length=4096)]


class MadeSigningKey(Record, frozen=True):
    path: str
    public_key: str


@operation(action=Action.ADMINISTER)
def make_signing_key(context: Context, request: MakeSigningKey) -> MadeSigningKey:  # noqa: ARG001 - as all operations
    """Write a new private key for seals to a file that only its owner can read.

    Raises `InvalidInputError` if the file exists or can't be written.
    """
    return MadeSigningKey(request.path, write_new_key(path_here(request.path)).public)


# -- archives


class ExportArchive(Request, frozen=True):
    path: FilePath
    audit: Annotated[bool, about("Also the audit log, and the key of this installation's hashes.")] = False


@operation(action=Action.ADMINISTER)
def export_archive(context: Context, request: ExportArchive) -> ExportReport:
    """Export everything that can't be rebuilt, of all clients, to one file.

    The file is written whole or not at all. Raises `InvalidInputError` if it already exists, or can't be written, and
    `StoreUnavailableError`.
    """
    exporter = context.system.part(assurance).exporter(context.progress)
    return exporter.write(path_here(request.path), audit=request.audit)


class ImportArchive(Request, frozen=True):
    path: FilePath
    merge: Annotated[bool, about("Import into a system with data: new and newer items are imported.")] = False
    dry_run: Annotated[bool, about("Verify it, show what would be imported, and change nothing.")] = False


@operation(action=Action.ADMINISTER)
def import_archive(context: Context, request: ImportArchive) -> ImportReport:
    """Restore an archive, and enqueue its documents for ingestion.

    An interrupted import continues when it is called again. Raises `ArchiveError` before anything is changed, and
    `StoreUnavailableError`.
    """
    importer = context.system.part(assurance).importer(lambda step: context.progress(step, 0))
    return importer.run(path_here(request.path), merge=request.merge, dry_run=request.dry_run)


# -- reconciliation


class Reconcile(Request, frozen=True):
    repair: Annotated[bool, about("Repair differences.")] = False
    thorough: Annotated[
        bool, about("Read every file, and compare index entries one by one instead of counting them.")
    ] = False
    max_share: Annotated[Share | None, about("The share of a kind that repairs may remove; 0.2 if left out.")] = None


@operation(http="POST /reconciliation", function=Function.MANAGE, action=Action.ADMINISTER)
def reconcile(context: Context, request: Reconcile) -> ReconcileReport:
    """Compare corpus, catalog, chunk files, index, graph and calendar of all clients; repair differences.

    Raises `StoreUnavailableError`: then start again, and `InvalidInputError` over HTTP on AWS.
    """
    from opx_assurance.consistency.reconcile import MOST_REMOVED

    require_stores(context)
    share = MOST_REMOVED if request.max_share is None else request.max_share
    reconciler = context.system.part(assurance).reconciler(thorough=request.thorough, progress=context.progress)
    return reconciler.run(repair=request.repair, max_share=share)
