"""Whether stores would take something, without putting it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opx.adapters.limits import check_item, check_metadata, check_object_key
from opx.tables import TableSpec


class StorableChecks:
    """What all backends answer alike, as they take the same."""

    def check_item(self, spec: TableSpec, item: Mapping[str, Any]) -> None:
        check_item(spec, item)

    def check_object(self, key: str, metadata: Mapping[str, str]) -> None:
        check_object_key(key)
        check_metadata(metadata)
