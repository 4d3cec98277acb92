"""Files of killed writers are swept: by the next writer of the document, by pruning, and by the removal of its client."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx_assurance.capability import assurance
from opx_assurance.consistency.differences import Problem
from tests.faults.disks import NOW, Disk, Ended
from tests.faults.homes import ACME, Template, opened
from tests.support.attacks import kills

KILLS = kills(12)
SECRET = "the zinc valve of pump 7"
LEFT = {Problem.CHUNK_FILE_UNKNOWN, Problem.OUTLINE_UNKNOWN}


def text(words: str) -> str:
    return f"# Changing\n\nUse {words} when thing1 fails.\n\n1. Restart {words}\n"


class Killed:
    """An ingestion that is killed at each of its steps, each time in a new home."""

    def __init__(self, disk: Disk, template: Template, folder: Path, *scope: str) -> None:
        self._disk = disk
        self._template = template
        self._scope = scope
        self.home = folder / "home"
        self.file = folder / "docs" / "changing.md"
        self.file.parent.mkdir()

    def homes(self) -> Iterator[Path]:
        """The home after each kill."""
        steps = self._begin().steps
        for at in range(1, steps + 1, max(1, steps // KILLS)):
            self._begin(mode="kill", at=at)
            yield self.home

    def _begin(self, **fault: Any) -> Ended:
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(self._template.folder / "home", self.home)
        self.file.write_text(text("the first words"))
        assert self.run("ingest", str(self.file.parent)).exit == 0
        self.file.write_text(text(SECRET))
        return self.run("ingest", str(self.file.parent), **fault)

    def run(self, *line: str, clock: float = NOW, **fault: Any) -> Ended:
        return self._disk.run(self.home, [[*self._scope, *line]], clock=clock, **fault)


@pytest.fixture
def killed(disk: Disk, template: Template, tmp_path: Path) -> Killed:
    return Killed(disk, template, tmp_path)


def found(home: Path) -> list[str]:
    with opened(home) as system:
        report = system.part(assurance).reconciler(thorough=True).run()
    return [f"{one.problem} {one.object_key}" for one in report.differences]


@pytest.mark.attack
@pytest.mark.timeout(900)
def test_next_writer_of_the_document_sweeps(killed: Killed) -> None:
    left: list[str] = []
    for home in killed.homes():
        killed.file.write_text(text("other words"))
        assert killed.run("ingest", str(killed.file.parent)).exit == 0
        left += found(home)
    assert left == []


@pytest.mark.attack
@pytest.mark.timeout(900)
def test_deletion_of_the_document_sweeps(killed: Killed) -> None:
    left: list[str] = []
    for home in killed.homes():
        killed.file.unlink()
        assert killed.run("ingest", str(killed.file.parent), "--mirror", "--force").exit == 0
        left += found(home)
    assert left == []


@pytest.mark.attack
@pytest.mark.timeout(900)
def test_pruning_sweeps_without_another_writer(killed: Killed) -> None:
    left: list[str] = []
    for home in killed.homes():
        assert killed.run("prune", "--allow-share", "1").exit == 0
        left += [one for one in found(home) if one.split()[0] in LEFT]
    assert left == []


@pytest.mark.attack
@pytest.mark.timeout(900)
def test_removal_of_the_client_leaves_its_text_in_no_file(disk: Disk, template: Template, tmp_path: Path) -> None:
    killed = Killed(disk, template, tmp_path, *ACME)
    for home in killed.homes():
        removed = disk.run(home, [["client", "remove", "acme", "--yes"]])
        assert removed.exit == 0, removed.output
        holding = [str(path) for path in home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
        assert holding == []
        assert found(home) == []
