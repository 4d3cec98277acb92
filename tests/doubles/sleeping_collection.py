"""A next-generation collection that stops while it is idle, on simulated time, answered without a network.

Source: Amazon OpenSearch Serverless developer guide, "Scale to zero": after ten idle minutes all capacity is released, and
the first request takes 10 to 30 seconds. Requests during that time are held; some are answered 503 or 429 in practice.
"""

from __future__ import annotations

import json
import threading
from io import BytesIO
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from opensearchpy import OpenSearch
from urllib3 import HTTPResponse
from urllib3.exceptions import ReadTimeoutError

from opx_testing.fake_time import FakeTime
from tests.doubles.http_double import Request, Response
from tests.doubles.opensearch import OpenSearchDouble

IDLE_SECONDS = 600.0


class SleepingCollection(OpenSearchDouble):
    """A collection that is awake at first. `wakes_in` seconds pass from the first request to a sleeping collection until it
    answers; requests before that are held, or answered with `status` if there is one."""

    def __init__(self, time: FakeTime, *, wakes_in: float = 20.0, status: int = 0, **options: Any) -> None:
        super().__init__(clock=time.clock, **options)
        self.time = time
        self.wakes_in = wakes_in
        self.status = status
        self._used_at = time.clock()
        self._awake_at = time.clock()

    @property
    def is_asleep(self) -> bool:
        return self.time.clock() - self._used_at >= IDLE_SECONDS

    def sleep_now(self) -> None:
        """Let the idle time pass."""
        self.time.now += IDLE_SECONDS

    def held_for(self) -> float:
        """Seconds that a request is held which comes now; the first one starts to wake the collection."""
        now = self.time.clock()
        if self.is_asleep:
            self._awake_at = now + self.wakes_in
        self._used_at = now
        return max(0.0, self._awake_at - now)


class InProcess:
    """Stands in for the connection pool of a client: requests go to the double as a call, on its simulated time."""

    def __init__(self, double: SleepingCollection) -> None:
        self._double = double
        self._lock = threading.Lock()

    def urlopen(
        self, method: str, url: str, body: Any, *, headers: dict[str, str], timeout: float = 10.0, **_: Any
    ) -> HTTPResponse:
        target, time = urlsplit(url), self._double.time
        data = body.encode() if isinstance(body, str) else body or b""
        sent = {name.lower(): value for name, value in headers.items()}
        request = Request(method, unquote(target.path), dict(parse_qsl(target.query)), sent, data, url)
        with self._lock:
            held = self._double.held_for()
            if held and self._double.status:
                self._double.requests.append(request)
                return _response(Response(self._double.status))
            if held > timeout:
                self._double.requests.append(request)
                time.sleep(timeout)
                raise ReadTimeoutError(self, url, f"Read timed out. (read timeout={timeout})")  # type: ignore[arg-type]
            time.sleep(held)
            return _response(self._double.respond(request))

    def close(self) -> None:
        pass


def _response(response: Response) -> HTTPResponse:
    data = b"" if response.body is None else json.dumps(response.body).encode()
    headers = {"content-type": "application/json", **dict(response.headers)}
    return HTTPResponse(body=BytesIO(data), status=response.status, headers=headers)


def connect(client: OpenSearch, double: SleepingCollection) -> OpenSearch:
    """The client, with all its connections to the double."""
    for connection in client.transport.connection_pool.connections:
        connection.pool.close()
        connection.pool = InProcess(double)
    return client
