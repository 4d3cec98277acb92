"""Archives that were changed and resealed are refused with nothing changed, or imported into a system that then works.

`OPX_ATTACK_CASES` sets the number of mutated archives (one for 500 of it), `OPX_ATTACK_SEED` the first seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.errors import ArchiveError, IndexUnavailableError
from opx.operations.system import System
from opx_assurance.archive.exporting import ARCHIVED
from opx_assurance.archive.report import ImportReport
from opx_assurance.capability import assurance
from tests.support.archive_support import Entries, entries_of, everything_in, services_at, write
from tests.support.attacks import Attack, AttackReport, cases
from tests.support.cli_support import Opx
from tests.support.whole_archive import a_whole_archive, mutated, work_of

CASES, FIRST = max(40, cases(0) // 500), int(os.environ.get("OPX_ATTACK_SEED", "0"))
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
        report = services.part(assurance).importer().run(path)
        for name, work in work_of(services).items():
            try:
                work()
            except IndexUnavailableError:  # readers none of whose documents can be parsed, or has an object
                if not report.failed:
                    services.part(assurance).reconciler().run(repair=True)
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


def is_refused_unchanged(empty: System, before: object, path: Path, folder: Path, what: str) -> bool:
    """False for an archive that is imported into a system that then works."""
    try:
        empty.part(assurance).importer().run(path, dry_run=True)
    except ArchiveError:
        assert everything_in(empty) == before, what
        return True
    imported(path, folder)
    return False


@pytest.fixture(scope="module")
def attacks(attack_report: AttackReport) -> Iterator[Attack]:
    with attack_report.attack("archives that were changed and resealed") as found:
        yield found


@pytest.mark.attack
@pytest.mark.parametrize("batch", range(0, CASES, BATCH))
def test_changed_archives_are_refused_unchanged_or_work(
    empty: System, entries: Entries, tmp_path: Path, batch: int, attacks: Attack
) -> None:
    before, refused = everything_in(empty), 0
    for case in range(batch, min(batch + BATCH, CASES)):
        changed, what = mutated(entries, FIRST + case)
        with attacks.case(f"seed {FIRST + case}: {what}"):
            refused += is_refused_unchanged(empty, before, write(tmp_path / "x", changed), tmp_path / f"to{case}", what)
    assert refused, "nothing was refused"
