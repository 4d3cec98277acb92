"""The commands that serve; see `opx.operations.registry.Feature`."""

from __future__ import annotations

from opx.edges.cli.help import SERVING
from opx.operations.registry import Feature

_COMMANDS = "opx_serve.commands"

FEATURE = Feature(
    (),
    {
        **{name: (_COMMANDS, summary) for name, summary in SERVING.items()},
        "console": (_COMMANDS, "Open the console in a browser: ask, read, curate."),
        "run": (_COMMANDS, "Pull sources on schedule and ingest documents, until Ctrl-C."),
    },
)
