"""Listening for HTTP: addresses, slow and many connections, and the end of a server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from opx.edges.client import is_loopback
from opx.errors import InvalidInputError, OpxError
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_serve import bodies, listening
from opx_serve.listening import HttpServer, address_of, listening_socket, most_connections
from tests.support.fakes import WordsEmbedder
from tests.support.serving_support import OWN_TOKEN, LocalServer, serving

REQUEST = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
TOKEN_LINE = f"authorization: Bearer {OWN_TOKEN}\r\n"


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with bootstrap(Settings(home=str(tmp_path / "home")), embedder=WordsEmbedder()) as made:
        yield made


@pytest.fixture
def server(system: System) -> Iterator[LocalServer]:
    with serving(system) as found:
        yield found


def test_replies_are_sent_at_once() -> None:
    """asyncio switches off the delay of small packets for sockets that name their protocol."""
    with listening_socket("127.0.0.1:0") as opened, socket.create_connection(opened.getsockname()):
        accepted, _ = opened.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP


class TestAddresses:
    @pytest.mark.parametrize("address", ["8321", "here:port", "127.0.0.1:99999", "http://127.0.0.1:8321", "", ":80"])
    def test_a_malformed_one_is_refused(self, address: str) -> None:
        with pytest.raises(InvalidInputError, match="give HOST:PORT"):
            listening_socket(address)

    def test_one_in_use_is_reported(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as used:
            address = f"127.0.0.1:{used.getsockname()[1]}"
            with pytest.raises(InvalidInputError, match="choose another address or port"):
                listening_socket(address)

    def test_one_of_another_machine_is_reported(self) -> None:
        with pytest.raises(InvalidInputError, match=r"--listen 192\.0\.2\.1:0"):
            listening_socket("192.0.2.1:0")

    def test_ipv6_has_brackets(self) -> None:
        assert address_of("[::1]:80") == ("::1", 80)

    @pytest.mark.parametrize(
        ("host", "expected"),
        [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("127.0.0.1.example", False)],
    )
    def test_loopback_is_recognised(self, host: str, expected: bool) -> None:
        assert is_loopback(host) is expected


class TestHeads:
    """The first line of a request and its headers."""

    @pytest.fixture
    def long_head(self, server: LocalServer) -> Callable[..., bytes]:
        def reply(path: int = 0, header: int = 0, pause: float = 0.0) -> bytes:
            head = f"GET /{'x' * path} HTTP/1.1\r\nhost: {server.address}\r\nx-a: {'y' * header}\r\n\r\n".encode()
            with server.connect() as connection:
                size = 4096 if pause else len(head)
                for begin in range(0, len(head), size):
                    connection.sendall(head[begin : begin + size])
                    time.sleep(pause)
                return connection.recv(13)

        return reply

    def test_one_within_the_limit_is_read(self, long_head: Callable[..., bytes]) -> None:
        assert long_head(path=8000, header=8000) == b"HTTP/1.1 401 "

    @pytest.mark.parametrize(("path", "header"), [(60_000, 0), (10, 20_000), (9000, 9000)])
    def test_one_beyond_it_is_refused(self, long_head: Callable[..., bytes], path: int, header: int) -> None:
        too_long = b"HTTP/1.1 414 " if path > listening.HEAD_BYTES else b"HTTP/1.1 431 "
        assert long_head(path=path, header=header) in (
            too_long,
            b"HTTP/1.1 431 ",
        )  # of the head in parts nothing is read

    def test_one_beyond_it_that_comes_in_parts_is_refused(self, long_head: Callable[..., bytes]) -> None:
        assert long_head(header=17_000, pause=0.1) == b"HTTP/1.1 431 "

    @pytest.mark.parametrize("order", [("content-length: 4", "transfer-encoding: chunked"), ()])
    def test_two_lengths_of_a_body_are_refused(self, server: LocalServer, order: tuple[str, ...]) -> None:
        lengths = "\r\n".join(order or ("transfer-encoding: chunked", "content-length: 4"))
        head = f"POST /research HTTP/1.1\r\nhost: {server.address}\r\n{TOKEN_LINE}{lengths}\r\n\r\n"
        hidden = f"0\r\n\r\nGET /healthz HTTP/1.1\r\nhost: {server.address}\r\n\r\n"
        reply = server.raw((head + hidden).encode())
        assert (reply[:13], reply.count(b"HTTP/1.1 ")) == (b"HTTP/1.1 400 ", 1)

    def test_one_length_is_enough(self, server: LocalServer) -> None:
        head = f"POST /research HTTP/1.1\r\nhost: {server.address}\r\n{TOKEN_LINE}connection: close\r\n"
        head += "content-type: application/json\r\n"
        reply = server.raw(f"{head}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n".encode())
        assert (reply[:13], b"topic" in reply) == (b"HTTP/1.1 400 ", True)


class TestSlowConnections:
    def test_two_hundred_slow_ones_stop_no_genuine_request_and_are_cut_off(
        self, server: LocalServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with ExitStack() as opened:
            slow = [opened.enter_context(server.connect()) for _ in range(200)]
            for number, one in enumerate(slow):
                one.sendall((b"", b"GET /sea", b"GET / HTTP/1.1\r\nhost: x\r\nx-a: ")[number % 3])
            assert [server("GET", "/healthz").status for _ in range(20)] == [200] * 20
            monkeypatch.setattr(listening, "REQUEST_SECONDS", 0.0)
            assert [one.recv(1) for one in slow] == [b""] * len(slow)
            monkeypatch.undo()
            assert server("GET", "/healthz").status == 200

    def test_slow_bodies_stop_no_genuine_request_and_are_refused(
        self, server: LocalServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bodies, "BODY_SECONDS", 3.0)
        with ExitStack() as opened:
            slow = [opened.enter_context(server.connect()) for _ in range(200)]
            head = f"POST /research HTTP/1.1\r\nhost: {server.address}\r\n{TOKEN_LINE}content-length: 10\r\n\r\n"
            for one in slow:
                one.sendall(head.encode() + b"{")
            assert [server("GET", "/healthz").status for _ in range(20)] == [200] * 20
            answers = [one.recv(13) for one in slow]
        assert answers == [b"HTTP/1.1 408 "] * len(slow)

    def test_a_client_that_reads_no_reply_is_cut_off(
        self, server: LocalServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listening, "REPLY_SECONDS", 0.0)
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            host, port = server.address.split(":")
            connection.settimeout(60)
            connection.connect((host, int(port)))
            pipelined = b"GET /openapi.json HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
            with pytest.raises(ConnectionError):
                send_until_closed(connection, pipelined)

    def test_one_address_has_a_limited_number(self, server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listening, "CONNECTIONS_OF_AN_ADDRESS", 20)
        check_limit(server)

    def test_all_addresses_have_a_limited_number(self, server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listening._LimitedProtocol, "most", 20)
        check_limit(server)

    def test_the_limit_fits_the_files_that_the_process_may_open(self) -> None:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
            most = most_connections()
            assert 256 <= most <= listening.CONNECTIONS
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > most
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def send_until_closed(connection: socket.socket, request: bytes) -> None:
    while True:
        connection.sendall(request)
        time.sleep(0.01)


def check_limit(server: LocalServer) -> None:
    """Of 30 connections 20 stay; when they are closed, others are accepted."""
    with ExitStack() as opened:
        connections = [opened.enter_context(server.connect()) for _ in range(30)]
        assert [is_answered(one) for one in connections[20:]] == [False] * 10
        assert all(is_answered(one) for one in connections[:20])
    while not is_answered(again := server.connect()):
        again.close()
    again.close()


def is_answered(connection: socket.socket) -> bool:
    try:
        connection.sendall(REQUEST)
        return connection.recv(13) == b"HTTP/1.1 200 "
    except ConnectionError:
        return False


async def never_starts(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no"})


class TestEnd:
    def test_a_request_in_progress_is_answered(self, system: System) -> None:
        begun, may_end = threading.Event(), threading.Event()

        def slow_count(*_: object, **__: object) -> int:
            begun.set()
            may_end.wait(60)
            return 0

        system.indexing.index.count = slow_count  # type: ignore[method-assign]
        opened = ExitStack()
        server = opened.enter_context(serving(system))
        with server.connect() as connection:
            connection.sendall(REQUEST)
            assert begun.wait(60)
            ending = threading.Thread(target=opened.close)
            ending.start()
            while server.is_open():
                time.sleep(0.05)
            may_end.set()
            assert connection.recv(13) == b"HTTP/1.1 200 "
            ending.join()

    def test_an_application_that_does_not_start_is_an_error(self) -> None:
        with listening_socket("127.0.0.1:0") as opened, pytest.raises(OpxError, match="did not start"):
            HttpServer(never_starts, opened).run()

    def test_a_server_that_is_stopped_before_it_runs_ends_at_once(self, system: System) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})

        server = HttpServer(app, listening_socket("127.0.0.1:0"))
        server.stop()
        server.run()
