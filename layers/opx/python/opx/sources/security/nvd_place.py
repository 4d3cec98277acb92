"""Where a pull of NVD is."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from opx.domain.sources import Cursor


class Stage(StrEnum):
    """What a pull does, in this order."""

    BEGIN = "begin"
    ALL = "all"
    """List every record."""
    CHANGED = "changed"
    """List what was changed in a range of time."""
    AGAIN = "again"
    """Read again what changed elsewhere, by id."""
    END = "end"


@dataclass(frozen=True, slots=True)
class Place:
    """`index` and `total` are of the listing under way. `start` and `end` are the range still to be read, or in `ALL`
    the time at which it began. `now` is NVD's clock when it was last asked; `held` up to when changes are certain, if
    that is not `end`; `estimated` the day of the EPSS file in use; `after` the last id that was read again. `whole`: the
    pull names every record."""

    stage: Stage = Stage.BEGIN
    index: int = 0
    total: int = 0
    start: str = ""
    end: str = ""
    now: str = ""
    held: str = ""
    estimated: str = ""
    after: str = ""
    whole: bool = False

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value}


def placed(cursor: Cursor) -> Place:
    """The place that a cursor names, which may be from before an upgrade: what isn't known of it is left out."""
    known = {each.name: cursor[each.name] for each in fields(Place) if each.name in cursor}
    return Place(**{**known, "stage": Stage(cursor.get("stage", Stage.BEGIN))})
