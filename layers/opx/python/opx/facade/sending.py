"""Sends documents, evidence and files to a system, and waits until they are ingested."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.domain.ids import stable_hash
from opx.domain.knowledge import Tier
from opx.edges.calling import OperationClient
from opx.errors import InvalidInputError, OpxError
from opx.ingestion.events import EventOutcome, IngestionResult, Result
from opx.ingestion.evidence_reading import read_evidence
from opx.ingestion.files import FileToIngest, plan_files
from opx.ingestion.given_documents import read_document
from opx.operations.corpus import Ingest, ingest
from opx.operations.learning import PutEvidence, put_evidence

if TYPE_CHECKING:
    from opx.edges.loading import Loader


class Sender:
    """Sends documents over the operations of a client, one at a time."""

    def __init__(self, client: OperationClient, loader: Loader) -> None:
        self._client = client
        self._loader = loader

    def ingest_document(
        self, tier: str, category: str, document: object, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """See `Knowledge.ingest_document`."""
        content, facts = read_document(document, metadata)
        if isinstance(content, bytes):
            raise InvalidInputError("bytes can't be sent to an API: write them to a file, and use add_files")
        given = content if isinstance(content, str) else dict(content)
        request = Ingest(tier=tier_named(tier), category=category, document=given, metadata=facts)
        self._loader.note_failures()
        (put,) = self._client.call(ingest, request).accepted
        return self._ingested(put.object_key)

    def ingest_batch(
        self, tier: str, category: str, documents: Iterable[object], dedupe: bool = True
    ) -> IngestionResult:
        """See `Knowledge.ingest_batch`."""
        outcomes: list[EventOutcome] = []
        seen: set[str] = set()
        for number, document in enumerate(documents):
            try:
                content, facts = read_document(document)
                same = stable_hash("batch", repr(content), repr(sorted(facts.items())))
                if same in seen and dedupe:
                    continue
                named = {} if dedupe else {"source": f"batch/{same}-{number}"}
                found = self.ingest_document(tier, category, content, {**named, **facts})
                outcomes.append(EventOutcome(Result.INGESTED, "", document_id=found))
                seen.add(same)
            except InvalidInputError as exc:
                outcomes.append(EventOutcome(Result.FAILED, "", str(exc), error=exc))
        return IngestionResult(tuple(outcomes))

    def ingest_from_evidence(self, evidence: object) -> str:
        """See `Knowledge.ingest_from_evidence`."""
        self._loader.note_failures()
        stored = self._client.call(put_evidence, PutEvidence.of(read_evidence(evidence)))
        return self._ingested(stored.object_key)

    def _ingested(self, object_key: str) -> str:
        """Waits for an object; returns its document's id. Raises the error that its ingestion ended with."""
        outcomes = [one for one in self._loader.outcomes([object_key]) if one.object_key == object_key]
        if outcomes and outcomes[-1].result is Result.FAILED:
            raise outcomes[-1].error or OpxError(outcomes[-1].reason)
        return (outcomes[-1].document_id if outcomes else "") or object_key


def send_files(loader: Loader, paths: Sequence[Path], metadata: Mapping[str, Any], base: Path) -> IngestionResult:
    """Puts files and the files of folders, and waits for their outcomes. Names are relative to `base`."""
    loader.note_failures()
    steps = list(plan_files(paths, base))
    refused = [one for one in steps if isinstance(one, EventOutcome)]
    put = list(loader.put_files([one for one in steps if isinstance(one, FileToIngest)], metadata))
    sent = {one.object_key for one in put if one.outcome is None}
    done = [one.outcome for one in put if one.outcome is not None]
    return IngestionResult((*refused, *done, *_of(loader.outcomes(sent), sent)))


def _of(outcomes: Iterator[EventOutcome], sent: Collection[str]) -> Iterator[EventOutcome]:
    return (one for one in outcomes if one.object_key in sent)


def tier_named(tier: str) -> Tier:
    """The tier of this name. Raises `InvalidInputError`."""
    try:
        return Tier(tier)
    except ValueError:
        raise InvalidInputError(f"unknown tier {tier!r}; there are: {', '.join(Tier)}") from None
