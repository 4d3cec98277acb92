"""Operations and commands of this distribution, as the entry point names them."""

from __future__ import annotations

from opx.operations.registry import OPERATIONS, Feature, Module

FEATURE = Feature(
    (Module("opx_telemetry.operations", ("baselines",), (OPERATIONS,)),),
    {
        "baseline": ("opx_telemetry.cli", "Add values of metrics, show their baselines, judge a value."),
        "ops": ("opx_telemetry.cli", "Query logs, metrics and traces, as agents do."),
    },
    ("opx_telemetry.capability",),
)
