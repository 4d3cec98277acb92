"""Distributes tests to processes: shared fixtures are built once and not once per process, and no process is left alone with
a long module at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

TOGETHER = ("tests/infra/",)
"""Folders whose modules share fixtures: synthesised stacks."""

LONG = (
    "tests/infra/",
    "tests/e2e/test_pipeline_crashes.py",
    "tests/quality/test_learning_cases.py",
    "tests/unit/edges/cli/test_cli_documents.py",
    "tests/quality/test_answers.py",
    "tests/aws/test_encrypted_originals.py",
    "tests/e2e/test_ageing_by_use.py",
    "tests/unit/edges/cli/test_forwarding.py",
    "tests/aws/test_two_collections.py",
    "tests/faults/test_clock_goes_back.py",
    "tests/faults/test_disk_full.py",
    "tests/unit/retrieval/test_calibration.py",
    "tests/unit/adapters/test_embedded_index_durability.py",
    "tests/aws/test_ingest_handler.py",
    "tests/aws/test_rebuild_handler.py",
    "tests/e2e/test_pipeline_leases.py",
    "tests/damage/test_repair.py",
    "tests/faults/test_kills.py",
    "tests/unit/ingestion/test_catalog.py",
    "tests/quality/test_own_questions.py",
    "tests/aws/test_doctor.py",
    "tests/unit/edges/cli/test_cli_calibrate.py",
    "tests/aws/test_lost_messages.py",
    "tests/aws/test_seal_handler.py",
    "tests/faults/test_real_disks.py",
    "tests/bulk/",
    "tests/unit/edges/cli/test_cli_process.py",
    "tests/unit/edges/cli/test_cli_serve.py",
    "tests/aws/test_large_holdings.py",
    "tests/e2e/test_learning_crashes.py",
    "tests/unit/lifecycle/test_archive_mutations.py",
    "tests/unit/edges/cli/test_cli_terminal.py",
    "tests/e2e/test_pipeline_memory.py",
    "tests/damage/test_damage_matrix.py",
    "tests/e2e/test_pipeline_kill.py",
    "tests/unit/formats/test_parsing_apart.py",
)
"""Modules and folders that take ten seconds or more for few tests, the longest first. Others go by their number of tests."""


def scope_of(nodeid: str) -> str:
    """The module, or the folder of modules, that one process has."""
    return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])


def turns(nodeids: Iterable[str]) -> Callable[[str], tuple[int, int]]:
    """A key that puts the tests of what takes longest first."""
    sizes = Counter(map(scope_of, nodeids))

    def turn(nodeid: str) -> tuple[int, int]:
        long = next((place for place, name in enumerate(LONG) if nodeid.startswith(name)), len(LONG))
        return long, -sizes[scope_of(nodeid)]

    return turn


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Gives the tests of a module, or of one of these folders, to one process, in the order of `turns`.

    xdist's own groups don't do it: they write to a test's name what pytest 9.2 reads from elsewhere.
    """

    def __init__(self, config: pytest.Config, log: object) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)
