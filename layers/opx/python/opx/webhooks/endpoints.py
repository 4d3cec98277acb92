"""The addresses that other services send to."""

from __future__ import annotations

from urllib.parse import quote

LOCAL = "http://127.0.0.1:8321"
"""Where `opx run --listen` answers unless it is told otherwise."""


def webhook_endpoint(base: str, tier: str, category: str, name: str = "") -> str:
    """`https://.../ingest/internal/operations/alerts?source=grafana`.

    `base` is the address of the server, "" for this machine. Without a name, the address is that of the only webhook
    which the category has.
    """
    path = f"{(base or LOCAL).rstrip('/')}/ingest/{quote(tier)}/{quote(category)}"
    return f"{path}?source={quote(name)}" if name else path
