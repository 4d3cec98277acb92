"""Measures this machine by a fixed piece of work, so that figures of two machines, or of two hours, can be compared."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROUNDS = 5
_ROWS, _DIMENSION, _QUERIES = 20_000, 384, 20
_WORD = re.compile(r"\w+")
_TEXT = "Checkout p99 latency is 812.5 ms on node-17, error E1042: connection refused, see INC-4711. " * 40


_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def calibration() -> dict[str, float]:
    """Milliseconds of one round in a process of its own with one thread: `wall_ms` and `cpu_ms`."""
    command = [sys.executable, "-m", "tests.benchmarks.calibration"]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, env={**os.environ, **_ONE_THREAD}, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure() -> dict[str, float]:
    """The best of several rounds: half of one is products of a matrix and vectors, half of it Python."""
    matrix = np.random.default_rng(1).standard_normal((_ROWS, _DIMENSION), dtype=np.float32)
    rounds = [_round(matrix) for _ in range(ROUNDS)]
    return {"wall_ms": min(wall for wall, _ in rounds), "cpu_ms": min(cpu for _, cpu in rounds)}


def _round(matrix: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    best = 0.0
    for query in matrix[:_QUERIES]:
        scores = matrix @ query
        best = max(best, float(np.partition(scores, -100)[-100]))
    counts: dict[str, int] = {}
    for _ in range(40):
        for word in _WORD.findall(_TEXT):
            counts[word.lower()] = counts.get(word.lower(), 0) + 1
    assert best
    assert counts["node"]
    return 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)


if __name__ == "__main__":
    print(json.dumps(measure()))
