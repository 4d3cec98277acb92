"""Marks a home folder with the format of its data, so that an older program refuses what it would damage.

The mark is a file of its own, read before anything else is opened. A home without one was written before there were marks:
it has format 1. Tables get missing columns when they are opened, and an index names its own format, so the number is raised
only for a change that programs before it would misread.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from opx import __version__
from opx.adapters.embedded.durable_files import move_into_place, sync_file, temporary_file
from opx.errors import IncompatibleHomeError

FORMAT = 1
NAME = "format.json"


def check_format(home: Path) -> None:
    """Raises `IncompatibleHomeError` for a home that a program with a newer format has written. A mark that can't be read
    bars nobody: it is written anew."""
    mark = _mark(home)
    if mark and mark["format"] > FORMAT:
        writer = f"opx {mark['program']}" if mark.get("program") else "a newer opx"
        raise IncompatibleHomeError(
            f"{home} was written by {writer} with format {mark['format']}; this is opx {__version__}, which knows formats "
            f"up to {FORMAT}: use that program, or move the knowledge with its `opx export`"
        )


def mark_format(home: Path) -> None:
    """Writes the mark where it is missing. A home that may not be written to stays without."""
    if _mark(home) is not None:
        return
    with suppress(OSError), temporary_file(home) as file:
        file.write(json.dumps({"format": FORMAT, "program": __version__}).encode())
        sync_file(file)
        move_into_place(Path(file.name), home / NAME)


def _mark(home: Path) -> dict[str, Any] | None:
    try:
        mark = json.loads((home / NAME).read_bytes())
    except (OSError, ValueError):
        return None
    is_mark = isinstance(mark, dict) and type(mark.get("format")) is int
    return mark if is_mark else None
