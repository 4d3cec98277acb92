"""Documents, their versions and chunks, remarks found while parsing, and expiry dates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, field, to_builtins
from msgspec.structs import astuple

from opx.domain.ids import day_number, day_text, stable_hash
from opx.domain.knowledge import Category, KnowledgeModel, Tier, Untrusted
from opx.domain.record import INTERNAL, Json, Record, about, derive, replace
from opx.domain.resources import resources_in
from opx.domain.scopes import Scope
from opx.errors import UnknownCategoryError

# -- remarks


MAX_REMARKS = 50


class RemarkKind(StrEnum):
    """Kinds of problems found in a document: content left out, changed, or suspicious."""

    UNREAD_PART = "unread_part"
    """A page, picture or attachment that could not be read."""
    IRREGULAR = "irregular"
    """Content that violates the rules of its format and was parsed as far as possible."""
    UNDESCRIBED_IMAGE = "undescribed_image"
    MASKED_SECRET = "masked_secret"  # noqa: S105 - a name, no secret
    SUSPECTED_INSTRUCTION = "suspected_instruction"
    """Text that seems to be aimed at a language model."""
    MISSING_CONTEXT = "missing_context"
    """Passages without the generated context that they should be found by."""
    MALFORMED_RELATION = "malformed_relation"
    """A line that looks like a relation and can't be understood; it stays text."""
    LEFT_OUT_OF_GRAPH = "left_out_of_graph"
    """Nodes or edges above the limit for one document."""
    EXPIRED = "expired"
    """The document had expired when it was ingested."""
    CLAIMED = "claimed"
    """Metadata that the document has for itself and may not have from where it was put, such as a more trusted category."""


class Remark(Record, frozen=True):
    """`text` describes the problem and its location, for people; it never quotes a secret."""

    kind: RemarkKind
    text: str


def bounded(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """At most `MAX_REMARKS`, each once; the last then counts the others."""
    found = tuple(dict.fromkeys(remarks))
    if len(found) <= MAX_REMARKS:
        return found
    kept, left = found[: MAX_REMARKS - 1], len(found) - MAX_REMARKS + 1
    return (*kept, Remark(found[MAX_REMARKS - 1].kind, f"and {left} more remarks"))


# -- documents


DEFAULT_LANGUAGE = "en"
_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class DocumentState(StrEnum):
    """Lifecycle state of a document version."""

    CURRENT = "current"
    SUPERSEDED = "superseded"
    DELETED = "deleted"


class DocumentKey(Record, frozen=True):
    """Identity of a document across its versions: its source in its scope."""

    scope: Scope
    source: str

    @property
    def id(self) -> str:
        return stable_hash("key", self.scope.key, self.source)


class Revision(Record, frozen=True, kw_only=True):
    """Revision metadata stated by the document: author, version label and time of the last update."""

    last_updated: str
    author: str = ""
    version: str = ""


class KnowledgeDocument(Record, frozen=True, kw_only=True):
    """One version of a document.

    `source` is the object's key in the corpus store without its scope; `location` the object's URI, in a home its key;
    `source_uri` the address that a person would open (a page's address, a path that was given), by default the location.
    `version` counts the versions of the key from 1.
    `trust` is in [0, 1]. `remarks` list what could not be read, or was changed. Times are ISO 8601 in UTC.

    From `current_since` to `superseded_at` the version was the current one; versions stored before this was recorded have
    no start. `expires` is the day from which it is hidden, if the document states one, `review_by` the day by which
    `owner` is to review it. `attributes` are metadata without a field of their own: strings, numbers, booleans, and lists
    of these.

    The checksums are of the files that were stored with the version; versions stored before they were recorded have none.
    """

    document_id: str
    title: str
    category: str
    tier: Annotated[Tier, about("internal, specialized or internet, in falling order of trust.")]
    tags: tuple[str, ...] = ()
    location: Annotated[str, about("Where the object is kept.")] = field(name="s3Location")
    source_uri: Annotated[str, about("Where a person would open it.")] = field(name="source")
    language: str = DEFAULT_LANGUAGE
    severity: str = ""
    services: tuple[str, ...] = ()
    metadata: Revision
    version: Annotated[int, about("Counts the versions of the document from 1.")] = 1
    state: DocumentState = DocumentState.CURRENT
    chunk_count: int = 0
    remarks: Annotated[tuple[Remark, ...], about("Parts that could not be read, were masked, or look wrong.")] = ()
    untrusted: Untrusted = False
    created_at: str
    current_since: Annotated[str, about("Since when it is the current version, empty if unknown.")] = ""
    superseded_at: Annotated[str, about("Since when it is superseded; empty if it is current.")] = ""
    expires: Annotated[str, about("The day from which it is hidden, if it states one.")] = ""
    review_by: Annotated[str, about("The day by which its owner is to review it, if one is set.")] = ""
    reviewed_at: Annotated[str, about("When its present text was last reviewed; empty if never.")] = ""
    owner: Annotated[str, about("Its owner, if it states one.")] = ""
    attributes: Annotated[dict[str, Any], about("Its other metadata, as they were given, without secrets.")] = field(
        default_factory=dict
    )
    scope: Scope
    source: Annotated[str, about("Its name in the corpus, in its scope.")] = field(name="key")
    trust: float
    token_count: int = 0
    content_hash: str = ""
    chunks_checksum: Annotated[str, about("SHA-256 of its chunk file in hex; empty if unknown.")] = ""
    outline_checksum: Annotated[str, about("SHA-256 of its outline file in hex; empty if unknown.")] = ""

    def __post_init__(self) -> None:
        derive(self, untrusted=self.untrusted or self.tier is not Tier.INTERNAL)

    def __hash__(self) -> int:
        return hash((self.document_id, self.scope, self.source, self.version))

    @property
    def key(self) -> DocumentKey:
        return DocumentKey(self.scope, self.source)

    @property
    def resources(self) -> tuple[str, ...]:
        """The things that it is about: its services, and those that its other metadata name."""
        return resources_in({"services": self.services, **self.attributes})

    @property
    def is_report(self) -> bool:
        """True for internal text that nobody reviewed: mail, tickets, alerts and the like."""
        return self.untrusted and self.tier is Tier.INTERNAL

    @property
    def last_updated(self) -> str:
        return self.metadata.last_updated

    @property
    def times(self) -> tuple[str, ...]:
        """All of its days and times; an unknown one is empty."""
        return (
            self.created_at,
            self.last_updated,
            self.current_since,
            self.superseded_at,
            self.expires,
            self.review_by,
            self.reviewed_at,
        )

    @property
    def author(self) -> str:
        return self.metadata.author


class ChunkMetadata(Record, frozen=True, gc=False):
    """Document metadata that each chunk carries."""

    document_title: str
    category: str
    tags: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: KnowledgeDocument) -> ChunkMetadata:
        return cls(document.title, document.category, document.tags)


class DocumentChunk(Record, frozen=True, kw_only=True, gc=False):
    """A piece of a document that is found and read on its own.

    `start` and `end` are character offsets into the document's normalised text; `section` is the path of headings above
    the piece. Chunks of a document overlap, and together cover all of its text. `context` is the generated text that
    situates the chunk in its document, if there is one: it helps to find the chunk and is not part of it, so neither the
    chunk's file nor an index returns it.
    """

    chunk_id: str
    document_id: str
    chunk_index: int
    content: str
    token_count: int
    section: tuple[str, ...]
    start: Annotated[int, about("Where it begins in the document's text, in characters.")]
    end: int
    metadata: ChunkMetadata
    context: Annotated[str, Meta(extra_json_schema={INTERNAL: True})] | UnsetType = UNSET

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DocumentChunk) and astuple(self)[:-1] == astuple(other)[:-1]

    def __hash__(self) -> int:
        return hash(self.chunk_id)

    @property
    def title(self) -> str:
        return self.metadata.document_title

    @property
    def category(self) -> str:
        return self.metadata.category

    @property
    def tags(self) -> tuple[str, ...]:
        return self.metadata.tags

    @property
    def text(self) -> str:
        """The text that is embedded and searched: the content under its title, section path and context."""
        content = f"{self.context}\n\n{self.content}" if self.context else self.content
        return contextual_text(self.title, self.section, content)

    @property
    def own_text(self) -> str:
        """The same without the generated context."""
        return contextual_text(self.title, self.section, self.content)

    def to_json(self) -> Json:
        """The JSON that is stored, without the generated context."""
        return super(DocumentChunk, self._kept()).to_json()

    def _kept(self) -> DocumentChunk:
        return replace(self, context=UNSET) if self.context else self

    def to_json_line(self) -> str:
        """One line of `chunks/{documentId}.jsonl`, without line end; the same bytes everywhere. Strings may hold lone
        surrogates, which only `json` writes."""
        return _encoded(to_builtins(self._kept()))


def contextual_text(title: str, section: Sequence[str], content: str) -> str:
    """`# title`, `## section > path`, an empty line, then the content; the section line is left out when there is none."""
    heading = f"# {title}\n## {' > '.join(section)}\n\n" if section else f"# {title}\n\n"
    return heading + content


# -- expiry

_LAST_DAY = day_number("9999-12-31") or 0
"""Later dates can't be written in four digits."""


def expiry_day(document: KnowledgeDocument, knowledge: KnowledgeModel, *, used: str = "") -> str:
    """The expiry day of a version, from which it is hidden: the one that it states itself, else the day of its last
    update plus its category's retention. "" for documents that are kept permanently.

    In a category that ages by use, retention counts from the last of update, ingestion, and last use (`used`, a day)."""
    if document.expires:
        return document.expires
    since = document.last_updated
    if ages_by_use(document.category, knowledge):
        since = max(since, document.current_since, used)
    return expiry_of(document.category, since, knowledge)


def is_kept_out(document: KnowledgeDocument) -> bool:
    """True if it was past its retention when it was ingested: it is in the catalog and not in the index."""
    return any(remark.kind is RemarkKind.EXPIRED for remark in document.remarks)


def ages_by_use(category: str, knowledge: KnowledgeModel) -> bool:
    """True if documents of this category expire by their last use. False for a removed category."""
    found = knowledge.categories.get(category)
    return found is not None and found.ages_by_use


def expiry_of(category: str, last_updated: str, knowledge: KnowledgeModel) -> str:
    """The expiry day by the category's retention, from the last update; "" for permanent ones, and for a removed
    category."""
    try:
        days = knowledge.category(category).retention_days
    except UnknownCategoryError:
        return ""
    updated = day_number(last_updated)
    return "" if days is None or updated is None else day_text(min(updated + days, _LAST_DAY))


def fetched_expiry(category: Category, today: str) -> str:
    """The expiry day of an internet page fetched `today`: the age of the copy counts, not how long ago its author changed
    it. "" for other tiers, and for permanent retention."""
    fetched, days = day_number(today), category.retention_days
    if category.tier is not Tier.INTERNET or days is None or fetched is None:
        return ""
    return day_text(min(fetched + days, _LAST_DAY))
