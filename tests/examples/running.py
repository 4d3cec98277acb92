"""Runs examples as a user does: as programs, by the Python of their own environment, without network."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("EXAMPLES_PYTHON", ROOT / "build" / "examples" / "bin" / "python"))
NOWHERE = "http://127.0.0.1:9"
QUESTION = "disk full on a Linux host"
TITLE = "Disk full on a Linux host"
PAGES = {
    "disk.md": f"# {TITLE}\n\nPrograms fail with `No space left on device`.\n\n1. Find large folders: `du -xh / | sort -h`\n",
    "kafka.md": "# Kafka consumer lag\n\nConsumers fall behind after a rebalance.\n\n1. Look at the lag of each group.\n",
}


def missing_library(*modules: str) -> str:
    """The reason why modules aren't in the examples' environment; "" if they are. They are not imported, which takes long."""
    if not PYTHON.exists():
        return f"{PYTHON} does not exist: `make test-examples` makes it"
    missing = [name for name in modules if not _has(name)]
    return f"not installed: {', '.join(missing)}" if missing else ""


@cache
def _has(module: str) -> bool:
    script = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
    command = [str(PYTHON), "-c", script, module]
    return subprocess.run(command, capture_output=True, check=False, env=_environment({})).returncode == 0


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """Without the caller's settings; what asks for a host beyond this machine fails."""
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE)
    direct = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    return {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **proxies, **direct, **given}


def ran(*command: str, env: Mapping[str, str]) -> str:
    """Runs a program; returns its standard output."""
    line = [str(PYTHON), *command]
    done = subprocess.run(
        line, cwd=ROOT, capture_output=True, text=True, check=False, env=_environment(env), timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def serving(module: str, env: Mapping[str, str]) -> Iterator[str]:
    """The address of an example that listens."""
    command = [str(PYTHON), "-m", f"examples.{module}", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=_environment(env)) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("listening on "), line
            yield f"http://127.0.0.1:{line.split()[-1]}"
        finally:
            process.terminate()
