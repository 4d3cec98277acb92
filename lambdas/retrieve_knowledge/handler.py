"""Answers an agent's tool calls, from Bedrock action groups of both kinds and from AgentCore Gateway, and requests of
the HTTP API that read. Once a day it asks again what had no answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from opx.api.calls import respond as respond_http
from opx.api.http_events import is_http
from opx.api.reading import ReadingApi
from opx.api.routes import Function
from opx.bootstrap import bootstrap
from opx.domain.record import replace
from opx.domain.scopes import Identity
from opx.records.gaps.daily import check_gaps, is_check
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.runtime.snapshots import around_snapshot
from opx.services import Services
from opx.tools.knowledge_group import KNOWLEDGE_GROUP
from opx.tools.knowledge_tools import KnowledgeTools
from opx.tools.runtimes import Serving, caller_of_tool, respond


def start() -> Services:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], Services] = start) -> Callable[[Any, Any], dict[str, Any]]:
    """The function's handler; `start` is called once: before a snapshot, or at the first event of a cold start."""
    started = cache(start)
    around_snapshot(started)

    @observed
    def handler(event: Any, context: Any, report: Report) -> dict[str, Any]:
        if is_http(event, context):
            return respond_http(event, Function.RETRIEVE, started, ReadingApi, report)
        if is_check(event, context):
            return check_gaps(started().records)

        def tools(identity: Identity | None, agent: str) -> KnowledgeTools:
            services = started()
            configured = Identity(services.settings.client_id, services.settings.project_id)
            caller = replace(identity or configured, principal=caller_of_tool(event, context, agent))
            return KnowledgeTools(services, caller, report=report)

        return respond(event, context, Serving(KNOWLEDGE_GROUP, tools, lambda: started().tool_grants), report)

    return handler


handler = make_handler()
