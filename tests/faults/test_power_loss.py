"""A loss of power at any moment: what was acknowledged is there, and the next run finishes the rest."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.disks import Disk
from tests.faults.homes import ACME, Template, compared, differences, facts
from tests.faults.power import Call, Left, Recorded, read_log
from tests.support.attacks import Attack, AttackReport, kills

CUTS = max(4, kills(12) // 4)


@dataclass
class Run:
    """Lines that a home was made by, the calls of that, and the facts after each line."""

    home: Path
    lines: list[list[str]]
    calls: list[Call]
    facts: list[dict[str, Any]]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory, disk: Disk, template: Template) -> Run:
    """Work that only adds, in a home that is made by it."""
    folder, files = tmp_path_factory.mktemp("power"), template.folder / "files"
    lines = [
        ["ingest", str(files / "old")],
        [*ACME, "ingest", str(files / "client")],
        ["search", "what to do about thing1"],
        ["outcome", "record", "last", "resolved", "--occurrence", "once"],
        [*ACME, "learn", "capture", "failure", "deploy hangs", "--step", "raise the timeout", "--verified"],
        ["hold", "add", "--category", "postmortems", "--reason", "Audit"],
        [*ACME, "learn", "checkpoint", "shop", "--type", "project_completion"],
        ["baseline", "push", "--file", str(files / "values.csv")],
        ["ingest", str(files / "new")],
        ["ingest", str(files / "names")],
        ["reindex"],
    ]
    home = folder / "home"
    ended = disk.run(home, lines, mode="record", log=str(folder / "log"), watched=str(folder))
    assert ended.exit == 0, ended.output
    usual = folder / "usual"
    after = []
    for line in lines:
        assert disk.run(usual, [line]).exit == 0
        after.append(facts(usual))
    return Run(home, lines, list(read_log(folder / "log")), after)


@pytest.mark.attack
@pytest.mark.timeout(600)
@pytest.mark.parametrize("left", Left, ids=lambda left: left.name)
def test_power_cut_takes_nothing_that_was_acknowledged(
    disk: Disk, recorded: Run, tmp_path: Path, left: Left, attack_report: AttackReport
) -> None:
    chance = random.Random(left)
    with attack_report.attack("power cut") as found:
        state, done = Recorded(str(recorded.home.parent)), 0
        for at in sorted(chance.randint(1, len(recorded.calls)) for _ in range(CUTS)):
            for call in recorded.calls[done:at]:
                state.do(call)
            done, home = at, cut(state, tmp_path, left, chance)
            note(found, at, problems_after_cut(disk, recorded, home, len(state.notes)))
    assert not found.examples


def cut(state: Recorded, folder: Path, left: Left, chance: random.Random) -> Path:
    """The home as a power cut leaves it."""
    home = folder / "after" / "home"
    shutil.rmtree(home.parent, ignore_errors=True)
    state.write_to(home.parent, left, chance)
    return home


def note(found: Attack, at: int, problems: Counter[str]) -> None:
    """Adds a cut behind so many calls, with its problems."""
    found.tried += 1
    found.losses += problems.total() > 0
    found.examples += [f"at {at}: {dict(problems)}"] if problems else []


def lost(before: dict[str, Any], home: Path) -> Counter[str]:
    """Problems of what a home had before; what is there twice is mended by the rest of the work."""
    there = compared(before, facts(home))
    return Counter({what: count for what, count in there.items() if not what.startswith("doubled")})


def differing(home: Path) -> Counter[str]:
    """Differences between the stores of a home."""
    return Counter({str(problem): count for problem, count in differences(home).counts.items()})


def problems_after_cut(disk: Disk, run: Run, home: Path, done: int) -> Counter[str]:
    """Problems after a power cut behind so many lines, and after the rest of the work."""
    problems: Counter[str] = Counter()
    if done:
        problems += lost(run.facts[done - 1], home)
    rest = disk.run(home, run.lines[done:])
    is_done = "the previous index is still kept" in rest.output  # the last line was finished, but not acknowledged
    if (rest.exit and not is_done) or not rest.is_explained:
        problems[f"the next run: {rest.exit} {rest.output[-300:]}"] += 1
        return problems
    problems += compared(run.facts[-1], facts(home))
    return problems + differing(home)
