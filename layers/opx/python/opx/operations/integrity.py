"""Operations of an installation's operator that prove and repair its stores."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from opx.domain.requests import Request
from opx.lifecycle.consistency.repair import RepairReport
from opx.operations.context import Context
from opx.operations.registry import Access, operation


class RepairStores(Request, frozen=True):
    dry_run: Annotated[bool, Meta(description="List the damage, and change nothing.")] = False


@operation(access=Access.OPERATOR)
def repair_stores(context: Context, request: RepairStores) -> RepairReport:
    """Rebuild indexes, chunk files, catalog and graph from whatever is left, and list what is lost for good.

    No other process may have the stores open. Damaged files are moved aside, never deleted. Raises
    `StoreUnavailableError`: then call it again.
    """
    return context.system.lifecycle.repair(context.progress).run(dry_run=request.dry_run)
