"""Log lines of functions: JSON with the ids that a call is found by, and without what people wrote.

Questions and documents belong to clients, and logs are read by operators. Whoever logs leaves texts out; exceptions are
the way in which they come in nevertheless: `KeyError: 'a word of the document'`. So what an exception says is left
out too, unless the error is one of ours that can't quote a text. With the level DEBUG everything is there.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from opx.errors import (
    ConditionFailedError,
    IncompatibleIndexError,
    InvalidScopeError,
    KnowledgeConfigError,
    ObjectNotFoundError,
    StoreUnavailableError,
)
from opx.runtime.metrics import SERVICE

TOLD = (
    ConditionFailedError,
    IncompatibleIndexError,
    InvalidScopeError,
    KnowledgeConfigError,
    ObjectNotFoundError,
    StoreUnavailableError,
)
"""Errors whose messages name stores, keys and ids, and nothing of a question or a document."""

_ID = re.compile(r"[\w.:/=+-]{1,128}", re.ASCII)
_GATEWAY_REQUEST = "bedrockAgentCoreAwsRequestId"
_BAD_ID = "malformed"

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class TextlessFormatter(LambdaPowertoolsFormatter):
    """Powertools' JSON, with exceptions as `traceback_without_texts` has them unless debugging."""

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
    """The traceback of an exception and of those that led to it, with messages of `TOLD` errors only."""
    lines: list[str] = []
    for raised in reversed(list(_chain(error))):
        lines += traceback.format_tb(raised.__traceback__)
        lines.append(_told(raised) + "\n")
    return "".join(lines).rstrip()


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, what it was raised from, and so on."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _told(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, TOLD):
        return f"{name}: {error}"
    code = _service_code(error)
    return f"{name} ({code})" if code else name


def _service_code(error: BaseException) -> str:
    """The code of an error that an AWS service answered with."""
    response = getattr(error, "response", None)
    found = response.get("Error") if isinstance(response, Mapping) else None
    return str(found.get("Code", "")) if isinstance(found, Mapping) else ""


def _debugging() -> bool:
    return logging.getLogger(SERVICE).isEnabledFor(logging.DEBUG)


def call_ids(event: Any, context: Any) -> dict[str, str | list[str]]:
    """By what a call's lines are found: `correlation_id` is the caller's id of the request or session where it has one,
    else the function's; `message_ids` are those of the queue's messages, where the call brings some."""
    own = str(getattr(context, "aws_request_id", ""))
    client = getattr(context, "client_context", None)
    if client is not None:  # through a gateway the event is what a model chose, and nothing of it may get into the log
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
    """The id if it can be one."""
    if value == "":
        return ""
    return value if isinstance(value, str) and _ID.fullmatch(value) else _BAD_ID
