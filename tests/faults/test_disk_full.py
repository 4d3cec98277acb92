"""A disk that is full from one step of a command on: a clear error, and once there is room the next run finishes."""

from __future__ import annotations

import errno
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults.disks import CREATES, WRITES, Disk
from tests.faults.homes import COMMANDS, Command, Template, facts
from tests.faults.test_kills import problems_after, run, the_undisturbed
from tests.support.attacks import AttackReport, kills
from tests.support.sampling import sampled

SHARE = max(1, kills(len(COMMANDS)) // 2 // len(COMMANDS))
"""Full disks at random steps of each command; one more is full from the first step on."""


@pytest.mark.attack
@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", sampled(COMMANDS, part=0), ids=lambda command: command.name)
def test_full_disk_is_reported_and_the_next_run_finishes(
    disk: Disk, template: Template, tmp_path: Path, command: Command, attack_report: AttackReport
) -> None:
    _, wanted, _ = the_undisturbed(disk, template, tmp_path, command)
    growing = steps(disk, template, tmp_path / "home", command)
    chance = random.Random(command.name)
    with attack_report.attack("disk full") as found:
        for at in [1, *(chance.randint(1, growing) for _ in range(SHARE))]:
            problems = filled(disk, template, tmp_path / "home", command, wanted, at)
            found.tried += 1
            found.losses += problems.total() > 0
            found.examples += [f"{command.name} at {at}: {dict(problems)}"] if problems else []
    assert not found.examples


def steps(disk: Disk, template: Template, home: Path, command: Command) -> int:
    """The number of steps of the command that need room."""
    template.copy(home, command)
    return run(disk, template, home, command, mode="count", kinds=WRITES | CREATES).steps


def filled(
    disk: Disk, template: Template, home: Path, command: Command, wanted: dict[str, Any], at: int
) -> Counter[str]:
    """Problems with a disk that has no room from a step on, and afterwards, when it has."""
    shutil.rmtree(home, ignore_errors=True)
    template.copy(home, command)
    fault: dict[str, Any] = {"mode": "fail", "kinds": WRITES | CREATES, "at": at, "error": errno.ENOSPC}
    ended = run(disk, template, home, command, **fault)
    problems: Counter[str] = Counter()
    is_done = ended.exit == 0 and facts(home, command.clock) == wanted
    if not ended.is_explained or not (is_done or is_about_room(ended.output)):
        problems[f"full: {ended.exit} {ended.output[-400:]}"] += 1
    return problems + problems_after(disk, template, home, command, wanted)


def is_about_room(output: str) -> bool:
    """True for an explanation. SQLite has no better one where its files beside the database can't be made; on a disk that
    is really full (`test_real_disks.py`) the reason is found."""
    reasons = ("disk is full", "No space left", "can't be opened", "can't be read or written")
    return any(reason in output for reason in reasons)
