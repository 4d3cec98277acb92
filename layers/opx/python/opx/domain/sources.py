"""Sources and pulls, streams and webhooks: the ways by which documents enter the corpus."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, Protocol

from msgspec import field

from opx.domain.knowledge import Tier
from opx.domain.record import Json, Record, about

Cursor = Mapping[str, Any]
"""The position of a pull: a small JSON object (4 KB at most) that only its source interprets. Empty: the beginning."""

MAX_MISSING_SHARE = 0.2


class SourceDocument(Record, frozen=True):
    """A document as its source has it now.

    `key` names it within the source and stays when it changes (`CVE-2024-23113`, `docs/guide.md`): 1 to 500 characters,
    parts joined by `/`. `content` is Markdown text, a mapping that is read as JSON of the category, or the bytes of a
    file whose format follows from the key's extension. `metadata` is that of `IngestionManager.put_document`, without
    `source`; the source's own address of the document is its `source_uri`, and its time of change `last_updated`.
    """

    key: str
    content: str | bytes | Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Refused(Record, frozen=True):
    """A document that the source lists and that can't be read; it is reported, and its stored version stays."""

    key: str
    reason: str


class Page(Record, frozen=True):
    """One page of a pull. Once it is stored, a pull that is interrupted goes on at `cursor`.

    `unchanged` are keys that the source still has and that were not read again; `withdrawn` keys that it reports as gone
    or void. `seen_until` is the source's own time (ISO 8601) up to which all changes have been returned, if it has one:
    the next pull requests changes since then. `complete` on the last page: the pages of this pull named every document
    that the source has, so that documents not named are gone.
    """

    documents: tuple[SourceDocument, ...] = ()
    unchanged: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
    cursor: Cursor = field(default_factory=dict)
    seen_until: str = ""
    complete: bool = False


class PullRequest(Record, frozen=True):
    """Extent of a pull: everything (`since` empty), or changes since a time (ISO 8601); from `cursor` on if a pull was
    interrupted. The request of a pull that goes on has the `since` that it began with.

    `left` is the cursor of the last page of the last pull that was finished: for sources that track their state by
    something other than time, such as a commit."""

    since: str = ""
    cursor: Cursor = field(default_factory=dict)
    left: Cursor = field(default_factory=dict)


class Health(Record, frozen=True):
    """Result of a source's health check; if it can't be pulled, the reason and the remedy."""

    ok: bool
    reason: str = ""


class RateLimit(Record, frozen=True):
    """At most `calls` requests in any `seconds`."""

    calls: int
    seconds: float


class SourceDefinition(Record, frozen=True, rename=None):
    """A source as it is declared or registered.

    `kind` names the connector, `options` are its own. `schedule` is a five-field cron expression in `time_zone`, empty
    for one that is pulled by hand alone. Of a complete listing that misses more than `max_missing_share` of what is
    known, nothing is withdrawn. Documents get `tags` beside their own.
    """

    source_id: str
    kind: str
    category: str
    tier: Tier
    schedule: str = ""
    time_zone: str = "UTC"
    enabled: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    max_missing_share: float = MAX_MISSING_SHARE

    def fields(self) -> Json:
        """The fields stored in knowledge.yaml and rows: all but the id."""
        return {name: value for name, value in self.to_json().items() if name != "source_id"}


class Document(Record, frozen=True):
    """A document with its facts, as callers and sources hand it over.

    `content` is Markdown text, a mapping that is read as JSON of the category, or the bytes of a file. `source` is its
    stable name (a later document of that name is its next version), `source_uri` the address that a person would open.
    `metadata` may have the other facts: tags, author, version, severity, services, language, last_updated.
    """

    content: str | bytes | Mapping[str, Any]
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    source_uri: str = ""

    def facts(self) -> dict[str, Any]:
        """Its metadata as for `IngestionManager.ingest_document`."""
        own = {"title": self.title, "source": self.source, "source_uri": self.source_uri}
        return {**self.metadata, **{name: value for name, value in own.items() if value}}


class KnowledgeSource(Protocol):
    """A source that documents can be fetched from: any object with these members, or a subclass, which has to have them
    all."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The source's id."""

    @property
    @abstractmethod
    def tier(self) -> str: ...

    @abstractmethod
    def fetch(self, since: datetime | None = None) -> Iterable[Document | SourceDocument]:
        """All documents, or those changed since a time. Raises `SourceUnavailableError`, `SourceRefusedError` and
        `SourceShapeError`."""

    @abstractmethod
    def health_check(self) -> bool:
        """True if documents can be fetched now."""


class SourceDeclaration(Record, frozen=True, rename=None):
    """A source of a built-in kind, to be registered. Raises `InvalidInputError`, when it is registered, for options that
    its kind doesn't have."""

    name: str
    kind: str
    tier: str = Tier.SPECIALIZED.value
    options: Mapping[str, Any] = field(default_factory=dict)

    def definition(self) -> Json:
        """Its fields as in knowledge.yaml, with its name."""
        return {"name": self.name, "kind": self.kind, "options": dict(self.options)}


class PullReport(Record, frozen=True):
    """The result of a pull. `more`: it was stopped by its caller, and the next pull continues it. `error`: it stopped
    because of that, and is continued likewise. `flag`: documents are missing, and none was withdrawn for it."""

    source_id: str
    put: Annotated[tuple[str, ...], about("Keys of the objects that were put, and wait to be ingested.")] = ()
    withdrawn: Annotated[tuple[str, ...], about("Keys of the objects that wait to be removed.")] = ()
    unchanged: int = 0
    refused: Annotated[int, about("Documents that could not be read; `refusals` names some.")] = 0
    refusals: tuple[Refused, ...] = ()
    kept_out: Annotated[int, about("Documents that are past their retention, and were not put.")] = 0
    kept_out_by: Annotated[str, about("The retention that keeps them out, such as 2y.")] = ""
    flag: Annotated[str, about("The reason why nothing was withdrawn although documents are missing.")] = ""
    error: Annotated[str, about("The error that stopped the pull, empty if none did.")] = ""
    more: Annotated[bool, about("True if the next pull continues it.")] = False


# -- streams


QUEUE_OR_STREAM = re.compile(
    r"arn:[a-z0-9-]+:(kinesis:[a-z0-9-]+:\d{12}:stream/|sqs:[a-z0-9-]+:\d{12}:|kafka:[a-z0-9-]+:\d{12}:cluster/[^/\s]+/)"
    r"[A-Za-z0-9_.-]+\Z"
)
BROKERS = re.compile(r"kafka://[A-Za-z0-9.-]+:\d+(,[A-Za-z0-9.-]+:\d+)*\Z")
REDIS = re.compile(r"rediss?://\S+\Z")


class StreamKind(StrEnum):
    """Kinds of streams. The first three are read by a function of a deployed system."""

    KINESIS = "kinesis"
    SQS = "sqs"
    KAFKA = "kafka"
    REDIS = "redis"


class StreamDefinition(Record, frozen=True, rename=None):
    """`source` is an ARN (Kinesis stream, SQS queue, MSK cluster), `kafka://host:port,...` or a Redis address; `topic` is
    Kafka's, or the key of a Redis stream. `pattern` filters records, empty: all. `identity` is the JSONPath of what names
    a record's document, so that later ones about the same are its versions; without it every record is a document.

    Records of `operations/baselines` are values, which are aggregated: `json` locates node, metric, value, at and unit
    (JSONPath), if not in fields of these names. Such a stream has neither identity nor tags.

    `password_secret` names Redis' password, `credentials_arn` is a secret of Secrets Manager with Kafka's user, and
    `network` has the ids of subnets and security groups from which Kafka outside of MSK is reached.
    """

    name: str
    source: str
    category: str
    topic: str = ""
    pattern: Mapping[str, Any] = field(default_factory=dict, name="filter")
    identity: str = ""
    tags: tuple[str, ...] = ()
    password_secret: str = ""
    credentials_arn: str = ""
    network: tuple[str, ...] = ()
    json: Mapping[str, str] = field(default_factory=dict)

    def fields(self) -> Json:
        """The fields stored in knowledge.yaml and rows: all but the name."""
        return {name: value for name, value in self.to_json().items() if name != "name"}

    @property
    def kind(self) -> StreamKind:
        if self.source.startswith("arn:"):
            return StreamKind(self.source.split(":")[2])
        return StreamKind.REDIS if REDIS.match(self.source) else StreamKind.KAFKA

    @property
    def is_fifo(self) -> bool:
        """A queue that keeps the order of its messages."""
        return self.kind is StreamKind.SQS and self.source.endswith(".fifo")

    @property
    def brokers(self) -> frozenset[str]:
        """Hosts and ports of Kafka outside of MSK; empty for other kinds."""
        return brokers_of(self.source)

    def is_of(self, source: str, topic: str) -> bool:
        """True if records of this source and topic are its own. Brokers may be listed in any order, and some may be
        missing."""
        return self.topic == topic and (self.source == source or bool(self.brokers & brokers_of(source)))


def brokers_of(source: str) -> frozenset[str]:
    return frozenset(source.removeprefix("kafka://").split(",")) if BROKERS.match(source) else frozenset()


# -- webhooks


class WebhookDefinition(Record, frozen=True, rename=None):
    """A webhook. `secrets` are names, any of which may have signed: two while one is being replaced.

    `window` is how many seconds a delivery may be old, or ahead of the own clock, where its time is signed. `events` are
    patterns (`incident.*`); empty for all that the format supports. `mapping` locates the parts of a generic delivery
    (JSONPath); without one, the category's applies.
    """

    name: str
    tier: Tier
    category: str
    format: str
    secrets: tuple[str, ...] = ()
    topic: str = ""
    window: float = 0.0
    events: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    mapping: Mapping[str, str] = field(default_factory=dict)

    def wants(self, event: str) -> bool:
        return not self.events or any(fnmatchcase(event, pattern) for pattern in self.events)


class DeliveryProof(Record, frozen=True):
    """Headers and query parameters that authenticate a delivery."""

    headers: dict[str, str] = field(default_factory=dict)
    query: Annotated[dict[str, str], about("Parameters of the address besides `source`.")] = field(default_factory=dict)
