"""Widgets about what the knowledge base holds, and how fresh it is."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch

from infra.constructs.dashboard_widgets import DAY, HOURLY, Rows, graph
from infra.constructs.measurements import Measurements
from opx.domain.knowledge import Category, Tier
from opx.runtime.metrics import Metric


def holdings(measured: Measurements, categories: Sequence[Category]) -> Rows:
    """Documents and chunks of every tier and category, age of what is pulled, and what failed."""
    of = measured.of
    pulled = [category.path for category in categories if category.schedule]
    ages = [_in_hours(of(Metric.SOURCE_AGE, "Maximum", period=HOURLY, category=path), path) for path in pulled]
    late = [_in_hours(of(Metric.SYNC_OVERDUE, "Maximum", period=HOURLY, category=path), path) for path in pulled]
    changes = [of(metric, "Sum") for metric in (Metric.DOCUMENTS_INGESTED, Metric.DOCUMENTS_DELETED)]
    return [
        [
            graph("Documents by tier", [_tier(measured, Metric.DOCUMENTS, tier, categories) for tier in Tier]),
            graph("Chunks by tier", [_tier(measured, Metric.CHUNKS, tier, categories) for tier in Tier]),
        ],
        [
            graph("Documents by category", [_holding(measured, Metric.DOCUMENTS, category) for category in categories]),
            graph("Chunks by category", [_holding(measured, Metric.CHUNKS, category) for category in categories]),
        ],
        [graph("Age of what is pulled (hours)", ages), graph("Overdue by its schedule (hours)", late)],
        [
            graph("Items that could not be ingested", [of(Metric.FAILED_ITEMS, "Maximum", period=HOURLY)]),
            graph("Documents that came and went", changes),
        ],
    ]


def _holding(measured: Measurements, metric: Metric, category: Category) -> cloudwatch.Metric:
    labels = {"tier": category.tier.value, "category": category.path}
    return measured.of(metric, "Maximum", period=DAY, label=category.path, **labels)


def _tier(
    measured: Measurements, metric: Metric, tier: Tier, categories: Sequence[Category]
) -> cloudwatch.MathExpression:
    """The sum over the tier's categories: a metric of its own would cost more than adding up."""
    members = [category for category in categories if category.tier is tier]
    held = {_id(category.path): _holding(measured, metric, category) for category in members}
    return cloudwatch.MathExpression(
        expression=f"SUM([{', '.join(held)}])", using_metrics=held, period=DAY, label=tier.value
    )


def _in_hours(seconds: cloudwatch.Metric, path: str) -> cloudwatch.MathExpression:
    name = _id(path)
    return cloudwatch.MathExpression(
        expression=f"{name} / 3600", using_metrics={name: seconds}, period=HOURLY, label=path
    )


def _id(path: str) -> str:
    """A category as math expressions may call its metric; within a graph each name means one metric."""
    return path.replace("/", "_")
