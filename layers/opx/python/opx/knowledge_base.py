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
    from opx.domain.aliases import Alias, Merge
    from opx.domain.baselines import AddedValues, BaselineStats, SeriesView
    from opx.domain.graph import Node, Walk
    from opx.domain.learning import CheckpointReport, CheckpointType, Pattern, PatternView, RAGPattern, StagingEntry
    from opx.domain.outcomes import DocumentOutcomes, OutcomeReport
    from opx.domain.versions import Restored, VersionDiff
    from opx.graph.coverage import GraphCoverage
    from opx.graph.questions.answers import GraphAnswer
    from opx.graph.views import Connection, Neighbourhood, NodeView
    from opx.ingestion.failures import Failure
    from opx.ingestion.files import FileToIngest
    from opx.ingestion.outcomes import Outcome
    from opx.learning.asked import FailureQuestion, TaskQuestion
    from opx.lifecycle.holds import Hold
    from opx.lifecycle.reviews import ReviewReport
    from opx.records.audit import AuditRecord
    from opx.records.gaps.listing import GapView

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


@dataclass(frozen=True, slots=True)
class ProjectView:
    """The group of a project, "" for none, and the scope keys whose documents it sees."""

    group_id: str
    visible: tuple[str, ...]


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


class ProjectGroups(Protocol):
    """Which of a client's projects share knowledge."""

    def project(self, client_id: str, project_id: str) -> ProjectView:
        """The group of a project and what it sees. Raises `InvalidScopeError` for malformed ids."""

    def assign_project(self, client_id: str, project_id: str, group_id: str) -> None:
        """Put a project into a group, "" for none. Raises `InvalidScopeError` for malformed ids."""


class MeasuredKnowledge(Protocol):
    """What is normal for metrics of nodes."""

    def baseline(self, node: str, metric: str, time_window: str = "7d") -> BaselineStats:
        """The values of the last `time_window` (1h to 90d), of all scopes that the caller sees; a count of 0 if there are
        none. Raises `InvalidInputError` for names or a window that can't be."""

    def baseline_series(self) -> Sequence[SeriesView]:
        """Which metrics of which nodes have values, by node and metric."""

    def add_values(self, values: Sequence[Mapping[str, Any]], *, batch_id: str = "") -> AddedValues:
        """Add values to the caller's own scope, as `BaselineStore.add`; a deployed system takes 1,000 at once."""


class RelatedKnowledge(Protocol):
    """Things, how they are related, and the text that says so. What the caller may not see is not there: references to it
    are unknown like any other."""

    def graph_node(self, reference: str, *, limit: int = 100) -> NodeView:
        """A thing with up to `limit` of its relations, the newest first. Raises `NodeNotFoundError`, which names those
        that are written alike, and `InvalidInputError` for what is no reference."""

    def graph_neighbours(self, reference: str, walk: Walk) -> Neighbourhood:
        """What a walk from a thing reaches. Raises like `graph_node`."""

    def graph_path(self, source: str, target: str, walk: Walk) -> Connection:
        """The shortest way from one thing to another; `walk` bounds what is gone along, but for its hops. Raises like
        `graph_node`."""

    def graph_find(self, text: str, *, node_type: str = "", limit: int = 20) -> Sequence[Node]:
        """Things whose name begins so, of one type or of all, in order."""

    def graph_changes(self, reference: str, *, upstream: bool = True, since: str = "", until: str = "") -> GraphAnswer:
        """What changed of a thing and of what it depends on, or else of what depends on it; times in ISO 8601. Raises like
        `graph_node`."""

    def graph_affected(self, cve: str, *, runbooks: bool = False) -> GraphAnswer:
        """Services that run a version which this vulnerability (`CVE-2024-1234`) affects, or the runbooks for them. Raises
        like `graph_node`."""

    def graph_coverage(self, *, since: str = "", limit: int = 1000) -> GraphCoverage:
        """Alerts without a runbook, runbooks whose alerts never fired since then, and more; of up to `limit` things of each
        type."""


class NamedThings(Protocol):
    """Which references mean the same thing. What is changed holds in the caller's own scope."""

    def aliases(self, *, limit: int = 1000) -> Sequence[Alias]:
        """Other names that the caller's questions know."""

    def merges(self) -> Sequence[Merge]:
        """What was merged in the caller's own scope, the newest first."""

    def add_alias(self, alias: str, canonical: str) -> Alias:
        """Know a thing by another name, too. Raises `InvalidInputError` for one that has a thing of its own, and for a
        loop."""

    def remove_alias(self, alias: str) -> bool:
        """Forget a name; False if there was none."""

    def merge_things(self, source: str, into: str) -> Merge:
        """Make two references one; `source` becomes another name of `into`. Raises `InvalidInputError`."""

    def undo_merge(self, merge_id: str) -> Merge:
        """Make them two again. Raises `MergeNotFoundError`."""


class EvidenceTaker(Protocol):
    """Where agents leave what they found out."""

    def put_evidence(self, evidence: Mapping[str, Any]) -> str:
        """Put what an agent found out, as a document of the category that the rules say; its object key. `work` has it
        taken in. Raises `InvalidInputError` that names the field which is wrong or missing."""


class QuestionsKept(Protocol):
    """What is kept of questions. `every_scope`: not the caller's own alone; who may ask for that is settled before."""

    def audit_records(
        self, *, who: str = "", since: str = "", document: str = "", limit: int = 100, every_scope: bool = False
    ) -> Sequence[AuditRecord]:
        """Who asked when, the newest first: of scopes or principals that have `who` in them, since a time or the
        beginning of one, where the document with this id, or an id that begins so, was returned."""

    def gaps(
        self, *, service: str = "", owner: str = "", settled: bool = False, every_scope: bool = False
    ) -> Sequence[GapView]:
        """Questions without a good answer, those that matter most first; with `settled` also closed and ignored ones.
        Raises `KnowledgeConfigError` if the section `owners` is wrong."""


class LearnedKnowledge(Protocol):
    """What work taught. What is captured belongs to the caller's own scope; patterns are shared as knowledge.yaml says."""

    def capture_entry(self, given: Mapping[str, Any]) -> str:
        """Capture what work taught, with the fields of `opx.learning.given`; the entry's id, the same for the same again.
        Raises `InvalidInputError` that names the field which is wrong or missing."""

    def verify_entry(self, entry_id: str, *, worked: bool, effect: str = "", incident: str = "") -> StagingEntry:
        """Say whether what an entry tells of worked. Raises `EntryNotFoundError`."""

    def learning_entries(
        self, *, state: str = "", project_id: str = "", limit: int = 50, after: str = ""
    ) -> Sequence[StagingEntry]:
        """Entries of the own scope, the newest first: in a state (waiting, ready, taken_in) or in any, behind the one with
        the id `after`."""

    def checkpoint(self, project_id: str, checkpoint_type: CheckpointType) -> CheckpointReport | None:
        """Take in what was captured for a project. None where a function does it: then it was asked for. Raises
        `UnknownProjectError`."""

    def patterns(self, *, limit: int = 100) -> Sequence[Pattern]:
        """Patterns that the caller may see, the last taken in first. This and what follows raise `NotOrchestratorError` for
        callers who may not ask."""

    def pattern(self, pattern_id: str) -> PatternView:
        """One of them, with what it was learned from. Raises `PatternNotFoundError`."""

    def patterns_for_task(self, question: TaskQuestion) -> Sequence[RAGPattern]:
        """What helps with a task, the best first."""

    def patterns_for_failure(self, question: FailureQuestion) -> Sequence[RAGPattern]:
        """What helped against a failure, the best first."""

    def task_context(self, question: TaskQuestion) -> str:
        """The same as a text for the prompt of the agent that does the task; "" if there is nothing."""


class OutcomesKept(Protocol):
    """What came of acting upon documents that were found."""

    def record_outcome(self, receipt_id: str, document_id: str, result: str, **more: str) -> OutcomeReport:
        """Tell it, as `OutcomeService.record`. Raises `ReceiptNotFoundError` and `InvalidInputError`."""

    def document_outcomes(self, document_id: str) -> DocumentOutcomes:
        """What is known of a document. Raises `DocumentNotFoundError`."""


class KeptKnowledge(Protocol):
    """What is kept for how long: holds, reviews, and what was removed."""

    def reviews(self, *, days: int = 30, owner: str = "", limit: int = 500) -> ReviewReport:
        """Documents that may be seen and should be looked at again within so many days, the most overdue first."""

    def holds(self, *, lifted: bool = False) -> Sequence[Hold]:
        """The holds on what is the identity's own that are in force, or those that were lifted."""

    def add_hold(
        self, reason: str, *, document: str = "", category: str = "", within: str = "", everything: bool = False
    ) -> Hold:
        """Keep a document (its id, or the beginning of it), what is of a category and within a scope (its key), or all
        that is the identity's own, from being removed. A document with one text under several names is held under each;
        one of these holds is returned. Raises `InvalidInputError` for neither or too many of these, `InvalidScopeError`
        for what isn't the identity's, and `DocumentNotFoundError`."""

    def lift_hold(self, hold_id: str) -> Hold:
        """End a hold. Raises `HoldNotFoundError`."""

    def prune_reports(self, *, limit: int = 30) -> Sequence[Mapping[str, Any]]:
        """What the last runs of pruning did, the newest first, over all clients: raises `InvalidScopeError` for an identity
        with a client."""


class KnowledgeBase(
    ReadableKnowledge,
    WritableKnowledge,
    VersionedKnowledge,
    ProjectGroups,
    EvidenceTaker,
    MeasuredKnowledge,
    RelatedKnowledge,
    NamedThings,
    QuestionsKept,
    LearnedKnowledge,
    OutcomesKept,
    KeptKnowledge,
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
