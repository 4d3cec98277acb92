"""Archives that were changed and resealed are refused with nothing changed, or imported into a system that then works.

`OPX_ATTACK_CASES` sets the number of mutated archives, `OPX_ATTACK_SEED` the first seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity, Scope
from opx.errors import ArchiveError, IndexUnavailableError
from opx.lifecycle.archive.exporting import ARCHIVED
from opx.lifecycle.report import ImportReport
from opx.operations.system import System
from tests.support.archive_support import Entries, entries_of, everything_in, services_at, write
from tests.support.cli_support import Opx
from tests.support.whole_archive import SHOP, a_whole_archive, mutated

CASES, FIRST = int(os.environ.get("OPX_ATTACK_CASES", "80")), int(os.environ.get("OPX_ATTACK_SEED", "0"))
BATCH = 40
READERS = (SHOP, Identity("acme"), Identity("other"), Identity())


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> Entries:
    return entries_of(a_whole_archive(tmp_path_factory.mktemp("whole")))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with services_at(tmp_path_factory.mktemp("empty")) as services:
        yield services


def work_of(services: System) -> dict[str, Callable[[], object]]:
    """Things that people and agents do with a system, by name."""
    reader = services.corpus.projects.reader(SHOP)
    telemetry, learning, records = services.telemetry, services.learning, services.records
    return {
        "clients": lambda: list(services.corpus.clients.all()),
        "projects": lambda: list(services.corpus.projects.projects("acme")),
        "search": lambda: [
            services.questions.search(one).answer(text, QueryConfig(min_confidence=0.0))
            for one in READERS
            for text in ("restart the heron", "gannet", "espresso")
        ],
        "reconcile": lambda: services.lifecycle.reconciler(thorough=True).run(repair=True),
        "gaps": lambda: [list(records.gaps.gaps(scope)) for scope in reader.visible],
        "audit": lambda: list(records.audit.records()),
        "patterns": lambda: [list(learning.patterns.patterns(scope)) for scope in reader.visible],
        "checkpoint": lambda: learning.checkpoints(SHOP).process_checkpoint("shop", "manual"),
        "warnings": lambda: [learning.warnings.tried(scope) for scope in reader.visible],
        "outcomes": lambda: [list(learning.outcome_store.heads([one], ["0" * 32])) for one in reader.visible],
        "series": lambda: telemetry.baselines.series(reader),
        "baseline": lambda: telemetry.baselines.get(reader, "web-1", "cpu", "7d"),
        "sources": lambda: [
            services.connectors.sources.state(one.source_id) for one in services.connectors.sources.all()
        ],
        "streams": services.connectors.streams.all,
        "holds": lambda: (services.lifecycle.holds.in_force(), services.lifecycle.holds.lifted()),
        "merges": lambda: services.graph.merging.merges(Scope("acme")),
        "usage": lambda: list(services.lifecycle.usage.of_month("2026-01")),
        "pruning": lambda: services.lifecycle.pruning().prune_old_knowledge(),
    }


def imported(path: Path, folder: Path) -> ImportReport:
    opx = Opx(folder)
    with services_at(opx.home) as services:
        report = services.lifecycle.importer().run(path)
        for name, work in work_of(services).items():
            try:
                work()
            except IndexUnavailableError:  # to readers of whose documents none can be parsed
                assert report.failed, name
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
