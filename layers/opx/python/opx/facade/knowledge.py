"""Knowledge of a folder, or of a deployed system, as one object with plain methods.

Each method calls the operation that HTTP, tools and the command call, so that a folder and an API answer alike. What only
a folder can do (objects of this process as sources, watched directories) is refused for an address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from opx.domain.documents import KnowledgeDocument
from opx.domain.knowledge import Tier
from opx.domain.queries import Band, QueryConfig
from opx.domain.results import Answer, Results, RetrievalResult
from opx.domain.sources import SourceDeclaration
from opx.edges.calling import all_pages, record_of
from opx.errors import InvalidInputError, MissingDistributionError
from opx.ingestion.events import IngestionResult
from opx.operations import load, of_route
from opx.operations.search import Query
from opx.operations.search import query as ask_query

if TYPE_CHECKING:
    from opx.domain.baselines import BaselineStats
    from opx.domain.requests import Request
    from opx.domain.sources import Document, KnowledgeSource
    from opx.edges.factories import CallableTool
    from opx.facade.learning import LearningKnowledge
    from opx.facade.opening import Opened
    from opx.facade.sending import Sender
    from opx.ingestion.manager import IngestionManager
    from opx.operations.context import Context
    from opx.operations.corpus import Status
    from opx.operations.procedures import Procedure
    from opx.operations.reading import DocumentPart
    from opx.operations.registry import Run

Q = TypeVar("Q", bound="Request")
R = TypeVar("R")

LIKELY = QueryConfig(min_confidence=Band.LIKELY.least)
"""The configuration of a question that comes without one."""


class Knowledge:
    """The knowledge in a folder of this machine, or of a deployed system. `open` makes one; leaving it as a context manager,
    or `close`, releases files and connections. All methods raise subclasses of `OpxError`."""

    def __init__(self, opened: Opened) -> None:
        self._client = opened.client
        self._loader = opened.loader
        self._context = opened.context
        self._closing = opened.closing

    @classmethod
    def open(cls, address: str | Path = "", *, client_id: str = "", project_id: str = "", token: str = "") -> Knowledge:
        """Opens the knowledge at an address.

        A path is the folder where knowledge is kept; it is created with the first document. An `https://` or `http://`
        address is the API of a deployed system, called with `token`, or with the AWS credentials of the environment.
        Without an address, the settings of the environment count (`OPX_HOME`, `OPX_API_URL` and others). In a folder,
        `client_id` and `project_id` choose whose knowledge it is; a deployed system knows that from the credentials.
        """
        from opx.facade.opening import opened

        return cls(opened(str(address), client_id=client_id, project_id=project_id, token=token))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Releases files and connections."""
        self._closing.close()

    def call(self, run: Run[Q, R], request: Q) -> R:
        """Calls any operation of `opx.operations`, and returns its reply as a record."""
        return cast("R", record_of(self._client.call(run, request)))

    # -- questions

    def query(self, query: str, config: QueryConfig | None = None) -> Results:
        """Returns the results that reach the minimum confidence, ranked by relevance x trust; `unconfirmed` of the list has
        the best of the others."""
        answer = self.answer(query, config)
        found = Results(answer.results)
        found.unconfirmed = answer.unconfirmed
        return found

    def answer(self, question: str, config: QueryConfig | None = None, *, budget: int = 0) -> Answer:
        """Returns the results with notes on what was left out and why. With a budget (tokens), the answer has the parts of
        the documents that help."""
        return self.call(ask_query, Query(query=question, config=config or LIKELY, budget=budget))

    def query_with_context(
        self, query: str, context: Mapping[str, Any], config: QueryConfig | None = None
    ) -> RetrievalResult:
        """Returns the best result in a situation: `node`, `service`, `symptom`, `timeframe`, `already_tried`. Its
        `alternatives` have the records of the node, those of the timeframe first. If nothing is good enough, its score is
        0 and its content states that."""
        from opx.retrieval.situations import Situation, best_in

        def ask(question: str, config: QueryConfig, gaps: bool) -> Answer:
            return self.call(ask_query, Query(query=question, config=config, gaps=gaps))

        return best_in(Situation.read(context), query, config or LIKELY, ask)

    def get_baseline(self, node: str, metric: str, time_window: str = "7d") -> BaselineStats:
        """Returns the usual values of a metric of a node; a count of 0 means that there are no values."""
        reply = self._call_optional("GET /baselines", "get_baseline", node=node, metric=metric, time_window=time_window)
        return cast("BaselineStats", reply.baseline)

    def search_internet(self, query: str, max_results: int = 5) -> list[RetrievalResult]:
        """Returns results of the internet tier, live ones included where a search engine is configured."""
        if self._context is not None:
            search = self._context.system.questions.for_reader(self._context.identity)
            return search.search_internet(query, max_results)
        config = QueryConfig(tiers=("internet",), include_internet=True, max_results=max_results, min_confidence=0)
        return self.query(query, config)

    def research(self, topic: str, max_iterations: int = 3, config: QueryConfig | None = None) -> Any:
        """Researches a topic by several searches, again for what is missing. Returns a `ResearchReport` of opx-web. Raises
        `MissingDistributionError` without it."""
        given = {"topic": topic, "max_iterations": max_iterations, "config": config or QueryConfig()}
        return self._call_optional("POST /research", "research_topic", **given)

    def _call_optional(self, route: str, tool: str, **arguments: Any) -> Any:
        """Calls an operation of a distribution. Raises `MissingDistributionError` if it isn't installed."""
        operation = of_route(route)
        if operation is None:
            raise MissingDistributionError("tool", tool)
        return self.call(operation.run, operation.request(**arguments))

    def procedure(self, alert: str | dict[str, Any], labels: str | dict[str, Any] = "") -> Procedure:
        """Returns the procedure for an alert, a symptom or a document: steps with their commands and effects. Nothing is
        executed."""
        from opx.operations.procedures import FindProcedure, find_procedure

        return cast("Procedure", self.call(find_procedure, FindProcedure(alert=alert, labels=labels)))

    def read(self, document: str, part: str = "") -> DocumentPart:
        """Reads a part of a document: its outline, a section, a step, `steps` or `all`. `document` is an id, a path, a link
        or a title."""
        from opx.operations.reading import ReadDocument, read_document

        return cast("DocumentPart", self.call(read_document, ReadDocument(document=document, part=part)))

    def documents(self, category: str = "") -> Iterator[KnowledgeDocument]:
        """Yields the documents, of a category if it is given, the last updated first."""
        from opx.operations.documents import ListDocuments, list_documents

        pages = all_pages(self._client, list_documents, ListDocuments(category=category))
        return (document for page in pages for document in page.documents)

    def document(self, document_id: str) -> KnowledgeDocument:
        """Returns a document by its id, or the beginning of it."""
        from opx.operations.documents import GetDocument, get_document

        return self.call(get_document, GetDocument(document_id=document_id)).document

    def status(self) -> Status:
        """Returns counts of documents, waiting and failed objects, and the state of the index."""
        from opx.operations.corpus import GetStatus, get_status

        return self.call(get_status, GetStatus())

    def tools(self) -> dict[str, CallableTool]:
        """Returns the agents' tools by name, as objects that frameworks accept; only for a folder."""
        from opx.edges.factories import CallableTool

        context = self._local("tools of an agent run where the knowledge is; use MCP or the gateway of that system")
        return {name: CallableTool(one, context) for name, one in load().tools(None).items()}

    # -- documents

    def ingest_document(
        self, tier: str, category: str, document: Document | object, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Ingests a document and returns its id: Markdown text, bytes of a file, a mapping of the category's fields, a
        `Document`, or an object with content and metadata. Raises the error of a document that can't be ingested."""
        return self._ingesting.ingest_document(tier, category, document, metadata)

    def ingest_batch(
        self, tier: str, category: str, documents: Iterable[Document | object], dedupe: bool = True
    ) -> IngestionResult:
        """Ingests several documents; equal ones once, unless `dedupe` is false. Failures are in the result."""
        return self._ingesting.ingest_batch(tier, category, documents, dedupe)

    def ingest_from_evidence(self, evidence: object) -> str:
        """Ingests evidence of an agent and returns its document's id: an `Evidence`, a mapping, or any object with fields.
        Fields that don't fit are kept as details, and only what states `verified: true` counts as verified."""
        return self._ingesting.ingest_from_evidence(evidence)

    def add_files(self, *paths: str | Path, metadata: Mapping[str, Any] | None = None) -> IngestionResult:
        """Ingests files and folders; folder names determine categories, as those of the command `opx ingest`."""
        from opx.facade.sending import send_files

        return send_files(self._loader, [Path(path).resolve() for path in paths], metadata or {}, Path.cwd())

    def delete(self, document_id: str) -> tuple[KnowledgeDocument, ...]:
        """Deletes a document; its versions stay readable. Returns what was deleted."""
        from opx.edges.loading import remove_document

        removed = remove_document(self._client, document_id)
        for _ in self._loader.outcomes([one.key.scope.prefix + one.key.source for one in removed]):
            pass  # until the index has forgotten it, too
        return removed

    # -- sources

    def register_source(
        self, source: KnowledgeSource | SourceDeclaration | Mapping[str, Any], schedule: str, tier: str, category: str
    ) -> str:
        """Registers a source with a schedule (five-field cron, "" for pulls by hand) and returns its id. An object of this
        process with `fetch` is only for a folder."""
        from opx.domain.sources import SourceDeclaration
        from opx.operations.sources import RegisterSource, register_source

        if isinstance(source, SourceDeclaration):
            source = source.definition()
        if not isinstance(source, Mapping):
            return self._own_manager("an object can't be sent to an API: register a declaration").register_source(
                source, schedule, tier, category
            )
        given = {"tier": tier, "category": category, "schedule": schedule, **source}
        name = str(given.pop("name", ""))
        return self.call(register_source, RegisterSource(source_id=name, definition=given)).source_id

    def pull_now(self, source_id: str) -> IngestionResult:
        """Pulls a source and ingests its documents; empty for a deployed system, whose functions do that."""
        from opx.operations.sources import PullSource, pull_source

        if self._context is not None:
            return self._context.system.manager.pull_now(source_id)
        self.call(pull_source, PullSource(source_id=source_id))
        return IngestionResult(())

    def watch_directory(self, path: str, tier: str, category: str, pattern: str = "*.md") -> str:
        """Keeps a directory of this machine, or `s3://bucket/prefix`, in sync as a source; `opx run` follows its changes.
        Returns the source's id."""
        manager = self._own_manager("directories are watched where they are: open the folder, not the address")
        return manager.watch_directory(path, tier, category, pattern)

    def get_webhook_endpoint(self, tier: str, category: str) -> str:
        """Returns the URL of the webhook of a category."""
        manager = self._own_manager("`opx webhook list` shows the addresses of a deployed system's webhooks")
        return manager.get_webhook_endpoint(tier, category)

    def subscribe_stream(
        self,
        stream: str,
        tier: str,
        category: str,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the name that callers know
    ) -> str:
        """Subscribes to a stream, whose records become documents; returns the subscription's id."""
        manager = self._own_manager("streams are subscribed to where the system is deployed, with `opx stream`")
        return manager.subscribe_stream(stream, tier, category, filter)

    # -- learning

    @property
    def learning(self) -> LearningKnowledge:
        """Captures, checkpoints, patterns and outcomes."""
        from opx.facade.learning import LearningKnowledge

        return LearningKnowledge(self._client)

    # -- parts

    @property
    def context(self) -> Context:
        """The system of a folder and its caller, for what these methods don't cover. Raises `InvalidInputError` for an
        address."""
        return self._local("this works on a folder of this machine")

    def _local(self, problem: str) -> Context:
        if self._context is None:
            raise InvalidInputError(problem)
        return self._context

    def _own_manager(self, problem: str) -> IngestionManager:
        return self._local(problem).system.manager

    @property
    def _ingesting(self) -> IngestionManager | Sender:
        """Ingests documents: into the folder, or over the API."""
        if self._context is not None:
            from opx.operations.corpus import manager_of

            return manager_of(self._context)
        from opx.facade.sending import Sender

        return Sender(self._client, self._loader)


def NVDSource(name: str = "nist-nvd", **options: Any) -> SourceDeclaration:  # noqa: N802 - a source, as users name it
    """The NVD's CVEs, with CISA's known exploited ones and EPSS."""
    return SourceDeclaration(name, "nvd", Tier.SPECIALIZED, options)


def MSDocsSource(name: str = "microsoft-docs", **options: Any) -> SourceDeclaration:  # noqa: N802
    """Microsoft Learn, by `topics` such as `windows-server/troubleshoot`."""
    return SourceDeclaration(name, "microsoft_learn", Tier.SPECIALIZED, options)


def AttackSource(name: str = "mitre", **options: Any) -> SourceDeclaration:  # noqa: N802
    """MITRE ATT&CK: techniques, mitigations, groups, software and tactics."""
    return SourceDeclaration(name, "attack", Tier.SPECIALIZED, options)


def GitHubIssuesSource(name: str = "github-issues", **options: Any) -> SourceDeclaration:  # noqa: N802
    """Issues of a GitHub `repository`, with their comments."""
    return SourceDeclaration(name, "github_issues", Tier.INTERNET, options)


def WebSearchSource(name: str = "web-search", provider: str = "brave", **options: Any) -> SourceDeclaration:  # noqa: N802
    """Results of a search engine (`brave`, `google`) for recurring `queries`. A question of the moment is
    `Knowledge.search_internet`."""
    return SourceDeclaration(name, f"{provider}_search", Tier.INTERNET, options)
