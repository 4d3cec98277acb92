"""Archives that were changed and resealed are refused with nothing changed, or imported into a system that then works.

`OPX_ATTACK_CASES` sets the number of mutated archives, `OPX_ATTACK_SEED` the first seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.errors import ArchiveError, IndexUnavailableError
from opx.lifecycle.archive.exporting import ARCHIVED
from opx.lifecycle.report import ImportReport
from opx.operations.system import System
from tests.support.archive_support import Entries, entries_of, everything_in, services_at, write
from tests.support.cli_support import Opx
from tests.support.whole_archive import a_whole_archive, mutated, work_of

CASES, FIRST = int(os.environ.get("OPX_ATTACK_CASES", "80")), int(os.environ.get("OPX_ATTACK_SEED", "0"))
BATCH = 40


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> Entries:
    return entries_of(a_whole_archive(tmp_path_factory.mktemp("whole")))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with services_at(tmp_path_factory.mktemp("empty")) as services:
        yield services


def imported(path: Path, folder: Path) -> ImportReport:
    opx = Opx(folder)
    with services_at(opx.home) as services:
        report = services.lifecycle.importer().run(path)
        for name, work in work_of(services).items():
            try:
                work()
            except IndexUnavailableError:  # readers none of whose documents can be parsed, or has an object
                if not report.failed:
                    services.lifecycle.reconciler().run(repair=True)
                    work()
            except Exception as exc:
                raise AssertionError(f"{name} fails: {exc!r}") from exc
    for command in (["status"], ["client", "list"], ["--client", "acme", "search", "restart the heron"]):
        result = opx(*command)
        assert result.exit_code in (0, 1), f"{command}: {result.stderr}"
    return report


def test_every_table_of_an_archive_has_rows_to_change(entries: Entries) -> None:
    assert [table.entry for table in ARCHIVED if not entries[table.entry]] == []


def test_the_archive_that_nobody_changed_is_imported(entries: Entries, tmp_path: Path) -> None:
    report = imported(write(tmp_path / "x", entries), tmp_path / "to")
    assert (report.failed, sum(report.documents.values())) == (0, 7)


@pytest.mark.parametrize("batch", range(0, CASES, BATCH))
def test_changed_archives_are_refused_unchanged_or_work(
    empty: System, entries: Entries, tmp_path: Path, batch: int
) -> None:
    before, refused = everything_in(empty), 0
    for case in range(batch, min(batch + BATCH, CASES)):
        changed, what = mutated(entries, FIRST + case)
        path = write(tmp_path / "x", changed)
        try:
            empty.lifecycle.importer().run(path, dry_run=True)
        except ArchiveError:
            refused += 1
            assert everything_in(empty) == before, what
            continue
        try:
            imported(path, tmp_path / f"to{case}")
        except Exception as exc:
            raise AssertionError(f"seed {FIRST + case}: {what}") from exc
    assert refused, "nothing was refused"
