"""Documents, their versions and their chunks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field, to_builtins
from msgspec.structs import astuple

from opx.domain.ids import day_number, day_text, stable_hash
from opx.domain.knowledge import Category, KnowledgeModel, Tier
from opx.domain.record import INTERNAL, Json, Record, derive, replace
from opx.domain.scopes import Scope
from opx.errors import UnknownCategoryError

# -- remarks


MAX_REMARKS = 50


class RemarkKind(StrEnum):
    """Whether something was left out, changed, or looks wrong."""

    UNREAD_PART = "unread_part"
    """A page, picture or attachment that could not be read."""
    IRREGULAR = "irregular"
    """What doesn't keep to the rules of its format, and was read as far as it goes."""
    UNDESCRIBED_IMAGE = "undescribed_image"
    MASKED_SECRET = "masked_secret"  # noqa: S105 - a name, no secret
    SUSPECTED_INSTRUCTION = "suspected_instruction"
    """Text that seems to be aimed at a language model."""
    MISSING_CONTEXT = "missing_context"
    """Passages that should be found by what a model writes about them, and for which it wrote nothing."""
    MALFORMED_RELATION = "malformed_relation"
    """A line that looks like a relation and can't be understood; it stays text."""
    LEFT_OUT_OF_GRAPH = "left_out_of_graph"
    """More things or relations than are kept of one document."""
    EXPIRED = "expired"
    """It was past its day when it was taken in."""


class Remark(Record, frozen=True):
    """`text` says what and where, for people; it never quotes a secret."""

    kind: RemarkKind
    text: str


def bounded(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """At most `MAX_REMARKS`, each once; the last then says how many there are besides."""
    found = tuple(dict.fromkeys(remarks))
    if len(found) <= MAX_REMARKS:
        return found
    kept, left = found[: MAX_REMARKS - 1], len(found) - MAX_REMARKS + 1
    return (*kept, Remark(found[MAX_REMARKS - 1].kind, f"and {left} more remarks"))


# -- documents


DEFAULT_LANGUAGE = "en"
_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class DocumentState(StrEnum):
    """Where a version of a document is in its life."""

    CURRENT = "current"
    SUPERSEDED = "superseded"
    DELETED = "deleted"


class DocumentKey(Record, frozen=True):
    """What stays the same when a document changes: its source in its scope."""

    scope: Scope
    source: str

    @property
    def id(self) -> str:
        return stable_hash("key", self.scope.key, self.source)


class Revision(Record, frozen=True, kw_only=True):
    """What a document says of itself: who wrote it, which version it calls itself, and when it was last updated."""

    last_updated: str
    author: str = ""
    version: str = ""


class KnowledgeDocument(Record, frozen=True, kw_only=True):
    """One version of a document.

    `source` is the object's key in the corpus store without its scope; `location` a full URI of the object;
    `source_uri` what a person would open (a file path, a page's address). `version` counts the versions of the key
    from 1. `trust` is in [0, 1]. `remarks` say what of it could not be read, or was changed. Times are ISO 8601 in UTC.

    From `current_since` to `superseded_at` it was what questions were answered from; versions of before that was noted
    have no beginning. `expires` is the day from which on it is not to be shown, if it says so itself, `review_by` the day
    by which `owner` is to look at it again.
    """

    document_id: str
    title: str
    category: str
    tier: Annotated[Tier, Meta(description="internal, specialized or internet, in falling order of trust.")]
    tags: tuple[str, ...] = ()
    location: Annotated[str, Meta(description="Where the object is kept.")] = field(name="s3Location")
    source_uri: Annotated[str, Meta(description="Where a person would open it.")] = field(name="source")
    language: str = DEFAULT_LANGUAGE
    severity: str = ""
    services: tuple[str, ...] = ()
    metadata: Revision
    version: Annotated[int, Meta(description="Counts the versions of the document from 1.")] = 1
    state: DocumentState = DocumentState.CURRENT
    chunk_count: int = 0
    remarks: Annotated[
        tuple[Remark, ...], Meta(description="What of the document could not be read, was masked, or looks wrong.")
    ] = ()
    untrusted: Annotated[bool, Meta(description="True if it comes from outside the organisation.")] = False
    created_at: str
    current_since: Annotated[str, Meta(description="Since when questions are answered from it, empty if unknown.")] = ""
    superseded_at: Annotated[str, Meta(description="Since when no question is any more; empty if it is current.")] = ""
    expires: Annotated[str, Meta(description="The day from which on it isn't shown, if it says so itself.")] = ""
    review_by: Annotated[str, Meta(description="The day by which its owner is to look at it again, if one is set.")] = (
        ""
    )
    owner: Annotated[str, Meta(description="Who looks after it, if it says so.")] = ""
    scope: Scope
    source: Annotated[str, Meta(description="Its name in the corpus, in its scope.")] = field(name="key")
    trust: float
    token_count: int = 0
    content_hash: str = ""

    def __post_init__(self) -> None:
        derive(self, untrusted=self.tier is not Tier.INTERNAL)

    @property
    def key(self) -> DocumentKey:
        return DocumentKey(self.scope, self.source)

    @property
    def last_updated(self) -> str:
        return self.metadata.last_updated

    @property
    def author(self) -> str:
        return self.metadata.author


class ChunkMetadata(Record, frozen=True):
    """What a chunk has of its document."""

    document_title: str
    category: str
    tags: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: KnowledgeDocument) -> ChunkMetadata:
        return cls(document.title, document.category, document.tags)


class DocumentChunk(Record, frozen=True, kw_only=True):
    """A piece of a document that is found and read on its own.

    `start` and `end` are character offsets into the document's normalised text; `section` is the path of headings
    above the piece. Chunks of a document overlap, and together cover all of its text. `context` is what a language model
    wrote about its place in the document, if one did: it helps to find the chunk and is no part of it, so that neither
    the chunk's file nor an index gives it back.
    """

    chunk_id: str
    document_id: str
    chunk_index: int
    content: str
    token_count: int
    section: tuple[str, ...]
    start: Annotated[int, Meta(description="Where it begins in the document's text, in characters.")]
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
        """What is embedded and searched: the content under its title, section path and context."""
        content = f"{self.context}\n\n{self.content}" if self.context else self.content
        return contextual_text(self.title, self.section, content)

    @property
    def own_text(self) -> str:
        """The same without what a language model wrote."""
        return contextual_text(self.title, self.section, self.content)

    def to_json(self) -> Json:
        """The JSON that is kept, without what a language model wrote."""
        return super(DocumentChunk, self._kept()).to_json()

    def _kept(self) -> DocumentChunk:
        return replace(self, context=UNSET) if self.context else self

    def to_json_line(self) -> str:
        """One line of `chunks/{documentId}.jsonl`, without line end; the same bytes everywhere. Texts may have halves of
        surrogate pairs, which only `json` writes."""
        return _encoded(to_builtins(self._kept()))


def contextual_text(title: str, section: Sequence[str], content: str) -> str:
    """`# title`, `## section > path`, an empty line, then the content; the section line is left out when there is none."""
    heading = f"# {title}\n## {' > '.join(section)}\n\n" if section else f"# {title}\n\n"
    return heading + content


# -- expiry

_LAST_DAY = day_number("9999-12-31") or 0
"""Later ones can't be written."""


def expiry_day(document: KnowledgeDocument, knowledge: KnowledgeModel) -> str:
    """The day from which on a version is not to be shown: the one that it gives itself, or else the day of its last
    update and what its category keeps documents for. "" for what is kept for good."""
    if document.expires:
        return document.expires
    return expiry_of(document.category, document.last_updated, knowledge)


def expiry_of(category: str, last_updated: str, knowledge: KnowledgeModel) -> str:
    """What the category's retention makes of a document's last update; "" for good, and for a category that is gone."""
    try:
        days = knowledge.category(category).retention_days
    except UnknownCategoryError:
        return ""
    updated = day_number(last_updated)
    return "" if days is None or updated is None else day_text(min(updated + days, _LAST_DAY))


def fetched_expiry(category: Category, today: str) -> str:
    """The day on which a copy of a page of the internet is over that is fetched `today`: what counts is how old the copy is,
    and not how long ago its author changed it. "" for other tiers, and for what is kept for good."""
    fetched, days = day_number(today), category.retention_days
    if category.tier is not Tier.INTERNET or days is None or fetched is None:
        return ""
    return day_text(min(fetched + days, _LAST_DAY))
