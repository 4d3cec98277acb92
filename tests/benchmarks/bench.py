"""Measures the product as users get it: `python -m tests.benchmarks.bench [--sizes N ...] [--cache DIR] [--json FILE]`.

Prints tables, first the ratios to commit 808b7f8, and adds the figures to a file for plots and for docs/measured.md
(`python -m tests.benchmarks.report`). Each part runs in processes of its own, without settings of the caller's environment.
With another checkout's `layers/opx/python` on PYTHONPATH, that code is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from opx.system import bootstrap
from tests.benchmarks.calibration import calibration
from tests.benchmarks.corpora import ROOT, Corpus, Questions
from tests.benchmarks.figures import BASELINE, Figures, conditions, tables
from tests.benchmarks.homes import READERS, build_figures, home_of, keep_found, passages_of
from tests.benchmarks.served import ANSWERS_A_SECOND, OPX, seeds

SIZES = (1_000, 10_000, 100_000)
SERVED = 10_000
COMMAND_SEED = 21
CACHE = ROOT / "build" / "bench"
_OURS = ("OPX_", "OMP_", "OPENBLAS_", "MKL_", "PYTHONDONTWRITEBYTECODE")


def clean_environment() -> dict[str, str]:
    """The environment without settings of the product, of numerical libraries, and of Python's compiled modules."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


def child(module: str, *arguments: object) -> dict[str, Any]:
    """The JSON that a module prints in a process of its own."""
    command = [sys.executable, "-m", f"tests.benchmarks.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=clean_environment(), stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fresh_searches(home: Path, chunks: int, count: int) -> dict[str, float]:
    """`opx search` in a new process each time, without a server."""
    reader = {f"OPX_{name.upper()}": value for name, value in READERS["no filter"].items()}
    environment = {**clean_environment(), **reader, "OPX_HOME": str(home)}
    walls, cpus = [], []
    for question in islice(Questions(chunks, seed=COMMAND_SEED).all(), count + 1):
        before, started = _children_cpu(), time.perf_counter()
        done = subprocess.run(
            [str(OPX), "search", "--", question.text], env=environment, capture_output=True, check=False
        )
        walls.append(1000 * (time.perf_counter() - started))
        cpus.append(1000 * (_children_cpu() - before))
        if b"Traceback" in done.stderr:
            raise RuntimeError(done.stderr.decode())
    return {
        "wall_ms": statistics.median(walls[1:]),
        "cpu_ms": statistics.median(cpus[1:]),
    }  # the first compiled modules


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Run:
    """A run over some sizes; `figures` fill up as it goes. `quick` is for tests: few repetitions."""

    def __init__(self, cache: Path, collection: Path | None, *, quick: bool = False) -> None:
        self.figures = Figures()
        self._cache = cache
        self._set = ("--set", collection) if collection else ()
        self._collection = collection
        self._questions, self._changes, self._searches = (4, 1, 1) if quick else (60, 7, 7)
        self._seconds: float = 0.5 if quick else 8
        self._documents, self._texts = (3, 8) if quick else (150, 256)
        self._corpus = Corpus(passages_of(cache, collection))

    def size(self, chunks: int) -> None:
        """Everything that depends on the number of chunks."""
        home = home_of(self._cache, chunks, self._corpus)
        built = build_figures(home)
        self.figures.add(
            f"index/{chunks}",
            {
                "disk_mb": built["disk_mb"],
                "vectors_each": built["vectors"] / built["chunks"],
                "chunks_per_s": built["chunks"] / built["build_s"],
                "chunks_per_cpu_s": built["chunks"] / built["build_cpu_s"],
            },
        )
        for reader in READERS:
            self._answers(home, chunks, reader)
        self._updates(home, chunks)
        keep_found(home, chunks, self._corpus, [COMMAND_SEED], self._searches + 1)
        self.figures.add(f"command/{chunks}", fresh_searches(home, chunks, self._searches))

    def _answers(self, home: Path, chunks: int, reader: str) -> None:
        seed = list(READERS).index(reader) + 1  # no question comes twice
        options = ("--reader", reader, "--chunks", chunks, "--questions", self._questions, "--seed", seed)
        found = child("answering", home, *options, *self._set)
        for name, value in found.items():
            mode, _, measure = name.partition("/")
            if measure:
                self.figures.add(f"answer/{mode}/{reader}/{chunks}", {measure: value})
            elif reader == "no filter":
                self.figures.add(f"memory/{chunks}", {name: value})

    def _updates(self, home: Path, chunks: int) -> None:
        found = child(
            "updating", home, "--cache", self._cache, "--chunks", chunks, "--changes", self._changes, *self._set
        )
        found["sum_ms"] = found["apply_ms"] + found["next_ms"]
        if found["missed"] or found["missed_answers"]:
            raise RuntimeError(f"a search missed a change: {found}")
        self.figures.add(f"update/{chunks}", found)

    def whole(self, served: int) -> None:
        """Everything else; `opx serve` over so many chunks."""
        home = home_of(self._cache, served, self._corpus)
        keep_found(home, served, self._corpus, seeds(), int(ANSWERS_A_SECOND * self._seconds), self._collection)
        self.figures.add("serve", child("served", home, "--chunks", served, "--seconds", self._seconds, *self._set))
        options = ("--documents", self._documents, "--texts", self._texts, *self._set)
        for name, found in child("ingesting", self._cache, *options).items():
            self.figures.add(name, found)


def about(started: Mapping[str, float]) -> dict[str, Any]:
    """The conditions; `started` is the calibration before the run."""
    ended = calibration()
    return {
        "code": _commit(),
        "made": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores ({_processor()}), Python {platform.python_version()}",
        "load": round(os.getloadavg()[0], 1),
        "calibration_ms": round((started["cpu_ms"] + ended["cpu_ms"]) / 2, 1),
        "calibration_wall_ms": round((started["wall_ms"] + ended["wall_ms"]) / 2, 1),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _commit() -> str:
    checkout = Path(sys.modules[bootstrap.__module__].__file__ or "").parent
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--exclude", "*"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def measured(sizes: Sequence[int], served: int, run: Run) -> Iterator[str]:
    """Measures part by part; yields the name of each part that is done."""
    for chunks in sizes:
        started = calibration()
        run.size(chunks)
        run.figures.about = about(started)
        yield f"{chunks:,} chunks"
    if served:
        started = calibration()
        run.whole(served)
        run.figures.about = about(started)
        yield "opx serve, ingestion, embedding"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="numbers of chunks")
    parser.add_argument(
        "--served", type=int, default=SERVED, help="chunks below `opx serve`; 0 leaves it and ingestion out"
    )
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for the corpora")
    parser.add_argument("--set", type=Path, help="a BEIR folder: its passages and questions instead of our own")
    parser.add_argument("--json", type=Path, default=CACHE / "figures.json", help="file that the figures are added to")
    parser.add_argument("--baseline", type=Path, default=BASELINE, help="figures for the ratios")
    parser.add_argument("--quick", action="store_true", help="few repetitions, to try it")
    args = parser.parse_args()
    run = Run(args.cache, args.set, quick=args.quick)
    kept = Figures.read(args.json)
    for part in measured(args.sizes, args.served, run):
        print(f"measured {part}", file=sys.stderr, flush=True)
        Figures(kept.values | run.figures.values, run.figures.about).write(args.json)
    before = Figures.read(args.baseline)
    print(f"{conditions(run.figures)}. First: ratio to {before.about['code']}{normalised(run.figures, before)}\n")
    print(tables(run.figures, before))


def normalised(now: Figures, before: Figures) -> str:
    """The factor that ratios of times would have to be multiplied by if this machine were as fast as the other was."""
    old = before.about.get("calibration_ms")
    if not old:
        return ", which was measured without a calibration"
    return (
        f"; multiply ratios of times by {old / now.about['calibration_ms']:.2f} for a machine as fast as the one before"
    )


if __name__ == "__main__":
    main()
