"""The ways in, as callers know them: each one ends in an object in the corpus store, and the pipeline takes it from there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from opx.domain.knowledge import KnowledgeModel
from opx.domain.scopes import Scope
from opx.errors import InvalidInputError, OpxError
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.corpus_writer import Content, CorpusWriter
from opx.ingestion.events import EventOutcome, IngestionResult, Result
from opx.ingestion.worker import QueueDrain
from opx.ports import ObjectInfo, ObjectStore

if TYPE_CHECKING:
    from opx.domain.sources import KnowledgeSource, PullReport
    from opx.ingestion.evidence import EvidenceRules


class WaysIn(Protocol):
    """Sources, webhooks and streams of an installation. Raises as the methods of `IngestionManager` say."""

    def webhook_endpoint(self, tier: str, category: str) -> str:
        """The address that webhooks of this category are sent to."""

    def register(self, source: KnowledgeSource | Mapping[str, Any], schedule: str, tier: str, category: str) -> str:
        """Register a source; returns its id."""

    def pull(self, source_id: str) -> PullReport | None:
        """Pull a source now; None where a function does."""

    def watch(self, path: str, category: str, pattern: str) -> str:
        """Register a directory or a bucket's prefix as a source, and pull it; returns its id."""

    def subscribe(self, stream: str, category: str, pattern: Mapping[str, Any] | None) -> str:
        """Have a stream's records become documents; returns the subscription's id."""


class IngestionManager(CorpusWriter):
    """Takes documents in for one scope. On a laptop `drain` does the work at once; on AWS functions do, and it is None.

    `ways` are those that need more than the corpus: sources, webhooks, streams; None for scopes that have none of their own.
    """

    def __init__(
        self,
        *,
        store: ObjectStore,
        catalog: Catalog,
        knowledge: KnowledgeModel,
        drain: QueueDrain | None,
        fingerprint: Callable[[ObjectInfo, ObjectInfo | None], str],
        scope: Scope = Scope(),  # noqa: B008 (frozen)
        evidence_rules: Callable[[], EvidenceRules],
        ways: WaysIn | None = None,
        records: Callable[[Mapping[str, Any]], object] | None = None,
    ) -> None:
        super().__init__(
            store=store, catalog=catalog, knowledge=knowledge, fingerprint=fingerprint, scope=scope, records=records
        )
        self._drain = drain
        self._evidence_rules = evidence_rules
        self._ways_in = ways

    def ingest_document(
        self, tier: str, category: str, document: Content, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Take in one document: Markdown text, a file's bytes, or a mapping that is read as JSON of the category.
        Returns its id.

        Where functions do the work, the id isn't known yet and the object's key is returned. `metadata` may have title,
        tags, author, version, severity, services, language, source_uri, and `source`, the name that stays when the
        document changes (else a hash of the document); its extension, or that of `name`, tells a file's format. Raises
        `InvalidInputError` for a category that is not of the tier, and `UnparsableDocumentError` for what can't be read.

        A record of `operations/baselines` (node, metric, time_window, mean, stddev, samples) is also what `get_baseline`
        answers with where there are no values. Values are not documents: `system.telemetry.baselines.add` takes them.
        """
        key = self.put_document(self.category_of_tier(tier, category), document, dict(metadata or {}))
        return self._taken_in(key)

    def _taken_in(self, key: str) -> str:
        """The id of the document, worked on here; its object's key where functions do it."""
        outcomes = [outcome for outcome in self.work() if outcome.object_key == key]
        if outcomes and outcomes[-1].result is Result.FAILED:
            raise outcomes[-1].error or OpxError(outcomes[-1].reason)
        head = self._catalog.head(self._key(key))
        return (current_id(head) if head else "") or key

    def ingest_batch(
        self, tier: str, category: str, documents: Iterable[Content], *, dedupe: bool = True
    ) -> IngestionResult:
        """Take in several documents; with `dedupe`, equal ones of the batch once, without, each under a name of its own
        (the same one the next time). Failures are in the result. Raises `InvalidInputError` like `ingest_document`."""
        put = self.put_batch(self.category_of_tier(tier, category), documents, dedupe=dedupe)
        refused = [EventOutcome(Result.FAILED, "", str(one), error=one) for one in put if not isinstance(one, str)]
        return IngestionResult((*refused, *self._work_on({one for one in put if isinstance(one, str)})))

    # -- sources, evidence, webhooks, streams

    def put_evidence(self, evidence: Mapping[str, Any]) -> str:
        """Put what an agent found out, and leave the rest to the pipeline. Returns the object's key; raises as
        `ingest_from_evidence`."""
        from opx.ingestion.evidence import put_evidence, read_evidence

        return put_evidence(self, self._store, self._evidence_rules(), read_evidence(evidence))

    def ingest_from_evidence(self, evidence: Mapping[str, Any]) -> str:
        """Take in what an agent found out, as a document of the category that knowledge.yaml's rules say. Returns its
        id, as `ingest_document`. Raises `InvalidInputError` for evidence without what its rules need."""
        return self._taken_in(self.put_evidence(evidence))

    def register_source(
        self, source: KnowledgeSource | Mapping[str, Any], schedule: str, tier: str, category: str
    ) -> str:
        """Have a source pulled at its times (a five-field cron expression, "" for by hand). Returns its id.

        A mapping has `name` and `kind`, and what else a source of knowledge.yaml has; it is kept. An object that
        fetches by itself is known to this process alone. Raises `InvalidInputError`.
        """
        return self._ways().register(source, schedule, tier, self.category_of_tier(tier, category))

    def pull_now(self, source_id: str) -> IngestionResult:
        """Pull a source, and take in what it brings. Empty where functions do it. Raises `InvalidInputError` for a
        source that isn't there, `SourceBusyError`, and what is wrong with the source as `OpxError`."""
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
        """Keep the knowledge in step with a directory, or with `s3://bucket/prefix`. Returns the id of the source that
        it becomes. On a laptop `opx run` follows its changes at once. Raises `InvalidInputError`."""
        return self._ways().watch(str(path), self.category_of_tier(tier, category), pattern)

    def get_webhook_endpoint(self, tier: str, category: str) -> str:
        """The address that webhooks of this category are sent to."""
        return self._ways().webhook_endpoint(tier, self.category_of_tier(tier, category))

    def subscribe_stream(
        self,
        stream: str,
        tier: str,
        category: str,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the name that callers know
    ) -> str:
        """Have the records of a stream become documents. Returns the subscription's id, the same for the same stream.

        `stream` is the ARN of a Kinesis stream, an SQS queue or an MSK cluster, `kafka://host:port` or
        `redis://host:port/0`, with `#topic` behind it for the last three. `filter` chooses records as Lambda's event
        filters do. Raises `InvalidInputError`.
        """
        return self._ways().subscribe(stream, self.category_of_tier(tier, category), filter)

    def _ways(self) -> WaysIn:
        if self._ways_in is None:
            raise InvalidInputError(f"sources are those of the whole installation, not of {self._scope.key}")
        return self._ways_in

    def work(self) -> Iterator[EventOutcome]:
        """Handle what is waiting, here and now; nothing where functions do it."""
        if self._drain is not None:
            yield from self._drain.run()

    def _work_on(self, keys: Collection[str]) -> Iterator[EventOutcome]:
        return (outcome for outcome in self.work() if outcome.object_key in keys)
