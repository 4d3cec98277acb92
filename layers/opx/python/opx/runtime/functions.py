"""What every Lambda function has around its work: JSON log lines with the call's ids, and metrics.

There is no Tracer: it would load the X-Ray SDK into every cold start, and the functions' active tracing needs none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Protocol, TypeVar

from aws_lambda_powertools import Logger

from opx.errors import OpxError
from opx.runtime.emf import Recorder
from opx.runtime.logs import TextlessFormatter, call_ids
from opx.runtime.metrics import ENVIRONMENT, SERVICE, Report
from opx.settings import Settings, environment_name

Answer_co = TypeVar("Answer_co", covariant=True)


def function_settings() -> Settings:
    """What the function's environment says; the library logs at the level that it gives."""
    settings = Settings.of_process()
    logging.getLogger(SERVICE).setLevel(settings.log_level)
    return settings


class Work(Protocol[Answer_co]):
    """What a function does with an event; it reports what it measures."""

    def __call__(self, event: Any, context: Any, report: Report) -> Answer_co: ...


class FunctionFailedError(OpxError):
    """A function's work raised what it should not have; its log has the traceback."""


def observed(work: Work[Answer_co]) -> Callable[[Any, Any], Answer_co]:
    """A Lambda handler that does `work`. Log lines of `opx.*` are JSON; a call's metrics are lines of their own (EMF).

    What `work` raises is logged here, and `FunctionFailedError` raised in its place: Lambda logs errors as they are,
    with what they quote.
    """

    @cache
    def prepared() -> Callable[[Any, Any], Answer_co]:
        # The library's loggers are all below `opx`, so that they inherit this logger's handler and the call's ids.
        logger = Logger(service=SERVICE, logger_formatter=TextlessFormatter())
        environment = environment_name()
        report = Recorder(environment)

        def reporting(event: Any, context: Any) -> Answer_co:
            ids = call_ids(event, context)
            logger.append_keys(**{ENVIRONMENT: environment}, **ids)
            try:
                return work(event, context, report)
            except Exception as exc:
                logger.exception("the function failed")
                raise FunctionFailedError(f"{type(exc).__name__}: see the function's log") from None
            finally:
                report.flush({"function_request_id": str(getattr(context, "aws_request_id", "")), **ids})

        handler: Callable[[Any, Any], Answer_co] = logger.inject_lambda_context(reporting, clear_state=True)
        return handler

    @wraps(work)
    def handler(event: Any, context: Any) -> Answer_co:
        return prepared()(event, context)

    return handler
