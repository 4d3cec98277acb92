"""Facts about the machine of this process, and paths on it."""

from __future__ import annotations

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
