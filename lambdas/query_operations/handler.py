"""Answers an agent's questions about running systems, from Bedrock action groups of both kinds and from AgentCore
Gateway."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from opx.bootstrap import bootstrap
from opx.domain.record import replace
from opx.domain.scopes import Identity
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.services import Services
from opx.tools.operations_group import OPERATIONS_GROUP
from opx.tools.operations_tools import OperationsTools
from opx.tools.runtimes import Serving, respond


def start() -> Services:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], Services] = start) -> Callable[[Any, Any], dict[str, Any]]:
    """The function's handler; `start` is called once, at the first event of a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> dict[str, Any]:
        def tools(identity: Identity | None, agent: str) -> OperationsTools:
            services = started()
            configured = Identity(services.settings.client_id, services.settings.project_id)
            return OperationsTools(services, replace(identity or configured, principal=agent))

        return respond(event, context, Serving(OPERATIONS_GROUP, tools, lambda: started().tool_grants), report)

    return handler


handler = make_handler()
