"""A real Redis for tests: one process on the loopback with its own folder, gone when the block ends."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

START_SECONDS = 10.0


class NoRedisError(Exception):
    """There is no `redis-server` on this machine."""


class LocalRedis:
    """A server that can be stopped and started again, with its data, at the same address."""

    def __init__(self, program: str, home: Path, password: str) -> None:
        self._program = program
        self._home = home
        self._password = password
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, password=self._password or None)

    def start(self) -> None:
        options = {"port": self.port, "bind": "127.0.0.1", "dir": self._home, "save": "", "appendonly": "yes"}
        options |= {"requirepass": self._password} if self._password else {}
        line = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        log = (self._home / "log").open("ab")
        with log:
            self._process = subprocess.Popen([self._program, *line], stdout=log, stderr=log)
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"Redis doesn't start: {(self._home / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(START_SECONDS)
            self._process = None

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False


@contextmanager
def running_redis(password: str = "") -> Iterator[LocalRedis]:
    """A started server. Raises `NoRedisError` where there is none."""
    program = shutil.which("redis-server")
    if program is None:
        raise NoRedisError("redis-server is not on the path; install Debian's package redis-server")
    with tempfile.TemporaryDirectory(prefix="opx-redis-") as home:
        server = LocalRedis(program, Path(home), password)
        try:
            server.start()
            yield server
        finally:
            server.stop()
