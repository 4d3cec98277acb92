"""Ends the process of a command, also while threads of native libraries still run."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn


def end_process(code: int) -> NoReturn:
    """Exits with `code`, after everything that was printed is written.

    A search doesn't wait for an embedding model that takes too long: its thread is left behind. When the interpreter shuts
    down, such a thread is ended as soon as it returns from native code, and C++ takes that for an unhandled exception: the
    process would abort (SIGABRT) after a complete answer. So the interpreter isn't shut down while daemon threads run; what
    is registered with `atexit` is called nevertheless.
    """
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    if others and all(thread.daemon for thread in others):
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # its reader is gone, or it is closed
                stream.flush()
        os._exit(code)
    sys.exit(code)
