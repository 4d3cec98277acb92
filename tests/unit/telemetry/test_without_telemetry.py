"""The library without the distribution of telemetry: errors that name it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

START = """
import importlib.metadata
found = importlib.metadata.distributions
importlib.metadata.distributions = lambda: [one for one in found() if one.name != "opx-telemetry"]
"""
REMEDY = "opx-telemetry, which is not installed: pip install opx-telemetry"
COMMAND = "from opx.system import command; command()"
PYTHON = """
import sys
from opx import Knowledge, OpxError
from opx.edges.cli.demo import _add_values
from opx_streams.capability import StreamIngestion
RECORD = {"node": "web-01", "metric": "cpu", "time_window": "7d", "mean": 1.5, "stddev": 1.0, "samples": 9}
with Knowledge.open(sys.argv[1]) as kb:
    for work in (
        lambda: kb.get_baseline("web-01", "cpu"),
        lambda: kb.ingest_document("internal", "operations/baselines", RECORD),
        lambda: kb.context.system.part(StreamIngestion).taker_of_values(None).take_all([]),
        lambda: print(_add_values(kb._client)),
    ):
        try:
            work()
        except OpxError as exc:
            print(exc)
"""


def run(program: str, *arguments: str, code: int = 0) -> str:
    command = [sys.executable, "-c", START + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_its_commands_name_the_distribution(tmp_path: Path) -> None:
    found = run(COMMAND, "--home", str(tmp_path), "baseline", "list", code=2)
    assert f"the command baseline belongs to {REMEDY}" in found


def test_baselines_and_values_name_the_distribution(tmp_path: Path) -> None:
    read, *refused, added = run(PYTHON, str(tmp_path)).splitlines()
    assert read == f"the tool get_baseline belongs to {REMEDY}"
    assert refused == [f"the part baselines belongs to {REMEDY}"] * 2
    assert added == "no values of baselines added: pip install opx-telemetry"
