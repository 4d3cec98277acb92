"""A kind of source: a JSON file with the shifts of on-call teams, one document a team."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from opx.sdk import (
    Connector,
    Options,
    Page,
    PullRequest,
    SourceDocument,
    SourceRefusedError,
    SourceShapeError,
    about,
    page_of,
)

FIELDS = ("team", "person", "start", "end")


def read_shifts(path: Path) -> list[dict[str, str]]:
    """Shifts by team and start. Raises `SourceRefusedError` for a file that can't be read, and `SourceShapeError` for one
    that isn't a list of shifts."""
    try:
        shifts = json.loads(path.read_bytes())
    except OSError as exc:
        raise SourceRefusedError(f"{path} can't be read: {exc.strerror}; correct the path") from exc
    except ValueError as exc:
        raise SourceShapeError(f"{path} is not JSON: {exc}") from exc
    if not isinstance(shifts, list) or not all(map(_is_shift, shifts)):
        raise SourceShapeError(f"{path} is no list of shifts, each with the texts {', '.join(FIELDS)}")
    return sorted(shifts, key=lambda shift: (shift["team"], shift["start"]))


def _is_shift(shift: Any) -> bool:
    return isinstance(shift, Mapping) and all(isinstance(shift.get(name), str) and shift[name] for name in FIELDS)


class ShiftsOptions(Options, frozen=True):
    path: Annotated[str, about("The JSON file, as an absolute path of this machine.")]


class ShiftsFile(Connector[ShiftsOptions]):
    """Pulls the whole file each time: a team that isn't in it any more is withdrawn."""

    about = "shifts of on-call teams, in a JSON file of this machine"
    local = True

    def pull(self, request: PullRequest) -> Iterator[Page]:  # noqa: ARG002 - a file has no changes since a time
        teams = groupby(self._shifts(), key=lambda shift: shift["team"])
        records = [(team.replace("/", "-"), list(shifts)) for team, shifts in teams]
        yield page_of(records, _document, cursor={}, complete=True)

    def probe(self) -> None:
        self._shifts()

    def _shifts(self) -> list[dict[str, str]]:
        return read_shifts(self.local_path(self.options.path))


def _document(key: str, shifts: Sequence[Mapping[str, str]]) -> SourceDocument:
    rows = "\n".join(f"- {shift['start']} to {shift['end']}: {shift['person']}" for shift in shifts)
    return SourceDocument(f"{key}.md", f"# On-call shifts of {shifts[0]['team']}\n\n{rows}\n")
