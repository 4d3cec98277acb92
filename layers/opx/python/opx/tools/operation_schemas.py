"""JSON Schemas of what the tools answer that look at running systems."""

from __future__ import annotations

from opx.tools.answer_schemas import TEXT, TEXTS, Json, all_required, list_of, object_of

_NUMBER: Json = {"type": "number"}
_COUNT: Json = {"type": "integer"}
_TIME: Json = {"type": "string", "description": "UTC, such as 2026-03-31T12:00:00Z."}
_STATE: Json = {
    "partial": {"type": "boolean", "description": "True if not everything could be looked at."},
    "notes": {**TEXTS, "description": "What the answer lacks, and why."},
}
_RANGE: Json = {"from": _TIME, "to": _TIME}

LOGS = all_required(
    {
        "logGroup": TEXT,
        "show": TEXT,
        **_RANGE,
        "rows": list_of(
            {"type": "object"}, "Lines with time, stream and message, the newest first; or what was counted."
        ),
        "matched": {**_COUNT, "description": "How many lines fit, as far as was searched."},
        "scannedBytes": _COUNT,
        "masked": {**_COUNT, "description": "How many credentials were masked."},
        "untrusted": {"type": "boolean", "description": "True: anybody may have caused a line to be written."},
        **_STATE,
    }
)

CORRELATIONS = all_required(
    {
        "metric": TEXT,
        "node": TEXT,
        **_RANGE,
        "periodSeconds": _COUNT,
        "correlated": list_of(
            all_required(
                {
                    "metric": TEXT,
                    "strength": {**_NUMBER, "description": "From -1, moved against each other, to 1, moved alike."},
                    "lagMinutes": {**_COUNT, "description": "Above 0: it moved this long before the metric asked for."},
                    "relation": {"type": "string", "description": "The same in words."},
                    "points": {**_COUNT, "description": "How many pairs of values this rests on."},
                    "chance": {
                        **_NUMBER,
                        "description": "How likely this is by chance, all comparisons considered, at most 1.",
                    },
                }
            ),
            "What moved with it, the strongest first.",
        ),
        "unrelated": {**TEXTS, "description": "What was compared and didn't."},
        "leftOut": list_of(all_required({"metric": TEXT, "reason": TEXT}), "What could not be compared, and why."),
        **_STATE,
    }
)

_PART = {
    "service": TEXT,
    "part": {"type": "string", "description": "The operation or the service that was called; empty for itself."},
    "calls": _COUNT,
    "ownSeconds": {**_NUMBER, "description": "Time of its own in all, without that of parts below it."},
    "averageSeconds": {**_NUMBER, "description": "Time of its own per call."},
    "longestSeconds": _NUMBER,
    "errors": {**_COUNT, "description": "Calls that were the caller's mistake."},
    "faults": {**_COUNT, "description": "Calls that failed."},
    "throttles": _COUNT,
    "exceptions": {**TEXTS, "description": "The first line of what was raised, with credentials masked."},
    "traceIds": {**TEXTS, "description": "Examples, the slowest or failing ones first."},
}

TRACES = all_required(
    {
        "service": TEXT,
        **_RANGE,
        "traces": {**_COUNT, "description": "How many were looked into."},
        "found": {**_COUNT, "description": "How many there were, as far as was searched."},
        "slowest": list_of(all_required(_PART), "Parts by time of their own, the slowest first."),
        "failing": list_of(all_required(_PART), "Parts with faults, errors or throttling, the worst first."),
        "untrusted": {"type": "boolean", "description": "True: names and messages are what programs wrote."},
        **_STATE,
    }
)

_UNKNOWN_NUMBER: Json = {"type": "number", "nullable": True}
_DISTRIBUTION: Json = {
    "count": {**_COUNT, "description": "How many values there are; 0 if nothing is known."},
    "mean": _NUMBER,
    "stddev": _NUMBER,
    **dict.fromkeys(("minimum", "maximum", "p01", "p10", "p50", "p90", "p95", "p99"), _UNKNOWN_NUMBER),
}

BASELINE = object_of(
    {
        "node": TEXT,
        "metric": TEXT,
        "timeWindow": TEXT,
        **_DISTRIBUTION,
        "byHour": list_of(
            all_required({"hour": {**_COUNT, "description": "Of the day, UTC."}, **_DISTRIBUTION}),
            "The same for each hour of the day that has values.",
        ),
        "days": _COUNT,
        "lastSeen": TEXT,
        "unit": TEXT,
        "notes": TEXTS,
        "verdict": {
            **object_of(
                {
                    "anomalous": {"type": "boolean"},
                    "reason": TEXT,
                    **dict.fromkeys(("score", "percentile", "low", "high"), _UNKNOWN_NUMBER),
                },
                ("anomalous", "reason"),
            ),
            "nullable": True,
            "description": "On the value that was given; null without one.",
        },
    },
    ("node", "metric", "timeWindow", "count", "mean", "stddev", "notes"),
)
