"""Wraps every Lambda handler: settings, JSON logs with the call's ids, metrics (EMF) and snapshots.

There is no Tracer: it would load the X-Ray SDK into every cold start, and the functions' active tracing needs none.
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, wraps
from types import TracebackType
from typing import Any, Protocol, TypeVar

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from opx.errors import (
    ConditionFailedError,
    IncompatibleIndexError,
    InvalidScopeError,
    KnowledgeConfigError,
    ObjectNotFoundError,
    OpxError,
    StoreUnavailableError,
)
from opx.ports import Clock
from opx.runtime.deadlines import TimeLeft, limited
from opx.runtime.metrics import ENVIRONMENT, NAMESPACE, SERVICE, Metric, Report, dimension_sets, labels_of, unit_of
from opx.settings import Settings, environment_name

Answer_co = TypeVar("Answer_co", covariant=True)


def function_settings() -> Settings:
    """Settings from the function's environment; sets the library's log level to theirs."""
    settings = Settings.of_process()
    logging.getLogger(SERVICE).setLevel(settings.log_level)
    return settings


class Work(Protocol[Answer_co]):
    """The work of a function on one event, with a `Report` for its metrics."""

    def __call__(self, event: Any, context: Any, report: Report) -> Answer_co: ...


class FunctionFailedError(OpxError):
    """A function's work raised an error; its log has the traceback."""


def observed(work: Work[Answer_co]) -> Callable[[Any, Any], Answer_co]:
    """Lambda handler around `work`. Log lines of `opx.*` are JSON; a call's metrics are lines of their own (EMF).

    Errors of `work` are logged here and replaced by `FunctionFailedError`: Lambda would log their messages unredacted,
    which may quote documents.
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
                with limited(_time_left(context)):
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


ANSWER_SECONDS = 4.0
"""Part of a function's time that is left for its answer after the last wait for a service. The HTTP API waits 29 seconds
for functions that have 30."""


def _time_left(context: Any) -> TimeLeft:
    """Seconds that a call may spend on waiting. A context without a clock is one of another runtime: unlimited."""
    milliseconds = getattr(context, "get_remaining_time_in_millis", None)
    return (lambda: math.inf) if milliseconds is None else lambda: milliseconds() / 1000 - ANSWER_SECONDS


# -- logs


SAFE_MESSAGES = (
    ConditionFailedError,
    IncompatibleIndexError,
    InvalidScopeError,
    KnowledgeConfigError,
    ObjectNotFoundError,
    StoreUnavailableError,
)
"""Errors whose messages contain only names of stores, keys and ids, never text of a query or document."""

_ID = re.compile(r"[\w.:/=+-]{1,128}", re.ASCII)
_GATEWAY_REQUEST = "bedrockAgentCoreAwsRequestId"
_BAD_ID = "malformed"

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class TextlessFormatter(LambdaPowertoolsFormatter):
    """Powertools' JSON formatter with redacted tracebacks (`traceback_without_texts`) unless debugging."""

    def __init__(self) -> None:
        super().__init__(serialize_stacktrace=False, use_rfc3339=True, utc=True)

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_info and not _debugging():
            record.exception_notes = None
        return super().format(record)

    def formatException(self, ei: ExcInfo) -> str:  # noqa: N802 - the name is logging's
        if ei[1] is None or _debugging():
            return super().formatException(ei)
        return traceback_without_texts(ei[1])


def traceback_without_texts(error: BaseException) -> str:
    """The traceback of an exception and its causes, with messages of `SAFE_MESSAGES` errors only."""
    lines: list[str] = []
    for raised in reversed(list(_chain(error))):
        lines += traceback.format_tb(raised.__traceback__)
        lines.append(_redacted(raised) + "\n")
    return "".join(lines).rstrip()


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception followed by its causes."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _redacted(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, SAFE_MESSAGES):
        return f"{name}: {error}"
    code = _service_code(error)
    return f"{name} ({code})" if code else name


def _service_code(error: BaseException) -> str:
    """The error code of an AWS service's response; "" if it is another error."""
    response = getattr(error, "response", None)
    found = response.get("Error") if isinstance(response, Mapping) else None
    return str(found.get("Code", "")) if isinstance(found, Mapping) else ""


def _debugging() -> bool:
    return logging.getLogger(SERVICE).isEnabledFor(logging.DEBUG)


def call_ids(event: Any, context: Any) -> dict[str, str | list[str]]:
    """Ids by which a call's log lines are found: `correlation_id` is the caller's request or session id if it has one, else
    the function's; `message_ids` are those of the queue's messages, if the event has any."""
    own = str(getattr(context, "aws_request_id", ""))
    client = getattr(context, "client_context", None)
    if client is not None:  # through a gateway a model chose the event, and nothing of it may be logged
        custom = getattr(client, "custom", None) or {}
        return {"correlation_id": _checked(custom.get(_GATEWAY_REQUEST, "")) or own}
    fields = event if isinstance(event, Mapping) else {}
    ids: dict[str, str | list[str]] = {"correlation_id": _callers_id(fields) or own}
    records = fields.get("Records")
    if isinstance(records, list):
        ids["message_ids"] = [_checked(record.get("messageId")) for record in records if isinstance(record, Mapping)]
    return ids


def _callers_id(event: Mapping[str, Any]) -> str:
    request = event.get("requestContext")  # of the HTTP API
    if isinstance(request, Mapping):
        return _checked(request.get("requestId", ""))
    return _checked(event.get("sessionId", "") if "actionGroup" in event else "")


def _checked(value: object) -> str:
    """The id; a constant if it is malformed."""
    if value == "":
        return ""
    return value if isinstance(value, str) and _ID.fullmatch(value) else _BAD_ID


# -- metrics (EMF)


MAX_VALUES = 100
"""Limit of values of a metric per line. Source: CloudWatch user guide, "Specification: Embedded metric format"."""


@dataclass(slots=True)
class _Line:
    """One EMF line: metrics whose labels agree."""

    labels: dict[str, str] = field(default_factory=dict)
    values: dict[Metric, list[float]] = field(default_factory=dict)

    def accepts(self, metric: Metric, labels: Mapping[str, str]) -> bool:
        agrees = all(self.labels.get(name, value) == value for name, value in labels.items())
        return agrees and len(self.values.get(metric, ())) < MAX_VALUES


class Recorder:
    """A `Report` that collects measurements and writes them as EMF lines to standard output.

    Raises `TypeError` for a measurement whose labels are not those that its metric is declared with.
    """

    def __init__(self, environment: str, *, clock: Clock = time.time) -> None:
        self._environment = environment
        self._clock = clock
        self._lines: list[_Line] = []

    def __call__(self, metric: Metric, value: float = 1.0, /, **labels: str) -> None:
        if labels.keys() != labels_of(metric):
            declared = ", ".join(sorted(labels_of(metric))) or "none"
            raise TypeError(f"{metric} is declared with labels {declared}; reported with {', '.join(labels) or 'none'}")
        line = next((line for line in self._lines if line.accepts(metric, labels)), None)
        if line is None:
            line = _Line()
            self._lines.append(line)
        line.labels |= labels
        line.values.setdefault(metric, []).append(value)

    def flush(self, properties: Mapping[str, str | list[str]]) -> None:
        """Write the lines, each with the given properties, by which the lines of one call are correlated."""
        lines, self._lines = self._lines, []
        for line in lines:
            sys.stdout.write(json.dumps(self._embedded(line, properties), separators=(",", ":")) + "\n")

    def _embedded(self, line: _Line, properties: Mapping[str, str | list[str]]) -> dict[str, Any]:
        metadata = {"Timestamp": int(self._clock() * 1000), "CloudWatchMetrics": list(_directives(line.values))}
        return {
            "service": SERVICE,
            **properties,
            "_aws": metadata,
            ENVIRONMENT: self._environment,
            **line.labels,
            **{metric.value: values for metric, values in line.values.items()},
        }


def _directives(metrics: Iterable[Metric]) -> Iterable[dict[str, Any]]:
    """One metric directive per group of metrics with equal dimension sets."""
    grouped: dict[tuple[tuple[str, ...], ...], list[Metric]] = {}
    for metric in metrics:
        grouped.setdefault(dimension_sets(metric), []).append(metric)
    for sets, members in grouped.items():
        named = [{"Name": metric.value, "Unit": unit_of(metric)} for metric in members]
        yield {"Namespace": NAMESPACE, "Dimensions": [list(names) for names in sets], "Metrics": named}


# -- snapshots


class Started(Protocol):
    """A system before its first call; `opx.system.System` is one."""

    def load(self) -> None:
        """Load code and files. Must open no connection: all functions restored from the snapshot would share it."""

    def open(self) -> None:
        """Create clients with credentials of this process."""


def around_snapshot(start: Callable[[], Started], *also: Callable[[], object]) -> bool:
    """Register hooks that load code and files before a snapshot, and open clients after a restore, before the first event.

    `start` returns the function's one system, `also` loads more code. False without snapshots: on a laptop, and in
    runtimes without the hooks. Only Lambda calls the hooks, and only if the function has SnapStart.
    """
    try:
        from snapshot_restore_py import register_after_restore, register_before_snapshot
    except ImportError:
        return False

    def read() -> None:
        start().load()
        for load in also:
            load()

    register_before_snapshot(read)
    register_after_restore(lambda: start().open())
    return True
