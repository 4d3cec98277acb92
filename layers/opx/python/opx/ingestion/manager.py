"""Ingestion API of a scope: each method puts an object into the corpus store, and the pipeline ingests it from there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from opx.errors import InvalidInputError, OpxError
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.corpus_writer import CorpusWriter
from opx.ingestion.events import EventOutcome, IngestionResult, Result
from opx.ingestion.given_documents import Content, read_document
from opx.ingestion.worker import QueueDrain

if TYPE_CHECKING:
    from opx.domain.sources import Document, KnowledgeSource, PullReport, SourceDeclaration
    from opx.ingestion.evidence import EvidenceRules


class WaysIn(Protocol):
    """Registration of sources, webhooks and streams of an installation. Raises the errors of `IngestionManager`'s methods."""

    def webhook_endpoint(self, tier: str, category: str) -> str:
        """URL of the webhook of this category."""

    def register(
        self, source: KnowledgeSource | SourceDeclaration | Mapping[str, Any], schedule: str, tier: str, category: str
    ) -> str:
        """Registers a source; returns its id."""

    def pull(self, source_id: str) -> PullReport | None:
        """Pulls a source now; None where a Lambda function does."""

    def watch(self, path: str, category: str, pattern: str) -> str:
        """Registers a directory or a bucket's prefix as a source, and pulls it; returns its id."""

    def subscribe(self, stream: str, category: str, pattern: Mapping[str, Any] | None) -> str:
        """Subscribes to a stream, whose records become documents; returns the subscription's id."""


@dataclass(eq=False, kw_only=True)
class IngestionManager(CorpusWriter):
    """Ingests documents of one scope: at once through `drain`, or asynchronously by Lambda functions, where it is None.

    `ways` registers sources, webhooks and streams; None for scopes that have none of their own.
    """

    drain: QueueDrain | None
    evidence_rules: Callable[[], EvidenceRules]
    ways: WaysIn | None = None

    def ingest_document(
        self, tier: str, category: str, document: Content | Document | object, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Ingests one document: Markdown text, a file's bytes, a mapping that is read as JSON of the category, a
        `Document`, or an object with `content` (`page_content`, `text`) and `metadata`. Returns its id.

        Where Lambda functions ingest it, the id isn't known yet and the object's key is returned. `metadata` may have title,
        tags, author, version, severity, services, language, source_uri, and `source`, the name that stays when the
        document changes (else a hash of the document); its extension, or that of `name`, determines a file's format. Other
        names are kept and returned as they are: strings, numbers, booleans, and lists of these, up to 100 names and 8 KB.
        Raises `InvalidInputError` for others, and for a category that is not of the tier, and `UnparsableDocumentError`.

        A record of `operations/baselines` (node, metric, time_window, mean, stddev, samples) is also the reply of
        `get_baseline` where there are no values. Values are not documents: use `opx baseline push`.
        """
        content, facts = read_document(document, metadata)
        key = self.put_document(self.category_of_tier(tier, category), content, facts)
        return self._ingested_id(key)

    def _ingested_id(self, key: str) -> str:
        """Ingests the object and returns the document's id; its object key where Lambda functions do that."""
        outcomes = [outcome for outcome in self.work() if outcome.object_key == key]
        if outcomes and outcomes[-1].result is Result.FAILED:
            raise outcomes[-1].error or OpxError(outcomes[-1].reason)
        head = self.catalog.head(self._key(key))
        return (current_id(head) if head else "") or key

    def ingest_batch(
        self, tier: str, category: str, documents: Iterable[Content | Document | object], dedupe: bool = True
    ) -> IngestionResult:
        """Ingests several documents; with `dedupe`, equal ones of the batch once, else each under a stable name of its own.
        Failures are in the result. Raises `InvalidInputError` like `ingest_document`."""
        put = self.put_batch(self.category_of_tier(tier, category), documents, dedupe=dedupe)
        refused = [EventOutcome(Result.FAILED, "", str(one), error=one) for one in put if not isinstance(one, str)]
        return IngestionResult((*refused, *self._work_on({one for one in put if isinstance(one, str)})))

    # -- sources, evidence, webhooks, streams

    def put_evidence(self, evidence: object) -> str:
        """Puts evidence of an agent for asynchronous ingestion. Returns the object's key; raises as
        `ingest_from_evidence`."""
        from opx.ingestion.evidence import put_evidence
        from opx.ingestion.evidence_reading import read_evidence

        return put_evidence(self, self.store, self.evidence_rules(), read_evidence(evidence))

    def ingest_from_evidence(self, evidence: object) -> str:
        """Ingests evidence of an agent as a document of the category that knowledge.yaml's rules choose. Returns its
        id, as `ingest_document`.

        `evidence` is an `opx.Evidence`, a mapping, or any object with fields. Fields that evidence doesn't have, or whose
        values don't fit, are kept as its details, and texts that are too long are shortened. Raises `InvalidInputError`
        for something without fields, a coroutine among them, and for evidence without any text.
        """
        return self._ingested_id(self.put_evidence(evidence))

    def register_source(
        self, source: KnowledgeSource | SourceDeclaration | Mapping[str, Any], schedule: str, tier: str, category: str
    ) -> str:
        """Registers a source with a schedule (a five-field cron expression, "" for manual pulls). Returns its id.

        A declaration, or a mapping with `name`, `kind` and the other fields of a source in knowledge.yaml, is stored. An
        object that implements the source itself is known to this process alone. Raises `InvalidInputError`.
        """
        return self._ways().register(source, schedule, tier, self.category_of_tier(tier, category))

    def pull_now(self, source_id: str) -> IngestionResult:
        """Pulls a source and ingests its documents. Empty where Lambda functions do that. Raises `InvalidInputError` for an
        unknown source, `SourceBusyError`, and `OpxError` for an error of the source."""
        report = self._ways().pull(source_id)
        if report is None:
            return IngestionResult(())
        outcomes = tuple(self._work_on({*report.put, *report.withdrawn}))
        if report.error:
            raise OpxError(f"source {source_id}: {report.error}")
        refused = tuple(
            EventOutcome(Result.FAILED, one.key, one.reason, error=InvalidInputError(one.reason))
            for one in report.refusals
        )
        return IngestionResult((*refused, *outcomes))

    def watch_directory(self, path: str, tier: str, category: str, pattern: str = "*.md") -> str:
        """Registers a directory, or `s3://bucket/prefix`, as a source that is kept in sync. Returns the source's id. On a
        laptop `opx run` follows its changes at once. Raises `InvalidInputError`."""
        return self._ways().watch(str(path), self.category_of_tier(tier, category), pattern)

    def get_webhook_endpoint(self, tier: str, category: str) -> str:
        """URL of the webhook of this category."""
        return self._ways().webhook_endpoint(tier, self.category_of_tier(tier, category))

    def subscribe_stream(
        self,
        stream: str,
        tier: str,
        category: str,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the name that callers know
    ) -> str:
        """Subscribes to a stream, whose records become documents. Returns its id, the same for the same stream.

        `stream` is the ARN of a Kinesis stream, an SQS queue or an MSK cluster, `kafka://host:port` or
        `redis://host:port/0`, with `#topic` behind it for the last three. `filter` selects records as Lambda's event
        filters do. Raises `InvalidInputError`.
        """
        return self._ways().subscribe(stream, self.category_of_tier(tier, category), filter)

    def _ways(self) -> WaysIn:
        if self.ways is None:
            raise InvalidInputError(f"sources belong to the whole installation, not to {self.scope.key}")
        return self.ways

    def work(self) -> Iterator[EventOutcome]:
        """Processes the waiting events; nothing where Lambda functions do that."""
        if self.drain is not None:
            yield from self.drain.run()

    def _work_on(self, keys: Collection[str]) -> Iterator[EventOutcome]:
        return (outcome for outcome in self.work() if outcome.object_key in keys)
