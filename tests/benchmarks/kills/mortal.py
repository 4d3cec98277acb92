"""Forks a process for each line on the standard input, which does a work of `works` in a round, and prints how it ended.

What the work imports is imported before, so that a kill hits the work and not the start: a first process does it in a folder
that is thrown away, and reports which modules it used.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from opx.text.tokenizer import cl100k
from tests.benchmarks.kills.works import WORKS, Work, opened


def main() -> None:
    work: Work = WORKS[sys.argv[1]]()  # type: ignore[assignment]
    folder, noted = Path(sys.argv[2]), sys.argv[3]
    _warm(work)
    _print("ready")
    for line in sys.stdin:
        number = int(line)
        pid = os.fork()
        if not pid:
            _do(work, folder, number, noted)
            os._exit(0)
        _print(str(pid))
        _, status = os.waitpid(pid, 0)
        _print("done" if status == 0 else "killed" if os.WIFSIGNALED(status) else "failed")


def _do(work: Work, folder: Path, number: int, noted: str) -> None:
    file = os.open(noted, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with opened(folder, work, number) as services:

        def note(text: str) -> None:
            os.write(file, f"{text}\n".encode())

        work.do(services, number, note)


def _warm(work: Work) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        with TemporaryDirectory() as scratch:
            with opened(Path(scratch), work, 0) as services:
                work.prepare(services, 0)
            _do(work, Path(scratch), 0, str(Path(scratch) / "noted"))
        os.write(writing, "\n".join(sorted(sys.modules)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as names:
        used = names.read().splitlines()
    os.waitpid(pid, 0)
    cl100k()
    for name in used:
        if name.startswith("opx."):
            importlib.import_module(name)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
