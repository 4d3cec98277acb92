"""What sources are read with: the web, secrets, and times at which they are pulled."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from opx.domain.sources import RateLimit, SourceDefinition, StreamDefinition
from opx.errors import SourceShapeError


@dataclass(frozen=True, slots=True)
class WebReply:
    """A reply to a request. `url` is where redirects led; header names are in lower case; `body` is decoded (gzip)."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def not_modified(self) -> bool:
        """Nothing changed since the validators that were sent."""
        return self.status == 304

    @property
    def gone(self) -> bool:
        """There is nothing at the address (404, 410)."""
        return self.status in (404, 410)

    def text(self) -> str:
        """The body as text, in the charset that it declares, else UTF-8; bytes that are none become U+FFFD."""
        kind = self.headers.get("content-type", "")
        charset = kind.partition("charset=")[2].partition(";")[0].strip(" \"'") or "utf-8"
        try:
            return self.body.decode(charset, errors="replace")
        except (LookupError, UnicodeError):  # no charset, or one that is none of texts
            return self.body.decode("utf-8", errors="replace")

    def json(self) -> Any:
        """The body as JSON. Raises `SourceShapeError` if it is none (an error page, or one that was cut)."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as exc:
            raise SourceShapeError(f"{self.url}: the reply is not JSON: {str(exc)[:100]}") from exc


class WebClient(Protocol):
    """Requests to the outside, for one source: within its rate limit, retried, and to public addresses alone.

    Each address is resolved and checked, and the connection goes to the address that was checked; so does every
    redirect (5 at most), which takes no credentials to another host. Replies above `limit` bytes (also once they are
    unpacked) are refused. What may pass (no connection, a reply that breaks off, 429, 5xx) is tried again, as
    `Retry-After` says where it is short. Raises `ForbiddenAddressError`, `SourceUnavailableError`, and
    `SourceRefusedError` for any other status than 2xx, 304, 404 and 410.
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
        """A request with a JSON body that changes nothing, such as a search. Tried again like `get`."""


class SourceWeb(WebClient, Protocol):
    """A client with connections of its own, for one source and one thread."""

    def commit_validators(self) -> None:
        """Keep the validators of the replies since the last commit: what they brought is stored."""

    def close(self) -> None:
        """Release connections."""


class OpenWeb(Protocol):
    """Makes a client of the web."""

    def __call__(
        self,
        *,
        rate: RateLimit | None = None,
        allowed_hosts: Sequence[str] = (),
        validators: Validators | None = None,
        clock: Callable[[], float] = ...,
        sleep: Callable[[float], None] = ...,
        timeout: float = ...,
    ) -> SourceWeb:
        """A client for one source. `allowed_hosts` (`wiki.local`, `127.0.0.1:8080`) may be at private addresses; `timeout`
        is for one exchange as a whole, in seconds. Without `validators`, no request is conditional."""


@runtime_checkable
class PageMemory(Protocol):
    """What a client for the web may keep of pages beside their validators, for a reader that follows their links: a
    page that is not modified is not sent again. And such a reader learns late how slow a site wants it to be."""

    def recall(self, url: str) -> Mapping[str, str]:
        """What was noted of a page, with its validators; empty if nothing was."""

    def note(self, url: str, notes: Mapping[str, str]) -> None:
        """Keep short texts with the page's validators, replacing those of the same names. They are kept for good by the
        next commit."""

    def slow_down(self, rate: RateLimit) -> None:
        """Keep this rate, too, from now on."""


class Validators(Protocol):
    """What replies said of their version (`etag`, `last-modified`), by address, with what was noted of the page; kept
    between pulls of one source."""

    def get(self, url: str) -> Mapping[str, str]:
        """Those of the last reply that was kept; empty if there are none."""

    def put(self, url: str, validators: Mapping[str, str]) -> None:
        """Keep these, replacing what was kept; empty ones forget it."""


class Secrets(Protocol):
    """Credentials by name."""

    def get(self, name: str) -> str:
        """The secret with this name. Raises `SecretNotFoundError` that says how to set it."""


@runtime_checkable
class WritableSecrets(Secrets, Protocol):
    """Where secrets can be set."""

    def names(self) -> list[str]:
        """The names of all, in order."""

    def put(self, name: str, value: str) -> None:
        """Set a secret, replacing what it was."""

    def delete(self, name: str) -> None:
        """Remove a secret. Removing what is not there does nothing."""


class SourceSchedules(Protocol):
    """When registered sources are pulled, where something outside of this process sees to it."""

    def put(self, definition: SourceDefinition) -> None:
        """Have the source pulled as its schedule says, replacing what was set for it; not at all without a schedule or
        while it isn't enabled. Raises `InvalidInputError` for a schedule that can't be followed."""

    def delete(self, source_id: str) -> None:
        """Stop pulling it. Nothing happens if it never was."""


class StreamSubscriptions(Protocol):
    """Has streams read, where something outside of this process does it."""

    def put(self, definition: StreamDefinition) -> str:
        """Have the stream read, replacing how it was. Returns what the subscription is called there. Raises
        `InvalidInputError` for a stream that can't be read there."""

    def delete(self, definition: StreamDefinition) -> None:
        """Have it read no more. Nothing happens if it never was."""


# -- web search


@dataclass(frozen=True, slots=True)
class WebResult:
    """A page that was found. `text` is a passage of it, plain; `published` is ISO 8601, "" if it isn't known."""

    title: str
    url: str
    text: str
    published: str = ""


class WebSearch(Protocol):
    """An engine, named for notes and caches."""

    @property
    def name(self) -> str: ...

    def search(self, query: str, limit: int) -> list[WebResult]:
        """Up to `limit` (1-10) pages, the best first, each address once; `[]` if there are none. Raises
        `SourceUnavailableError`, `SourceRefusedError`, `SourceShapeError`, `ForbiddenAddressError`, and
        `SecretNotFoundError` if there is no key."""
