"""Replaces standard streams that were closed before the command started, as by `>&-`.

Else the next file that is opened, which may be a database, would get the number of the closed one, and with it the output.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

_STAYING = frozenset({"serve", "run", "watch", "console"})
"""Commands that work also if nobody reads their output."""


def replace_closed_streams(arguments: Sequence[str]) -> None:
    """Lets a closed standard input be empty, and closed standard errors be discarded. Output fails as into a pipe that
    nobody reads, so that the command ends; that of a command which stays is discarded."""
    if sys.stdin is None:
        sys.stdin = open(_opened(0, os.O_RDONLY), encoding="utf-8")  # noqa: SIM115 - open as long as the process
    if sys.stderr is None:
        sys.stderr = open(_opened(2, os.O_WRONLY), "w", encoding="utf-8", buffering=1)  # noqa: SIM115
    if sys.stdout is None:
        number = _opened(1, os.O_WRONLY) if _STAYING & set(arguments) else _unread_pipe(1)
        sys.stdout = open(number, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - as above


def print_quietly(text: str) -> None:
    """Prints one string, and exits with 141 if nobody reads it."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is written at exit
        raise SystemExit(141) from None


def _opened(number: int, mode: int) -> int:
    """The null device under the number of a standard stream."""
    return _moved(os.open(os.devnull, mode), number)


def _unread_pipe(number: int) -> int:
    """A pipe under the number of a standard stream, whose reading end is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    return _moved(writing, number)


def _moved(opened: int, number: int) -> int:
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    return number


def end_process(code: int) -> NoReturn:
    """Exits with `code`, after everything that was printed is written.

    The interpreter isn't shut down, unless threads run that have to be waited for; what is registered with `atexit` is
    called nevertheless. Taking modules and models apart costs a search a fifth of a second, and a daemon thread that returns
    from native code meanwhile is ended in a way that C++ takes for an unhandled exception: the process would abort (SIGABRT)
    after a complete answer.
    """
    if all(thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # its reader is gone, or it is closed
                stream.flush()
        os._exit(code)
    sys.exit(code)
