"""Reads the web for sources: from public addresses, within rate limits, and with retries."""

from __future__ import annotations

import json as json_text
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode, urljoin

from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPSConnectionPool, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, SSLError
from urllib3.response import HTTPResponse
from urllib3.util.ssl_match_hostname import CertificateError

from opx import __version__
from opx.domain.record import replace
from opx.domain.sources import RateLimit
from opx.errors import ForbiddenAddressError, SourceRefusedError, SourceUnavailableError
from opx.hygiene.addresses import AddressBook, Target, target_of
from opx.ports import Clock
from opx.ports.sources import Validators, WebReply

Sleep = Callable[[float], None]


class RateWindow:
    """Limits the rate of requests: so many in any window of so many seconds."""

    def __init__(self, limit: RateLimit | None, *, clock: Clock, sleep: Sleep) -> None:
        self._limit = limit
        self._clock = clock
        self._sleep = sleep
        self._passed: deque[float] = deque(maxlen=limit.calls if limit else 1)

    def wait(self) -> None:
        """Blocks until the next request may be sent."""
        if self._limit and len(self._passed) == self._limit.calls:
            left = self._passed[0] + self._limit.seconds - self._clock()
            if left > 0:
                self._sleep(min(left, self._limit.seconds))  # a clock that was set back must not stop everything
        self._passed.append(self._clock())


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The delay in seconds that a reply demands: `Retry-After` (seconds or a date), or `X-RateLimit-Reset` once none
    remain, as GitHub has it ("Rate limits for the REST API"). None if it names none."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    if text:
        return _until(text, now)
    reset = headers.get("x-ratelimit-reset", "")
    if headers.get("x-ratelimit-remaining") == "0" and reset.isascii() and reset.isdigit():
        return max(0.0, float(reset[:12]) - now)
    return None


def _until(date: str, now: float) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now)


_TAKEN_ALONG = ("accept", "accept-encoding", "accept-language", "content-type", "user-agent")
_CONDITIONS = ("if-none-match", "if-modified-since")


def redirected(message: HttpRequest, reply: HttpReply) -> HttpRequest:
    """The request that follows a redirect. To another host go only headers that can't be credentials.

    Raises `ForbiddenAddressError`, and `SourceRefusedError` for one that can't be followed.
    """
    here = message.target
    try:
        there = target_of(urljoin(here.url, reply.headers["location"]))
    except ValueError as exc:
        raise SourceRefusedError(f"{here.shown}: redirected to an invalid address", reply.status) from exc
    if message.method == "POST" and reply.status not in (307, 308):
        raise SourceRefusedError(f"{here.shown}: redirected to {there.shown}; set that address", reply.status)
    if _same_party(here, there):
        return replace(message, target=there)
    kept = (*_TAKEN_ALONG, *_CONDITIONS)
    return replace(message, target=there, headers={k: v for k, v in message.headers.items() if k in kept})


def _same_party(here: Target, there: Target) -> bool:
    if here.host != there.host:
        return False
    upgraded = (here.scheme, here.port, there.scheme, there.port) == ("http", 80, "https", 443)
    return upgraded or (here.scheme, here.port) == (there.scheme, there.port)


USER_AGENT = f"opx-knowledge/{__version__}"
TIMEOUT_SECONDS = 60.0
TRIES = 4
MAX_WAIT_SECONDS = 60.0
"""Longer delays demanded by a source end the pull, which continues at its next run."""

MAX_REDIRECTS = 5
MAX_BYTES = 32 * 1024 * 1024
_FIRST_PAUSE = 1.0
_REDIRECTS = (301, 302, 303, 307, 308)
_PASSING = (408, 425, 429)


def open_web(
    *,
    rate: RateLimit | None = None,
    allowed_hosts: Sequence[str] = (),
    validators: Validators | None = None,
    clock: Clock = time.time,
    sleep: Callable[[float], None] = time.sleep,
    timeout: float = TIMEOUT_SECONDS,
    tries: int = TRIES,
) -> HttpWeb:
    """A client for one source. `allowed_hosts` (`wiki.local`, `127.0.0.1:8080`) may be at private addresses; `timeout`
    is for one exchange as a whole, in seconds; a request is sent `tries` times at most. Without `validators`, no request
    is conditional."""
    return HttpWeb(
        book=AddressBook(allowed=allowed_hosts),
        exchanges=Exchanges(seconds=timeout),
        window=RateWindow(rate, clock=clock, sleep=sleep),
        validators=validators,
        clock=clock,
        sleep=sleep,
        tries=tries,
    )


@dataclass(eq=False, kw_only=True)
class HttpWeb:
    """`WebClient` and `PageMemory` over HTTP; for one thread.

    Environment variables for proxies are ignored: behind a proxy, the final address of a request could not be
    checked.
    """

    book: AddressBook
    exchanges: Exchanges
    window: RateWindow
    validators: Validators | None
    clock: Clock
    sleep: Callable[[float], None]
    tries: int = TRIES

    def __post_init__(self) -> None:
        self._slower: RateWindow | None = None
        self._uncommitted: dict[str, dict[str, str]] = {}

    def get(
        self,
        url: str,
        *,
        query: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        conditional: bool = False,
        limit: int = MAX_BYTES,
    ) -> WebReply:
        target = target_of(_with_query(url, query))
        conditions = self._conditions(target.url) if conditional else {}
        message = HttpRequest("GET", target, _headers(headers, conditions), None, limit)
        reply = self._followed(message)
        if conditional and not reply.not_modified:
            self._uncommitted[target.url] = _validators_of(reply)
        return reply

    def post(
        self, url: str, *, json: Any, headers: Mapping[str, str] | None = None, limit: int = MAX_BYTES
    ) -> WebReply:
        body = json_text.dumps(json).encode()
        sent = _headers(headers, {"content-type": "application/json"})
        return self._followed(HttpRequest("POST", target_of(url), sent, body, limit))

    def recall(self, url: str) -> Mapping[str, str]:
        address = target_of(url).url
        known = self._uncommitted.get(address)
        return known if known is not None else self._kept(address)

    def note(self, url: str, notes: Mapping[str, str]) -> None:
        self._uncommitted[target_of(url).url] = {**self.recall(url), **notes}

    def slow_down(self, rate: RateLimit) -> None:
        self._slower = RateWindow(rate, clock=self.clock, sleep=self.sleep)

    def commit_validators(self) -> None:
        """Stores the validators of the replies since the last commit: their content is stored and need not be sent again."""
        if self.validators is not None:
            for url, found in self._uncommitted.items():
                if found != self.validators.get(url):
                    self.validators.put(url, found)
        self._uncommitted.clear()

    def close(self) -> None:
        """Closes all connections. Replies that weren't committed are sent again the next time."""
        self.exchanges.close()

    def _kept(self, url: str) -> Mapping[str, str]:
        return self.validators.get(url) if self.validators is not None else {}

    def _conditions(self, url: str) -> dict[str, str]:
        known = self._kept(url)
        pairs = (("if-none-match", "etag"), ("if-modified-since", "last-modified"))
        return {condition: known[name] for condition, name in pairs if known.get(name)}

    # -- one request: redirects, and retries of each step

    def _followed(self, message: HttpRequest) -> WebReply:
        seen = set()
        for _ in range(MAX_REDIRECTS + 1):
            seen.add(message.target.url)
            reply = self._sent(message)
            if reply.status not in _REDIRECTS or "location" not in reply.headers:
                return _accepted(message.target, reply)
            onward = redirected(message, reply)
            if onward.target.url in seen:
                raise SourceRefusedError(f"{message.target.shown}: redirected in a circle", reply.status)
            if self.book.is_allowed(onward.target) and not self.book.is_allowed(message.target):
                raise ForbiddenAddressError(
                    f"{message.target.shown} redirects to {onward.target.netloc}, which is allowed only if requested directly"
                )
            message = onward
        raise SourceRefusedError(f"{message.target.shown}: redirected more than {MAX_REDIRECTS} times")

    def _sent(self, message: HttpRequest) -> HttpReply:
        """The reply to one step, with retries."""
        pauses = (_FIRST_PAUSE * 2**attempt for attempt in range(self.tries - 1))
        while True:
            try:
                reply = self._exchanged(message)
                wait = retry_after(reply.headers, self.clock())
                if not _may_pass(reply, wait):
                    return reply
                problem = f"{message.target.shown}: status {reply.status}"
                failure = SourceUnavailableError(problem, wait or 0.0, reply.body)
            except TooSlowError:
                raise
            except SourceUnavailableError as exc:
                failure, wait = exc, None
            pause = next(pauses, None)
            if pause is None or (wait or 0.0) > MAX_WAIT_SECONDS:
                raise failure
            self.sleep(pause if wait is None else wait)

    def _exchanged(self, message: HttpRequest) -> HttpReply:
        addresses = self.book.addresses(message.target)
        self.window.wait()
        if self._slower:
            self._slower.wait()
        return self.exchanges.send(message, addresses)


def _with_query(url: str, query: Mapping[str, str | int] | None) -> str:
    if not query:
        return url
    address, mark, fragment = url.partition("#")
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}{mark}{fragment}"


def _headers(given: Mapping[str, str] | None, own: Mapping[str, str]) -> dict[str, str]:
    return {
        "user-agent": USER_AGENT,
        "accept-encoding": "gzip, deflate",
        **{name.lower(): value for name, value in (given or {}).items()},
        **own,
    }


def _may_pass(reply: HttpReply, wait: float | None) -> bool:
    """True if a request may succeed later. Some services send 403 instead of 429, with a time to retry."""
    return reply.status >= 500 or reply.status in _PASSING or (reply.status == 403 and wait is not None)


def _accepted(target: Target, reply: HttpReply) -> WebReply:
    if 200 <= reply.status < 300 or reply.status in (304, 404, 410):
        return WebReply(target.url, reply.status, reply.headers, reply.body)
    advice = {401: ": the credentials are missing or wrong", 403: ": access is not allowed"}.get(reply.status, "")
    raise SourceRefusedError(f"{target.shown}: status {reply.status}{advice}", reply.status, reply.body)


def _validators_of(reply: WebReply) -> dict[str, str]:
    """Validators to store. None for a page that is gone: if it comes back unchanged, it must be sent whole."""
    if reply.gone:
        return {}
    return {name: reply.headers[name] for name in ("etag", "last-modified") if reply.headers.get(name)}


# -- exchanges


CONNECT_SECONDS = 10.0
MAX_POOLS = 8
_BLOCK = 64 * 1024


class TooSlowError(SourceUnavailableError):
    """An exchange used up its time; an immediate retry would as well."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """Header names are in lower case; several of one name are joined by commas."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request. `limit`: most bytes of the reply, as received and as decompressed."""

    method: str
    target: Target
    headers: Mapping[str, str]
    body: bytes | None
    limit: int


class Exchanges:
    """Keeps connections to checked addresses. `seconds`: time limit of a whole exchange."""

    def __init__(self, *, seconds: float, tls: ssl.SSLContext | None = None) -> None:
        self._seconds = seconds
        self._tls = tls
        self._pools: dict[tuple[str, str, int, str], HTTPConnectionPool] = {}

    def send(self, message: HttpRequest, addresses: tuple[str, ...]) -> HttpReply:
        """The reply from the first address that accepts a connection, read to its end. Raises `SourceUnavailableError`
        for temporary failures, and `SourceRefusedError` if the host's certificate is not trusted or the reply is too
        large."""
        target = message.target
        deadline = time.monotonic() + self._seconds
        for last, address in ((address == addresses[-1], address) for address in addresses):
            try:
                return self._send(message, address, deadline)
            except (NewConnectionError, ConnectTimeoutError) as exc:
                if last:
                    raise SourceUnavailableError(f"no connection to {target.netloc}: {_reason(exc)}") from exc
            except SSLError as exc:
                if exc.args and isinstance(exc.args[0], ssl.SSLCertVerificationError | CertificateError):
                    raise SourceRefusedError(f"no trusted connection to {target.netloc}: {_reason(exc)}") from exc
                raise SourceUnavailableError(f"the connection to {target.netloc} broke off: {_reason(exc)}") from exc
            except (HTTPError, OSError) as exc:
                if time.monotonic() >= deadline:
                    raise self._too_slow(target) from exc
                raise SourceUnavailableError(f"{target.shown}: the reply broke off: {_reason(exc)}") from exc
        raise AssertionError("an exchange needs an address")

    def close(self) -> None:
        """Closes all connections."""
        while self._pools:
            self._pools.popitem()[1].close()

    def _send(self, message: HttpRequest, address: str, deadline: float) -> HttpReply:
        target = message.target
        left = deadline - time.monotonic()
        if left <= 0:
            raise self._too_slow(target)
        response = self._pool(target, address).urlopen(
            message.method,
            target.path,
            body=message.body,
            headers={**message.headers, "Host": target.netloc},
            retries=False,
            redirect=False,
            assert_same_host=False,
            preload_content=False,
            timeout=Timeout(connect=min(CONNECT_SECONDS, left), read=left),
        )
        with _closed_unless_read(response), _ended(deadline, response.shutdown):
            body = _body(response, message)
        if time.monotonic() >= deadline:  # a reply without a length looks complete when its connection is ended
            raise self._too_slow(target)
        joined = {name.lower(): response.headers[name] for name in response.headers}
        return HttpReply(response.status, joined, body)

    def _too_slow(self, target: Target) -> TooSlowError:
        return TooSlowError(f"{target.shown} took longer than {self._seconds:g} seconds")

    def _pool(self, target: Target, address: str) -> HTTPConnectionPool:
        key = (target.scheme, target.host, target.port, address)
        if key not in self._pools:
            if len(self._pools) >= MAX_POOLS:
                self._pools.pop(next(iter(self._pools))).close()
            self._pools[key] = self._new_pool(target, address)
        return self._pools[key]

    def _new_pool(self, target: Target, address: str) -> HTTPConnectionPool:
        if target.scheme == "http":
            pool = HTTPConnectionPool(address, target.port, maxsize=1)
            pool.ConnectionCls = _PlainConnection
            return pool
        if self._tls is None:
            self._tls = ssl.create_default_context()
        secure = HTTPSConnectionPool(
            address,
            target.port,
            maxsize=1,
            ssl_context=self._tls,
            assert_hostname=target.host,  # the name is verified, although the connection is to an address
            server_hostname=target.host,
        )
        secure.ConnectionCls = _SecureConnection
        return secure


class _PlainConnection(HTTPConnection):
    """Ends a connection whose reply doesn't begin in time: a socket's time-out applies to each byte."""

    def getresponse(self) -> HTTPResponse:  # type: ignore[override] # as in the base class
        with _head_in_time(self):
            return super().getresponse()


class _SecureConnection(HTTPSConnection):
    """As `_PlainConnection`, with TLS."""

    def getresponse(self) -> HTTPResponse:  # type: ignore[override] # as in the base class
        with _head_in_time(self):
            return super().getresponse()


@contextmanager
def _head_in_time(connection: HTTPConnection) -> Iterator[None]:
    sock, seconds = connection.sock, connection.timeout
    assert isinstance(seconds, float)
    assert sock is not None
    with _ended(time.monotonic() + seconds, lambda: sock.shutdown(socket.SHUT_RDWR)):
        yield


@contextmanager
def _ended(deadline: float, end: Callable[[], None]) -> Iterator[None]:
    """Ends the connection if the block isn't left before the deadline, so that a blocked read returns."""

    def at_deadline() -> None:
        with suppress(OSError, RuntimeError, ValueError):  # the connection has ended by itself
            end()

    timer = threading.Timer(max(0.0, deadline - time.monotonic()), at_deadline)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def _closed_unless_read(response: BaseHTTPResponse) -> Iterator[None]:
    try:
        yield
    except BaseException:
        response.close()
        raise
    response.release_conn()


def _body(response: BaseHTTPResponse, message: HttpRequest) -> bytes:
    length = response.headers.get("content-length", "")
    is_length = length.isascii() and length.isdigit() and len(length) < 19
    if is_length and int(length) > message.limit and message.method != "HEAD":
        raise _too_large(message)
    body = bytearray()
    for block in response.stream(_BLOCK, decode_content=True):
        body += block
        if len(body) > message.limit or response.tell() > message.limit:
            raise _too_large(message)
    return bytes(body)


def _too_large(message: HttpRequest) -> SourceRefusedError:
    return SourceRefusedError(f"{message.target.shown}: the reply is larger than {message.limit:,} bytes")


def _reason(exc: BaseException) -> str:
    """The innermost message of an error; urllib3 wraps it with objects' addresses."""
    text = str(exc.__cause__ or exc.__context__ or exc)
    return text.rpartition("object at 0x")[2].partition(": ")[2] or text
