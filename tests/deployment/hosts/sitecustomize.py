"""Sends programs to the emulator for hosts that it serves and no resolver knows, as a hosts file would."""

from __future__ import annotations

import socket
from typing import Any

_getaddrinfo = socket.getaddrinfo


def _resolved(host: Any, *arguments: Any, **options: Any) -> Any:
    known = isinstance(host, str) and ".execute-api." in host
    return _getaddrinfo("127.0.0.1" if known else host, *arguments, **options)


socket.getaddrinfo = _resolved
