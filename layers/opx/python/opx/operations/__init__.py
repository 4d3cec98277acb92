"""Use cases: one function each, with a typed request and a typed reply, declared in one registry.

A request needs only the module of its operation: `of_route` and `of_tool` import no others of the registry. `load`
imports all, to list operations; a declaration that conflicts with one of another module fails there at the latest.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opx.connectors.runner import Feed
    from opx.operations.registry import Feature, Module, Operation, Registry, ToolGroup
    from opx.operations.system import System

log = logging.getLogger(__name__)


@cache
def load() -> Registry:
    """The registry with all operations in it, also those of plugins that can be used; the others are logged."""
    from opx.operations.registry import MODULES, REGISTRY

    for module in MODULES:
        importlib.import_module(module.path)
    for name, feature in features().items():
        for module in feature.modules:
            _imported(module.path, name)
    return REGISTRY


@cache
def features() -> Mapping[str, Feature]:
    """Operations and commands of other distributions, by the names of their entry points."""
    from opx import plugins
    from opx.operations.registry import Feature

    return plugins.load_all(plugins.OPERATIONS, Feature)


def feeds(system: System) -> list[Feed]:
    """Scheduled work of plugins that can be used; the others are logged."""
    modules = [_imported(path, name) for name, feature in features().items() for path in feature.feeds]
    return [module.feed(system) for module in modules if module is not None]


def _imported(path: str, plugin: str) -> Any | None:
    from opx.operations.registry import DeclarationError

    try:
        return importlib.import_module(path)
    except (ImportError, DeclarationError):
        log.exception("%s of the plugin %s can't be used", path, plugin)
        return None


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
    """Looks an operation up in the registry, importing the modules that may declare it one by one, those of plugins last."""
    found = look()
    for module in _modules():
        if found is not None:
            break
        if may_have(module):
            importlib.import_module(module.path)
            found = look()
    if found is not None and found.run.__module__ in sys.modules:
        importlib.import_module(found.run.__module__)  # waits for another thread that is still importing it
    return found


def _modules() -> Iterator[Module]:
    """All modules that declare operations. Plugins are looked up after the others only."""
    from opx.operations.registry import MODULES

    yield from MODULES
    for feature in features().values():
        yield from feature.modules
