"""Compares this code with that of another checkout in one run: `python -m tests.benchmarks.pairs CHECKOUT [--chunks N]`.

Both take turns (A B A B), each part in a process of its own, so that a busy minute of the machine hits both. Prints the
median of the rounds of each, and the ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.benchmarks.bench import CACHE, clean_environment
from tests.benchmarks.corpora import ROOT
from tests.benchmarks.homes import READERS

PACKAGE = Path("layers/opx/python")
SHOWN = ("_ms", "_mb", "_per_s", "_per_cpu_s")


class Code:
    """The code of a checkout, measured by the programs of this one."""

    def __init__(self, checkout: Path, cache: Path, chunks: int) -> None:
        self._environment = {**clean_environment(), "PYTHONPATH": str(checkout.resolve() / PACKAGE)}
        self._cache, self._chunks = cache, chunks
        self._home = self._child("homes", cache, "--chunks", chunks)["home"]

    def _child(self, module: str, *arguments: object) -> Mapping[str, str]:
        command = [sys.executable, "-m", f"tests.benchmarks.{module}", *map(str, arguments)]
        done = subprocess.run(command, cwd=ROOT, env=self._environment, stdout=subprocess.PIPE, check=True)
        found: Mapping[str, str] = json.loads(done.stdout)
        return found

    def figures(self, questions: int, turn: int) -> Iterator[tuple[str, float]]:
        """Figures of answers and changes, by name. Each turn has questions and a document of its own."""
        for number, reader in enumerate(READERS):
            seed = 10 * turn + number
            options = ("--reader", reader, "--chunks", self._chunks, "--questions", questions, "--seed", seed)
            found = self._child("answering", self._home, *options)
            yield from ((f"{name}, {reader}", float(value)) for name, value in found.items())
        changes = ("--cache", self._cache, "--chunks", self._chunks, "--changes", 3, "--seed", turn)
        found = self._child("updating", self._home, *changes)
        yield from ((f"update/{name}", float(value)) for name, value in found.items())

    def served(self, seconds: float, turn: int) -> Iterator[tuple[str, float]]:
        """Figures of `opx serve`."""
        found = self._child("served", self._home, "--chunks", self._chunks, "--seconds", seconds, "--seed", turn)
        yield from ((f"serve/{name}", float(value)) for name, value in found.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="a worktree with the other code")
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--questions", type=int, default=30, help="of each mode, reader and round")
    parser.add_argument("--seconds", type=float, default=0, help="of each load of `opx serve`; 0 leaves it out")
    parser.add_argument("--cache", type=Path, default=CACHE)
    args = parser.parse_args()
    codes = {"this": Code(ROOT, args.cache, args.chunks), "other": Code(args.checkout, args.cache, args.chunks)}
    taken: dict[str, dict[str, list[float]]] = {}
    for turn in range(args.rounds):
        for label, code in codes.items():
            found = [*code.figures(args.questions, turn), *(code.served(args.seconds, turn) if args.seconds else ())]
            for name, value in found:
                taken.setdefault(name, {}).setdefault(label, []).append(value)
    print(f"{args.chunks:,} chunks, median of {args.rounds} rounds")
    for name, by in taken.items():
        this, other = (statistics.median(by[label]) for label in codes)
        if name.partition(",")[0].endswith(SHOWN) and other:
            print(f"{name:40} {this:10.1f} {other:10.1f}  {this / other:6.2f}")


if __name__ == "__main__":
    main()
