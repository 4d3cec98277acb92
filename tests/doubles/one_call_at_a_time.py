"""Atomicity for AWS doubles."""

from __future__ import annotations

import threading
from typing import Any


class OneCallAtATime:
    """A client whose calls exclude one another: the service's calls are atomic, those of its double aren't."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(**arguments: Any) -> Any:
            with self._lock:
                return method(**arguments)

        return call
