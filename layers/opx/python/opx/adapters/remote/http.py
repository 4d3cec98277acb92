"""Requests to a deployed system's API: signed, retried, and with what goes wrong as errors of the library."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote, urlencode, urlsplit

from urllib3 import BaseHTTPResponse

import opx
from opx.adapters.remote.connections import Connections
from opx.adapters.remote.replies import error_of
from opx.errors import AccessDeniedError, InvalidInputError, OpxError, StoreUnavailableError

log = logging.getLogger(__name__)

ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 20.0
AGAIN = (429, 502, 503, 504)
_USER_AGENT = f"opx-knowledge/{opx.__version__}"

Query = Mapping[str, str | int | Sequence[str]]
Pause = Callable[[float], None]


class Authorizer(Protocol):
    """Gives a request what proves who sends it."""

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, /) -> Mapping[str, str]:
        """The headers to send. Raises `AccessDeniedError` if there are no credentials to use."""


def bearer(token: str) -> Authorizer:
    """Proves it by a token, for APIs that take JWTs. Raises `AccessDeniedError` for what no header can hold."""
    text = token.strip()
    if not text.isascii() or any(character.isspace() for character in text):
        raise AccessDeniedError("OPX_API_TOKEN is no token: it has blanks or characters that aren't ASCII")

    def authorize(_method: str, _url: str, headers: Mapping[str, str], _body: bytes | None) -> Mapping[str, str]:
        return {**headers, "Authorization": f"Bearer {text}"}

    return authorize


class ApiClient:
    """Calls operations of one API. All of them may be repeated: each leaves the same state however often it is done.

    A request that is throttled, that the system can't serve for now, or that gets no answer is tried up to five times,
    each pause about twice the one before or as long as the answer says. Thread-safe.
    """

    def __init__(
        self, endpoint: str, authorize: Authorizer, connections: Connections, *, pause: Pause = time.sleep
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
        check_endpoint(self.endpoint)
        self._authorize = authorize
        self._connections = connections
        self._pause = pause

    def call(self, method: str, *path: str, query: Query | None = None, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON of a successful answer. `path` in segments, as they are read.

        Raises `InvalidInputError` (400, 413), `UnknownCategoryError`, `DocumentNotFoundError` (404),
        `ConditionFailedError` (409), `AccessDeniedError` (401, 403), and `StoreUnavailableError` for what may pass.
        """
        url = self._url(path) + (f"?{urlencode(query, doseq=True, quote_via=quote)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        return self._json(self._repeated(method, url, data)[0], method, url)

    def send(self, method: str, address: str, body: bytes | None) -> bytes:
        """The body of a successful answer. `address` is the path with its query, as it is written. Raises as `call`."""
        url = self.endpoint + address
        response = self._repeated(method, url, body)[0]
        if not 200 <= response.status < 300:
            raise error_of(response.status, response.data, response.headers, method, url)
        return response.data

    def delete(self, *path: str) -> tuple[Any, bool]:
        """The JSON of the answer to a DELETE, and whether it was repeated: then an attempt whose answer got lost may
        have deleted it already. So nothing to delete (404) is None instead of an error for a repeated one."""
        url = self._url(path)
        response, attempts = self._repeated("DELETE", url, None)
        if attempts > 1 and response.status == 404:
            return None, True
        return self._json(response, "DELETE", url), attempts > 1

    def _url(self, path: Sequence[str]) -> str:
        return f"{self.endpoint}/{'/'.join(quote(segment, safe='') for segment in path)}"

    def _repeated(self, method: str, url: str, data: bytes | None) -> tuple[BaseHTTPResponse, int]:
        """The last response, and how many attempts there were."""
        attempt = 1
        while True:
            response, problem = self._once(method, url, data)
            if response is not None and response.status not in AGAIN:
                return response, attempt
            if attempt == ATTEMPTS:
                break
            seconds = pause_before(attempt, response.headers if response is not None else {})
            log.info("%s %s: %s; again in %.1f s", method, url.partition("?")[0], problem, seconds)
            self._pause(seconds)
            attempt += 1
        if response is not None:
            return response, attempt
        raise StoreUnavailableError(f"{self.endpoint} doesn't answer: {problem}")

    def _once(self, method: str, url: str, data: bytes | None) -> tuple[BaseHTTPResponse | None, str]:
        """The response, or None and what kept it from coming."""
        headers = {"Accept": "application/json", "User-Agent": _USER_AGENT}
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            response = self._connections.request(method, url, self._authorize(method, url, headers, data), data)
        except StoreUnavailableError as exc:
            return None, str(exc)
        return response, f"status {response.status}"

    def _json(self, response: BaseHTTPResponse, method: str, url: str) -> Any:
        if not 200 <= response.status < 300:
            raise error_of(response.status, response.data, response.headers, method, url)
        try:
            return json.loads(response.data)
        except (ValueError, RecursionError) as exc:
            action = f"{method} {url.removeprefix(self.endpoint).partition('?')[0]}"
            raise OpxError(
                f"{self.endpoint} answered {action} with what is not JSON: is it the API's address?"
            ) from exc


def check_endpoint(url: str) -> None:
    """Raise `InvalidInputError` for what isn't the address of an API, or would carry a token in the open."""
    parts = urlsplit(url)
    local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if not parts.hostname or parts.query or parts.fragment or not (parts.scheme == "https" or local):
        raise InvalidInputError(f"{url!r} is no address of an API: https://..., without anything behind a ? or #")


def pause_before(attempt: int, headers: Mapping[str, str]) -> float:
    """Seconds after failed attempt `attempt` (from 1): what `Retry-After` says, else doubling, with up to half as much
    taken off by chance, so that many clients don't come back at once."""
    asked = headers.get("Retry-After", "")
    if asked.isascii() and asked.isdigit():
        return min(float(asked), LONGEST_PAUSE_SECONDS)
    doubled = min(FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1), LONGEST_PAUSE_SECONDS)
    return doubled * random.uniform(0.5, 1)  # noqa: S311 - not a secret
