"""The use cases: one function each, with a typed request and a typed reply, declared in one registry."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opx.operations.registry import Registry


@cache
def load() -> Registry:
    """The registry with all operations in it."""
    from opx.operations.registry import MODULES, REGISTRY

    for module in MODULES:
        importlib.import_module(f"opx.operations.{module}")
    return REGISTRY
