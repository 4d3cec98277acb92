"""Commands that are killed by SIGKILL before any of their steps or at any time: the next run finishes, nothing is lost, and
nothing is there twice."""

from __future__ import annotations

import math
import random
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults.disks import Disk, Ended
from tests.faults.homes import COMMANDS, NEW_NAMES, Command, Template, compared, differences, facts, opened
from tests.support.attacks import AttackReport, kills
from tests.support.sampling import sampled

SHARE = math.ceil(kills(len(COMMANDS)) / len(COMMANDS))
"""Kills of each command."""

STEPS_APART = 8
"""About 35 steps lie between the declaration of names and the end of their search."""


@pytest.mark.attack
@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", sampled(COMMANDS, part=2), ids=lambda command: command.name)
def test_killed_command_is_finished_by_the_next_run(
    disk: Disk, template: Template, tmp_path: Path, command: Command, attack_report: AttackReport
) -> None:
    undisturbed, wanted, seconds = the_undisturbed(disk, template, tmp_path, command)
    chance = random.Random(command.name)
    with attack_report.attack("kill -9") as found:
        for number in range(SHARE):
            if number % 4 == 3:
                fault: dict[str, Any] = {"after": chance.uniform(0, seconds)}
            else:
                fault = {"mode": "kill", "at": chance.randint(1, undisturbed.steps)}
            problems = killed(disk, template, tmp_path / "home", command, wanted, fault)
            found.tried += 1
            found.losses += problems.total() > 0
            found.examples += [f"{command.name} {fault}: {dict(problems)}"] if problems else []
    assert not found.examples


@pytest.mark.attack
@pytest.mark.timeout(600)
def test_names_that_a_killed_ingestion_declared_are_searched_by_the_next(
    disk: Disk, template: Template, tmp_path: Path
) -> None:
    undisturbed, wanted, _ = the_undisturbed(disk, template, tmp_path, NEW_NAMES)
    left, home = 0, tmp_path / "home"
    for at in range(undisturbed.steps, 0, -STEPS_APART):
        shutil.rmtree(home, ignore_errors=True)
        template.copy(home, NEW_NAMES)
        run(disk, template, home, NEW_NAMES, mode="kill", at=at)
        if waits(home):
            left += 1
            assert not problems_after(disk, template, home, NEW_NAMES, wanted)
            assert not waits(home)
        elif left:  # killed before the names were declared
            return
    raise AssertionError("no kill hit the time between the declaration and the search")


def waits(home: Path) -> bool:
    with opened(home) as system:
        return bool(system.graph.relink_queue.waiting())


def the_undisturbed(
    disk: Disk, template: Template, folder: Path, command: Command
) -> tuple[Ended, dict[str, Any], float]:
    """The command in a home of its own without a fault, the facts afterwards, and its duration."""
    home = template.copy(folder / "undisturbed", command)
    began = time.perf_counter()
    ended = run(disk, template, home, command)
    seconds = time.perf_counter() - began
    assert ended.exit == 0, ended.output
    return ended, facts(home, command.clock), seconds


def killed(
    disk: Disk, template: Template, home: Path, command: Command, wanted: dict[str, Any], fault: dict[str, Any]
) -> Counter[str]:
    """Problems after a kill and another run."""
    shutil.rmtree(home, ignore_errors=True)
    template.copy(home, command)
    run(disk, template, home, command, **fault)
    return problems_after(disk, template, home, command, wanted)


def problems_after(
    disk: Disk, template: Template, home: Path, command: Command, wanted: dict[str, Any]
) -> Counter[str]:
    problems: Counter[str] = Counter()
    if not command.done(home) and (command.again or compared(wanted, facts(home, command.clock))):
        again = run(disk, template, home, command)
        if again.exit or not again.is_explained:
            problems[f"the next run: {again.exit} {again.output[-300:]}"] += 1
    problems += compared(wanted, facts(home, command.clock))
    problems += Counter({str(problem): count for problem, count in differences(home, command.clock).counts.items()})
    return problems


def run(disk: Disk, template: Template, home: Path, command: Command, **fault: Any) -> Ended:
    return disk.run(home, [template.line(command, home)], clock=command.clock, stdin=command.stdin, **fault)
