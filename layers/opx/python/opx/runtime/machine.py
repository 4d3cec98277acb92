"""Facts about the machine of this process."""

from __future__ import annotations

import getpass


def user_of_process() -> str:
    """Name of the user of this process, for the audit log and for provenance; "" if unknown."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container without a user of this id
        return ""
