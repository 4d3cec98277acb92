"""Measures bulk ingestion against ordinary ingestion: `python -m tests.benchmarks.bulk --files 2000 --rounds 2`.

Generated documents (of the passages of `corpus/documents`) are loaded into new homes by commands in turn: `one` is
`opx ingest` with one thread, `ingest` the same with its default, a thread of the model on each core, and `bulk` is
`opx bulk start`. Prints a JSON line for each run, with seconds, processor seconds of all its processes and the load of the
machine, and at the end the ratios of the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PAGES = Path(__file__).resolve().parents[2] / "corpus" / "documents"
COMMANDS = {"one": ["ingest"], "ingest": ["ingest"], "bulk": ["bulk", "start", "--yes"]}


def generate(folder: Path, files: int, seed: int = 5) -> None:
    """Writes pages of four sections with three passages each."""
    pages = [page.read_text(encoding="utf-8") for page in sorted(PAGES.rglob("*.md"))]
    parts = [part for page in pages for part in page.split("\n\n")]
    passages = [part for part in parts if 20 < len(part) < 2500 and not part.startswith(("---", "#"))]
    headings = [line.strip("# ") for page in pages for line in page.splitlines() if line.startswith("#")]
    pick = random.Random(seed)
    for number in range(files):
        sections = []
        for part in range(4):
            text = "\n\n".join(pick.choice(passages) for _ in range(3))
            sections.append(f"## {pick.choice(headings)} {number}\n\n{text}\n\nHost web-{number}-{part}.")
        path = folder / pick.choice(("runbooks", "postmortems")) / f"page-{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {pick.choice(headings)} case {number}\n\n" + "\n\n".join(sections), encoding="utf-8")


def measured(name: str, folder: Path, home: Path) -> dict[str, Any]:
    environment = {**os.environ, "OPX_HOME": str(home), "OPENBLAS_NUM_THREADS": "1"}
    if name == "one":
        environment["OPX_EMBEDDING_THREADS"] = "1"
    command = [str(Path(sys.executable).with_name("opx")), *COMMANDS[name], folder.name]
    load, began = os.getloadavg()[0], time.perf_counter()
    process = subprocess.Popen(command, cwd=folder.parent, env=environment, stdout=-3, stderr=-3)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, f"opx {name} ended with {status}"
    seconds = time.perf_counter() - began
    cpu = used.ru_utime + used.ru_stime
    return {"run": name, "seconds": round(seconds, 2), "cpu_s": round(cpu, 2), "load": round(load, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--runs", nargs="+", default=list(COMMANDS), choices=list(COMMANDS))
    arguments = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in arguments.runs}
    with tempfile.TemporaryDirectory(prefix="opx-bulk-") as temporary:
        folder = Path(temporary) / "pages"
        generate(folder, arguments.files)
        for turn in range(arguments.rounds):
            for name in arguments.runs:
                figures = measured(name, folder, Path(temporary) / f"{name}-{turn}")
                found[name].append(figures)
                print(
                    json.dumps({key: figures[key] if key == "run" else round(figures[key], 2) for key in figures}),
                    flush=True,
                )
    medians = {name: statistics.median(one["seconds"] for one in runs) for name, runs in found.items()}
    if "bulk" in medians:
        print(json.dumps({f"{name} / bulk": round(medians[name] / medians["bulk"], 2) for name in medians}))


if __name__ == "__main__":
    main()
