"""Removes files of versions that the catalog doesn't know: killed writers left them, and nobody wrote their documents since.

Each run lists a part of the corpus and goes on where the last one ended, so that its cost is bounded. A file stays as long as
its writer may hold a lease, and while a legal hold may cover it: of a version that the catalog doesn't know, only scope and
category are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import islice, takewhile

from opx.domain.documents import DocumentKey
from opx.domain.ids import batched
from opx.domain.scopes import Scope
from opx.errors import DamagedStoreError, ObjectNotFoundError
from opx.ingestion.corpus.chunk_files import read_chunks
from opx.ingestion.events import DOCUMENTS_FOLDER
from opx.lifecycle.retention.due import AT_ONCE
from opx.lifecycle.retention.holds import Hold
from opx.ports import ObjectStore, Table
from opx_assurance.consistency.differences import StoreFinding
from opx_assurance.consistency.reconcile import Repairs
from opx_assurance.consistency.store_checks import StoreChecks, version_of

OBJECTS_A_RUN = 50_000
"""50 requests of a listing, and 25,000 reads of the catalog, at most."""

_POSITION = {"subject": "leftover-files", "entry": "position"}


@dataclass(eq=False)
class LeftoverFiles:
    """Finds the files by the checks of a reconciliation, and removes them by its repairs."""

    store: ObjectStore
    state: Table
    checks: StoreChecks
    repairs: Repairs
    holds: Callable[[], Sequence[Hold]]
    _: KW_ONLY
    most: int = OBJECTS_A_RUN

    def remove(self, is_over: Callable[[], bool] = lambda: False) -> tuple[int, int]:
        """Removes files of the next part of the corpus; returns the numbers of those removed, and of those kept by holds.
        Raises `StoreUnavailableError`."""
        after = str((self.state.get(_POSITION) or {}).get("after", ""))
        listed = takewhile(lambda info: info.key < DOCUMENTS_FOLDER, self.store.list(after=after))
        removed = kept = count = 0
        for batch in batched(islice(listed, self.most), AT_ONCE):
            found = self.checks.version_files(batch).found
            held = self._held(found)
            self.repairs.make([one for one in found if one.object_key not in held])
            removed, kept, count = removed + len(found) - len(held), kept + len(held), count + len(batch)
            after = batch[-1].key
            if is_over():
                break
        else:
            after = after if count == self.most else ""
        self.state.put({**_POSITION, "after": after})
        return removed, kept

    def _held(self, found: Sequence[StoreFinding]) -> set[str]:
        """Keys of the files that a hold may cover."""
        holds = self.holds() if found else ()
        versions = {one.object_key: version_of(one.object_key) for one in found}
        covered = {one: self._is_covered(one, holds) for one in set(versions.values()) if one}
        return {key for key, version in versions.items() if version and covered[version]}

    def _is_covered(self, version: tuple[Scope, str], holds: Sequence[Hold]) -> bool:
        if not holds:
            return False
        scope, document_id = version
        try:
            category = next(read_chunks(self.store, DocumentKey(scope, ""), document_id)).metadata.category
        except (StopIteration, ObjectNotFoundError, DamagedStoreError):
            return any(hold.may_cover(scope, hold.category) for hold in holds)
        return any(hold.may_cover(scope, category) for hold in holds)
