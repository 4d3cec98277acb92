"""Sends a command line to the `opx serve` of the same home, which answers without starting anything.

The command's own process then needs neither the library nor an engine. This module imports only what Python has loaded
anyway, and small modules; `opx_serve.command_socket` is the other side.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence

from opx import __version__

SOCKET = "serve.sock"
"""The socket in the home; only its owner can open it."""

FORWARDED = frozenset(
    {"search", "show", "list", "why", "history", "diff", "status", "categories", "audit", "outcome", "gaps", "alerts"}
)
"""Commands that call operations and print, without files or questions of their own."""

_VALUED = ("--home", "--client", "--project")
_OWN_FILES = ("--receipt", "--file", "--save", "--output", "--html")
"""Options that name files, which are the command's own."""

OUT, ERR, CODE, REFUSED = b"o", b"e", b"c", b"r"
"""Kinds of frames that answer a command: output, the exit code, and a refusal, after which the command runs by itself."""

HEAD_BYTES = 5
"""A frame begins with its kind and its length, four bytes."""

MAX_REQUEST = 1024 * 1024
_CONNECT_SECONDS = 0.5


def forwarded(arguments: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """The exit code of a command that the server of the home has run; None for one that is to run in this process."""
    parsed = _parsed(arguments)
    if parsed is None or not hasattr(socket, "AF_UNIX"):
        return None
    options, rest = parsed
    home = os.path.abspath(os.path.expanduser(options.get("--home") or environ.get("OPX_HOME") or ".opx"))  # noqa: PTH100, PTH111 - pathlib takes 5 ms
    connection = _connected(os.path.join(home, SOCKET))  # noqa: PTH118
    if connection is None:
        return None
    with connection:
        try:
            return _run(connection, _request(home, options, rest, environ))
        except OSError:
            return None  # the server ended, or isn't one


def _parsed(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]] | None:
    """Options before the command, and the rest; None for a command or an option that isn't forwarded."""
    options: dict[str, str] = {}
    left = list(arguments)
    while left and left[0].startswith("-"):
        name, equals, value = left.pop(0).partition("=")
        if name not in _VALUED or not (equals or left):
            return None
        options[name] = value if equals else left.pop(0)
    if not left or left[0] not in FORWARDED or any(one.partition("=")[0] in _OWN_FILES for one in left):
        return None
    return options, left


def _connected(path: str) -> socket.socket | None:
    """A connection to the socket; None without one, or if its process is gone."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_CONNECT_SECONDS)
    try:
        if os.stat(path).st_uid != os.getuid():  # noqa: PTH116
            raise PermissionError(path)
        connection.connect(path)
    except OSError:  # also a path that is too long for a socket
        connection.close()
        return None
    connection.settimeout(None)
    return connection


def _request(home: str, options: dict[str, str], rest: list[str], environ: Mapping[str, str]) -> bytes:
    own = {name: value for name, value in environ.items() if name.startswith("OPX_") or name in ("NO_COLOR", "TERM")}
    size = _size(environ)
    request = {
        "version": __version__,
        "arguments": [part for name in ("--client", "--project") if name in options for part in (name, options[name])]
        + rest,
        "environ": {**own, "OPX_HOME": home},
        "folder": os.getcwd(),  # noqa: PTH109
        "columns": size[0],
        "lines": size[1],
        "terminals": [stream.isatty() for stream in (sys.stdout, sys.stderr)],
        "input": sys.stdin.read() if "-" in rest else "",
    }
    data = json.dumps(request).encode()
    if len(data) > MAX_REQUEST:
        raise OSError("too large to be sent")
    return len(data).to_bytes(4, "big") + data


def _size(environ: Mapping[str, str]) -> tuple[int, int]:
    try:
        found = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        columns = environ.get("COLUMNS", "")
        return int(columns) if columns.isdecimal() else 0, 0
    return found.columns, found.lines


def _run(connection: socket.socket, request: bytes) -> int | None:
    """Prints what the server answers. Raises `OSError` if it ended before it printed anything."""
    connection.sendall(request)
    printed = False
    while True:
        head = received(connection, HEAD_BYTES)
        kind, data = head[:1], received(connection, int.from_bytes(head[1:], "big")) if head else b""
        if kind == REFUSED or (not head and not printed):
            return None
        if kind == CODE:
            return int(data)
        if not head:
            os.write(2, b"opx: opx serve ended before the answer was complete\n")
            return 2
        printed = True
        _write(1 if kind == OUT else 2, data)


def _write(file: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(file, data) :]
    except BrokenPipeError:  # as for any program whose reader has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), file)
        raise SystemExit(141) from None


def received(connection: socket.socket, size: int) -> bytes:
    """So many bytes; b"" if the connection ends before."""
    parts, left = [], size
    while left:
        part = connection.recv(min(left, 65536))
        if not part:
            return b""
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
