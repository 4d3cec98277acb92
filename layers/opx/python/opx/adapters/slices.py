"""A query of the Table port, checked against the table and brought into one form for both adapters."""

from __future__ import annotations

from dataclasses import dataclass

from opx.adapters.limits import MAX_SORT_KEY_BYTES, check_key_value
from opx.errors import InvalidInputError
from opx.ports import KeyRange
from opx.tables import TableSpec


@dataclass(frozen=True, slots=True)
class Slice:
    """Part of a partition of a table or an index: attribute names, and bounds on the sort attribute (both included)."""

    partition_name: str
    partition: str | int
    sort_name: str
    low: str | int | None = None
    high: str | int | None = None
    begins_with: str = ""

    @property
    def is_empty(self) -> bool:
        """True if no item can be in it, whatever the table holds."""
        if self.high == "":
            return True
        return self.low is not None and self.high is not None and self.low > self.high  # type: ignore[operator]


def slice_of(spec: TableSpec, partition: str | int, index: str, where: KeyRange | None) -> Slice:
    """Raises `InvalidInputError` if the index doesn't exist or the range doesn't fit its sort attribute."""
    try:
        keys = spec.index(index) if index else spec
    except KeyError as exc:
        raise InvalidInputError(f"table {spec.name} has no index {index!r}") from exc
    check_key_value(spec, keys.partition, partition)
    where = where or KeyRange()
    _check_range(spec, keys.sort, where)
    # Nothing sorts before the empty string, and it is no valid key: as a lower bound it says nothing.
    low = None if where.low == "" else where.low
    return Slice(keys.partition, partition, keys.sort, low, where.high, where.begins_with)


def _check_range(spec: TableSpec, sort: str, where: KeyRange) -> None:
    bounds = [bound for bound in (where.low, where.high) if bound is not None]
    if where.begins_with:
        if bounds:
            raise InvalidInputError("a range is given by its bounds or by begins_with, not both")
        if sort in spec.numbers:
            raise InvalidInputError(f"{sort} is a number: begins_with needs a string")
        bounds = [where.begins_with]
    if bounds and not sort:
        raise InvalidInputError(f"this part of table {spec.name} has no sort attribute to bound")
    for bound in bounds:
        if bound != "":
            check_key_value(spec, sort, bound, MAX_SORT_KEY_BYTES)
