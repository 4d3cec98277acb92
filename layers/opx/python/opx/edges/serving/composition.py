"""Composes a server of one system, and of the knowledge bases that it answers for beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opx.edges.mcp import caller_app
from opx.edges.serving.application import Served
from opx.edges.serving.deliveries import LocalDeliveries
from opx.edges.serving.metrics import Measurements
from opx.edges.serving.routes import Answers, KnowledgeBase
from opx.edges.serving.tokens import Callers
from opx.edges.serving.uploads import serve_uploads
from opx.operations import load
from opx.operations.system import System
from opx.ports import SearchFilter


def serve(
    system: System, callers: Callers, bases: Mapping[str, KnowledgeBase], arrived: Callable[[], object], host: str
) -> Served:
    """The parts of a server for these callers. `arrived` is called after each delivery and upload."""
    load()
    measurements = Measurements()
    return Served(
        answers=Answers(bases, measurements),
        callers=callers,
        deliveries=LocalDeliveries(system.connectors.webhook_receiver, arrived),
        uploads=serve_uploads(system, arrived),
        measurements=measurements,
        healthy=lambda: system.indexing.index.count(SearchFilter(scopes=("global",))),
        host=host,
        mcp={id(caller): caller_app(system, caller, measurements) for caller in callers.all()},
    )
