"""Search of the web by somebody else's engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


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
