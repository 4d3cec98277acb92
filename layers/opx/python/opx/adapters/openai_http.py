"""Requests to services that understand OpenAI's Chat Completions: OpenRouter, Ollama, or a model of one's own.

The form of requests and replies: OpenAI API Reference, "Create chat completion".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from urllib3 import BaseHTTPResponse

from opx.adapters.remote.connections import Connections

PASSING = (408, 409, 429)
"""Statuses after which the same request may succeed, besides all from 500."""
REFUSING_CALLER = (401, 403, 404)


class ChatCompletions:
    """The operation at `url` (`https://host/v1`), with a key if the service wants one ("" for none). Thread-safe."""

    def __init__(self, url: str, key: Callable[[], str], connections: Connections) -> None:
        self.url = url.rstrip("/") + "/chat/completions"
        self._key = key
        self._connections = connections

    def post(self, body: Mapping[str, Any]) -> BaseHTTPResponse:
        """The service's answer, whatever its status. Raises `StoreUnavailableError` if none comes, `OpxError` if the
        service can't prove who it is, and `SecretNotFoundError` for a key that isn't there."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        key = self._key()
        if key:
            headers["Authorization"] = f"Bearer {key}"
        return self._connections.request("POST", self.url, headers, json.dumps(body).encode())
