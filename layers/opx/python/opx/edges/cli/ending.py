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
