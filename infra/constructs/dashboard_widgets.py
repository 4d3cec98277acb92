"""Common sizes, periods and builders of dashboard widgets."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

WIDTH = 24
"""Width of a dashboard in CloudWatch's columns."""

DAY = Duration.days(1)
HOURLY = Duration.hours(3)
"""Period of metrics that are reported about once an hour, so that none is without a report."""
FORTNIGHT = Duration.days(14)

_HEIGHT = 6

Rows = list[list[cloudwatch.IWidget]]


def graph(title: str, metrics: Sequence[cloudwatch.IMetric], *, stacked: bool = False) -> cloudwatch.GraphWidget:
    """Lines over time, on half of a row."""
    return cloudwatch.GraphWidget(title=title, left=list(metrics), stacked=stacked, width=WIDTH // 2, height=_HEIGHT)
