"""The routes about what is normal."""

from __future__ import annotations

from opx.api.declarations import AFTER, Function, Route, TokenScope, text_field
from opx.api.fields import Field, Kind

MAX_VALUES = 1000
"""Of one request. If each is of a series of its own, all are written within a few seconds."""

MAX_NAME = 200

_VALUE = (
    "A value: node, metric and value, and if wanted at (ISO 8601, or seconds since the epoch; else now, and 90 days ago at "
    "most) and unit. One that can't be added is refused by itself."
)

BASELINES = (
    Route(
        name="baseline",
        method="GET",
        path="/baselines",
        function=Function.RETRIEVE,
        about="What is normal for a metric of a node, and whether a value is out of the ordinary. A count of 0: no data.",
        query=(
            text_field("node", "The node, as its values name it.", MAX_NAME, required=True, minimum=1),
            text_field("metric", "The metric.", MAX_NAME, required=True, minimum=1),
            text_field("timeWindow", "How far back: 1h to 90d, such as 24h, 7d or 4w.", 10, default="7d"),
            Field("value", Kind.NUMBER, "A value to judge."),
            Field("hour", Kind.WHOLE, "The hour of the day (UTC) that the value is of.", minimum=0, maximum=23),
        ),
    ),
    Route(
        name="baseline_series",
        method="GET",
        path="/baselines/series",
        function=Function.RETRIEVE,
        about="Which metrics of which nodes have values.",
        query=(AFTER,),
    ),
    Route(
        name="add_values",
        method="POST",
        path="/baselines",
        function=Function.MANAGE,
        about="Add values to the baselines of the caller's scope.",
        body=(
            Field("values", Kind.OBJECT, _VALUE, required=True, repeated=True, most=MAX_VALUES),
            text_field("batchId", "Names the batch: the same one again is counted once.", minimum=1),
        ),
        scopes=(TokenScope.WRITE, TokenScope.ADMIN),
    ),
)
