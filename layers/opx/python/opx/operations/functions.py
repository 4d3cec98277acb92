"""What every Lambda function has around its work: JSON log lines with the request's id, and metrics.

There is no Tracer: it would load the X-Ray SDK into every cold start, and the functions' active tracing needs none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Protocol, TypeVar

from aws_lambda_powertools import Logger, Metrics

from opx.operations.metrics import NAMESPACE, SERVICE, UNITS, Metric, Report

Answer_co = TypeVar("Answer_co", covariant=True)


class Work(Protocol[Answer_co]):
    """What a function does with an event; it reports what it measures."""

    def __call__(self, event: Any, context: Any, report: Report) -> Answer_co: ...


def observed(work: Work[Answer_co]) -> Callable[[Any, Any], Answer_co]:
    """A Lambda handler that does `work`. Log lines of `opx.*` are JSON; a call's metrics are one line (EMF)."""

    @cache
    def prepared() -> Callable[[Any, Any], Answer_co]:
        # The library's loggers are all below `opx`, so that they inherit this logger's handler and the request's id.
        logger = Logger(service=SERVICE)
        metrics = Metrics(namespace=NAMESPACE, service=SERVICE)

        def report(metric: Metric, value: float = 1.0) -> None:
            metrics.add_metric(name=metric.value, unit=UNITS.get(metric, "Count"), value=value)

        def reporting(event: Any, context: Any) -> Answer_co:
            return work(event, context, report)

        handler: Callable[[Any, Any], Answer_co] = logger.inject_lambda_context(metrics.log_metrics(reporting))
        return handler

    @wraps(work)
    def handler(event: Any, context: Any) -> Answer_co:
        return prepared()(event, context)

    return handler
