"""`opx console` as a process, and its API as a program sees it."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

OPX = Path(sys.executable).parent / "opx"


@dataclass
class Console:
    """A running console. `api` asks the same server as a browser with a session of its own would."""

    home: Path
    process: subprocess.Popen[str]
    first: str
    _cookie: dict[str, str] = field(default_factory=dict)

    def address(self) -> str:
        """An address with a new key."""
        return new_address(self.process)

    @property
    def host(self) -> str:
        return self._host

    def __post_init__(self) -> None:
        self._host = urlsplit(self.first).netloc

    def api(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The reply of the API, decoded. Raises `AssertionError` for a refusal."""
        if not self._cookie:
            reply, _ = self._request("GET", urlsplit(self.address())._replace(scheme="", netloc="").geturl())
            self._cookie = {"cookie": str(reply.getheader("set-cookie")).partition(";")[0]}
        reply, data = self._request(method, path, body)
        assert reply.status < 300, data
        return json.loads(data)

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection(self._host, timeout=60)
        headers = {**self._cookie, "origin": f"http://{self._host}", "content-type": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        reply = connection.getresponse()
        data = reply.read()
        connection.close()
        return reply, data


def new_address(process: subprocess.Popen[str]) -> str:
    """The next address that the command prints: it prints one for each line of its input."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return _printed(process)


def _printed(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return next(line.strip() for line in process.stdout if line.strip().startswith("http://"))


@contextmanager
def running(home: Path, *options: str, serving: tuple[str, ...] = ()) -> Iterator[Console]:
    """`opx console` over a home, until the end; `serving` are options of the command itself."""
    command = [str(OPX), "--home", str(home), *options, "console", "--no-browser", *serving]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Console(home, process, _printed(process))
        finally:
            process.terminate()
            process.wait(30)
