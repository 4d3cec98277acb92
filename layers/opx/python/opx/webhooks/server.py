"""A server on this machine for what arrives over HTTP, in a thread of its own."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from opx.errors import InvalidInputError
from opx.webhooks.deliveries import MAX_BODY_BYTES
from opx.webhooks.wsgi import application

if TYPE_CHECKING:
    from opx.system import System

_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9_.-]+|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,5})\Z")
THREADS = 4


class LocalServer:
    """Answers webhooks while inside `with`. `arrived` is called after each that put something into the corpus."""

    def __init__(self, services: System, address: str, arrived: Callable[[], object]) -> None:
        """Listens at once. Raises `InvalidInputError` for what is no `host:port`, and for one that is taken."""
        from waitress.server import create_server

        match = _ADDRESS.match(address)
        if not match or int(match["port"]) > 65535:
            raise InvalidInputError(f"--listen {address!r}: give host:port, such as 127.0.0.1:8321")
        self._sockets: dict[int, Any] = {}
        try:
            self._server = create_server(
                application(services, arrived),
                map=self._sockets,
                host=match["host"].strip("[]"),
                port=int(match["port"]),
                threads=THREADS,
                max_request_body_size=MAX_BODY_BYTES + 1,
                ident=None,
                clear_untrusted_proxy_headers=True,
            )
        except OSError as exc:
            self._close()
            raise InvalidInputError(f"--listen {address}: {exc.strerror or exc}; choose another port") from exc
        self._thread = threading.Thread(target=self._server.run, name="webhooks", daemon=True)

    @property
    def address(self) -> str:
        """Where it listens: the port is the system's choice if 0 was asked for."""
        return f"{self._server.effective_host}:{self._server.effective_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.trigger.pull_trigger(self._server.close)  # in the server's own thread, which then ends
        self._thread.join(timeout=5)
        self._server.task_dispatcher.shutdown()
        self._close()

    def _close(self) -> None:
        """The server leaves sockets open, as most live as long as their process."""
        from waitress.wasyncore import close_all

        close_all(self._sockets, ignore_all=True)
