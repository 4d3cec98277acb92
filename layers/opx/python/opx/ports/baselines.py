"""Port of baselines of metrics. The entry point `baselines` of the group `opx.parts` makes them of a system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from opx.domain.baselines import AddedValues
from opx.domain.scopes import Scope


class Baselines(Protocol):
    """Adds to the baselines of a scope: without one, to those of the installation."""

    def add(self, readings: Sequence[Mapping[str, Any]], *, marks: Sequence[str]) -> AddedValues:
        """Adds values with the fields `VALUE_FIELDS`; those that can't be added are in the result with their reasons. A
        value that is repeated with the same one of `marks` counts once. Raises `StoreUnavailableError`."""

    def put_record(self, given: Mapping[str, Any], *, scope: Scope | None = None) -> object:
        """Stores a baseline that was computed elsewhere. Raises `InvalidInputError` that names the wrong field."""
