"""Writes of a claim read the item of its key once, and notice what others wrote meanwhile. Leases whatever the clock does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from opx.domain.documents import DocumentKey
from opx.domain.scopes import Scope
from opx.errors import ConditionFailedError
from opx.ingestion.corpus.claims import Claims
from opx.ingestion.events import ObjectEvent
from opx.ports import Item
from opx.ports.tables import KEYS
from opx.runtime.leases import CLOCKS_DIFFER, is_leased
from opx.settings import Settings
from opx.system import bootstrap

KEY = DocumentKey(Scope(), "documents/runbooks/disk.md")
EVENT = ObjectEvent(KEY.source, deleted=False, sequencer="")


class CountedTable:
    """Counts reads of items."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.reads = 0

    def get(self, key: Mapping[str, Any]) -> Item | None:
        self.reads += 1
        found: Item | None = self._table.get(key)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[Any]:
    with bootstrap(Settings(home=str(tmp_path / "home"))) as system:
        yield CountedTable(system.tables.table(KEYS))


def claims_of(keys: Any, now: float = 1000.0) -> Claims:
    return Claims(keys, clock=lambda: now, lease_seconds=900)


def test_a_document_is_read_once_while_its_claim_holds(keys: Any) -> None:
    claims = claims_of(keys)
    claim = claims.claim(KEY, EVENT)
    claims.start_writing(claim, "document-1")
    claims.renew(claim)
    claims.settle(claim, {"documentId": "document-1", "state": "current"})
    assert keys.reads == 1
    head = keys.get({"documentKey": KEY.id})
    assert (head["documentId"], head["writing"], head["leaseToken"], head["revision"]) == ("document-1", {}, "", 4)


def test_a_note_by_another_worker_is_kept(keys: Any) -> None:
    claims, other = claims_of(keys), claims_of(keys)
    claim = claims.claim(KEY, EVENT)
    other.note_unfinished(KEY, "document-2")
    claims.start_writing(claim, "document-1")
    assert set(keys.get({"documentKey": KEY.id})["writing"]) == {"document-1", "document-2"}
    claims.settle(claim, {"documentId": "document-1", "state": "current"})
    assert set(keys.get({"documentKey": KEY.id})["writing"]) == {"document-2"}


def test_a_claim_that_another_worker_took_over_writes_nothing(keys: Any) -> None:
    claims, later = claims_of(keys), claims_of(keys, now=5000.0)
    claim = claims.claim(KEY, EVENT)
    taken = later.claim(KEY, EVENT)
    with pytest.raises(ConditionFailedError):
        claims.settle(claim, {"documentId": "document-1", "state": "current"})
    assert not claims.release(claim, applied=False)
    later.settle(taken, {"documentId": "document-2", "state": "current"})
    assert keys.get({"documentKey": KEY.id})["documentId"] == "document-2"


NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("until", "seconds", "leased"),
    [
        (NOW + 10, 900, True),
        (NOW, 900, False),
        (NOW - 1, 900, False),
        (NOW + 900 + CLOCKS_DIFFER, 900, True),
        (NOW + 900 + CLOCKS_DIFFER + 1, 900, False),
        (NOW + 3600, 0, False),
        (NOW + 1, 0, False),
    ],
)
def test_lease_lasts_until_its_time_unless_it_is_longer_than_any(until: float, seconds: float, *, leased: bool) -> None:
    assert is_leased(until, NOW, seconds) is leased
