"""Operations and commands of streams and webhooks."""

from __future__ import annotations

from opx.operations.registry import Feature, Module

FEATURE = Feature(
    modules=(
        Module(f"{__package__}.operations.streams", ("streams",)),
        Module(f"{__package__}.operations.webhooks", ("webhooks",)),
    ),
    commands={
        "webhook": (f"{__package__}.cli.webhooks", "Manage webhooks of other services."),
        "stream": (f"{__package__}.cli.streams", "Manage streams whose records become documents."),
    },
)
