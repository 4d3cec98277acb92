"""Compares operations of random readers in random worlds with the world as that reader may see it, and counts leaks.

A case is one operation of one reader of one world. Prints how many there were, how many leaked, and how long it took;
exits with 1 if any did. `--backend nextgen` calls the adapters of AWS over their doubles.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import boto3
import moto

from tests.isolation.making import any_world
from tests.isolation.running import Account, cases

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Tally:
    """Results of one world: operations by name, and its leaks."""

    operations: Counter[str]
    leaks: tuple[str, ...]


def one_world(seed: int, backend: str, each: int, pieces: int) -> Tally:
    world = any_world(seed, pieces=pieces)
    with tempfile.TemporaryDirectory() as folder:
        found = list(
            cases(world, world.identities, each, backend=backend, home=Path(folder), account=_account(backend))
        )
    leaks = tuple(f"seed {seed}: {leak}" for case in found for leak in case.leaks)
    return Tally(Counter(case.operation.name for case in found), leaks)


def _account(backend: str) -> Account:
    session = boto3.Session("testing", "testing", region_name="eu-central-1")

    @contextmanager
    def mocked() -> Iterator[boto3.Session]:
        with moto.mock_aws():
            yield session

    return mocked if backend != "embedded" else lambda: nullcontext(session)


def main() -> int:
    options = _options()
    started = time.perf_counter()
    operations: Counter[str] = Counter()
    leaks: list[str] = []
    with ProcessPoolExecutor(options.processes) as pool:
        seeds = count(options.seed)
        while operations.total() < options.cases:
            run = partial(one_world, backend=options.backend, each=options.each, pieces=options.pieces)
            for tally in pool.map(run, [next(seeds) for _ in range(options.processes)]):
                operations += tally.operations
                leaks += tally.leaks
    worlds, seconds = f"{options.seed} to {next(seeds) - 1}", time.perf_counter() - started
    print(f"{options.backend}: {operations.total():,} cases of worlds {worlds}, {len(leaks)} leaks, {seconds:,.0f} s")
    print(", ".join(f"{name} {number:,}" for name, number in operations.most_common()))
    print(*leaks[:SHOWN], sep="\n")
    return 1 if leaks else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--each", type=int, default=250, help="operations of each reader")
    parser.add_argument("--pieces", type=int, default=24, help="documents of a world")
    parser.add_argument("--backend", choices=("embedded", "nextgen", "classic"), default="embedded")
    parser.add_argument("--processes", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
