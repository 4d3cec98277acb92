"""Where documents are pulled from, and what a source gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Protocol

from msgspec import Meta, field

from opx.domain.knowledge import Tier
from opx.domain.record import Json, Record

Cursor = Mapping[str, Any]
"""Where a pull is: a small JSON object (4 KB at most) that only its source understands. Empty: at the beginning."""

MAX_MISSING_SHARE = 0.2


class SourceDocument(Record, frozen=True):
    """A document as its source has it now.

    `key` names it within the source and stays when it changes (`CVE-2024-23113`, `docs/guide.md`): 1 to 500 characters,
    parts joined by `/`. `content` is Markdown text, a mapping that is read as JSON of the category, or the bytes of a
    file whose format the key's extension tells. `metadata` is what `IngestionManager.put_document` takes, `source`
    left out; the source's own address of the document is its `source_uri`, and its time of change `last_updated`.
    """

    key: str
    content: str | bytes | Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Refused(Record, frozen=True):
    """A document that the source lists and that can't be read; it is reported, and what was known of it stays."""

    key: str
    reason: str


class Page(Record, frozen=True):
    """What one step of a pull gave. Once it is stored, a pull that is interrupted goes on at `cursor`.

    `unchanged` are keys that the source still has and that were not read again; `withdrawn` keys that it says are gone
    or void. `seen_until` is the source's own time (ISO 8601) up to which all changes have been given, if it has one:
    the next pull asks for what changed since. `complete` on the last page: the pages of this pull named every document
    that the source has, so that what they didn't name has vanished.
    """

    documents: tuple[SourceDocument, ...] = ()
    unchanged: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
    cursor: Cursor = field(default_factory=dict)
    seen_until: str = ""
    complete: bool = False


class PullRequest(Record, frozen=True):
    """What to pull: everything (`since` empty), or what changed since a time (ISO 8601); from `cursor` on if a pull was
    interrupted. The request of a pull that goes on has the `since` that it began with.

    `left` is the cursor of the last page of the last pull that was finished: for sources that know their state by
    something else than time, such as a commit."""

    since: str = ""
    cursor: Cursor = field(default_factory=dict)
    left: Cursor = field(default_factory=dict)


class Health(Record, frozen=True):
    """Whether a source can be pulled, and if not, why and what to do."""

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
        """What knowledge.yaml and rows have of it, all but the id."""
        return {name: value for name, value in self.to_json().items() if name != "source_id"}


class KnowledgeSource(Protocol):
    """Anything that documents can be fetched from."""

    @property
    def name(self) -> str:
        """The source's id."""

    @property
    def tier(self) -> Tier: ...

    def fetch(self, since: str | None = None) -> Iterator[SourceDocument]:
        """All documents, or those changed since a time (ISO 8601). Raises `SourceUnavailableError`,
        `SourceRefusedError` and `SourceShapeError`."""

    def health_check(self) -> bool:
        """Whether it can be fetched from now."""


class PullReport(Record, frozen=True):
    """What a pull did. `more`: it stopped because it was told to, and goes on with the next one. `error`: it stopped
    because of that, and goes on likewise. `flag`: documents are missing, and none was withdrawn for it."""

    source_id: str
    put: Annotated[
        tuple[str, ...], Meta(description="Keys of the objects that were put, and wait to be ingested.")
    ] = ()
    withdrawn: Annotated[tuple[str, ...], Meta(description="Keys of the objects that wait to be removed.")] = ()
    unchanged: int = 0
    refused: Annotated[int, Meta(description="Documents that could not be read; `refusals` names some.")] = 0
    refusals: tuple[Refused, ...] = ()
    flag: Annotated[str, Meta(description="Why nothing was withdrawn although documents are missing.")] = ""
    error: Annotated[str, Meta(description="Why the pull stopped, empty if it didn't.")] = ""
    more: Annotated[bool, Meta(description="True if it goes on with the next pull.")] = False
