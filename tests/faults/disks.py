"""Starts processes on a disk that fails. Needs Linux with glibc, and a C compiler; tests are skipped without them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_support import ROOT, environment

WRITES, CREATES, SYNCS, NAMES = 1, 2, 4, 8
"""Kinds of steps."""

ALL_STEPS = WRITES | CREATES | SYNCS | NAMES
NOW = 1_790_000_000.0

Lines = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Ended:
    """Result of command lines: the last exit code, -9 if they were killed."""

    exit: int
    steps: int
    output: str

    @property
    def killed(self) -> bool:
        return self.exit == -9

    @property
    def is_explained(self) -> bool:
        """True without a traceback and without an error that nobody foresaw."""
        return "Traceback" not in self.output and "unexpected" not in self.output


class Disk:
    """Processes that run command lines, on a disk that fails where it is wanted."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._numbers = count()

    def run(self, home: Path, lines: Lines, *, clock: float = NOW, **fault: Any) -> Ended:
        """Runs the lines until one fails. Of `home` alone, and of no file elsewhere, is the disk watched."""
        request = {"watched": str(home), "home": str(home), "lines": lines, "clock": clock, **fault}
        return Ended(**self._ask(request))

    def warm(self, home: Path, lines: Lines) -> None:
        self._ask({"warm": lines, "home": str(home)})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        number = next(self._numbers)
        self._process.stdin.write(json.dumps({**request, "number": number}) + "\n")
        self._process.stdin.flush()
        reply: dict[str, Any] = {}
        while reply.pop("number", None) != number:  # a test that was cut off has left its reply
            reply = json.loads(self._process.stdout.readline())
        return reply


def library(folder: Path) -> Path:
    """The compiled `disk.c`. Skips the test where it can't be made."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if sys.platform != "linux" or compiler is None:
        pytest.skip("a disk that fails needs Linux and a C compiler")
    made = folder / "disk.so"
    source = Path(__file__).with_name("disk.c")
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(source), "-ldl", "-lpthread"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"disk.c can't be compiled here: {built.stderr.splitlines()[:1]}")
    return made


@contextmanager
def failing_disk(preloaded: Path) -> Iterator[Disk]:
    more = {"LD_PRELOAD": str(preloaded), "OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.faults.mortal"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=environment(**more), **pipes) as process:
        yield Disk(process)
        assert process.stdin is not None
        process.stdin.close()
