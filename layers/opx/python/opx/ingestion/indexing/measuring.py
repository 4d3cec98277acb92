"""Measures the speed of the embedding model, with the rights and within the speed limit of the process that ingests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from opx.domain.record import Record

if TYPE_CHECKING:
    from opx.ingestion.indexing.capability import Indexing
    from opx.runtime.speed_limit import SpeedLimit
    from opx.settings import Settings

MEASURE: Mapping[str, object] = {"task": "measure_embedding"}
"""The event of a call that measures."""

TEXTS = 8
_TEXT = "Self-test {time}, text {number}: restart the service, then watch its error rate for ten minutes."
"""The time makes each text new, so that no service's cache answers."""


class EmbeddingSpeed(Record, frozen=True):
    """`texts` were embedded in `seconds`, of which `waited` passed until the speed limit let them. `quota` is the configured
    one, in texts a minute; 0 if it is unknown."""

    model: str
    texts: int
    seconds: float
    waited: float
    throttled: int
    quota: int


def is_measure(event: object) -> bool:
    """True for an operator's event; all others come from the queue."""
    return event == MEASURE


class Measured(Protocol):
    """The parts of a system that are measured."""

    @property
    def indexing(self) -> Indexing: ...

    @property
    def ports(self) -> Limited: ...

    @property
    def settings(self) -> Settings: ...


class Limited(Protocol):
    @property
    def speed_limits(self) -> Mapping[str, SpeedLimit]: ...


def measure_embedding(system: Measured, clock: Callable[[], float] = time.perf_counter) -> EmbeddingSpeed:
    """Embeds a few texts, without the cache. Raises `EmbeddingError`."""

    def counts() -> tuple[int, float]:
        known = list(system.ports.speed_limits.values())
        return sum(one.throttled_calls for one in known), sum(one.waited_seconds for one in known)

    embedder = system.indexing.embedder
    throttled, waited = counts()
    started = clock()
    embedder.embed_documents([_TEXT.format(time=time.time(), number=number) for number in range(TEXTS)])
    return EmbeddingSpeed(
        model=embedder.model_id,
        texts=TEXTS,
        seconds=round(clock() - started, 3),
        waited=round(counts()[1] - waited, 3),
        throttled=counts()[0] - throttled,
        quota=system.settings.embedding_requests_per_minute,
    )
