"""Use cases: one function each, with a typed request and a typed reply, declared in one registry.

A request needs only the module of its operation: `of_route` and `of_tool` import no others of the registry. `load`
imports all, to list operations; a declaration that conflicts with one of another module fails there at the latest.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opx.operations.registry import Module, Operation, Registry, ToolGroup


@cache
def load() -> Registry:
    """The registry with all operations in it."""
    from opx.operations.registry import MODULES, REGISTRY

    for module in MODULES:
        _import(module)
    return REGISTRY


def of_route(key: str) -> Operation[Any, Any] | None:
    """The operation with an HTTP route, named as API Gateway does: `GET /documents/{documentId}`."""
    from opx.operations.registry import REGISTRY

    segment = key.partition("/")[2].partition("/")[0]
    return _found(lambda: REGISTRY.of_route(key), lambda module: segment in module.addresses)


def of_tool(name: str, group: ToolGroup | None = None) -> Operation[Any, Any] | None:
    """The operation with this tool name, in the group or in any."""
    from opx.operations.registry import REGISTRY

    return _found(
        lambda: REGISTRY.of_tool(name, group),
        lambda module: bool(module.groups) if group is None else group in module.groups,
    )


def _found(
    look: Callable[[], Operation[Any, Any] | None], may_have: Callable[[Module], bool]
) -> Operation[Any, Any] | None:
    """Looks an operation up in the registry, importing the modules that may declare it one by one."""
    from opx.operations.registry import MODULES

    found = look()
    for module in MODULES:
        if found is not None:
            break
        if may_have(module):
            _import(module)
            found = look()
    if found is not None and found.run.__module__.startswith(f"{__name__}."):
        importlib.import_module(found.run.__module__)  # waits for another thread that is still importing it
    return found


def _import(module: Module) -> None:
    importlib.import_module(f"opx.operations.{module.name}")
