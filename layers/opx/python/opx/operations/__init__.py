"""The use cases: one function each, with a typed request and a typed reply, declared in one registry."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opx.operations.registry import Registry

MODULES = (
    "search",
    "documents",
    "corpus",
    "graph",
    "learning",
    "patterns",
    "outcomes",
    "baselines",
    "telemetry",
    "questions",
    "lifecycle",
    "projects",
    "administration",
    "sources",
    "webhooks",
    "evidence",
)
"""The modules that declare operations."""


@cache
def load() -> Registry:
    """The registry with all operations in it."""
    from opx.operations.registry import REGISTRY

    for module in MODULES:
        importlib.import_module(f"opx.operations.{module}")
    return REGISTRY
