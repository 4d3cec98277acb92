"""What every connector is: it pulls page by page, says whether it is well, and declares its options.

A connector reads; it stores nothing and knows nothing of what was taken in before. Times, cursors and documents that
vanished are kept by `opx.sources.pulling`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from msgspec import Meta

from opx.domain.knowledge import Tier
from opx.domain.record import Record
from opx.domain.sources import Health, Page, PullRequest, RateLimit, SourceDefinition, SourceDocument
from opx.errors import (
    ForbiddenAddressError,
    InvalidInputError,
    SecretNotFoundError,
    SourceRefusedError,
    SourceShapeError,
    SourceUnavailableError,
)
from opx.operations.requests import RequestError, fields_of, read_record
from opx.ports.objects import ObjectStore
from opx.ports.sources import Secrets, WebClient
from opx.ports.time import Clock

O = TypeVar("O")  # noqa: E741 - options
P = TypeVar("P", bound="Options")

Texts = tuple[Annotated[str, Meta(min_length=1)], ...]


class Options(Record, frozen=True, rename=None, forbid_unknown_fields=True):
    """Base of options of connectors: strings, numbers, flags and `Texts`. Those without a default must be given. Options
    that name a secret end with `_secret`."""


def nothing_known(keys: Sequence[str]) -> Collection[str]:  # noqa: ARG001
    """None of these was taken in before."""
    return ()


@dataclass(frozen=True, slots=True)
class SourceTools:
    """What connectors read with. `web` keeps the rate limit of the source that it was made for.

    `known` gives those of some keys whose documents were taken in before: only these may be called `unchanged`.
    `addresses` are those that a connection to a host and port may go to, for what is no web site; it raises
    `ForbiddenAddressError` and `SourceUnavailableError`. `buckets` opens a bucket of objects by its name.
    """

    web: WebClient
    secrets: Secrets
    clock: Clock
    known: Callable[[Sequence[str]], Collection[str]] = nothing_known
    addresses: Callable[[str, int], Sequence[str]] | None = None
    buckets: Callable[[str], ObjectStore] | None = None


class Connector(ABC, Generic[O]):
    """A source of one kind."""

    options_type: ClassVar[type[Options]]

    def __init__(self, definition: SourceDefinition, options: O, tools: SourceTools) -> None:
        self.definition = definition
        self.options = options
        self.web = tools.web
        self.secrets = tools.secrets
        self.clock = tools.clock
        self.known = tools.known

    @classmethod
    def rate_limit(cls, options: O) -> RateLimit | None:  # noqa: ARG003
        """How often the source lets itself be asked; None if it doesn't say."""
        return None

    @classmethod
    def reads_files(cls, options: O) -> bool:  # noqa: ARG003
        """Whether it reads files of this machine, which a deployed system must not do for those who ask it."""
        return False

    @abstractmethod
    def pull(self, request: PullRequest) -> Iterator[Page]:
        """Pages of documents: at least one, each with the cursor behind it, in an order in which a pull can be
        interrupted after any of them. Raises `SourceUnavailableError`, `SourceRefusedError`, `SourceShapeError` and
        `ForbiddenAddressError`: what was given before stays."""

    @abstractmethod
    def probe(self) -> None:
        """Ask the source for as little as shows that credentials and shape are right. Raises as `pull`."""

    def check(self) -> Health:
        """Whether the source can be pulled, without raising for what is wrong with it."""
        try:
            self.probe()
        except (
            SourceUnavailableError,
            SourceRefusedError,
            SourceShapeError,
            ForbiddenAddressError,
            SecretNotFoundError,
        ) as exc:
            return Health(ok=False, reason=str(exc))
        return Health(ok=True)

    # -- the interface that any source has

    @property
    def name(self) -> str:
        return self.definition.source_id

    @property
    def tier(self) -> Tier:
        return self.definition.tier

    def local_path(self, text: str) -> Path:
        """A file or folder of this machine. Raises `InvalidInputError`."""
        path = Path(text).expanduser()
        if not path.is_absolute():
            raise InvalidInputError(f"{self.name}: path must be absolute, not {text!r}")
        return path

    def fetch(self, since: str | None = None) -> Iterator[SourceDocument]:
        for page in self.pull(PullRequest(since or "")):
            yield from page.documents

    def health_check(self) -> bool:
        return self.check().ok


def read_options(kind: type[P], values: Mapping[str, Any], *, of: str) -> P:
    """Options of a connector from what was configured; one string alone is a list of one. Raises `InvalidInputError` that
    names the option and what is allowed. `of` says whose options they are."""
    known = {each.name: each for each in fields_of(kind)}
    for name, value in values.items():
        if name not in known:
            raise InvalidInputError(f"{of}: unknown option {name!r}; allowed: {', '.join(known) or 'none'}")
        if value is None:
            raise InvalidInputError(f"{of}: the option {name!r} has no value; leave it out")
    for name, each in known.items():
        if name not in values and each.required:
            raise InvalidInputError(f"{of}: the option {name!r} is needed")
    given = {
        name: [value] if known[name].is_list and isinstance(value, str) else value for name, value in values.items()
    }
    try:
        return read_record(kind, given)
    except RequestError as exc:
        raise InvalidInputError(f"{of}: option {exc}") from exc
