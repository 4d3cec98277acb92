"""Measures the import time of each function's handler: `python -m tests.benchmarks.import_time`.

A fresh interpreter per run, the median of five, in milliseconds, as JSON. Modules that only the first event loads (its
operation, boto3, the OpenSearch client), which a snapshot has loaded already, are listed beside it. Exits with 1 if a handler
is over budget.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNS = 5
BUDGETS_MS = {"retrieve_knowledge": 350.0, "manage_knowledge": 350.0}
"""Budgets of interactive functions; a quiet machine is assumed."""

BUDGET_MS = 900.0
"""Budget of all others."""

FIRST_EVENT = (
    "opx.operations.search",
    "opx_aws.opensearch",
    "opx_aws.bedrock_embedder",
    "opx_aws.table",
)
_PROGRAM = """
import importlib, sys, time
started = time.perf_counter()
for name in sys.argv[1:]:
    importlib.import_module(name)
print(1000 * (time.perf_counter() - started))
"""


def import_ms(*modules: str) -> float:
    """The median time to import the modules."""
    times = []
    for _ in range(RUNS + 1):
        command = [sys.executable, "-c", _PROGRAM, *modules]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        times.append(float(done.stdout))
    return round(statistics.median(times[1:]), 1)  # the first run may have compiled the modules


def main() -> int:
    names = sorted(path.parent.name for path in (ROOT / "lambdas").glob("*/handler.py"))
    handlers = {name: import_ms(f"lambdas.{name}.handler") for name in names}
    with_first_event = import_ms("lambdas.retrieve_knowledge.handler", *FIRST_EVENT)
    over = [name for name, taken in handlers.items() if taken > BUDGETS_MS.get(name, BUDGET_MS)]
    report = {
        "python": sys.version.split()[0],
        "runs": RUNS,
        "handlers_ms": handlers,
        "budgets_ms": {name: BUDGETS_MS.get(name, BUDGET_MS) for name in names},
        "over_budget": over,
        "retrieve_knowledge_first_event_modules_ms": round(with_first_event - handlers["retrieve_knowledge"], 1),
    }
    print(json.dumps(report, indent=2))
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
