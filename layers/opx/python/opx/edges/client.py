"""Calls operations of a deployed system over its HTTP API."""

from __future__ import annotations

import json
import logging
import random
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeVar
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import msgspec

import opx
from opx import errors
from opx.domain.record import Record
from opx.domain.requests import Request, read_request
from opx.edges.calling import decoded, encoded, given_of
from opx.operations.corpus import API_VERSION, Status
from opx.operations.registry import DEFAULT_KNOWLEDGE_BASE, REGISTRY, HttpRoute, Operation, Run
from opx.settings import Settings

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

log = logging.getLogger(__name__)


Q = TypeVar("Q", bound=Request)
R = TypeVar("R")


class _Version(Record, frozen=True):
    api_version: int = API_VERSION


class RemoteClient:
    """Calls operations of the system whose API is at `endpoint`. The caller's identity follows from the proof of `authorize`.

    A request that is throttled, that the system can't serve for now, or that gets no answer is retried: every operation
    is idempotent.
    """

    def __init__(
        self, endpoint: str, authorize: Authorizer, connections: HttpConnections, *, pause: Pause = time.sleep
    ) -> None:
        self.connections = connections
        self.pause = pause
        self._api = ApiClient(endpoint, authorize, connections, pause=pause)

    @property
    def endpoint(self) -> str:
        """The address of the API."""
        return self._api.endpoint

    def close(self) -> None:
        """Closes all connections."""
        self.connections.close()

    def call(self, run: Run[Q, R], request: Q) -> R:
        """The reply of an operation, which may have fields that this version doesn't know. Raises the errors that the API
        reports, `InvalidInputError` for an operation without a route, and `OpxError` for an answer that this version
        doesn't understand."""
        operation = REGISTRY.of(run)
        if operation.route is None:
            raise errors.InvalidInputError(
                f"{operation.name} works where the stores are: omit --profile and --api, and for a system on AWS set "
                "OPX_BACKEND=aws and the settings of its functions"
            )
        given = given_of(request)
        read_request(operation.request, given)
        path, query, body = _parts(operation.route, given)
        data = self._api.send(operation.route.method, path + (f"?{query}" if query else ""), body)
        reply: R = self._read(operation, data)
        return reply

    def _read(self, operation: Operation[Any, Any], data: bytes) -> Any:
        try:
            if operation.reply is Status:
                self._check_version(decoded(data, _Version))
            reply = decoded(data, operation.reply)
        except msgspec.ValidationError as exc:
            raise errors.OpxError(
                f"{self.endpoint} answered in a way that opx {opx.__version__} doesn't understand ({exc}): "
                "one of the two is newer, bring both to the same version"
            ) from exc
        except (ValueError, RecursionError) as exc:
            raise errors.OpxError(
                f"{self.endpoint} answered {operation.name} with something other than JSON: is it the API's address?"
            ) from exc
        return reply

    def _check_version(self, found: _Version) -> None:
        """Raises `OpxError` for a newer system; called before the other fields are decoded, as their types may differ."""
        if found.api_version > API_VERSION:
            raise errors.OpxError(
                f"the system at {self.endpoint} is newer than this command: update opx ({opx.__version__})"
            )


def _parts(route: HttpRoute, given: Mapping[str, Any]) -> tuple[str, str, bytes | None]:
    """Path, query and body of a request."""
    rest = {"kbId": DEFAULT_KNOWLEDGE_BASE, **given}
    path = route.path
    for name in route.path_names:
        text = str(rest.pop(name))
        _check_segments(name, text)
        path = path.replace(f"{{{name}}}", quote(text, safe="")).replace(f"{{{name}+}}", quote(text, safe="/"))
    rest.pop("kbId", None)
    if route.takes_body:
        return path, "", encoded(rest)
    return path, urlencode({name: _text(value) for name, value in rest.items()}, doseq=True, quote_via=quote), None


def _check_segments(name: str, text: str) -> None:
    """Raises `InvalidInputError` for a value that would change the path: an empty segment, `.` or `..`."""
    if {"", ".", ".."} & set(text.split("/")):
        words = re.sub("[A-Z]", lambda letter: f" {letter[0].lower()}", name)
        raise errors.InvalidInputError(f"{text!r} is not a {words}")


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


# -- requests to the API


ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 20.0
AGAIN = (429, 502, 503, 504)
_USER_AGENT = f"opx-knowledge/{opx.__version__}"

Pause = Callable[[float], None]


class HttpConnections(Protocol):
    """HTTP connections to any hosts, implemented by `opx.adapters.connections`."""

    def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | BinaryIO | None
    ) -> BaseHTTPResponse:
        """Sends one request, without retry or redirect, and reads the answer. Raises `StoreUnavailableError` if none comes,
        and `OpxError` if the server's certificate is not trusted."""

    def close(self) -> None:
        """Closes all connections."""


class Authorizer(Protocol):
    """Adds credentials to a request."""

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, /) -> Mapping[str, str]:
        """The headers to send. Raises `AccessDeniedError` if there are no credentials to use."""


def bearer(token: str) -> Authorizer:
    """Authorizes with a token, for APIs that accept JWTs. Raises `AccessDeniedError` for one that no header can hold."""
    text = token.strip()
    if not text.isascii() or any(character.isspace() for character in text):
        raise errors.AccessDeniedError("OPX_API_TOKEN is not a token: it has blanks or characters that aren't ASCII")

    def authorize(_method: str, _url: str, headers: Mapping[str, str], _body: bytes | None) -> Mapping[str, str]:
        return {**headers, "Authorization": f"Bearer {text}"}

    return authorize


class ApiClient:
    """Sends requests to one API. All of them are idempotent.

    A request that is throttled, that the system can't serve for now, or that gets no answer is tried up to five times,
    with pauses that about double or follow the answer's `Retry-After`. Thread-safe.
    """

    def __init__(
        self, endpoint: str, authorize: Authorizer, connections: HttpConnections, *, pause: Pause = time.sleep
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
        check_endpoint(self.endpoint)
        self._authorize = authorize
        self._connections = connections
        self._pause = pause

    def send(self, method: str, address: str, body: bytes | None) -> bytes:
        """The body of a successful answer. `address` is the encoded path with its query.

        Raises `InvalidInputError` (400, 413), `UnknownCategoryError`, `NotFoundError` (404), `ConditionFailedError` (409),
        `AccessDeniedError` (401, 403), and `StoreUnavailableError` for temporary errors.
        """
        url = self.endpoint + address
        response = self._repeated(method, url, body)
        if not 200 <= response.status < 300:
            raise error_of(response.status, response.data, response.headers, method, url)
        return response.data

    def _repeated(self, method: str, url: str, data: bytes | None) -> BaseHTTPResponse:
        """The response of the last attempt."""
        for attempt in range(1, ATTEMPTS + 1):
            response, problem = self._once(method, url, data)
            if response is not None and response.status not in AGAIN:
                return response
            if attempt < ATTEMPTS:
                seconds = pause_before(attempt, response.headers if response is not None else {})
                log.info("%s %s: %s; again in %.1f s", method, url.partition("?")[0], problem, seconds)
                self._pause(seconds)
        if response is not None:
            return response
        raise errors.StoreUnavailableError(f"{self.endpoint} doesn't answer: {problem}")

    def _once(self, method: str, url: str, data: bytes | None) -> tuple[BaseHTTPResponse | None, str]:
        """The response with its status as text, or None and the reason."""
        headers = {"Accept": "application/json", "User-Agent": _USER_AGENT}
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            response = self._connections.request(method, url, self._authorize(method, url, headers, data), data)
        except errors.StoreUnavailableError as exc:
            return None, str(exc)
        return response, f"status {response.status}"


LOOPBACK = ("127.0.0.1", "localhost", "::1")
HOME_FILE = "token"
"""The file of a home with the token of its server, which only its owner can read."""


def is_loopback(host: str) -> bool:
    """True if only programs of this machine can reach the host."""
    return host in LOOPBACK


def parts_of(url: str) -> SplitResult:
    """The parts of an address. Raises `InvalidInputError` for text that is none."""
    try:
        return urlsplit(url)
    except ValueError as exc:
        raise errors.InvalidInputError(f"{url!r} is no address of an API: {exc}") from exc


def token_for(settings: Settings) -> str:
    """The token for requests to the API: the configured one, or for a server of this machine that of the home; else ""."""
    if not settings.api_token and is_loopback(parts_of(settings.api_url).hostname or ""):
        with suppress(OSError):
            return (settings.home_path / HOME_FILE).read_text(errors="replace")
    return settings.api_token


def check_endpoint(url: str) -> None:
    """Raises `InvalidInputError` for anything but the address of an API, and for one that would send a token unencrypted."""
    parts = parts_of(url)
    local = is_loopback(parts.hostname or "")
    if "@" in parts.netloc:
        raise errors.InvalidInputError(
            f"the address of {parts.hostname} has a user or a password, which would be shown and logged: leave them out, and "
            "give a token (OPX_API_TOKEN)"
        )
    if not parts.hostname or parts.query or parts.fragment or not (parts.scheme == "https" or local):
        raise errors.InvalidInputError(f"{url!r} is no address of an API: https://..., without a query or fragment")


def pause_before(attempt: int, headers: Mapping[str, str]) -> float:
    """Seconds after failed attempt `attempt` (from 1): the value of `Retry-After`, else doubling, less a random part of up
    to half, so that many clients don't return at once."""
    requested = headers.get("Retry-After", "")
    if requested.isascii() and requested.isdigit():
        return min(float(requested), LONGEST_PAUSE_SECONDS)
    doubled = min(FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1), LONGEST_PAUSE_SECONDS)
    return doubled * random.uniform(0.5, 1)  # noqa: S311 - not a secret


# -- errors of the API and of API Gateway

_SHOWN = 300
_BY_CODE: Mapping[str, type[errors.OpxError]] = {
    "invalid_argument": errors.InvalidInputError,
    "unknown_category": errors.UnknownCategoryError,
    "not_found": errors.DocumentNotFoundError,
    "too_large": errors.InvalidInputError,
    "conflict": errors.ConditionFailedError,
    "forbidden": errors.AccessDeniedError,
    "unavailable": errors.StoreUnavailableError,
    "held": errors.HeldError,
    "bulk_busy": errors.BulkBusyError,
}
_MISSING: Mapping[str, type[errors.OpxError]] = {kind.kind: kind for kind in errors.NotFoundError.__subclasses__()}


_REFUSALS: Mapping[int, tuple[type[errors.OpxError], str]] = {
    401: (
        errors.AccessDeniedError,
        "{host} doesn't accept the token of OPX_API_TOKEN ({status}): it has expired, or is of another issuer",
    ),
    403: (errors.AccessDeniedError, "{host} refused {action} ({status}): {permission}"),
    404: (
        errors.OpxError,
        "{host} knows no {action} ({status}): it is no such API, or was deployed from an older version",
    ),
    413: (errors.InvalidInputError, "{action} is too large for the API ({status})"),
    429: (errors.StoreUnavailableError, "{host} throttles requests ({status}): try again in a while"),
    **dict.fromkeys((502, 503, 504), (errors.StoreUnavailableError, "{host} can't answer {action} for now ({status})")),
}
"""Errors of API Gateway itself, by status."""


def error_of(status: int, body: bytes, headers: Mapping[str, str], method: str, url: str) -> errors.OpxError:
    """The error of an answer: the API's own, or one for the status of API Gateway, which reports hardly any reason."""
    code, message, what = _error_fields(body)
    if what in _MISSING:
        return _MISSING[what](message)
    if code in _BY_CODE:
        return _BY_CODE[code](message)
    parts = urlsplit(url)
    host, action = parts.netloc, f"{method} {parts.path}"
    shown = f"{status}, {message[:_SHOWN]}" if message else str(status)
    if status in _REFUSALS:
        kind, text = _REFUSALS[status]
        return kind(text.format(host=host, action=action, status=shown, permission=_permission(host, action)))
    request = headers.get("apigw-requestid", "")
    which = f", request {request}" if request else ""
    kind = errors.StoreUnavailableError if status >= 500 else errors.OpxError
    return kind(f"{host} answered {action} with status {shown}{which}; its log may have details")


def _error_fields(body: bytes) -> tuple[str, str, str]:
    """Code and message of an error of the API, with the kind of a missing resource; or "" and the message of API Gateway."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return "", "", ""
    if not isinstance(found, dict):
        return "", "", ""
    error = found.get("error")
    if isinstance(error, dict):
        return str(error.get("code", "")), str(error.get("message", "")), str(error.get("what", ""))
    return "", str(found.get("message", "")), ""


def _permission(host: str, action: str) -> str:
    """The permission that a caller lacks whom API Gateway refused."""
    api, _, rest = host.partition(".execute-api.")
    if not rest:
        return "the credentials don't allow it"
    resource = f"arn:aws:execute-api:{rest.split('.')[0]}:*:{api}/*/{action.replace(' ', '', 1)}"
    return (
        f"it needs execute-api:Invoke on {resource}, or a token with the right scope; expired credentials look the same"
    )
