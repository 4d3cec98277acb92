"""Connectors: pull a source page by page, check its health, and declare their options.

A connector reads; it stores nothing and doesn't know what was ingested before. `opx.connectors.pulling` keeps times and
cursors, and withdraws documents that vanished. A malformed record is refused, the others of its page are still ingested.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_args

from msgspec import Meta

from opx.domain.ids import Clock, iso_time
from opx.domain.knowledge import Tier
from opx.domain.record import Record
from opx.domain.requests import RequestError, fields_of, read_request
from opx.domain.sources import Cursor, Health, Page, PullRequest, RateLimit, Refused, SourceDefinition, SourceDocument
from opx.errors import (
    ForbiddenAddressError,
    InvalidInputError,
    OpxError,
    PluginError,
    SecretNotFoundError,
    SourceRefusedError,
    SourceShapeError,
    SourceUnavailableError,
)
from opx.formats.data.replies import OddRecordError
from opx.ports.objects import ObjectStore
from opx.ports.sources import Secrets, WebClient
from opx.runtime.machine import path_here

R = TypeVar("R")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Batch:
    """Collects the next page of a pull. `size`: bytes or characters of the documents that were added."""

    documents: list[SourceDocument] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    size: int = 0

    def add(self, *documents: SourceDocument) -> None:
        self.documents += documents
        self.size += sum(len(document.content) for document in documents)

    def refuse(self, key: str, reason: object) -> None:
        self.refused.append(Refused(key, str(reason)))

    @contextmanager
    def refusing(self, key: str) -> Iterator[None]:
        """Refuses the document if the block raises `OddRecordError`."""
        try:
            yield
        except OddRecordError as exc:
            self.refuse(key, exc)

    def page(self, cursor: Cursor | None = None, *, seen_until: str = "", complete: bool = False) -> Page:
        """Returns the page and empties the batch."""
        documents, unchanged = tuple(self.documents), tuple(self.unchanged)
        withdrawn, refused = tuple(self.withdrawn), tuple(self.refused)
        self.documents, self.unchanged, self.withdrawn, self.refused, self.size = [], [], [], [], 0
        return Page(documents, unchanged, withdrawn, refused, cursor or {}, seen_until, complete)


def read_each(records: Iterable[R], read: Callable[[R], SourceDocument], key: Callable[[R], str], of: str) -> Batch:
    """Converts records to documents. Raises `SourceShapeError` if there are several and all are malformed: then their
    format has changed."""
    batch = Batch()
    for record in records:
        try:
            batch.add(read(record))
        except OddRecordError as exc:
            batch.refuse(key(record), exc)
    if len(batch.refused) > 1 and not batch.documents:
        raise SourceShapeError(f"{of}: no record has the expected format; the first: {batch.refused[0].reason}")
    return batch


def page_of(
    records: Iterable[tuple[str, R]],
    read: Callable[[str, R], SourceDocument | None],
    *,
    cursor: Cursor,
    seen_until: str = "",
    complete: bool,
) -> Page:
    """Converts each record, under its key, to a document. One for which `read` returns None is withdrawn; one without the
    expected shape (`SourceShapeError`) is refused with the reason."""
    batch = Batch()
    for key, record in records:
        try:
            document = read(key, record)
        except SourceShapeError as exc:
            batch.refuse(key, exc)
            continue
        if document is None:
            batch.withdrawn.append(key)
        else:
            batch.add(document)
    return batch.page(cursor, seen_until=seen_until, complete=complete)


@contextmanager
def naming_errors(definition: SourceDefinition) -> Iterator[None]:
    """Raises `PluginError`, which names the source, for an error of a connector's code that isn't an `OpxError`."""
    try:
        yield
    except OpxError:
        raise
    except Exception as exc:  # a plugin's code may raise anything
        log.info("source %s", definition.source_id, exc_info=True)
        problem = f"the connector {definition.kind} failed: {type(exc).__name__}: {exc}"
        raise PluginError(f"source {definition.source_id}: {problem}") from exc


def pages_of(connector: Connector[Any], request: PullRequest) -> Iterator[Page]:
    """The pages of a pull. Raises as `Connector.pull`, and `PluginError` for any other error of it."""
    with naming_errors(connector.definition):
        for page in connector.pull(request):
            if not isinstance(page, Page):
                raise TypeError(f"pull yielded {page!r:.100}, which is no Page")
            yield page


O = TypeVar("O")  # noqa: E741 - options
P = TypeVar("P", bound="Options")

Texts = tuple[Annotated[str, Meta(min_length=1)], ...]


class Options(Record, frozen=True, rename=None, forbid_unknown_fields=True):
    """Base of options of connectors: strings, numbers, flags and `Texts`. Those without a default must be given. Options
    that name a secret end with `_secret`."""


def nothing_known(keys: Sequence[str]) -> Collection[str]:  # noqa: ARG001
    """Reports every key as not ingested before."""
    return ()


@dataclass(frozen=True, slots=True)
class SourceTools:
    """Dependencies of connectors. `web` enforces the rate limit of the source that it was made for.

    `known` returns those of some keys whose documents were ingested before: only these may be reported as `unchanged`.
    `addresses` resolves a host and port to the addresses that may be connected to, for sources other than web sites; it
    raises `ForbiddenAddressError` and `SourceUnavailableError`. `buckets` opens a bucket by its name.
    """

    web: WebClient
    secrets: Secrets
    clock: Clock
    known: Callable[[Sequence[str]], Collection[str]] = nothing_known
    addresses: Callable[[str, int], Sequence[str]] | None = None
    buckets: Callable[[str], ObjectStore] | None = None


class Connector(ABC, Generic[O]):
    """Base of connectors, one class per kind of source."""

    about: ClassVar[str] = ""
    """Its sources in a few words, for lists of the kinds."""
    options_type: ClassVar[type[Options]]
    """Type parameter of the class: `Directory(Connector[DirectoryOptions])`."""
    limit: ClassVar[RateLimit | None] = None
    """Rate limit of the source; None if it states none."""
    local: ClassVar[bool] = False
    """True if it reads files of this machine, which a deployed system must not do on a caller's behalf."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for given in (given for base in cls.__dict__.get("__orig_bases__", ()) for given in get_args(base)):
            if isinstance(given, type) and issubclass(given, Options):
                cls.options_type = given

    def __init__(self, definition: SourceDefinition, options: O, tools: SourceTools) -> None:
        self.definition = definition
        self.options = options
        self.web = tools.web
        self.secrets = tools.secrets
        self.clock = tools.clock
        self.known = tools.known

    from_internet: ClassVar[bool] = True
    """False if it reads nothing but files of this machine, or services of the deployment's own cloud account."""

    @classmethod
    def rate_limit(cls, options: O) -> RateLimit | None:  # noqa: ARG003
        """Rate limit for these options; `limit` unless overridden."""
        return cls.limit

    @classmethod
    def reads_files(cls, options: O) -> bool:  # noqa: ARG003
        """True if these options read files of this machine; `local` unless overridden."""
        return cls.local

    @abstractmethod
    def pull(self, request: PullRequest) -> Iterator[Page]:
        """Yields pages of documents: at least one, each with the cursor behind it, in an order in which a pull can be
        interrupted after any of them. Raises `SourceUnavailableError`, `SourceRefusedError`, `SourceShapeError` and
        `ForbiddenAddressError`; pages yielded before remain valid."""

    @abstractmethod
    def probe(self) -> None:
        """Sends the smallest request that verifies credentials and format. Raises as `pull`."""

    def check(self) -> Health:
        """Reports whether the source can be pulled, without raising for a problem of the source."""
        try:
            with naming_errors(self.definition):
                self.probe()
        except (
            SourceUnavailableError,
            SourceRefusedError,
            SourceShapeError,
            ForbiddenAddressError,
            SecretNotFoundError,
            PluginError,
        ) as exc:
            return Health(ok=False, reason=str(exc))
        return Health(ok=True)

    # -- KnowledgeSource

    @property
    def name(self) -> str:
        return self.definition.source_id

    @property
    def tier(self) -> Tier:
        return self.definition.tier

    def local_path(self, text: str) -> Path:
        """Absolute path of a file or folder of this machine. Raises `InvalidInputError`."""
        path = path_here(text, f"{self.name}: path")
        if not path.is_absolute():
            raise InvalidInputError(f"{self.name}: path must be absolute, not {text!r}")
        return path

    def fetch(self, since: datetime | None = None) -> Iterator[SourceDocument]:
        for page in self.pull(PullRequest(iso_time(since.timestamp()) if since else "")):
            yield from page.documents

    def health_check(self) -> bool:
        return self.check().ok


def read_options(kind: type[P], values: Mapping[str, Any], *, of: str) -> P:
    """Validates the options of a connector; a single string becomes a list of one. Raises `InvalidInputError` that names
    the option and the allowed values. `of` names their owner in errors."""
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
        return read_request(kind, given)
    except RequestError as exc:
        raise InvalidInputError(f"{of}: option {exc}") from exc
