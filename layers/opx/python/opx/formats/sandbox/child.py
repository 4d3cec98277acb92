"""Entry point of the process that reads one file, `python -m opx.formats.sandbox.child FOLDER`, under limits that it sets."""

from __future__ import annotations

import errno
import importlib
import json
import math
import signal
import sys
from pathlib import Path
from typing import Any

from opx.errors import MissingExtraError, UnparsableDocumentError
from opx.formats.sandbox.output import PROBLEM, Output, ReadingJob
from opx.runtime.extras import naming_extras

JOB = "job.json"
INPUT = "input"
REFUSED, NO_MEMORY, NO_SPACE = 3, 4, 5


def function_of(name: str) -> Any:
    """The function with this name, `package.module:function`."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def main(folder: Path) -> int:
    """Runs the job; returns 0, or an exit code for the failure, with the reason in a file."""
    task = json.loads((folder / JOB).read_text(encoding="utf-8"))
    _limit(task["seconds"], task["memory_bytes"], task["job"]["unpacked_bytes"])
    job = ReadingJob.from_json(task["job"])
    try:
        with naming_extras():
            read = function_of(job.reader)
            with Output(folder, job.unpacked_bytes, job.images) as output:
                read(folder / INPUT, job, output)
    except (UnparsableDocumentError, MissingExtraError) as exc:
        return _refuse(folder, str(exc))
    except MemoryError:
        return NO_MEMORY
    except RecursionError:
        return _refuse(folder, "it is nested too deeply; simplify it")
    except OSError as exc:
        return NO_SPACE if exc.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT) else _refuse(folder, _broken(exc))
    except Exception as exc:  # noqa: BLE001 - parsers raise anything for broken files, and this is the process's edge
        return _refuse(folder, _broken(exc))
    return 0


def _broken(error: Exception) -> str:
    """A generic reason without the error's own message, which may quote the document."""
    return f"it is broken, or not of the format that its name says ({type(error).__name__}); save it again"


def _refuse(folder: Path, reason: str) -> int:
    (folder / PROBLEM).write_text(reason, encoding="utf-8", errors="replace")
    return REFUSED


def _limit(seconds: float, memory: int, written: int) -> None:
    """Sets the limits before any parser is loaded. Where the system has none (Windows), only the parent's clock counts."""
    try:
        import resource
    except ImportError:
        return
    whole = max(1, math.ceil(seconds))
    signal.alarm(2 * whole + 5)  # ends the process if its parent is gone
    _lower(resource, resource.RLIMIT_CPU, whole, last=whole + 1)  # SIGXCPU first: it is no crash
    _lower(resource, resource.RLIMIT_FSIZE, max(written, 1024 * 1024))
    _lower(resource, resource.RLIMIT_CORE, 0)
    if sys.platform == "linux":  # macOS has the limit, but fails at values that work elsewhere
        _lower(resource, resource.RLIMIT_AS, memory)


def _lower(resource: object, which: int, value: int, *, last: int | None = None) -> None:
    """Sets a soft limit, and a hard one: `last`, or the same."""
    hard = resource.getrlimit(which)[1]  # type: ignore[attr-defined]
    bounds = [one if hard < 0 else min(one, hard) for one in (value, value if last is None else last)]
    resource.setrlimit(which, tuple(bounds))  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
