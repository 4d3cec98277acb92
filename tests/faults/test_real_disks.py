"""Homes on file systems that are really full or read-only: a tmpfs of 20 MB, mounted by the tests where they may."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.disks import Disk
from tests.faults.homes import COMMANDS, Command, Template, compared, differences, facts
from tests.faults.test_kills import run

ROOM = (0, 4, 40, 90, 200)
"""Kilobytes that are left: for nothing, for a file, for some of SQLite's files, for some of the index, for a bit more."""

QUESTIONS = (
    Command("status", ("status",)),
    Command("show", ("show", "{d1}")),
    Command("list", ("list",)),
    Command("audit", ("audit",)),
    Command("graph", ("graph", "find", "check")),
    Command("do", ("do", "{d1}")),
    Command("search", ("search", "page about thing2")),
)
FILLED = [one for one in COMMANDS if one.name in ("ingest", "outcome", "checkpoint", "reindex", "export", "prune")]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A file system of 20 MB. Skips the test where none may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = _mount("-t", "tmpfs", "-o", "size=20m", "none", str(folder))
    if made.returncode:
        pytest.skip(f"no file system may be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)


def _mount(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as exc:
        return subprocess.CompletedProcess([], 1, "", str(exc))


@pytest.mark.parametrize("command", FILLED, ids=lambda command: command.name)
def test_full_disk_loses_nothing_and_the_next_run_finishes(
    disk: Disk, template: Template, mounted: Path, tmp_path: Path, command: Command
) -> None:
    usual = template.copy(tmp_path / "usual", command)
    assert run(disk, template, usual, command).exit == 0
    wanted = facts(usual, command.clock)
    refused = 0
    for kilobytes in ROOM:
        home = template.copy(mounted / "home", command)
        _fill(mounted, kilobytes)
        full = run(disk, template, home, command)
        if full.exit:
            refused += 1
            assert full.is_explained, full.output
            assert "disk is full" in full.output or "No space left" in full.output
        (mounted / "filler").unlink()
        if not command.done(home) and (command.again or compared(wanted, facts(home, command.clock))):
            assert run(disk, template, home, command).exit == 0
        assert compared(wanted, facts(home, command.clock)) == {}
        assert differences(home, command.clock).counts == {}
        shutil.rmtree(home)
    assert refused > 1


def _fill(folder: Path, kilobytes: int) -> None:
    """Fills the disk up to so much room."""
    with (folder / "filler").open("wb", buffering=0) as file:
        file.truncate(0)
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
        file.truncate(max(0, file.tell() - kilobytes * 1024))


def test_change_of_a_read_only_home_is_refused_with_the_reason(disk: Disk, template: Template, mounted: Path) -> None:
    home = template.copy(mounted / "home", COMMANDS[0])
    _make_read_only(mounted)
    other_ends = {"search", "import"}  # an answer; the knowledge that is there
    for command in [one for one in COMMANDS if one.name not in other_ends]:
        ended = run(disk, template, home, command)
        assert ended.exit == 2, command.name
        assert ended.is_explained, ended.output
        assert "read-only" in ended.output.lower(), ended.output


@pytest.mark.parametrize("command", QUESTIONS, ids=lambda command: command.name)
def test_read_only_home_is_read(disk: Disk, template: Template, mounted: Path, command: Command) -> None:
    home = template.copy(mounted / "home", command)
    _make_read_only(mounted)
    ended = run(disk, template, home, command)
    assert ended.exit == 0, ended.output
    assert ("no receipt, as its disk is read-only" in ended.output) == (command.name == "search"), ended.output


@pytest.mark.parametrize("command", QUESTIONS, ids=lambda command: command.name)
def test_full_disk_is_read(disk: Disk, template: Template, mounted: Path, command: Command) -> None:
    home = template.copy(mounted / "home", command)
    _fill(mounted, 0)
    ended = run(disk, template, home, command)
    assert ended.exit == 0, ended.output
    assert ("no receipt, as the disk is full" in ended.output) == (command.name == "search"), ended.output


def test_doctor_of_a_read_only_home_advises_no_repair(disk: Disk, template: Template, mounted: Path) -> None:
    home = template.copy(mounted / "home", COMMANDS[0])
    _make_read_only(mounted)
    ended = run(disk, template, home, Command("doctor", ("doctor",)))
    assert ended.exit == 1
    assert "make room on the disk of the home, or make it writable" in ended.output
    assert "opx repair" not in ended.output


def _make_read_only(folder: Path) -> None:
    assert _mount("-o", "remount,ro", str(folder)).returncode == 0
