"""Operations of an installation's operator that prove and repair its stores."""

from __future__ import annotations

import json
from typing import Annotated, Any

from opx.domain.policy import Action
from opx.domain.record import Record, about
from opx.domain.requests import Filled, Request, Text
from opx.operations.context import Context
from opx.operations.registry import operation
from opx.retrieval.receipts import read_receipt
from opx.runtime.machine import path_here
from opx_assurance.consistency.repair import RepairReport
from opx_assurance.seal.records import Seal
from opx_assurance.seal.sealing import SealComparison, SealedReceipt
from opx_assurance.seal.signing import write_new_key


class RepairStores(Request, frozen=True):
    dry_run: Annotated[bool, about("List the damage, and change nothing.")] = False


@operation(action=Action.ADMINISTER)
def repair_stores(context: Context, request: RepairStores) -> RepairReport:
    """Rebuild indexes, chunk files, catalog and graph from whatever is left, and list what is lost for good.

    No other process may have the stores open. Damaged files are moved aside, never deleted. Raises
    `StoreUnavailableError`: then call it again.
    """
    return context.system.lifecycle.repair(context.progress).run(dry_run=request.dry_run)


# -- seals


class SealStores(Request, frozen=True):
    pass


@operation(action=Action.ADMINISTER)
def seal_stores(context: Context, request: SealStores) -> Seal:  # noqa: ARG001 - as all operations
    """Compute the Merkle root of all contents, sign it with the installation's key if it has one, and store it.

    Two installations that were restored from one archive have the same root. Raises `InvalidInputError` for a key that can't
    be used, and `StoreUnavailableError`.
    """
    return context.system.lifecycle.sealing(context.progress).seal()


class CompareSeal(Request, frozen=True):
    root: Annotated[Text, about("The root that the last seal has to have, noted elsewhere.")] = ""
    public_key: Annotated[Text, about("The public key that has to have signed it, 64 hex digits.")] = ""


@operation(action=Action.ADMINISTER)
def compare_seal(context: Context, request: CompareSeal) -> SealComparison:
    """Compare all contents with the last seal, and name what differs.

    Raises `SealNotFoundError`, `AlteredSealError` for a seal that was altered or has another root, and `UntrustedSealError`
    if it is not signed by the known key.
    """
    sealing = context.system.lifecycle.sealing(context.progress)
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
    sealing = context.system.lifecycle.sealing(context.progress)
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
