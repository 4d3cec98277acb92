"""An operation: `opx shifts`, `GET /shifts` and the tool `list_shifts`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from opx.sdk import KNOWLEDGE, Context, InvalidInputError, Record, Request, Tool, about, operation
from opx_example.shifts import read_shifts

SHIFTS_FILE = "ON_CALL_SHIFTS_FILE"


class ListShifts(Request, frozen=True):
    """The request. A field without a default is required."""

    team: Annotated[str, about("Only shifts of this team.", max_length=100)] = ""


class Shift(Record, frozen=True):
    """A shift of a person."""

    team: str
    person: str
    start: Annotated[str, about("When it begins (ISO 8601).")]
    end: Annotated[str, about("When it ends (ISO 8601).")]


class Shifts(Record, frozen=True):
    """The reply."""

    shifts: tuple[Shift, ...]


@operation(
    http="GET /shifts",
    command="shifts",
    tool=Tool(KNOWLEDGE, "List who is on call, by team. Use it before you page somebody."),
)
def list_shifts(context: Context, request: ListShifts) -> Shifts:  # noqa: ARG001 - shifts are the same for all callers
    """List the shifts of on-call teams.

    Raises `InvalidInputError` if the variable ON_CALL_SHIFTS_FILE isn't set.
    """
    path = os.environ.get(SHIFTS_FILE)
    if not path:
        raise InvalidInputError(f"set {SHIFTS_FILE} to the JSON file with the shifts")
    shifts = [Shift.from_json(shift) for shift in read_shifts(Path(path))]
    return Shifts(tuple(shift for shift in shifts if request.team in ("", shift.team)))
