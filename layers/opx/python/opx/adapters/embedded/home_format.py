"""Marks a home folder with the format of its data, so that an older program refuses what it would damage.

The mark is a file of its own, read before anything else is opened. The main database has the number, too: where the mark is
missing or damaged, its header has it. A home with neither was written before there were marks: it has format 1. Tables get
missing columns when they are opened, and an index names its own format, so the number is raised only for a change that
programs before it would misread.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from opx import __version__
from opx.adapters.embedded.database import Database
from opx.adapters.embedded.durable_files import move_into_place, sync_file, temporary_file
from opx.errors import DamagedStoreError, IncompatibleHomeError, StoreUnavailableError

FORMAT = 1
NAME, MAIN = "format.json", "opx.db"


def check_format(home: Path) -> None:
    """Raises `IncompatibleHomeError` for a home that a program with a newer format has written."""
    mark = _mark(home)
    found = mark.get("format") or _format_in(home / MAIN)
    if found > FORMAT:
        writer = f"opx {mark['program']}" if mark.get("program") else "a newer opx"
        raise IncompatibleHomeError(
            f"{home} was written by {writer} with format {found}; this is opx {__version__}, which knows formats "
            f"up to {FORMAT}: use that program, or move the knowledge with its `opx export`"
        )


def check_mark(home: Path) -> None:
    """Raises `DamagedStoreError` for a mark that can't be read."""
    if os.path.lexists(home / NAME) and not _mark(home):
        raise DamagedStoreError(
            f"{home / NAME} is damaged: it has to state the format of this home; `opx repair` makes it again from {MAIN}",
            f"{NAME} is damaged; run `opx repair`",
        )


def mark_format(home: Path, database: Database) -> None:
    """Writes the mark where it is missing. A home that may not be written to stays without."""
    if _mark(home):
        return
    with suppress(OSError, StoreUnavailableError), temporary_file(home) as file:
        with database.transaction() as connection:
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        file.write(json.dumps({"format": FORMAT, "program": __version__}).encode())
        sync_file(file)
        move_into_place(Path(file.name), home / NAME)


def _mark(home: Path) -> dict[str, Any]:
    """The mark; empty if there is none, or if it can't be read."""
    try:
        mark = json.loads((home / NAME).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    is_mark = isinstance(mark, dict) and type(mark.get("format")) is int and mark["format"] > 0
    return mark if is_mark else {}


def _format_in(database: Path) -> int:
    """The `user_version` in the header of a SQLite file; 0 if there is none."""
    try:
        with database.open("rb") as file:
            header = file.read(64)
    except OSError:
        return 0
    return int.from_bytes(header[60:], "big") if header.startswith(b"SQLite format 3\0") else 0
