"""Requests to servers of telemetry over HTTP, as section `telemetry` of `knowledge.yaml` declares them.

Prometheus, Loki and the servers with their API wrap every reply alike: status, data, and what went wrong meanwhile
("HTTP API", Prometheus documentation; "Loki HTTP API", Grafana Loki documentation).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from opx.domain.ids import shortened
from opx.domain.record import prepared
from opx.errors import (
    ForbiddenAddressError,
    InvalidInputError,
    SourceRefusedError,
    SourceUnavailableError,
    StoreUnavailableError,
)
from opx.hygiene.untrusted import one_line
from opx.ports.sources import OpenWeb, Secrets, WebClient
from opx.runtime.knowledge_file import Marked

ACCESS = ("token_env", "user", "tenant")
"""Optional fields of a server, besides those of its kind."""

MAX_BYTES = 32 * 1024 * 1024
_MOST_REASON = 300
_SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")
_HEADER = re.compile(r"[!-~]([ -~]*[!-~])?\Z")
"""Characters that the value of a header can have."""

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

T = TypeVar("T")
Query = Mapping[str, str | int]
"""Parameters of a request."""


@dataclass(frozen=True, slots=True)
class Server:
    """A declared server. `url` may have a path. `token_env` names the secret with a bearer token, or with the password of
    `user`; `tenant` is sent as `X-Scope-OrgID`."""

    name: str
    url: str
    token_env: str = ""
    user: str = ""
    tenant: str = ""

    def headers(self, secrets: Secrets) -> dict[str, str]:
        """The headers of each request. Raises `SecretNotFoundError`, and `InvalidInputError` for a malformed token."""
        found = {"accept": "application/json", **({"x-scope-orgid": self.tenant} if self.tenant else {})}
        if not self.token_env:
            return found
        token = secrets.get(self.token_env).strip()
        if self.user:
            pair = base64.b64encode(f"{self.user}:{token}".encode()).decode("ascii")
            return {**found, "authorization": f"Basic {pair}"}
        if not _HEADER.match(token):
            raise InvalidInputError(
                f"the secret {self.token_env} is no token: it has characters that no header can have"
            )
        return {**found, "authorization": f"Bearer {token}"}


def read_server(name: str, fields: Mapping[str, Marked]) -> Server:
    """Reads the address and access of a server. Raises `KnowledgeConfigError`."""
    from opx.hygiene.addresses import target_of

    url, access = fields["url"], {key: fields[key].text() for key in ACCESS if key in fields}
    try:
        target = target_of(url.text())
    except ForbiddenAddressError as exc:
        raise url.error(str(exc)) from exc
    if "?" in url.text() or "#" in url.text():
        raise url.error(f"{url.path} must be an address without ? and #, such as https://prometheus.example:9090")
    if "token_env" in access and not _SECRET_NAME.match(access["token_env"]):
        raise fields["token_env"].error(
            "token_env must be the name of a secret such as PROMETHEUS_TOKEN, not the token"
        )
    if "user" in access and "token_env" not in access:
        raise fields["user"].error("user needs token_env, the name of the secret with the password")
    if "tenant" in access and not _HEADER.match(access["tenant"]):
        raise fields["tenant"].error("tenant must have characters of ASCII only")
    return Server(name, target.url.rstrip("/"), **access)


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    status: str = ""
    data: msgspec.Raw = msgspec.Raw(b"{}")
    error: str = ""
    warnings: list[str] | None = None
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class ServerApi:
    """The API of a server, over one connection."""

    server: Server
    web: WebClient
    headers: Mapping[str, str]

    def get(self, path: str, query: Query, kind: type[T]) -> tuple[T, list[str]]:
        """Returns the data of a reply, and the server's warnings: the data are incomplete then. Raises as `bare`."""
        found = self.bare(path, query, _Envelope)
        if found.status != "success":
            raise self._failure(path, _short(found.error) or "the reply is no success")
        partial = ["the server marks the reply as partial"] if found.is_partial else []
        return self._decoded(path, found.data, kind), [*map(_short, found.warnings or ()), *partial]

    def bare(self, path: str, query: Query, kind: type[T]) -> T:
        """Returns a reply without an envelope. Raises `StoreUnavailableError`, and `ForbiddenAddressError`."""
        try:
            reply = self.web.get(self.server.url + path, query=query, headers=self.headers, limit=MAX_BYTES)
        except (SourceRefusedError, SourceUnavailableError) as exc:
            raise StoreUnavailableError(f"{self.server.name}: {exc}{_reason(exc.body)}") from exc
        if reply.gone:
            raise self._failure(path, f"status {reply.status}: nothing is there; check the path of url")
        return self._decoded(path, reply.body, kind)

    def _decoded(self, path: str, body: bytes | msgspec.Raw, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=prepared(kind))
        except _UNREADABLE as exc:
            page = "the reply is a page of HTML, not JSON: does a proxy or a login answer, or is the path of url wrong?"
            raise self._failure(path, page if _is_page(body) else f"the reply can't be read: {exc}") from exc

    def _failure(self, path: str, problem: str) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self.server.name}: {self.server.url}{path}: {problem}")


def _reason(body: bytes) -> str:
    """The error of a reply, as JSON or as plain text; "" for a page, and without one."""
    try:
        text = msgspec.json.decode(body, type=prepared(_Envelope)).error
    except _UNREADABLE:
        text = "" if _is_page(body) else body.decode(errors="replace")
    return f": {_short(text)}" if text.strip() else ""


def _short(text: str) -> str:
    from opx.hygiene.secrets import mask

    return shortened(one_line(mask(text[: 2 * _MOST_REASON])[0]), _MOST_REASON + 1)


def _is_page(body: bytes | msgspec.Raw) -> bool:
    return bytes(body).lstrip().startswith(b"<")


@dataclass(frozen=True, slots=True)
class Servers:
    """Opens connections to servers: to public addresses, and to `hosts`."""

    secrets: Callable[[], Secrets]
    open_web: OpenWeb
    hosts: Sequence[str]

    @contextmanager
    def connected(self, server: Server, *, seconds: float, tries: int = 1) -> Iterator[ServerApi]:
        """A connection whose requests take at most so long each. Raises as `Server.headers`."""
        headers = server.headers(self.secrets())
        with closing(self.open_web(allowed_hosts=self.hosts, timeout=seconds, tries=tries)) as web:
            yield ServerApi(server, web, headers)
