"""Starts the sandbox process for one file, which has no credentials and no network, in a folder of its own."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from os import pathsep
from pathlib import Path
from typing import Any

import opx
from opx.errors import UnparsableDocumentError
from opx.formats.sandbox.child import INPUT, JOB, NO_MEMORY, NO_SPACE, REFUSED
from opx.formats.sandbox.output import HEAD, PARTS, PROBLEM, ReadingJob
from opx.ports.models import ParsingLimits

COMMAND = (sys.executable, "-P", "-X", "utf8", "-m", "opx.formats.sandbox.child")
_AT_ONCE = threading.BoundedSemaphore(2)
"""Concurrent sandbox processes: more would need more memory than a function has, and no machine here is faster with them."""


class Workspace:
    """A folder for one file: the input, and the output of reading it. Removed at the latest with this object."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="opx-read-"))
        self.close = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def write_input(self, blocks: Iterator[bytes]) -> None:
        with (self.folder / INPUT).open("wb") as target:
            for block in blocks:
                target.write(block)

    def head(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / HEAD).read_text(encoding="utf-8"))
        return found

    def parts(self) -> Iterator[dict[str, Any]]:
        """Yields the parts in document order."""
        with (self.folder / PARTS).open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)

    def file(self, name: str) -> Path:
        """Path of a file that a part names."""
        return self.folder / name

    def run(self, job: ReadingJob, limits: ParsingLimits) -> None:
        """Runs the job on the input. Raises `UnparsableDocumentError` with the reason, or the limit that was reached."""
        task = {"job": asdict(job), "seconds": limits.seconds, "memory_bytes": limits.memory_bytes}
        (self.folder / JOB).write_text(json.dumps(task), encoding="utf-8")
        with _AT_ONCE:
            code = _run(self.folder, 2 * limits.seconds)
        if code != 0:
            raise UnparsableDocumentError(f"{job.name}: {self._reason(code, limits)}")

    def _reason(self, code: int | None, limits: ParsingLimits) -> str:
        if code == REFUSED:
            return (self.folder / PROBLEM).read_text(encoding="utf-8")
        if code is None or -code in (signal.SIGXCPU, signal.SIGALRM):
            return f"reading it took more than {limits.seconds:g} seconds; split it, or raise OPX_PARSE_SECONDS"
        if code == NO_MEMORY:
            memory = f"{limits.memory_bytes // (1024 * 1024):,} MB of memory"
            return f"reading it takes more than {memory}; split it, or raise OPX_PARSE_MEMORY_BYTES"
        if code == NO_SPACE:
            written = f"{limits.unpacked_bytes:,} bytes"
            return f"its content is larger than {written} or the disk; split it, or raise OPX_PARSE_UNPACKED_BYTES"
        cause = f"signal {-code}" if code < 0 else f"code {code}"
        return (
            f"the program that reads it crashed ({cause}), as it does for broken files and beyond "
            f"{limits.memory_bytes // (1024 * 1024):,} MB of memory (OPX_PARSE_MEMORY_BYTES); save it again"
        )


def _run(folder: Path, seconds: float) -> int | None:
    """Returns the process's exit code, None if it had to be killed.

    It inherits no environment, and so no credentials: only the paths of its modules and libraries.
    """
    # Its errors may quote the document, and are of no use to the operator.
    process = subprocess.Popen(  # noqa: S603 - nothing in the command comes from outside
        [*COMMAND, str(folder)],
        env=_environment(folder),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    watch = threading.Timer(seconds, end)  # `wait` with a time-out would poll, and be late by up to 50 ms
    watch.daemon = True
    watch.start()
    try:
        code = process.wait()
        return None if late.is_set() else code
    finally:
        watch.cancel()
        process.kill()
        process.wait()


def _environment(folder: Path) -> Mapping[str, str]:
    """The child's environment: Lambda's Python finds its shared library by `LD_LIBRARY_PATH`."""
    library = str(Path(opx.__file__).resolve().parents[1])
    paths = [library, *(path for path in sys.path if path and path != library)]
    return {
        "PYTHONPATH": pathsep.join(paths),
        "LD_LIBRARY_PATH": str(sysconfig.get_config_var("LIBDIR") or ""),
        "TMPDIR": str(folder),
    }
