"""What the `opx` command and the HTTP API need of a system, wherever it runs.

`LocalKnowledgeBase` is the implementation over the services of this process, `RemoteKnowledgeBase` the one that asks a
deployed system. Both act for one identity, which is settled before the first call: no method takes one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.domain.ids import ID_LENGTH
from opx.domain.knowledge import KnowledgeModel
from opx.domain.queries import QueryConfig
from opx.domain.research import DEFAULT_ITERATIONS, ResearchReport
from opx.domain.results import Answer
from opx.errors import InvalidInputError

if TYPE_CHECKING:
    from opx.domain.versions import Restored, VersionDiff
    from opx.ingestion.failures import Failure
    from opx.ingestion.files import FileToIngest
    from opx.ingestion.outcomes import Outcome

T = TypeVar("T")
Progress = Callable[[str, int], None]
"""Told an object's key and how many of its chunks are embedded so far."""

MAX_PAGE = 500
_ID = re.compile(r"[0-9a-f]+\Z")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of many. `next` is what to give as `after` for those that follow, "" if there are none."""

    items: tuple[T, ...]
    next: str = ""


@dataclass(frozen=True, slots=True)
class DocumentVersions:
    """A document and all versions of its key that may be seen, the newest first."""

    document: KnowledgeDocument
    versions: tuple[KnowledgeDocument, ...]


@dataclass(frozen=True, slots=True)
class PutFile:
    """What became of a file: an outcome if there is nothing more to do, else its object waits to be taken in."""

    object_key: str
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """What there is and whether it works. `chunks` is None where the index can't be asked; `index` then says why.

    `scope` is where the caller's documents go, `categories` counts the documents that the caller sees. `waiting` is how
    much work there is to do in the whole system, None for callers of one client, whom the others' work tells nothing;
    `failed` how many objects of the caller's could not be taken in.
    """

    scope: str
    documents: int
    waiting: int | None
    failed: int
    index: str
    chunks: int | None = None
    embedding_model: str = ""
    categories: Mapping[str, int] = field(default_factory=dict)


class ReadableKnowledge(Protocol):
    """Answers and documents, as far as the caller may see them."""

    @property
    def knowledge(self) -> KnowledgeModel:
        """The categories."""

    def search(self, query: str, config: QueryConfig, *, receipt: bool = False) -> Answer:
        """The answer to a question, with its `receipt` if that is wanted and the system keeps an audit log. What was not
        searched is in its notes; raises `UnknownCategoryError`."""

    def research_topic(
        self, topic: str, max_iterations: int = DEFAULT_ITERATIONS, config: QueryConfig | None = None
    ) -> ResearchReport:
        """What several searches find for a topic, as `Researcher.research_topic`."""

    def documents(
        self, *, category: str = "", all_versions: bool = False, limit: int = MAX_PAGE, after: str = ""
    ) -> Page[KnowledgeDocument]:
        """Up to `limit` (1-500) current documents, or versions of all states, by category, the last updated first,
        then by id. Raises `UnknownCategoryError`, and `InvalidInputError` for a limit or an `after` that can't be."""

    def document(self, wanted: str) -> DocumentVersions:
        """The document with this id, or the only current one whose id begins so (in any case of letters).

        A current document comes before an old one with the same text. Raises `DocumentNotFoundError`, and
        `InvalidInputError` for what can't be an id and for a beginning that several share."""

    def chunks(self, document_id: str, *, after: int = 0) -> Iterator[DocumentChunk]:
        """The chunks of the document with this full id in order, `after` many left out. Neither the index nor the model
        is needed. Raises `DocumentNotFoundError`, also while it iterates if the chunks are gone."""

    def status(self) -> Status:
        """Counts, and whether the index answers. A broken index is told, not raised."""


class WritableKnowledge(Protocol):
    """Documents in and out of the caller's own scope."""

    def own_scope(self) -> str:
        """The key of that scope, as `Status.scope` has it."""

    def put_files(self, files: Sequence[FileToIngest], metadata: Mapping[str, Any]) -> Iterator[PutFile]:
        """Put files and their sidecars, each whole or not at all; one result a file, in any order, as they are done.

        A file that is stored and taken in as it is now is `UNCHANGED` and not sent again. One that can't be read, or
        has a name that no object can have, is `FAILED`; the others go on. Interrupted, it can be done again."""

    def stored_under(self, source: str) -> Iterator[str]:
        """Keys of the stored documents that came from this file or from this folder, sidecars left out; in order."""

    def delete_objects(self, object_keys: Sequence[str]) -> None:
        """Remove objects with their sidecars; what is not there is ignored. Raises `InvalidScopeError` for a key of
        another scope, before anything is removed."""

    def delete(self, document_id: str) -> tuple[KnowledgeDocument, ...]:
        """Remove the current documents with this full id; their versions stay readable. Raises
        `DocumentNotFoundError`."""

    def work(self, sent: Collection[str], progress: Progress) -> Iterator[Outcome]:
        """Have what waits taken in, and yield an outcome a document as it is settled.

        In one process the whole queue is worked off. Where workers do it, they are waited for: until all objects of
        `sent` are settled, or none was for a while. What is still open then goes on without the caller."""

    def failures(self, *, limit: int = MAX_PAGE, after: str = "") -> Page[Failure]:
        """What could not be taken in, the oldest first, then by id."""

    def retry(self, failure_ids: Sequence[str]) -> tuple[str, ...]:
        """Send failed objects to be taken in again as they are stored now; their keys. Unknown ids are ignored: they
        were settled meanwhile."""


class VersionedKnowledge(Protocol):
    """What documents were before. `ReadableKnowledge.document` lists their versions, and says of when each was current."""

    def version_diff(self, wanted: str, *, before: int = 0, after: int = 0) -> VersionDiff:
        """How a version differs from another one of the same document, given as for `document`. By default `after` is the
        version with that id, and `before` the one that it replaced. Raises `DocumentNotFoundError`, also if a text is
        gone, and `InvalidInputError` if there is nothing to compare with."""

    def restore(self, wanted: str, version: int = 0) -> Restored:
        """Put a version of an own document back, by default the one with that id; `work` has it taken in. Raises
        `DocumentNotFoundError`, `InvalidInputError` for the current version and `InvalidScopeError`."""














class EvidenceTaker(Protocol):
    """Where agents leave what they found out."""

    def put_evidence(self, evidence: Mapping[str, Any]) -> str:
        """Put what an agent found out, as a document of the category that the rules say; its object key. `work` has it
        taken in. Raises `InvalidInputError` that names the field which is wrong or missing."""






class KnowledgeBase(
    ReadableKnowledge,
    WritableKnowledge,
    VersionedKnowledge,
    EvidenceTaker,
    Protocol,
):
    """A system as its user sees it."""


class DeployedKnowledgeBase(KnowledgeBase, Protocol):
    """One that is asked over the network."""

    @property
    def endpoint(self) -> str:
        """The address of its API."""

    def close(self) -> None:
        """Close all connections."""


def checked_id(wanted: str) -> str:
    """A document id or the beginning of one, as ids are written. Raises `InvalidInputError` for what can't be."""
    text = wanted.strip().lower()
    if not _ID.match(text) or len(text) > ID_LENGTH:
        raise InvalidInputError(f"{wanted!r} is no document id: 32 hexadecimal digits, or the first few of them")
    return text


def no_progress(_object_key: str, _chunks: int) -> None:
    """For those who don't want to be told."""


def every_document(
    base: ReadableKnowledge, *, category: str = "", all_versions: bool = False
) -> Iterator[KnowledgeDocument]:
    """All documents, read page by page as the caller goes on."""
    after = ""
    while True:
        page = base.documents(category=category, all_versions=all_versions, after=after)
        yield from page.items
        if not page.next:
            return
        after = page.next


def every_failure(base: WritableKnowledge) -> Iterator[Failure]:
    """All failures, read page by page."""
    after = ""
    while True:
        page = base.failures(after=after)
        yield from page.items
        if not page.next:
            return
        after = page.next
