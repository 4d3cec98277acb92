"""The operations and the command of bulk jobs."""

from __future__ import annotations

from opx.operations.registry import Feature, Module

FEATURE = Feature(
    (Module("opx_bulk.operations", ("bulk",)),),
    {"bulk": ("opx_bulk.commands", "Ingest or reindex many documents at once, on all cores.")},
)
