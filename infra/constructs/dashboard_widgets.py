"""What the widgets of all dashboards have in common."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

WIDTH = 24
"""Of a dashboard, in CloudWatch's columns."""

DAY = Duration.days(1)
HOURLY = Duration.hours(3)
"""The period of what is reported about once an hour, so that none lacks a report."""
FORTNIGHT = Duration.days(14)

_HEIGHT = 6

Rows = list[list[cloudwatch.IWidget]]


def graph(title: str, metrics: Sequence[cloudwatch.IMetric], *, stacked: bool = False) -> cloudwatch.GraphWidget:
    """Lines over time, on half of a row."""
    return cloudwatch.GraphWidget(title=title, left=list(metrics), stacked=stacked, width=WIDTH // 2, height=_HEIGHT)
