"""Facts about the machine of this process, paths on it, and its collection of garbage."""

from __future__ import annotations

import gc
import getpass
from pathlib import Path

from opx.errors import InvalidInputError


def user_of_process() -> str:
    """Name of the user of this process, for the audit log and for provenance; "" if unknown."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container without a user of this id
        return ""


def path_here(text: str, field: str = "path") -> Path:
    """The path of a file or folder of this machine, which needn't be there. Raises `InvalidInputError` for text that is no
    path here, such as a name that is too long, with the name of its `field`."""
    try:
        path = Path(text).expanduser()
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return path
    except (OSError, ValueError, RuntimeError) as exc:  # RuntimeError: the home of an unknown user
        reason = getattr(exc, "strerror", None) or exc
        raise InvalidInputError(f"{field}: {text[:100]!r} is not a path of this machine: {reason}") from exc
    return path


COLLECT_AFTER = 100_000
"""Objects more than there were after which Python looks for garbage in cycles. A search makes many objects and little
garbage: the usual 700 cost a tenth of it."""


def collect_seldom() -> None:
    """For a process of our own, not for a program that uses the library."""
    gc.set_threshold(COLLECT_AFTER)


def keep_what_is_there() -> None:
    """Leaves everything that exists by now out of later looks."""
    gc.collect()
    gc.freeze()
