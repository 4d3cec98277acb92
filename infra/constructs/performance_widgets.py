"""Widgets about performance: answers, ingestion, functions and search capacity."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch

from infra.constructs.dashboard_widgets import Rows, graph
from infra.constructs.measurements import Measurements, of_collections, of_function, of_queue
from opx.domain.queries import SearchMode
from opx.retrieval.query import LEGS, STAGES
from opx.runtime.metrics import Metric


def answers(measured: Measurements) -> Rows:
    """Latencies and failures of answers."""
    of = measured.of
    overall = [of(Metric.QUERY_LATENCY, name, label=name) for name in ("p50", "p95", "p99")]
    by_mode = [of(Metric.QUERY_LATENCY, "p95", label=mode, mode=mode) for mode in SearchMode]
    legs = [
        of(Metric.LEG_LATENCY, "p95", label=f"{mode} {leg}", mode=mode, leg=leg) for mode in SearchMode for leg in LEGS
    ]
    stages = [
        of(Metric.STAGE_LATENCY, "p95", label=f"{mode} {stage}", mode=mode, stage=stage)
        for mode in SearchMode
        for stage in STAGES
    ]
    failing = [
        of(Metric.SEARCH_UNAVAILABLE, "Average", label="not searched"),
        of(Metric.PARTIAL_ANSWERS, "Average", label="partial"),
    ]
    tools = [of(metric, "Sum") for metric in (Metric.TOOL_CALLS, Metric.TOOL_ERRORS, Metric.TOOL_UNAVAILABLE)]
    requests = [of(metric, "Sum") for metric in (Metric.API_REQUESTS, Metric.API_ERRORS, Metric.API_UNAVAILABLE)]
    return [
        [graph("Query latency (ms)", overall), graph("p95 latency by mode (ms)", by_mode)],
        [graph("p95 latency of each leg (ms)", legs), graph("p95 latency of each stage (ms)", stages)],
        [
            graph("Share of questions that fail", failing),
            graph("Calls by agents and by the API", [*tools, *requests]),
        ],
    ]


def ingestion(measured: Measurements, queues: Sequence[str], dead_letters: Sequence[str]) -> Rows:
    """Outcomes of ingestion, and waiting messages."""
    of = measured.of
    outcomes = [
        of(metric, "Sum")
        for metric in (
            Metric.DOCUMENTS_INGESTED,
            Metric.DOCUMENTS_UNCHANGED,
            Metric.DOCUMENTS_DELETED,
            Metric.EVENTS_SKIPPED,
            Metric.DUPLICATE_EVENTS,
        )
    ]
    failures = [
        of(metric, "Sum") for metric in (Metric.INGESTION_FAILURES, Metric.INGESTION_RETRIES, Metric.INGESTION_ERRORS)
    ]
    ages = [of_queue("ApproximateAgeOfOldestMessage", queue, "Maximum", label=queue) for queue in queues]
    depths = [
        of_queue("ApproximateNumberOfMessagesVisible", queue, "Maximum", label=queue)
        for queue in (*queues, *dead_letters)
    ]
    return [
        [graph("Changes ingested", outcomes), graph("Changes that failed", failures)],
        [graph("Age of the oldest queued item (s)", ages), graph("Messages in queues", depths)],
        [
            graph("Chunks ingested", [of(Metric.CHUNKS_INGESTED, "Sum")]),
            graph("Share of texts found in the embedding cache", [_cache_rate(measured)]),
        ],
    ]


def services(functions: Sequence[str]) -> Rows:
    """Functions and the search engine's capacity."""
    durations = [of_function("Duration", function, "p95", label=function) for function in functions]
    running = [of_function("ConcurrentExecutions", function, "Maximum", label=function) for function in functions]
    troubles = [
        of_function(name, function, "Sum", label=f"{function} {name.lower()}")
        for function in functions
        for name in ("Errors", "Throttles")
    ]
    units = [of_collections(name, label=name) for name in ("SearchOCU", "IndexingOCU")]
    return [
        [graph("p95 duration of functions (ms)", durations), graph("Functions at once", running)],
        [
            graph("Errors and throttles", troubles),
            graph("OpenSearch Serverless capacity of the account (OCU)", units),
        ],
    ]


def _cache_rate(measured: Measurements) -> cloudwatch.MathExpression:
    counted = {
        "hits": measured.of(Metric.CACHE_HITS, "Sum"),
        "misses": measured.of(Metric.CACHE_MISSES, "Sum"),
    }
    return cloudwatch.MathExpression(expression="hits / (hits + misses)", using_metrics=counted, label="hit rate")
