"""A local server over a system, and requests to it over loopback."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from opx.domain.scopes import Identity
from opx.operations.context import Caller
from opx.operations.system import System
from opx_serve.application import application
from opx_serve.composition import serve
from opx_serve.console import ConsoleSessions
from opx_serve.listening import HttpServer, listening_socket
from opx_serve.routes import KnowledgeBase, LocalBase
from opx_serve.tokens import Callers
from opx_serve.workers import AnswerProcesses

JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Reply:
    """The reply to a request; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    data: bytes = field(repr=False)

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def refusal(self) -> tuple[int, str]:
        """Status and code of an error."""
        return self.status, self.json["error"]["code"]


@dataclass(frozen=True)
class LocalServer:
    """A server at an address. `arrived` has an item for each delivery and upload that changed the corpus. `token` is that of
    requests that give none, "" for no token."""

    address: str
    arrived: list[bool]
    token: str = ""

    def __call__(
        self, method: str, path: str, body: object = None, *, token: str | None = None, headers: Mapping[str, str] = {}
    ) -> Reply:
        """The reply to a request. `body` is sent as JSON unless it is bytes."""
        token = self.token if token is None else token
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {} if body is None or isinstance(body, bytes) else dict(JSON)
        given |= {"authorization": f"Bearer {token}"} if token else {}
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            connection.request(method, path, data, {**given, **headers})
            found = connection.getresponse()
            return Reply(found.status, {name.lower(): text for name, text in found.getheaders()}, found.read())
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        """A connection that has sent nothing yet."""
        return connected(self.address)

    def is_open(self) -> bool:
        try:
            self.connect().close()
        except ConnectionError:
            return False
        return True

    def raw(self, request: bytes) -> bytes:
        """All that is replied to these bytes until the server closes the connection."""
        with self.connect() as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65536), b""))


OWN_TOKEN = "own-token"
"""That of the server's own identity, without other tokens and the console."""


def over_mcp(server: LocalServer, token: str, tool: str, **arguments: Any) -> Any:
    """The result of a tool, called by the official client."""

    async def run() -> Any:
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {token or 'none'}"}, timeout=60) as http,
            Client(streamable_http_client(f"http://{server.address}/mcp", http_client=http)) as client,
        ):
            return await client.call_tool(tool, arguments)

    return anyio.run(run)


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


@contextmanager
def serving(
    system: System,
    tokens: Mapping[str, Caller] | None = None,
    bases: Mapping[str, KnowledgeBase] | None = None,
    *,
    own: Identity | None = None,
    sessions: ConsoleSessions | None = None,
    workers: AnswerProcesses | None = None,
) -> Iterator[LocalServer]:
    """Serves a system; without tokens and the console, for this machine alone, whose token the requests have."""
    arrived: list[bool] = []
    itself = Caller(own or Identity())
    token = "" if tokens or sessions else OWN_TOKEN
    callers = Callers(tokens or {OWN_TOKEN: itself}, itself, sessions, is_private=not tokens)
    known = {"default": LocalBase(system), **(bases or {})}
    served = serve(system, callers, known, lambda: arrived.append(True), workers=workers)
    record = system.records.deferred()
    with HttpServer(application(served), listening_socket("127.0.0.1:0"), after=record) as server:
        yield LocalServer(server.address, arrived, token)
    system.records.waiting = None
