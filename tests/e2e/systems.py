"""The whole system on each set of adapters, with an embedder that needs no model and a clock that tests move."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import boto3

from opx.adapters.embedded.object_store import FolderObjectStore
from opx.domain.documents import DocumentChunk, DocumentKey, KnowledgeDocument
from opx.domain.results import IndexedChunk
from opx.domain.scopes import scope_of_object
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.corpus.chunk_files import chunk_file, outline_file
from opx.ingestion.corpus.stores import AnnouncingObjectStore
from opx.ingestion.events import EventOutcome, ObjectEvent
from opx.ingestion.files import OBJECT_METADATA
from opx.ingestion.manager import IngestionManager
from opx.ingestion.worker import QueueDrain
from opx.operations.system import System
from opx.ports import Embedder, ObjectStore, SearchFilter, SearchRequest
from opx.ports.tables import ALL_TABLES, DOCUMENTS, ENTRIES, KEYS
from opx.settings import Settings
from opx.system import bootstrap
from opx_aws.object_store import S3ObjectStore
from opx_aws.opensearch import OpenSearchIndex, ensure_index, opensearch_client
from opx_aws.opensearch_bulk import BulkLimits
from opx_aws.opensearch_schema import CLASSIC_ENGINE
from opx_aws.ports import FunctionWorkQueue
from opx_aws.queue import SqsQueue
from opx_testing.fake_time import FakeTime
from tests.doubles.opensearch import OpenSearchDouble
from tests.support.dynamo_tables import create_tables
from tests.support.fakes import WordsEmbedder

BACKENDS = ("embedded", "nextgen", "classic")
EVERYTHING = SearchFilter(
    scopes=("global", "client:acme", "client:acme/project:shop", "client:acme/group:web", "client:other")
)
LEASE_SECONDS = 900
_BUCKET = "corpus"
_INDEX = "knowledge"


def a_sequencer(number: int) -> str:
    """As S3 reports them: hexadecimal, and longer for later events when digits run out."""
    return f"{number:X}"


def created(key: str, number: int) -> str:
    return ObjectEvent(key, deleted=False, sequencer=a_sequencer(number).rjust(40, "0")).to_json()


def deleted(key: str, number: int) -> str:
    return ObjectEvent(key, deleted=True, sequencer=a_sequencer(number).rjust(40, "0")).to_json()


class Exclusive:
    """A client whose calls exclude one another: the service's calls are atomic, those of its double aren't."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*positional: Any, **named: Any) -> Any:
            with self._lock:
                return method(*positional, **named)

        return call


@dataclass
class SystemUnderTest:
    """System over empty stores. `silent` is the corpus store without announcements: tests send events themselves."""

    services: System
    time: FakeTime
    silent: ObjectStore
    exclusive: Any = nullcontext
    search: OpenSearchDouble | None = None

    # -- in

    def put(self, key: str, text: str | bytes, metadata: str = "") -> None:
        """Stores an object and enqueues its event. `metadata` is an uploader's JSON."""
        self.services.store.put(key, _bytes(text), metadata=_described(metadata))

    def put_silently(self, key: str, text: str | bytes, metadata: str = "") -> None:
        self.silent.put(key, _bytes(text), metadata=_described(metadata))

    def delete(self, key: str) -> None:
        self.services.store.delete(key)

    def deliver(self, *bodies: str, receives: int = 1) -> list[EventOutcome]:
        return self.services.ingestion.worker.process([(body, receives) for body in bodies])

    def work(self) -> list[EventOutcome]:
        """Drain the queue."""
        return list(self.drain.run())

    @property
    def drain(self) -> QueueDrain:
        services = self.services
        return QueueDrain(
            services.queue,
            services.ingestion.worker,
            exclusive=self.exclusive,
            unit_of_work=services.tables.unit_of_work,
            sleep=self.time.sleep,
        )

    @property
    def manager(self) -> IngestionManager:
        services = self.services
        return IngestionManager(
            store=services.store,
            catalog=services.corpus.catalog,
            knowledge=services.installation.knowledge,
            drain=self.drain,
            fingerprint=services.ingestion.pipeline.fingerprint,
            evidence_rules=lambda: services.ingestion.evidence_rules,
            scope=services.installation.scope,
        )

    def lease_over(self) -> None:
        self.time.sleep(LEASE_SECONDS + 1)

    # -- what became of it

    def document(self, key: str) -> KnowledgeDocument:
        """The newest version."""
        return next(self.versions(key))

    def versions(self, key: str) -> Iterator[KnowledgeDocument]:
        return self.services.corpus.catalog.versions(key_of(key))

    def chunks(self, key: str, document_id: str = "") -> list[DocumentChunk]:
        """From the chunk file of a version, by default the newest."""
        wanted = document_id or self.document(key).document_id
        return list(self.services.ingestion.pipeline.read_chunks(key_of(key), wanted))

    def entries(self, key: str = "") -> list[IndexedChunk]:
        """Entries of the index (of one document), in the order of the chunks. Fails if it has an entry twice."""
        vector = self.services.indexing.embedder.embed_query("anything")
        found = self.services.index.search(SearchRequest(EVERYTHING, vector=vector, depth=10_000)).chunks.values()
        assert self.services.index.count(EVERYTHING) == len(found), "the index has entries twice"
        mine = [entry for entry in found if not key or entry.key_id == key_of(key).id]
        return sorted(mine, key=lambda entry: (entry.key_id, entry.chunk.document_id, entry.chunk.chunk_index))

    def texts(self, key: str = "") -> list[str]:
        return [entry.chunk.content.strip() for entry in self.entries(key)]

    def found(self, text: str, scopes: Sequence[str] = EVERYTHING.scopes) -> list[str]:
        """Object keys of the documents that a lexical search finds, the best first."""
        response = self.services.index.search(SearchRequest(SearchFilter(tuple(scopes)), text=text))
        return list(dict.fromkeys(response.chunks[entry].source_uri for entry, _ in response.lexical.hits))

    def reasons(self) -> dict[str, str]:
        """The failed items: reasons by object key."""
        return {item.object_key: item.reason for item in self.services.corpus.failures.items()}

    def assert_consistent(self, *keys: str) -> None:
        """Index, catalog and chunk file of each document say the same, and nothing is left in flight."""
        for key in keys:
            head = self.services.corpus.catalog.head(key_of(key)) or {}
            assert not head.get("writing"), key
            current = [version for version in self.versions(key) if version.state == "current"]
            assert [version.document_id for version in current] == [head["documentId"]], key
            assert [entry.chunk for entry in self.entries(key)] == self.chunks(key), key
            assert len(self.chunks(key)) == current[0].chunk_count, key
            if not self.services.index.derives_ids:
                kept = self.services.corpus.catalog.all_references(key_of(key).id)
                assert sorted(kept) == sorted(self.services.index.references(key_of(key).id)), key


def key_of(object_key: str) -> DocumentKey:
    return DocumentKey(*scope_of_object(object_key))


def chunk_key(object_key: str, document_id: str) -> str:
    return chunk_file(key_of(object_key), document_id)


def outline_key(object_key: str, document_id: str) -> str:
    return outline_file(key_of(object_key), document_id)


@contextmanager
def a_system(
    backend: str, home: Path, session: boto3.Session, *, embedder: Embedder | None = None, **settings: Any
) -> Iterator[SystemUnderTest]:
    """A system on one of the `BACKENDS`. The session must be of a mocked account."""
    used = embedder or WordsEmbedder()
    make = _embedded if backend == "embedded" else _aws
    with make(backend, home, session, used, {"retry_base_seconds": 0.0, **settings}) as system:
        yield system


def an_empty_home(home: Path) -> Path:
    """A folder whose tables and index are there, which takes longer than a copy of it."""
    with bootstrap(Settings(home=str(home)), embedder=WordsEmbedder()) as services:
        for spec in ALL_TABLES:
            services.tables.table(spec)
        services.index.apply([])
        services.queue.waiting()
    return home


@contextmanager
def _embedded(
    backend: str, home: Path, session: boto3.Session, embedder: Embedder, settings: Mapping[str, Any]
) -> Iterator[SystemUnderTest]:
    time = FakeTime()
    with bootstrap(Settings(home=str(home), **settings), clock=time.clock, embedder=embedder) as services:
        exclusive: Any = services.work.exclusive
        yield SystemUnderTest(services, time, FolderObjectStore(home / "corpus"), exclusive)


@contextmanager
def _aws(
    backend: str, home: Path, session: boto3.Session, embedder: Embedder, settings: Mapping[str, Any]
) -> Iterator[SystemUnderTest]:
    time = FakeTime()
    clients = an_account(session)
    with ExitStack() as stack:
        search = stack.enter_context(OpenSearchDouble(backend))
        client = opensearch_client(search.endpoint, session.get_credentials(), "eu-central-1")
        stack.callback(client.close)
        engine = CLASSIC_ENGINE if backend == "classic" else ""
        ensure_index(client, _INDEX, model_id=embedder.model_id, dimension=embedder.dimension, engine=engine)
        system = aws_system(backend, clients, client, embedder, time, **settings)
        system.search = search
        yield system


def an_account(session: boto3.Session) -> dict[str, Any]:
    """Clients by service, of an account with an empty bucket and tables."""
    clients: dict[str, Any] = {name: Exclusive(session.client(name)) for name in ("s3", "dynamodb", "sqs")}
    clients["s3"].create_bucket(Bucket=_BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    create_tables(session, ALL_TABLES)
    return clients


def aws_system(
    generation: str,
    clients: Mapping[str, Any],
    search: Any,
    embedder: Embedder,
    time: FakeTime,
    *,
    limits: BulkLimits = BulkLimits(),  # noqa: B008
    **settings: Any,
) -> SystemUnderTest:
    """A system over the clients of an account and of a collection that has an index."""
    url = clients["sqs"].create_queue(QueueName="ingest")["QueueUrl"]
    silent = S3ObjectStore(_BUCKET, clients["s3"])
    queue = SqsQueue(clients["sqs"], url, wait_seconds=0)
    numbers = count(1)
    services = bootstrap(
        Settings(backend="aws", corpus_bucket=_BUCKET, search_generation=generation, **settings),
        clock=time.clock,
        store=AnnouncingObjectStore(silent, queue, lambda: next(numbers)),
        work=FunctionWorkQueue(lambda: queue),
        embedder=embedder,
        index=OpenSearchIndex(search, _INDEX, generation=generation, limits=limits, sleep=time.sleep),
        aws=lambda service, **_: clients[service],
    )
    return SystemUnderTest(services, time, silent)


def with_leases(system: SystemUnderTest) -> SystemUnderTest:
    """Claims that are leases on every backend: the embedded one has none, as it has one worker."""
    services = system.services
    tables = [services.tables.table(spec) for spec in (DOCUMENTS, KEYS, ENTRIES)]
    leased = Catalog(*tables, clock=system.time.clock, lease_seconds=LEASE_SECONDS, calendar=services.corpus.calendar)
    services.corpus.catalog = leased
    return system


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _described(metadata: str) -> dict[str, str]:
    return {OBJECT_METADATA: metadata} if metadata else {}
