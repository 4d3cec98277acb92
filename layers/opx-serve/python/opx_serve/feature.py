"""The commands that serve; see `opx.operations.registry.Feature`."""

from __future__ import annotations

from opx.operations.registry import Feature

_COMMANDS = "opx_serve.commands"

FEATURE = Feature(
    (),
    {
        "mcp": (_COMMANDS, "Serve the tools to agents over the Model Context Protocol."),
        "serve": (_COMMANDS, "Serve REST, agents' tools and webhooks over HTTP."),
        "console": (_COMMANDS, "Open the console in a browser: ask, read, curate."),
        "run": (_COMMANDS, "Pull sources on schedule and ingest documents, until Ctrl-C."),
    },
)
