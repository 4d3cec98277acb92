"""Ports for connectors: web client, secrets, schedules and stream subscriptions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from opx.domain.sources import RateLimit, SourceDefinition, StreamDefinition
from opx.errors import SourceShapeError


@dataclass(frozen=True, slots=True)
class WebReply:
    """A reply to a request. `url` is the final URL after redirects; header names are in lower case; `body` is decoded
    (gzip)."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def not_modified(self) -> bool:
        """True if the page is unchanged since the validators that were sent (304)."""
        return self.status == 304

    @property
    def gone(self) -> bool:
        """True if the page doesn't exist (404, 410)."""
        return self.status in (404, 410)

    def text(self) -> str:
        """The body as text, in the declared charset, else UTF-8; invalid bytes become U+FFFD."""
        kind = self.headers.get("content-type", "")
        charset = kind.partition("charset=")[2].partition(";")[0].strip(" \"'") or "utf-8"
        try:
            return self.body.decode(charset, errors="replace")
        except (LookupError, UnicodeError):  # an unknown charset, or a codec that isn't one of text
            return self.body.decode("utf-8", errors="replace")

    def json(self) -> Any:
        """The body as JSON. Raises `SourceShapeError` if it isn't JSON (an error page, or a truncated one)."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as exc:
            raise SourceShapeError(f"{self.url}: the reply is not JSON: {str(exc)[:100]}") from exc


class WebClient(Protocol):
    """HTTP requests for one source: within its rate limit, with retries, and to public addresses only.

    Each address is resolved and checked, and the connection is made to the checked address; so is every redirect (5 at
    most), which sends no credentials to another host. Replies above `limit` bytes (also after unpacking) are refused.
    Transient failures (no connection, a truncated reply, 429, 5xx) are retried, after `Retry-After` if that is short.
    Raises `ForbiddenAddressError`, `SourceUnavailableError`, and `SourceRefusedError` for any other status than 2xx, 304,
    404 and 410.
    """

    def get(
        self,
        url: str,
        *,
        query: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        conditional: bool = False,
        limit: int = 32 * 1024 * 1024,
    ) -> WebReply:
        """`conditional` sends the validators (ETag, Last-Modified) of the reply that was last committed for the
        address, so that the reply may be `not_modified`."""

    def post(
        self,
        url: str,
        *,
        json: Any,
        headers: Mapping[str, str] | None = None,
        limit: int = 32 * 1024 * 1024,
    ) -> WebReply:
        """A request with a JSON body that changes nothing, such as a search. Retried like `get`."""


class SourceWeb(WebClient, Protocol):
    """A client with connections of its own, for one source and one thread."""

    def commit_validators(self) -> None:
        """Store the validators of the replies since the last commit, after their content was stored."""

    def close(self) -> None:
        """Release connections."""


class OpenWeb(Protocol):
    """Factory of web clients."""

    def __call__(
        self,
        *,
        rate: RateLimit | None = None,
        allowed_hosts: Sequence[str] = (),
        validators: Validators | None = None,
        clock: Callable[[], float] = ...,
        sleep: Callable[[float], None] = ...,
        timeout: float = ...,
        tries: int = ...,
    ) -> SourceWeb:
        """A client for one source. `allowed_hosts` (`wiki.local`, `127.0.0.1:8080`) may be at private addresses; `timeout`
        is for one exchange as a whole, in seconds; a request is sent `tries` times at most. Without `validators`, no request
        is conditional."""


@runtime_checkable
class PageMemory(Protocol):
    """Notes about pages beside their validators, for a crawler: an unmodified page is not sent again, so its links must
    be remembered. A crawler also learns a site's requested rate only while it runs (`slow_down`)."""

    def recall(self, url: str) -> Mapping[str, str]:
        """The notes about a page, with its validators; empty if there are none."""

    def note(self, url: str, notes: Mapping[str, str]) -> None:
        """Add short strings to the page's validators, replacing those of the same names. The next commit stores them."""

    def slow_down(self, rate: RateLimit) -> None:
        """Observe this rate, too, from now on."""


class Validators(Protocol):
    """Validators of replies (`etag`, `last-modified`) by address, with notes about the page; stored between pulls of one
    source."""

    def get(self, url: str) -> Mapping[str, str]:
        """The stored validators of an address; empty if there are none."""

    def put(self, url: str, validators: Mapping[str, str]) -> None:
        """Store these, replacing the earlier ones; empty ones delete the entry."""


class Secrets(Protocol):
    """Credentials by name."""

    def get(self, name: str) -> str:
        """The secret with this name. Raises `SecretNotFoundError` that says how to set it."""


@runtime_checkable
class WritableSecrets(Secrets, Protocol):
    """Secrets that can be set."""

    def names(self) -> list[str]:
        """The names of all, in order."""

    def put(self, name: str, value: str) -> None:
        """Set a secret, replacing its value."""

    def delete(self, name: str) -> None:
        """Remove a secret. Removing a missing one does nothing."""


class SourceSchedules(Protocol):
    """Schedules of registered sources, where a service outside of this process triggers the pulls."""

    def put(self, definition: SourceDefinition) -> None:
        """Set the source's schedule, replacing the earlier one; none without a schedule or while it is disabled. Raises
        `InvalidInputError` for a schedule that the service doesn't support."""

    def delete(self, source_id: str) -> None:
        """Stop pulling it. Does nothing if it has no schedule."""


class StreamSubscriptions(Protocol):
    """Subscriptions to streams, where a service outside of this process reads them."""

    def put(self, definition: StreamDefinition) -> str:
        """Subscribe to the stream, replacing an earlier subscription. Returns the subscription's name in the service.
        Raises `InvalidInputError` for a stream that the service can't read."""

    def delete(self, definition: StreamDefinition) -> None:
        """Unsubscribe. Does nothing if there is no subscription."""
