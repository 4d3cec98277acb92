"""Operations of a deployed system, called over its HTTP API."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

import opx
from opx.domain.record import Record
from opx.domain.requests import Request, read_request
from opx.edges.api_requests import ApiClient, Authorizer, Connections, Pause
from opx.edges.calling import decoded, encoded, given_of
from opx.errors import InvalidInputError, OpxError
from opx.operations.corpus import API_VERSION, Status
from opx.operations.registry import DEFAULT_KNOWLEDGE_BASE, REGISTRY, Operation, Route, Run

Q = TypeVar("Q", bound=Request)
R = TypeVar("R")


class _Version(Record, frozen=True):
    api_version: int = API_VERSION


class RemoteClient:
    """Calls operations of the system whose API is at `endpoint`. Who the caller is follows from what `authorize` proves.

    A request that is throttled, that the system can't serve for now, or that gets no answer is tried again: every
    operation leaves the same state however often it is done.
    """

    def __init__(
        self, endpoint: str, authorize: Authorizer, connections: Connections, *, pause: Pause = time.sleep
    ) -> None:
        self.connections = connections
        self.pause = pause
        self._api = ApiClient(endpoint, authorize, connections, pause=pause)

    @property
    def endpoint(self) -> str:
        """The address of the API."""
        return self._api.endpoint

    def close(self) -> None:
        """Close all connections."""
        self.connections.close()

    def call(self, run: Run[Q, R], request: Q) -> R:
        """The reply of an operation, which may have fields that this version doesn't know. Raises the errors that the API
        tells, `InvalidInputError` for an operation that is done on the machine of the system alone, and `OpxError` for an
        answer that this version doesn't understand."""
        operation = REGISTRY.of(run)
        if operation.route is None:
            raise InvalidInputError(
                f"{operation.name} works where the stores are: leave --profile and --api out, and for a system on AWS set "
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
            raise OpxError(
                f"{self.endpoint} answered in a way that opx {opx.__version__} doesn't understand ({exc}): "
                "one of the two is newer, bring both to the same version"
            ) from exc
        except (ValueError, RecursionError) as exc:
            raise OpxError(
                f"{self.endpoint} answered {operation.name} with what is not JSON: is it the API's address?"
            ) from exc
        return reply

    def _check_version(self, found: _Version) -> None:
        """Before anything else of the status is read, which may look different in another version."""
        if found.api_version > API_VERSION:
            raise OpxError(f"the system at {self.endpoint} is newer than this command: update opx ({opx.__version__})")


def _parts(route: Route, given: Mapping[str, Any]) -> tuple[str, str, bytes | None]:
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
    """Raise `InvalidInputError` for what would be another address: an empty part of a path, `.` or `..`."""
    if {"", ".", ".."} & set(text.split("/")):
        words = re.sub("[A-Z]", lambda letter: f" {letter[0].lower()}", name)
        raise InvalidInputError(f"{text!r} is no {words}")


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
