"""`python -m tests.benchmarks.kills` kills processes that capture, run a checkpoint, prune and rebuild the index, at
random moments, until enough died in the middle of their work; repeats the work each time; and reports lost and doubled
items. Exits with 1 if there are any."""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.kills.works import WORKS, Work, opened

ROOT = Path(__file__).resolve().parents[3]
MEASURED = 5
"""Every so manyth round isn't killed, to measure how long the work takes by now."""


@dataclass
class Victim:
    """Does a work in processes of its own."""

    process: subprocess.Popen[str]
    durations: list[float] = field(default_factory=list)

    def run(self, number: int, after: float | None = None) -> str:
        """Do a round, killed after so many seconds: `done`, `killed`, or `failed`."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        pid = int(self.read())
        began = time.perf_counter()
        if after is not None:
            time.sleep(after)
            with suppress(ProcessLookupError):  # it was done already
                os.kill(pid, signal.SIGKILL)
        ended = self.read()
        if ended == "done" and after is None:
            self.durations.append(time.perf_counter() - began)
        return ended

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@dataclass
class Tally:
    """Results of one work."""

    kills: int = 0
    finished: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)


def killed(name: str, kills: int, chance: random.Random, folder: Path) -> Tally:
    """Kill a work so many times in the middle."""
    work: Work = WORKS[name]()  # type: ignore[assignment]
    tally = Tally()
    with victim(name, folder) as process:
        number = 0
        while tally.kills < kills:
            with opened(folder, work, number) as services:
                work.prepare(services, number)
            (folder / "noted").unlink(missing_ok=True)
            after = chance.uniform(0, process.durations[-1]) if number % MEASURED else None
            ended = process.run(number, after)
            if ended == "failed":
                raise SystemExit(f"{name} failed in round {number} by itself")
            tally.kills += ended == "killed"
            tally.finished += ended == "done" and after is not None
            _repaired(work, folder, number, tally)
            number += 1
    return tally


def _repaired(work: Work, folder: Path, number: int, tally: Tally) -> None:
    """Checks the acknowledged items, repeats the work, and checks all items."""
    noted = folder / "noted"
    acknowledged = noted.read_text().splitlines() if noted.exists() else []
    with opened(folder, work, number) as services:
        kept = work.kept(services, number, acknowledged)
        work.do(services, number, lambda _text: None)
    with opened(folder, work, number) as services:
        found = work.check(services, number)
    tally.lost += [f"round {number}: {one}" for one in (*kept.lost, *found.lost)]
    tally.doubled += [f"round {number}: {one}" for one in (*kept.doubled, *found.doubled)]


@contextmanager
def victim(name: str, folder: Path) -> Iterator[Victim]:
    command = [sys.executable, "-m", "tests.benchmarks.kills.mortal", name, str(folder), str(folder / "noted")]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        made = Victim(process)
        if made.read() != "ready":
            raise SystemExit(f"{name} can't be done at all")
        yield made
        assert process.stdin is not None
        process.stdin.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="of all works together")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", choices=list(WORKS), action="append", help="one of the works; may be given again")
    given = parser.parse_args()
    works = given.only or list(WORKS)
    bad = 0
    for at, name in enumerate(works):
        share = given.kills // len(works) + (at < given.kills % len(works))
        with TemporaryDirectory() as folder:
            began = time.perf_counter()
            tally = killed(name, share, random.Random(given.seed + at), Path(folder))
        bad += len(tally.lost) + len(tally.doubled)
        sys.stdout.write(
            f"{name:10} killed {tally.kills:3} ({tally.finished} were done before), lost {len(tally.lost)}, doubled "
            f"{len(tally.doubled)}, {time.perf_counter() - began:.0f} s\n"
        )
        sys.stdout.writelines(f"  {line}\n" for line in (*tally.lost, *tally.doubled)[:20])
        sys.stdout.flush()
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
