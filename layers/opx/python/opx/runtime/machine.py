"""Facts about the machine of this process."""

from __future__ import annotations

import getpass
import os


def user_of_process() -> str:
    """Name of the user of this process, for the audit log and for provenance; "" if unknown."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container without a user of this id
        return ""


def cores() -> int:
    """Number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
