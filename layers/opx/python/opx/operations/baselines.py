"""Operations on baselines: the usual values of metrics, and whether a value is out of the ordinary."""

from __future__ import annotations

from itertools import dropwhile
from typing import Annotated, Any

from msgspec import Meta

from opx.domain.baselines import AddedValues, BaselineStats, SeriesView, Verdict
from opx.domain.record import Record
from opx.domain.requests import Filled, FilledText, Request, RequestError
from opx.operations.context import Context
from opx.operations.paging import After, Next, fitting, read_token, token
from opx.operations.registry import OPERATIONS, Access, Function, agent_tool, operation
from opx.operations.telemetry import MAX_NAME, naming_the_store
from opx.operations.telemetry_answers import BaselineAnswer

SERIES_A_PAGE = 5000
MAX_VALUES = 1000
"""Of one request. If each is of a series of its own, all are written within a few seconds."""

_MAX_NAME = 200
_VALUE = (
    "A value: node, metric and value, and if wanted at (ISO 8601, or seconds since the epoch; else now, and 90 days ago at "
    "most) and unit. One that can't be added is refused by itself."
)


class GetBaselineStats(Request, frozen=True):
    node: Annotated[Filled, Meta(max_length=_MAX_NAME, description="The node, as its values name it.")]
    metric: Annotated[Filled, Meta(max_length=_MAX_NAME, description="The metric.")]
    time_window: Annotated[str, Meta(max_length=10, description="How far back: 1h to 90d, such as 24h, 7d or 4w.")] = (
        "7d"
    )
    value: Annotated[float | None, Meta(description="A value to judge.")] = None
    hour: Annotated[int, Meta(ge=0, le=23, description="The hour of the day (UTC) that the value is of.")] | None = None


class BaselineFound(Record, frozen=True, omit_defaults=True):
    baseline: BaselineStats
    verdict: Annotated[Verdict | None, Meta(description="On the value, if one was given.")] = None


@operation(http="GET /baselines")
def get_baseline_stats(context: Context, request: GetBaselineStats) -> BaselineFound:
    """What is normal for a metric of a node, and whether a value is out of the ordinary. A count of 0: no data.

    Raises `InvalidInputError` for names or a window that can't be, and for an hour without a value.
    """
    if request.hour is not None and request.value is None:
        raise RequestError("hour goes with value only")
    stats = context.system.telemetry.baselines.get(context.reader, request.node, request.metric, request.time_window)
    return BaselineFound(stats, None if request.value is None else stats.judge(request.value, request.hour))


class ListBaselineSeries(Request, frozen=True):
    after: After = ""


class SeriesPage(Record, frozen=True, omit_defaults=True):
    series: tuple[SeriesView, ...]
    next: Next = ""


@operation(http="GET /baselines/series")
def list_baseline_series(context: Context, request: ListBaselineSeries) -> SeriesPage:
    """Which metrics of which nodes have values.

    By node and metric. Raises `InvalidInputError` for an `after` that is the end of no page.
    """
    after = read_token(request.after, 2)
    series = context.system.telemetry.baselines.series(context.reader)
    found, more = fitting(dropwhile(lambda one: (one.node, one.metric) <= after, series), SERIES_A_PAGE)
    return SeriesPage(found, token(found[-1].node, found[-1].metric) if more else "")


class AddValues(Request, frozen=True):
    values: Annotated[tuple[dict[str, Any], ...], Meta(min_length=1, max_length=MAX_VALUES, description=_VALUE)]
    batch_id: Annotated[FilledText | None, Meta(description="Names the batch: the same one again is counted once.")] = (
        None
    )


@operation(http="POST /baselines", function=Function.MANAGE, access=Access.WRITER)
def add_values(context: Context, request: AddValues) -> AddedValues:
    """Add values to the baselines of the caller's scope.

    Raises `StoreUnavailableError`: some may have been added by then, so that a caller that repeats it needs a `batch_id`.
    """
    return context.system.telemetry.baselines.add(request.values, scope=context.scope, batch_id=request.batch_id or "")


# -- tools of agents


class GetBaseline(Request, frozen=True):
    node: Annotated[Filled, Meta(max_length=MAX_NAME, description="The node that the metric is of.")]
    metric: Annotated[Filled, Meta(max_length=MAX_NAME, description="The name of the metric.")]
    time_window: Annotated[str, Meta(max_length=10, description="How many days count, such as 7d.")] = "7d"
    value: Annotated[
        float | None,
        Meta(description="A value measured just now, to be judged by what is normal at this hour; may be left out."),
    ] = None


@agent_tool(
    OPERATIONS,
    "Get what is normal for a metric of a node: mean, spread and percentiles of the last days, and how unusual a "
    "value is that you have measured.",
    opt_in=True,
)
def get_baseline(context: Context, request: GetBaseline) -> BaselineAnswer:
    """The usual values of a metric, and a verdict on a value of now: at this hour (UTC) if enough is known of it.

    Raises `InvalidInputError` for names or a window that can't be, and `TelemetryUnavailableError`.
    """
    system, value = context.system, request.value
    with naming_the_store():
        stats = system.telemetry.baselines.get(context.reader, request.node, request.metric, request.time_window)
    hour = int(system.clock()) % 86_400 // 3600
    return BaselineAnswer(stats, None if value is None else stats.judge(value, hour))
