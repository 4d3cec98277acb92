"""Opens the knowledge base that `OPX_HOME` names, in this process, and its tools as any framework can call them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opx.domain.scopes import Identity
from opx.edges.factories import CallableTool
from opx.operations.context import Caller, Context
from opx.settings import Settings
from opx.system import System, bootstrap
from opx_serve.mcp import tools_for


@contextmanager
def open_system() -> Iterator[System]:
    """The system of the environment; closed at the end."""
    with bootstrap(Settings.of_process()) as system:
        yield system


@contextmanager
def open_tools(identity: Identity | None = None) -> Iterator[list[CallableTool]]:
    """Tools for one identity, which comes from the application, never from a model; by default for global documents."""
    with open_system() as system:
        context = Context(system, Caller(identity or Identity()))
        yield [CallableTool(operation, context) for operation in tools_for(context).values()]
