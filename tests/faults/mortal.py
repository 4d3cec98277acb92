"""Runs `opx` command lines in forked processes on a disk that fails (`disk.c`), one request in JSON per line of standard
input; each reply has the exit code (-9: killed), the number of steps, and the output.

The code of all commands is imported before, so that a fault hits the work and not the start.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import select
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opx.edges.cli.main import _COMMANDS, Launch, run
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap, connect
from opx.text.tokenizer import cl100k
from tests.support.cli_support import WordEmbedder

HANG_SECONDS = 40.0
"""Time after which a command is killed: one that waits without end is a failure of its test, and not of the others."""

MODES = {"count": 0, "kill": 1, "fail": 2, "record": 3}


def starter(clock: float) -> Callable[[Settings], System]:
    return lambda settings: bootstrap(settings, clock=lambda: clock, embedder=WordEmbedder())


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Runs the lines of a request in a process of its own."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as output:
        pid = os.fork()
        if not pid:
            os.close(reading)
            _input(request.get("stdin", ""))
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            os.write(writing, json.dumps(_run(request)).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            if not select.select([pipe], [], [], request.get("after", HANG_SECONDS))[0]:
                os.kill(pid, signal.SIGKILL)
            report = pipe.read()
        _, status = os.waitpid(pid, 0)
        output.seek(0)
        text = output.read().decode(errors="replace")
    ended = json.loads(report) if report else {"exit": os.waitstatus_to_exitcode(status), "steps": 0}
    return {**ended, "output": text}


def _input(text: str) -> None:
    """The requests on the standard input are for the parent alone."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - for as long as the process lives
    file.write(text.encode())
    file.seek(0)
    os.dup2(file.fileno(), 0)
    sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115


def _run(request: dict[str, Any]) -> dict[str, Any]:
    disk = ctypes.CDLL(None)
    disk.faults_steps.restype = ctypes.c_long
    if disk.faults_catch_renames():
        raise SystemExit("the kernel catches no calls here")
    disk.faults_locks(request.get("flock", 0), request.get("fcntl", 0))
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if request.get("log") else -1
    disk.faults_watch(
        request["watched"].encode(),
        MODES[request.get("mode", "count")],
        request.get("kinds", 15),
        ctypes.c_long(request.get("at", 0)),
        request.get("error", 0),
        log,
    )
    launch = Launch(starter(request["clock"]), connect, {})
    code = 0
    for number, line in enumerate(request["lines"]):
        code = run(["--home", request["home"], *line], launch)
        sys.stdout.flush()
        disk.faults_note(f"{number} {code}".encode())
        if code:
            break
    steps = disk.faults_steps()
    disk.faults_watch(b"", 0, 0, ctypes.c_long(0), 0, -1)
    return {"exit": code, "steps": steps}


def warm(lines: list[list[str]], folder: Path) -> None:
    """Imports what the lines import, as found by running them in a process that is thrown away."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        _input("")
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        for line in lines:
            run(["--home", str(folder), *line], Launch(starter(0.0), connect, {}))
        os.write(writing, "\n".join(sorted(sys.modules)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        names = pipe.read().split()
    os.waitpid(pid, 0)
    cl100k()
    for name in (*names, *(f"opx.edges.cli.{module}" for module, _ in _COMMANDS.values())):
        if name.startswith(("opx.", "filelock", "tantivy", "numpy", "sqlite3", "zipfile")):
            importlib.import_module(name)


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "warm" in request:
            warm(request["warm"], Path(request["home"]))
            reply: dict[str, Any] = {}
        else:
            reply = answer(request)
        sys.stdout.write(json.dumps({**reply, "number": request["number"]}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
