"""Runs command lines that `opx` sends to a running `opx serve`, over a socket in the home; see `opx.edges.cli.forwarding`."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from opx import __version__
from opx.domain.record import replace
from opx.edges.cli.forwarding import CODE, ERR, FORWARDED, MAX_REQUEST, OUT, REFUSED, SOCKET, received
from opx.edges.cli.main import Launch, run
from opx.errors import OpxError
from opx.operations.system import System
from opx.runtime.deadlines import deadline
from opx.settings import Settings

log = logging.getLogger(__name__)

COMMANDS = 8
"""Commands that run at once; others wait."""

COMMAND_SECONDS = 120.0
_REQUEST_SECONDS = 10.0


@dataclass(frozen=True)
class _Client:
    """The console of a command: its folder, its terminal's size, and whether output and errors go to a terminal."""

    connection: socket.socket
    folder: Path
    columns: int
    lines: int
    terminals: tuple[bool, bool]
    text: io.StringIO

    def send(self, kind: bytes, data: bytes) -> None:
        self.connection.sendall(kind + len(data).to_bytes(4, "big") + data)


_current = threading.local()


class _Stream(io.TextIOBase):
    """Standard output or errors: of the command that the thread runs, else of the process."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, own: TextIO, kind: bytes) -> None:
        self._own = own
        self._kind = kind

    @property
    def _client(self) -> _Client | None:
        return getattr(_current, "client", None)

    @property
    def folder(self) -> Path | None:
        """The folder of the command, for `opx.edges.cli.output`; None for the process's own."""
        return self._client.folder if self._client else None

    @property
    def size(self) -> os.terminal_size | None:
        """The size of the command's terminal; None for the process's own."""
        return os.terminal_size((self._client.columns or 80, self._client.lines or 24)) if self._client else None

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        client = self._client
        return client.terminals[self._kind == ERR] if client else self._own.isatty()

    def fileno(self) -> int:
        if self._client:
            raise OSError("the output of a forwarded command has no file")
        return self._own.fileno()

    def write(self, text: str) -> int:
        client = self._client
        if client is None:
            return self._own.write(text)
        try:
            client.send(self._kind, text.encode("utf-8", "replace"))
        except OSError as exc:
            raise BrokenPipeError(str(exc)) from exc  # the command was interrupted
        return len(text)

    def flush(self) -> None:
        if self._client is None:
            self._own.flush()


class _Input(io.TextIOBase):
    """Standard input: of the command that the thread runs, else of the process."""

    def __init__(self, own: TextIO) -> None:
        self._own = own

    @property
    def _source(self) -> Any:
        client = getattr(_current, "client", None)
        return client.text if client else self._own

    def read(self, size: int | None = -1) -> str:
        return str(self._source.read(size))

    def isatty(self) -> bool:
        return not getattr(_current, "client", None) and self._own.isatty()


class CommandSocket:
    """Runs commands on the system of a process, within a `with` block. Without Unix sockets, with a path that is too long for
    one, and beside another server of the same home it does nothing; `remark` says why."""

    def __init__(self, system: System, settings: Settings) -> None:
        self._system = system
        self._settings = settings
        self._path = settings.home_path / SOCKET
        self._listener: socket.socket | None = None
        self._pool = ThreadPoolExecutor(COMMANDS, thread_name_prefix="command")
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
        self.remark = ""

    def __enter__(self) -> Self:
        if not hasattr(socket, "AF_UNIX"):
            self.remark = "commands start by themselves: this system has no Unix sockets"
            return self
        try:
            self._listener = _listening(self._path)
        except OSError as exc:
            self.remark = f"commands start by themselves: {self._path} can't be opened: {exc.strerror or exc}"
            return self
        sys.stdin = _Input(sys.stdin)
        sys.stdout = _Stream(sys.stdout, OUT)
        sys.stderr = _Stream(sys.stderr, ERR)
        threading.Thread(target=self._accept, args=(self._listener,), name="commands", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listener is None:
            return
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._pool.shutdown(cancel_futures=True)
        sys.stdin, sys.stdout, sys.stderr = self._streams

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # closed
                return
            self._pool.submit(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(_REQUEST_SECONDS)
                request = _read_request(connection)
                connection.settimeout(COMMAND_SECONDS)
                self._run(connection, request)
            except (OSError, ValueError, KeyError, TypeError) as exc:
                log.info("a forwarded command failed: %s", exc)

    def _run(self, connection: socket.socket, request: dict[str, Any]) -> None:
        output, errors = request["terminals"]
        text = io.StringIO(request["input"])
        client = _Client(
            connection,
            Path(request["folder"]),
            request["columns"],
            request["lines"],
            (bool(output), bool(errors)),
            text,
        )
        environ = {str(name): str(value) for name, value in request["environ"].items()}
        arguments = [str(one) for one in request["arguments"]]
        if request["version"] != __version__ or not self._has_settings(environ) or not FORWARDED & set(arguments):
            client.send(REFUSED, b"")
            return
        with _console_of(client), deadline(COMMAND_SECONDS):
            code = run(arguments, Launch(lambda _: self._system, _not_connected, environ, closes=False))
        client.send(CODE, str(code).encode())
        self._system.records.catch_up()

    def _has_settings(self, environ: dict[str, str]) -> bool:
        """True if a command with these variables would work on the system of this process; it names its own client."""
        own = self._settings
        try:
            given = replace(Settings.from_environ(environ), client_id=own.client_id, project_id=own.project_id)
        except OpxError:
            return False
        return replace(given, home=str(given.home_path)) == replace(own, home=str(own.home_path))


@contextlib.contextmanager
def _console_of(client: _Client) -> Iterator[None]:
    _current.client = client
    try:
        yield
    finally:
        del _current.client


def _not_connected(_: Settings) -> Any:
    raise OpxError("a forwarded command works on the home of the server")


def _listening(path: Path) -> socket.socket:
    """A socket at the path, for its owner alone. Raises `OSError`, also if another process listens there."""
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        probe.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError):
        path.unlink(missing_ok=True)  # left behind by a process that is gone
    else:
        raise OSError("another opx serve has it")
    finally:
        probe.close()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    listener.listen(64)
    return listener


def _read_request(connection: socket.socket) -> dict[str, Any]:
    size = int.from_bytes(received(connection, 4), "big")
    if size > MAX_REQUEST:
        raise ValueError("the request is too large")
    found = json.loads(received(connection, size))
    if not isinstance(found, dict):
        raise TypeError("the request is no object")
    return found
