"""Receives deliveries of webhooks; each is verified here, as no authorizer can."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from opx.edges.http import is_http
from opx.errors import InvalidInputError
from opx.operations.system import System
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.system import bootstrap
from opx_streams.capability import WebhookIngestion
from opx_streams.webhooks.gateway import respond
from opx_streams.webhooks.receiving import WebhookReceiver


def start() -> System:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], System] = start) -> Callable[[Any, Any], dict[str, Any]]:
    """The function's handler; `start` is called at the first delivery, once a cold start."""

    @cache
    def receiver() -> WebhookReceiver:
        return start().part(WebhookIngestion).receiver

    @observed
    def handler(event: Any, context: Any, report: Report) -> dict[str, Any]:  # noqa: ARG001
        if not is_http(event, context):
            raise InvalidInputError("this function answers requests of the API for webhooks alone")
        return respond(event, receiver)

    return handler


handler = make_handler()
