"""What the parts of a system stand on: each backend's class gives its own of what is declared here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

from opx.errors import SourceRefusedError
from opx.ports import (
    ChunkCopies,
    Clock,
    Embedder,
    Item,
    ObjectStore,
    Queue,
    SearchEngine,
    SearchIndex,
    Table,
    UploadSigner,
)
from opx.ports.metrics import MetricReader
from opx.ports.models import ChatModel, Reranker
from opx.ports.sources import Secrets, SourceSchedules, StreamSubscriptions
from opx.settings import Settings
from opx.tables import TableSpec

if TYPE_CHECKING:
    from opx.ingestion.worker import QueueDrain
    from opx.ports.object_history import ObjectHistory, PastObjects
    from opx.ports.reading import ParsingTools
    from opx.ports.search import CorpusVersion
    from opx.ports.telemetry import TelemetryStores
    from opx.running import Feed


class Backend:
    """The adapters, and what differs from backend to backend."""

    def __init__(self, settings: Settings, *, clock: Clock = time.time) -> None:
        self.settings = settings
        self.clock = clock

    store: ObjectStore

    queue: Queue

    embedder: Embedder

    index: SearchIndex
    """What is searched and written to."""

    def table(self, spec: TableSpec) -> Table:  # noqa: ARG002 - each backend's class has its own
        """The table of a specification."""
        raise TypeError(f"{type(self).__name__} has no tables")

    def foreign_bucket(self, name: str) -> ObjectStore:
        """The objects of another bucket. Raises `SourceRefusedError` where there are no buckets, and
        `ForbiddenAddressError` for the corpus itself."""
        raise SourceRefusedError(
            f"bucket {name} can be read by a system on AWS alone (OPX_BACKEND=aws); copy its files here and watch the folder"
        )

    def close(self) -> None:
        """Release files and connections; afterwards the services can't be used."""

    copies: ChunkCopies | None = None
    """Also get what the index gets, where a managed service makes an index of its own."""

    upload_signer: UploadSigner | None = None
    """For uploads past this process; None where there are none."""

    object_history: ObjectHistory
    """What the corpus store holds beside its objects, for the removal of a client."""

    past_objects: PastObjects | None = None
    """What objects of the corpus store were before; None where it doesn't keep that."""

    settling_seconds = 0.0
    """After which all that was written is found everywhere."""

    def exclusive_work(self) -> AbstractContextManager[Any]:
        """Held while nobody else may take documents in; nothing where many do, who hold claims."""
        return nullcontext()

    def discard_messages(self, unwanted: Callable[[str], bool], *, dry: bool = False) -> int | None:  # noqa: ARG002
        """Remove waiting messages of these bodies, or with `dry` count them; None where messages can't be looked at."""
        return None

    def purge_expired(self) -> int:
        """Remove what expired from tables that don't do so themselves; how many items there were."""
        return 0

    def every_item(self, spec: TableSpec) -> Iterator[Item]:  # noqa: ARG002 - each backend's class has its own
        """All items of a table, in no particular order: for a backup, and for nobody who acts for a reader."""
        raise TypeError(f"{type(self).__name__} has no tables")

    def check_item(self, spec: TableSpec, item: Mapping[str, Any]) -> None:  # noqa: ARG002 - as above
        """Raise `InvalidInputError` for an item that the table wouldn't take."""
        raise TypeError(f"{type(self).__name__} has no tables")

    def check_object(self, key: str, metadata: Mapping[str, str]) -> None:  # noqa: ARG002 - as above
        """Raise `InvalidInputError` for a key or metadata that the corpus store wouldn't take."""
        raise TypeError(f"{type(self).__name__} has no corpus")

    def object_location(self, key: str) -> str:  # noqa: ARG002 - as above
        """The full URI that an object of the corpus has, whether or not it is there."""
        raise TypeError(f"{type(self).__name__} has no corpus")

    def scrub(self) -> None:
        """Overwrite what removed items left in files of this process's own."""

    @property
    def search_engine(self) -> SearchEngine:
        """What answers questions."""
        return self.index

    @property
    def query_embedder(self) -> Embedder | None:
        """For questions; None if the engine embeds them itself."""
        return self.embedder

    def chat_model(self, model: str) -> ChatModel:
        """The language model of this name; each backend's class has its own."""
        raise TypeError(f"{type(self).__name__} has no language model {model}")

    def reranking_service(self, model: str) -> Reranker:
        """The service's reranker of this name, where the backend has such a service."""
        raise TypeError(f"{type(self).__name__} has no service for the reranker {model}")

    secrets: Secrets
    """Credentials of sources, by name."""

    source_schedules: SourceSchedules | None = None
    """Has registered sources pulled at their times; None where the process that pulls looks at the clock itself."""

    pulls: Queue | None = None
    """Where pulls are asked for; None where they are done in this process."""

    checkpoint_requests: Queue | None = None
    """Where checkpoints are asked for; None where they are done in this process."""

    learning_failed: Queue | None = None
    """Where events are set aside that can't be learned from; None where there are no events."""

    def exclusive_pull(self, source_id: str) -> AbstractContextManager[Any]:  # noqa: ARG002
        """Held while this process pulls a source, where a lock of the machine is better than a lease."""
        return nullcontext()

    pull_lease_seconds = 900.0

    rebuilds: Queue | None = None
    """Where a function is asked to go on with a new index; None where that is done in this process."""

    @cached_property
    def parsing_tools(self) -> ParsingTools:
        """What there is to read pictures with."""
        from opx.ports.reading import ParsingTools

        return ParsingTools()

    read_threads = 1

    corpus_version: CorpusVersion | None = None
    """Tells one state of what can be found from the next; None where a service has an index of its own."""

    @property
    def written_index(self) -> SearchIndex:
        """The index, for those who change it."""
        return self.index

    index_identity = ""
    """Tells this index, and this graph, from one that was deleted and made anew, where that can happen unseen."""

    relink_seconds = 45.0
    """For mentions of new names after a batch of documents: a function that takes documents in has five minutes. What is
    left then, a daily run does; 0 where nothing else would do it."""

    def unit_of_work(self) -> AbstractContextManager[Any]:
        """Groups table writes into one commit where the store can; nothing depends on it but speed."""
        return nullcontext()

    @property
    def drain(self) -> QueueDrain | None:
        """Works on the queue in this process; None where functions do."""
        return None

    metric_reader: MetricReader | None = None
    """What other systems measured; None where nothing is to be asked."""

    telemetry: TelemetryStores | None = None
    """Logs, metrics and traces of running systems; None where there are none to ask."""

    stream_subscriptions: StreamSubscriptions | None = None
    """Has streams read on AWS; None where the process that runs reads them itself."""

    def stream_feeds(self) -> Sequence[Feed]:
        """The streams that this process can read."""
        return ()
