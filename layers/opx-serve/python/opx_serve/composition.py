"""Composes a server of one system, and of the knowledge bases that it answers for beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from opx.operations import load
from opx.operations.context import Caller, Context
from opx.operations.registry import Operation
from opx.operations.system import System
from opx.ports import SearchFilter
from opx.runtime.metrics import Report
from opx_serve.application import Served
from opx_serve.deliveries import LocalDeliveries
from opx_serve.mcp import caller_app
from opx_serve.metrics import Measurements
from opx_serve.routes import Answers, KnowledgeBase
from opx_serve.tokens import Callers
from opx_serve.tool_replies import ToolReply, called_here
from opx_serve.uploads import serve_uploads
from opx_serve.workers import QUESTIONS, AnswerProcesses


def serve(
    system: System,
    callers: Callers,
    bases: Mapping[str, KnowledgeBase],
    arrived: Callable[[], object],
    *,
    workers: AnswerProcesses | None = None,
    ready: Callable[[], bool] = lambda: True,
) -> Served:
    """The parts of a server for these callers. `arrived` is called after each delivery and upload; `workers` answer the
    questions to the system, by default this process does. Until `ready`, the server says that it is starting."""
    load()
    measurements = Measurements()
    workers = workers or AnswerProcesses(system)
    return Served(
        answers=Answers(bases, measurements, workers),
        callers=callers,
        deliveries=LocalDeliveries(partial(system.needed_part, "webhooks"), arrived),
        uploads=serve_uploads(system, arrived),
        measurements=measurements,
        ready=ready,
        healthy=lambda: system.indexing.index.count(SearchFilter(scopes=("global",))),
        mcp={
            id(caller): caller_app(system, caller, measurements, partial(_called, workers)) for caller in callers.all()
        },
    )


def _called(
    workers: AnswerProcesses, operation: Operation[Any, Any], context: Context, arguments: Mapping[str, Any]
) -> ToolReply:
    """Calls a tool, in a worker if it searches."""
    if operation.name not in QUESTIONS:
        return called_here(operation, context, arguments)
    return workers.run(partial(_tool_called, operation.name, context.caller, dict(arguments)), context.report)


def _tool_called(name: str, caller: Caller, arguments: Mapping[str, Any], system: System, report: Report) -> ToolReply:
    operation = load().get(name)
    assert operation is not None
    return called_here(operation, Context(system, caller, report), arguments)
