"""Which kinds of sources there are. Their modules are imported when one is made."""

from __future__ import annotations

import importlib
from typing import Any

from opx.domain.sources import SourceDefinition
from opx.errors import InvalidInputError
from opx.sources.connector import Connector, read_options

CONNECTORS: dict[str, str] = {}
"""Module (below `opx.sources`) and class of the connector of each kind."""


def connector_type(kind: str) -> type[Connector[Any]]:
    """The connector of a kind. Raises `InvalidInputError` that lists the kinds."""
    if kind not in CONNECTORS:
        raise InvalidInputError(f"unknown kind of source {kind!r}; allowed: {', '.join(sorted(CONNECTORS))}")
    module, _, name = CONNECTORS[kind].partition(":")
    found: type[Connector[Any]] = getattr(importlib.import_module(f"opx.sources.{module}"), name)
    return found


def checked_options(definition: SourceDefinition) -> Any:
    """The options of a source, as its connector takes them. Raises `InvalidInputError`."""
    kind = connector_type(definition.kind)
    return read_options(kind.options_type, definition.options, of=f"source {definition.source_id} ({definition.kind})")
