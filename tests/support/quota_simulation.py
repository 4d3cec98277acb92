"""Simulates a load of documents against an account's quota of embeddings: `python -m tests.support.quota_simulation`.

The whole ingestion is real (queue, `process_batch`, worker, pipeline, catalog, index, cache, embedder), but for its clock,
the model (`QuotaDouble`) and Lambda: each worker is a thread in simulated time that calls `process_batch` with up to ten
messages, and is killed after five minutes, so that its messages stay hidden for half an hour.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opx.adapters.embedded.object_store import FolderObjectStore
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.events import ObjectEvent
from opx.ingestion.worker import QueueMessage, process_batch
from opx.operations.system import System
from opx.ports import Embedder
from opx.ports.tables import DOCUMENTS, EMBEDDINGS, ENTRIES, KEYS
from opx.runtime.deadlines import deadline
from opx.runtime.metrics import unreported
from opx.runtime.speed_limit import Quota, SpeedLimit
from opx.settings import Settings
from opx.system import bootstrap
from opx_aws.bedrock_embedder import BedrockEmbedder
from tests.doubles.model_quota import DIMENSION, QuotaDouble, VirtualTime

FUNCTION_SECONDS, HIDDEN_SECONDS, DELIVERIES, ATTEMPTS, FIRST_PAUSE = 300.0, 1800, 8, 6, 20.0
"""As deployed: `infra/ingestion.py` and `infra/constructs/ingest_queue.py`."""

START_SECONDS = 1.0
TITAN = "amazon.titan-embed-text-v2:0"
CHUNKS = 8


@dataclass(frozen=True)
class Load:
    """`others` is the share of the quota that other callers use; `known`: the workers know the quota. `slow` and `malformed`
    are those of `QuotaDouble`."""

    quota: float
    workers: int
    known: bool
    burst_seconds: float = 1.0
    others: float = 0.0
    documents: int = 400
    seconds: float = 0.15
    slow: frozenset[int] = frozenset()
    malformed: frozenset[int] = frozenset()

    @property
    def ideal_seconds(self) -> float:
        """The time of all calls at the rate of the quota that others leave."""
        return self.documents * CHUNKS / (self.quota * (1 - self.others) / 60)


@dataclass(frozen=True)
class Result:
    load: Load
    seconds: float
    ingested: int
    failed: int
    dead_letters: int
    vectors: int
    repeated: int
    calls: int
    throttled: int
    killed: int

    @property
    def slowness(self) -> float:
        return self.seconds / self.load.ideal_seconds

    @property
    def throttled_share(self) -> float:
        return self.throttled / max(1, self.calls)


class KilledError(BaseException):
    """The function's time is over."""


class Process:
    """The clock of one worker: `sleep` ends with `KilledError` when the time of its function is over."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self.killed_at = float("inf")

    def sleep(self, seconds: float) -> None:
        left = self.killed_at - self._time.now
        self._time.sleep(min(seconds, left))
        if seconds > left:
            raise KilledError


NewEmbedder = Callable[[Any, System, Load, VirtualTime, Callable[[float], None]], Embedder]
"""Creates the embedder of one worker: of the model's client, the tables, the load, the clock and the worker's sleep."""


class EachWorkers:
    """An `Embedder` that is another one in each thread, as each function has its own."""

    def __init__(self) -> None:
        self.mine = threading.local()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.mine.embedder, name)


def simulate(load: Load, new_embedder: NewEmbedder) -> Result:
    time = VirtualTime()
    embedder = EachWorkers()
    model = QuotaDouble(
        time.clock,
        lambda seconds: embedder.mine.process.sleep(seconds),  # noqa: PLW0108 - another one in each thread
        requests_per_minute=load.quota,
        burst_seconds=load.burst_seconds,
        others=load.others,
        seconds=load.seconds,
        slow=load.slow,
        malformed=load.malformed,
    )
    with (
        tempfile.TemporaryDirectory() as home,
        _system(Path(home), time, embedder, model, load, new_embedder) as system,
    ):
        _upload(system, Path(home), load.documents)
        tally = _Tally()
        for _ in range(load.workers):
            time.spawn(
                lambda: _work(
                    system, time, embedder, lambda sleep: new_embedder(model, system, load, time, sleep), tally
                )
            )
        time.run()
        failed = len(list(system.corpus.failures.items()))
        return Result(
            load,
            seconds=tally.finished - time.started,
            ingested=sum(bool(current_id(item)) for item in system.tables.every_item(KEYS)),
            failed=failed,
            dead_letters=tally.dead,
            vectors=len(model.embedded),
            repeated=model.embedded.total() - len(model.embedded),
            calls=model.calls,
            throttled=model.throttled,
            killed=tally.killed,
        )


@dataclass
class _Tally:
    dead: int = 0
    killed: int = 0
    finished: float = 0.0


@contextmanager
def _system(
    home: Path, time: VirtualTime, embedder: EachWorkers, model: QuotaDouble, load: Load, new_embedder: NewEmbedder
) -> Iterator[System]:
    settings = Settings(home=str(home), max_attempts=ATTEMPTS, retry_base_seconds=FIRST_PAUSE)
    with bootstrap(settings, clock=time.clock, embedder=embedder) as system:
        embedder.mine.embedder = new_embedder(model, system, load, time, time.sleep)
        tables = [system.tables.table(spec) for spec in (DOCUMENTS, KEYS, ENTRIES)]
        system.corpus.catalog = Catalog(*tables, clock=time.clock, lease_seconds=900, calendar=system.corpus.calendar)
        system.ingestion.worker  # noqa: B018 - opened before the workers begin
        yield system


def _upload(system: System, home: Path, documents: int) -> None:
    store = FolderObjectStore(home / "corpus")
    for number in range(documents):
        key = f"documents/runbooks/d{number}.md"
        parts = (f"## Part {part}\n\n" + f"step{part} word{number} " * 25 for part in range(CHUNKS))
        store.put(key, "\n\n".join((f"# Doc {number}", *parts)).encode())
        system.queue.send(ObjectEvent(key, deleted=False, sequencer=f"{number + 1:040X}").to_json())


def _work(
    system: System,
    time: VirtualTime,
    embedder: EachWorkers,
    new_embedder: Callable[[Callable[[float], None]], Embedder],
    tally: _Tally,
) -> None:
    """One concurrent execution of the function, over and over, until the queue is empty."""
    process = embedder.mine.process = Process(time)
    embedder.mine.embedder = new_embedder(process.sleep)
    queue = system.queue
    while queue.waiting():
        messages = queue.receive(limit=10, hide_seconds=HIDDEN_SECONDS)
        for message in [one for one in messages if one.receives > DELIVERIES]:
            messages.remove(message)
            queue.done(message.receipt)
            tally.dead += 1
        if not messages:
            time.sleep(1.0)
            continue
        process.killed_at = time.now + FUNCTION_SECONDS
        try:
            process.sleep(START_SECONDS)
            done = _invoke(system, time, [QueueMessage(m.receipt, m.body, m.receipt, m.receives) for m in messages])
        except KilledError:
            tally.killed += 1
            continue
        for message in messages:
            if message.receipt not in done:
                queue.done(message.receipt)
        tally.finished = time.now


def _invoke(system: System, time: VirtualTime, deliveries: Sequence[QueueMessage]) -> list[str]:
    with deadline(FUNCTION_SECONDS - START_SECONDS, time.clock):
        return process_batch(deliveries, system.ingestion.worker, system.queue, _Forgetful(), unreported)


class _Forgetful:
    """`HandledEvents` that remembers nothing: every delivery reaches the catalog."""

    def has(self, body: str) -> bool:
        return False

    def remember(self, body: str) -> None:
        pass


def limited(model: Any, system: System, load: Load, time: VirtualTime, sleep: Callable[[float], None]) -> Embedder:
    """The embedder of a function: paced with all others by an item of the table."""
    quota = Quota(requests=load.quota) if load.known else Quota()
    table = system.tables.table(EMBEDDINGS)
    limit = SpeedLimit(quota, lambda: table, "titan", clock=time.clock, sleep=sleep)
    endless = 3600.0  # of real time, which the simulation doesn't measure
    return BedrockEmbedder(
        model, TITAN, dimension=DIMENSION, limit=limit, threads=1, query_seconds=endless, sleep=sleep
    )


def loads(documents: int = 400) -> Iterator[Load]:
    for quota, workers in ((60, 2), (60, 10), (200, 3), (200, 10), (600, 10)):
        for known in (True, False):
            yield Load(quota, workers, known, documents=documents)
            yield Load(quota, workers, known, burst_seconds=60.0, documents=documents)
    for quota, workers in ((60, 10), (600, 10)):
        for known in (True, False):
            yield Load(quota, workers, known, others=0.5, documents=documents)
            yield Load(quota, workers, known, burst_seconds=60.0, others=0.5, documents=documents)


HEAD = (
    "| quota | workers | known | bucket | others | ideal | time | times ideal | throttled | failed | computed twice |"
)


def row(result: Result) -> str:
    load = result.load
    cells = (
        f"{load.quota:g}/min",
        load.workers,
        "yes" if load.known else "no",
        f"{load.burst_seconds:g} s",
        f"{load.others:.0%}" if load.others else "–",
        f"{load.ideal_seconds / 60:.1f} min",
        f"{result.seconds / 60:.1f} min",
        f"{result.slowness:.2f}",
        f"{result.throttled_share:.1%}",
        load.documents - result.ingested,
        result.repeated,
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def main(documents: int) -> None:
    """Prints a row for each load."""
    logging.disable(logging.CRITICAL)
    write = sys.stdout.write
    write(HEAD + "\n" + "|---" * HEAD.count(" | ") + "|---|\n")
    for load in loads(documents):
        write(row(simulate(load, limited)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
