"""Documents, their versions and their chunks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from opx.domain.ids import stable_hash
from opx.domain.knowledge import Tier
from opx.domain.remarks import Remark
from opx.domain.scopes import Scope

DEFAULT_LANGUAGE = "en"


class DocumentState(StrEnum):
    """Where a version of a document is in its life."""

    CURRENT = "current"
    SUPERSEDED = "superseded"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class DocumentKey:
    """What stays the same when a document changes: its source in its scope."""

    scope: Scope
    source: str

    @property
    def id(self) -> str:
        return stable_hash("key", self.scope.key, self.source)


@dataclass(frozen=True, slots=True)
class KnowledgeDocument:
    """One version of a document.

    `source` is the object's key in the corpus store without its scope; `location` a full URI of the object;
    `source_uri` what a person would open (a file path, a page's address). `version` counts the versions of the key
    from 1. `trust` is in [0, 1]. `remarks` say what of it could not be read, or was changed. Times are ISO 8601 in UTC.

    From `current_since` to `superseded_at` it was what questions were answered from; versions of before that was noted
    have no beginning. `expires` is the day from which on it is not to be shown, if it says so itself, `review_by` the day
    by which `owner` is to look at it again.
    """

    document_id: str
    key: DocumentKey
    title: str
    category: str
    tier: Tier
    trust: float
    location: str
    source_uri: str
    created_at: str
    last_updated: str
    tags: tuple[str, ...] = ()
    language: str = DEFAULT_LANGUAGE
    author: str = ""
    severity: str = ""
    services: tuple[str, ...] = ()
    declared_version: str = ""
    version: int = 1
    state: DocumentState = DocumentState.CURRENT
    superseded_at: str = ""
    chunk_count: int = 0
    token_count: int = 0
    content_hash: str = ""
    remarks: tuple[Remark, ...] = ()
    current_since: str = ""
    expires: str = ""
    review_by: str = ""
    owner: str = ""

    def to_json(self) -> dict[str, Any]:
        """The camelCase form that agents and tools receive."""
        return {
            "documentId": self.document_id,
            "title": self.title,
            "category": self.category,
            "tier": self.tier.value,
            "tags": list(self.tags),
            "s3Location": self.location,
            "source": self.source_uri,
            "language": self.language,
            "severity": self.severity,
            "services": list(self.services),
            "metadata": {"author": self.author, "version": self.declared_version, "lastUpdated": self.last_updated},
            "version": self.version,
            "state": self.state.value,
            "chunkCount": self.chunk_count,
            "remarks": [remark.to_json() for remark in self.remarks],
            "untrusted": self.tier is not Tier.INTERNAL,
            "createdAt": self.created_at,
            "currentSince": self.current_since,
            "supersededAt": self.superseded_at,
            "expires": self.expires,
            "reviewBy": self.review_by,
            "owner": self.owner,
        }


@dataclass(frozen=True, slots=True)
class DocumentChunk:
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
    title: str
    section: tuple[str, ...]
    start: int
    end: int
    category: str
    tags: tuple[str, ...] = ()
    context: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """What is embedded and searched: the content under its title, section path and context."""
        content = f"{self.context}\n\n{self.content}" if self.context else self.content
        return contextual_text(self.title, self.section, content)

    @property
    def own_text(self) -> str:
        """The same without what a language model wrote."""
        return contextual_text(self.title, self.section, self.content)

    def to_json(self) -> dict[str, Any]:
        """The camelCase form."""
        return {
            "chunkId": self.chunk_id,
            "documentId": self.document_id,
            "chunkIndex": self.chunk_index,
            "content": self.content,
            "tokenCount": self.token_count,
            "section": list(self.section),
            "start": self.start,
            "end": self.end,
            "metadata": {"documentTitle": self.title, "category": self.category, "tags": list(self.tags)},
        }

    def to_json_line(self) -> str:
        """One line of `chunks/{documentId}.jsonl`, without line end; the same bytes everywhere."""
        return json.dumps(self.to_json(), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DocumentChunk:
        metadata = data["metadata"]
        return cls(
            chunk_id=data["chunkId"],
            document_id=data["documentId"],
            chunk_index=data["chunkIndex"],
            content=data["content"],
            token_count=data["tokenCount"],
            title=metadata["documentTitle"],
            section=tuple(data["section"]),
            start=data["start"],
            end=data["end"],
            category=metadata["category"],
            tags=tuple(metadata["tags"]),
        )


def contextual_text(title: str, section: Sequence[str], content: str) -> str:
    """`# title`, `## section > path`, an empty line, then the content; the section line is left out when there is none."""
    heading = f"# {title}\n## {' > '.join(section)}\n\n" if section else f"# {title}\n\n"
    return heading + content
