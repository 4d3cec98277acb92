"""Files of bulk jobs, some of which name documents of clients. Archives have no bulk jobs."""

from __future__ import annotations

from typing import Any

from opx.domain.scopes import Scope
from opx.errors import StoreUnavailableError
from opx.ports.holdings import CountedHolding, HeldItems, Holding
from opx.ports.objects import read_object
from opx.ports.rows import Rows
from opx.ports.tables import LIFECYCLE
from opx_bulk.files import FOLDER, FOUND, REPORT
from opx_bulk.job import BulkJobs, BulkKind


def _files(system: Any) -> Holding:
    """Files of bulk jobs that name documents of the client. Those of all jobs are removed, once none is running."""
    jobs, storage = BulkJobs(system.tables.table(LIFECYCLE), system.clock), system.storage

    def count(held: HeldItems) -> int:
        own = Scope(held.client_id).prefix.encode()
        named = (info.key for info in storage.objects.list(FOLDER) if _may_name(info.key))
        return sum(own in (read_object(storage.objects, key) or b"") for key in named)

    def remove(_: HeldItems) -> None:
        for kind in BulkKind:
            if job := jobs.unfinished(kind):
                raise StoreUnavailableError(f"the bulk job {job.job_id} is not ended: wait for its end, or cancel it")
        storage.history.erase(FOLDER)

    return CountedHolding("files of bulk jobs", count, remove)


def _may_name(key: str) -> bool:
    """True for a file of a bulk job that may name documents."""
    return key.endswith((".jsonl", REPORT)) or f"/{FOUND}/" in key


ROWS = Rows(table=LIFECYCLE, holding=_files)
