"""Measures cost and accuracy of baselines, and the share of healthy series that are reported as unusual.

python -m tests.benchmarks.baseline_figures [rates|accuracy|bytes|speed]...
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from opx.domain.baselines import BaselineStats, HourBaseline
from opx.domain.scopes import Identity, reader_of
from opx.ports.tables import BASELINES
from opx.settings import Settings
from opx.system import bootstrap
from opx_telemetry.baselines.items import Series, empty_part
from opx_telemetry.baselines.readings import Reading
from opx_telemetry.baselines.store import BaselineStore
from opx_telemetry.baselines.summary import Summary

SEED = 20_261
DAY, FIVE_MINUTES = 86_400, 300
_NOON = 1_767_225_600.0 + DAY / 2

Values = Callable[[random.Random, int], float]
"""A value at a number of five-minute steps since midnight of some day."""


def _daily(chance: random.Random, step: int) -> float:
    """40 in the night and 70 by day, with a spread of 5."""
    return (70.0 if 96 <= step % 288 < 228 else 40.0) + chance.gauss(0, 5)


def _nightly_job(chance: random.Random, step: int) -> float:
    return (90.0 if 24 <= step % 288 < 36 else 12.0) + chance.gauss(0, 2)


SHAPES: dict[str, Values] = {
    "normal (50, 10)": lambda chance, _: chance.gauss(50, 10),
    "normal (100, 1)": lambda chance, _: chance.gauss(100, 1),
    "log-normal (0, 1)": lambda chance, _: chance.lognormvariate(0, 1),
    "log-normal (3, 0.5)": lambda chance, _: chance.lognormvariate(3, 0.5),
    "exponential": lambda chance, _: chance.expovariate(0.1),
    "Pareto (2.5)": lambda chance, _: chance.paretovariate(2.5),
    "uniform (10, 90)": lambda chance, _: chance.uniform(10, 90),
    "errors, 1 in 50": lambda chance, _: float(chance.random() < 0.02),
    "errors, 1 in 500": lambda chance, _: float(chance.random() < 0.002),
    "daily rhythm": _daily,
    "job every night": _nightly_job,
}


def stats_of(steps: Sequence[tuple[int, float]]) -> BaselineStats:
    """A baseline of values at five-minute steps, without a store."""
    hours: dict[int, list[float]] = {}
    for step, value in steps:
        hours.setdefault(step % 288 // 12, []).append(value)
    total = Summary()
    by_hour = []
    for hour, values in sorted(hours.items()):
        part = Summary()
        part.add(values)
        total.merge(part)
        by_hour.append(HourBaseline(hour, **part.numbers()))
    return BaselineStats(node="n", metric="m", time_window="7d", **total.numbers(), by_hour=tuple(by_hour))


def rate(shape: Values, days: float, *, hourly: bool, rounds: int, tried: int, seed: int = SEED) -> float:
    """Share of values of a healthy series, after its baseline, that are reported as unusual."""
    chance = random.Random(seed)
    wrong = 0
    for _ in range(rounds):
        count = round(days * 288)
        stats = stats_of([(step, shape(chance, step)) for step in range(count)])
        for _ in range(tried):
            step = chance.randrange(288)
            hour = step // 12 if hourly else None
            wrong += stats.judge(shape(chance, step), hour).anomalous
    return wrong / (rounds * tried)


def rates() -> None:
    print(
        "healthy values called out of the ordinary, in %: after 30 values, 1 day, 7 days; by the hour after 7, 30 days"
    )
    for name, shape in SHAPES.items():
        found = [
            rate(shape, days, hourly=hourly, rounds=rounds, tried=400)
            for days, hourly, rounds in (
                (30 / 288, False, 60),
                (1, False, 60),
                (7, False, 40),
                (7, True, 40),
                (30, True, 10),
            )
        ]
        print(f"{name:20}", *(f"{100 * one:7.3f}" for one in found))


def accuracy() -> None:
    print("largest error of p50, p95, p99 against sorted values, in %, over 50 series of 2,016 values")
    for name, shape in SHAPES.items():
        chance = random.Random(SEED)
        worst = dict.fromkeys((0.5, 0.95, 0.99), 0.0)
        for _ in range(50):
            values = [shape(chance, step) for step in range(2016)]
            summary = Summary()
            summary.add(values)
            values.sort()
            for share in worst:
                exact = values[int(share * (len(values) - 1))]
                found = min(max(summary.sketch.quantile(share), values[0]), values[-1])
                worst[share] = max(worst[share], abs(found - exact) / abs(exact) if exact else abs(found))
        print(f"{name:20}", *(f"{100 * one:7.3f}" for one in worst.values()))


def _item_bytes(values: Sequence[float]) -> int:
    start = int(_NOON // DAY) * DAY
    step = DAY / len(values)
    readings = [Reading("web-01", "cpu", value, start + at * step) for at, value in enumerate(values)]
    item = empty_part(Series("global", "web-01", "cpu"), start).adding(readings).to_item(start)
    return sum(len(name) + len(data) for name, data in item["hours"].items()) + 300


def sizes() -> None:
    chance = random.Random(SEED)
    day = {
        "normal (50, 10), every 5 min": [chance.gauss(50, 10) for _ in range(288)],
        "log-normal (0, 1), every 5 min": [chance.lognormvariate(0, 1) for _ in range(288)],
        "normal (50, 10), every second": [chance.gauss(50, 10) for _ in range(86_400)],
        "log-normal (0, 1), every second": [chance.lognormvariate(0, 1) for _ in range(86_400)],
        "1e-300 to 1e300, both signs, 10 a second": [
            chance.choice((-1, 1)) * 10 ** chance.uniform(-300, 300) for _ in range(864_000)
        ],
    }
    print("bytes of an item, which is a day of a series, without marks (4,096 more at most)")
    for name, values in day.items():
        print(f"{name:42} {_item_bytes(values):8,}")


def speed() -> None:
    chance = random.Random(SEED)
    with tempfile.TemporaryDirectory() as home, bootstrap(Settings(home=str(Path(home)))) as services:
        store = BaselineStore(
            services.tables.table(BASELINES), clock=services.clock, unit_of_work=services.tables.unit_of_work
        )
        now = services.clock()
        for label, series in (("one series", 1), ("100 series", 100)):
            batches = [
                [Reading(f"{label} {at % series}", "cpu", chance.gauss(50, 10), now - at) for at in range(1000)]
                for _ in range(20)
            ]
            started = time.perf_counter()
            for batch in batches:
                store.add(batch)
            print(f"{label}, 1,000 values a call: {20_000 / (time.perf_counter() - started):,.0f} values/s")
        started = time.perf_counter()
        for at in range(500):
            store.add([Reading("single", "cpu", chance.gauss(50, 10), now - at)])
        print(f"one value a call: {500 / (time.perf_counter() - started):,.0f} values/s")
        for day in range(90):
            store.add(
                [Reading("web", "cpu", chance.gauss(50, 10), now - day * DAY - at * FIVE_MINUTES) for at in range(288)]
            )
        for window in ("7d", "90d"):
            times = []
            for _ in range(40):
                started = time.perf_counter()
                store.get(reader_of(Identity()), "web", "cpu", window)
                times.append(1000 * (time.perf_counter() - started))
            print(f"get over {window}: p50 {statistics.median(times):.0f} ms, p95 {sorted(times)[37]:.0f} ms")


PARTS = {"rates": rates, "accuracy": accuracy, "bytes": sizes, "speed": speed}


def main(arguments: Sequence[str]) -> int:
    for name in arguments or PARTS:
        PARTS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
