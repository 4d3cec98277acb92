"""Measures answers in one process as a program gets them from `Knowledge`: `python -m tests.benchmarks.answering HOME ...`.

Each mode has questions of its own, the same kinds of them, and the modes take turns. Everything is as shipped: questions are
embedded and answers recorded. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil

from opx.domain.queries import QueryConfig, SearchMode
from opx.facade.knowledge import Knowledge
from tests.benchmarks.corpora import SEED, Question, Questions
from tests.benchmarks.homes import READERS

MODES = tuple(mode.value for mode in (SearchMode.FAST, SearchMode.BALANCED, SearchMode.THOROUGH))
WARM_UP = 20


def percentile(values: Sequence[float], share: float) -> float:
    return float(np.percentile(np.array(values), share))


def timed_answer(knowledge: Knowledge, question: Question, mode: str) -> tuple[float, float, bool]:
    """Milliseconds of wall-clock and of processor time, that of all threads, and whether a leg or a tier was missing."""
    config = QueryConfig(mode=SearchMode(mode))
    cpu, wall = time.process_time(), time.perf_counter()
    answer = knowledge.answer(question.text, config)
    return 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu), answer.partial


def measure(
    home: Path, reader: str, chunks: int, each: int, collection: Path | None = None, seed: int = SEED
) -> dict[str, float]:
    """Figures by `mode/measure`, and of the process."""
    first, *portions = Questions(chunks, collection, seed).portions(1 + len(MODES), max(each, WARM_UP))
    with Knowledge.open(home, **READERS[reader]) as knowledge:
        started = time.perf_counter()
        timed_answer(knowledge, first[0], MODES[1])
        figures = {"first_answer_ms": 1000 * (time.perf_counter() - started)}
        for number, question in enumerate(first[1:WARM_UP]):
            timed_answer(knowledge, question, MODES[number % len(MODES)])
        taken: dict[str, list[tuple[float, float, bool]]] = {mode: [] for mode in MODES}
        for number in range(each):
            for mode, portion in zip(MODES, portions, strict=True):
                taken[mode].append(timed_answer(knowledge, portion[number], mode))
        process = psutil.Process().memory_full_info()
    for mode, times in taken.items():
        walls = [wall for wall, _, _ in times]
        figures |= {f"{mode}/p{at}_ms": percentile(walls, at) for at in (50, 95)}
        figures[f"{mode}/cpu_ms"] = sum(cpu for _, cpu, _ in times) / len(times)
        figures[f"{mode}/partial"] = float(sum(partial for _, _, partial in times))
    return {**figures, "rss_mb": process.rss / 1e6, "private_mb": process.uss / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--reader", choices=READERS, default="no filter")
    parser.add_argument("--chunks", type=int, required=True, help="of the home, for its questions")
    parser.add_argument("--questions", type=int, default=60, help="of each mode")
    parser.add_argument("--set", type=Path, help="a BEIR folder, for its questions")
    parser.add_argument("--seed", type=int, default=SEED, help="another one for other questions")
    args = parser.parse_args()
    found = measure(args.home, args.reader, args.chunks, args.questions, args.set, args.seed)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
