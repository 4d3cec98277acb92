"""Disks whose locks fail, as network disks may: a clear error, and nothing is written without a lock."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.faults.disks import Disk
from tests.faults.homes import COMMANDS, Template, compared, facts
from tests.faults.test_kills import run

BY_NAME = {one.name: one for one in COMMANDS}
WRITING = [BY_NAME[name] for name in ("ingest", "reindex", "reconcile", "pull a source")]


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS], ids=errno.errorcode.get)
def test_disk_without_locks_is_refused_and_left_alone(
    disk: Disk, template: Template, tmp_path: Path, error: int
) -> None:
    for number, command in enumerate(WRITING):
        home = template.copy(tmp_path / str(number), command)
        ended = run(disk, template, home, command, flock=error)
        assert ended.exit == 2, ended.output
        assert ended.is_explained, ended.output
        assert "can't lock" in ended.output, ended.output


def test_database_without_locks_is_refused(disk: Disk, template: Template, tmp_path: Path) -> None:
    command = BY_NAME["outcome"]
    home = template.copy(tmp_path / "home", command)
    before = facts(home)
    ended = run(disk, template, home, command, fcntl=errno.ENOTSUP)
    assert ended.exit == 2
    assert "opx.db: the disk can't be read or written" in ended.output
    assert compared(before, facts(home)) == {}


def test_locks_that_exclude_nobody_are_found_before_the_index_is_written(
    disk: Disk, template: Template, tmp_path: Path
) -> None:
    for number, command in enumerate(WRITING):
        home = template.copy(tmp_path / str(number), command)
        ended = run(disk, template, home, command, flock=-1, fcntl=-1)
        assert ended.exit == 2, ended.output
        assert "exclude nobody" in ended.output
        assert run(disk, template, home, command).exit == 0
