"""A clock that goes back by an hour: commands do the same, and what a killed process left is finished all the same."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.faults.disks import Disk
from tests.faults.homes import COMMANDS, Command, Template, compared, differences, facts
from tests.faults.test_kills import run
from tests.support.attacks import AttackReport
from tests.support.sampling import sampled

HOUR = 3600.0


def known(home: Path, command: Command) -> dict[str, Any]:
    """The facts of a home without the contents of learnt documents, which state times."""
    found = facts(home, command.clock)
    return {**found, "objects of clients": dict.fromkeys(found["objects of clients"], 1)}


def earlier(command: Command) -> Command:
    """The command after the clock went back."""
    return Command(**{**command.__dict__, "clock": command.clock - HOUR})


@pytest.mark.attack
@pytest.mark.parametrize("command", sampled(COMMANDS, part=1), ids=lambda command: command.name)
def test_commands_do_the_same_with_an_earlier_clock(
    disk: Disk, template: Template, tmp_path: Path, command: Command, attack_report: AttackReport
) -> None:
    usual, back = (template.copy(tmp_path / name, command) for name in ("usual", "back"))
    assert run(disk, template, usual, command).exit == 0
    wanted = known(usual, command)
    with attack_report.attack("clock goes back") as found:
        ended = run(disk, template, back, earlier(command))
        problems = compared(wanted, known(back, command))
        if ended.exit or not ended.is_explained:
            problems[f"{ended.exit} {ended.output}"] += 1
        found.tried, found.losses = 1, int(bool(problems))
    assert problems == {}


@pytest.mark.parametrize("name", ["ingest", "pull a source", "checkpoint", "reindex", "rebuild"])
def test_work_of_a_killed_process_is_finished_after_the_clock_went_back(
    disk: Disk, template: Template, tmp_path: Path, name: str
) -> None:
    command = next(one for one in COMMANDS if one.name == name)
    usual = template.copy(tmp_path / "usual", command)
    ended = run(disk, template, usual, command)
    wanted, chance = known(usual, command), random.Random(name)
    for number in range(6):
        home = template.copy(tmp_path / str(number), command)
        run(disk, template, home, command, mode="kill", at=chance.randint(1, ended.steps))
        if not command.again and not compared(wanted, known(home, command)):
            continue  # the killed process did it: the same command again would be another one
        again = run(disk, template, home, earlier(command))
        assert again.exit == 0, again.output
        assert compared(wanted, known(home, command)) == {}
        assert differences(home, command.clock).counts == {}
