"""Operations, commands and scheduled work of this distribution, as the entry point names them."""

from __future__ import annotations

from opx.operations.registry import Feature, Module

FEATURE = Feature(
    (
        Module("opx_quality.duplicates", ("duplicates",)),
        Module("opx_quality.contradictions", ("contradictions",)),
        Module("opx_quality.canaries", ("evaluations",)),
        Module("opx_quality.quality", ("evaluations",)),
    ),
    {
        "contradictions": ("opx_quality.cli.contradictions", "List documents that contradict each other."),
        "eval": ("opx_quality.cli.evaluate", "Measure the quality of answers on a labelled set of questions."),
    },
    feeds=("opx_quality.canaries",),
)
