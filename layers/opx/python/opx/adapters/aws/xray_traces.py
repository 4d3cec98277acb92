"""`TraceStore` on AWS X-Ray."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from opx.adapters.aws.vendor_errors import answers
from opx.ports import Clock
from opx.ports.telemetry import FoundTraces, Trace, TraceSummary

log = logging.getLogger(__name__)

BATCH = 5
"""Ids that one call of BatchGetTraces takes (X-Ray API Reference and quotas)."""

_NOT_IN_A_NAME = '"\\'


class XRayTraces:
    """Traces that are indexed; with Transaction Search these are a share of all, by default one in a hundred."""

    batch = BATCH

    def __init__(self, client: Any, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def find(self, service: str, *, start: int, end: int, deadline: float, most: int) -> FoundTraces:
        request: dict[str, Any] = {
            "StartTime": datetime.fromtimestamp(start, UTC),
            "EndTime": datetime.fromtimestamp(end, UTC),
            "FilterExpression": filter_expression(service),
            "Sampling": False,
        }
        found: list[TraceSummary] = []
        for page in answers(self._client.get_trace_summaries, request, "list traces"):
            found += map(_summary, page.get("TraceSummaries") or ())
            if page.get("NextToken") and (len(found) >= most or self._clock() >= deadline):
                return FoundTraces(tuple(found), complete=False)
        return FoundTraces(tuple(found))

    def traces(self, trace_ids: Sequence[str]) -> Sequence[Trace]:
        segments: dict[str, list[Mapping[str, Any]]] = {}
        for page in answers(self._client.batch_get_traces, {"TraceIds": list(trace_ids)}, "read traces"):
            for trace in page.get("Traces") or ():
                segments.setdefault(trace["Id"], []).extend(_documents(trace))
        return [Trace(trace_id, tuple(found)) for trace_id, found in segments.items()]


def filter_expression(service: str) -> str:
    """Traces that went through the service ("Using filter expressions", AWS X-Ray Developer Guide).

    A name with a quote or a backslash in it could be more than a name; X-Ray's own names have none.
    """
    if any(character in _NOT_IN_A_NAME for character in service):
        raise ValueError("a service's name has a quote or a backslash in it")
    return f'service("{service}")'


def _summary(found: Mapping[str, Any]) -> TraceSummary:
    failed = any(found.get(flag) for flag in ("HasFault", "HasError", "HasThrottle"))
    return TraceSummary(found["Id"], float(found.get("Duration") or found.get("ResponseTime") or 0.0), failed)


def _documents(trace: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = []
    for segment in trace.get("Segments") or ():
        try:
            document = json.loads(segment["Document"])
        except ValueError:
            log.warning("a segment of a trace is no JSON")
            continue
        if isinstance(document, Mapping):
            found.append(document)
    return found
