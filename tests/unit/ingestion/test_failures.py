"""Records of documents whose ingestion failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteTable
from opx.errors import UnparsableDocumentError
from opx.ingestion.corpus.failures import MAX_REASON_CHARACTERS, FailureLog
from opx.ingestion.events import ObjectEvent
from opx.ports.tables import FAILURES
from opx_testing.fake_time import FakeTime

EVENT = ObjectEvent("documents/x.md", deleted=False, sequencer="0" * 40)


@pytest.fixture
def failures(tmp_path: Path, time: FakeTime) -> Iterator[FailureLog]:
    database = open_database(tmp_path / "opx.db")
    yield FailureLog(SqliteTable(FAILURES, database, clock=time.clock), time.clock)
    database.close()


@pytest.mark.parametrize("length", [0, 10, MAX_REASON_CHARACTERS])
def test_a_reason_is_kept_as_it_is(failures: FailureLog, length: int) -> None:
    reason = "ä" * length
    failures.record(EVENT, UnparsableDocumentError(reason), 1)
    (kept,) = failures.items()
    assert kept.reason == reason


@pytest.mark.parametrize("length", [MAX_REASON_CHARACTERS + 1, 1_000_000])
def test_of_a_long_reason_the_beginning_is_kept(failures: FailureLog, length: int) -> None:
    recorded = failures.record(EVENT, UnparsableDocumentError("x" * length), 1)
    (kept,) = failures.items()
    assert kept.reason == recorded.reason == "x" * (MAX_REASON_CHARACTERS - 1) + "…"


def test_a_secret_that_a_parser_quotes_is_masked(failures: FailureLog) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    recorded = failures.record(EVENT, UnparsableDocumentError(f"line 3: unexpected {secret}"), 1)
    assert secret not in recorded.reason
    assert "masked" in recorded.reason
