"""Ports of bulk jobs: embedding in batches, and the executions that run the stages of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from opx.ports.search import Vectors

# -- embedding in batches


class BatchLimits(Struct, frozen=True):
    """Limits of one batch job: its records (fewer are refused), its files with their records and bytes, and the jobs of a
    model that may run or wait at the same time. Quotas of an account: settings may change them."""

    minimum_records: int = 100
    maximum_records: int = 50_000
    file_bytes: int = 1024**3
    job_bytes: int = 5 * 1024**3
    jobs: int = 20


class BatchPhase(StrEnum):
    """Phase of a batch job. `ENDED`: results are there, of all or some records. `FAILED`: there are none, as after a refusal,
    an expiry or a stop."""

    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"


class BatchState(Struct, frozen=True):
    """State of a batch job. `outputs` are object keys of the corpus store, by the key of the input that each is for; an
    input without one has no results. `reason` is the service's, for people."""

    phase: BatchPhase
    outputs: Mapping[str, str] = {}
    reason: str = ""


class BatchEmbedder(Protocol):
    """Embeds files of texts asynchronously, by a job of a service. Inputs are objects of the corpus store, JSON Lines of
    `{"recordId": …, "modelInput": …}`; outputs are JSON Lines of `{"recordId": …, "modelOutput": …}`, or with an `error`,
    in any order, each record once, several times, or not at all.

    Raises `StoreUnavailableError` (`ThrottledError` when the quota of jobs is used up): then call it again.
    """

    @property
    def model_id(self) -> str:
        """Model and dimension, as those of the `Embedder` whose vectors these are equal to."""

    @property
    def limits(self) -> BatchLimits: ...

    def request(self, text: str) -> Mapping[str, Any]:
        """The `modelInput` of one text."""

    def vectors(self, output: Mapping[str, Any]) -> Vectors:
        """The vectors of a `modelOutput`, of length 1. Raises `EmbeddingError` for anything else."""

    def start(self, name: str, inputs: Sequence[str], outputs: str) -> str:
        """Starts a job over these input objects; its outputs are stored below the key `outputs`. Returns its id. The same
        name starts no second job: the id of the first is returned."""

    def state(self, batch_id: str) -> BatchState:
        """State of a job; `FAILED` for one that doesn't exist."""

    def stop(self, batch_id: str) -> None:
        """Stops a job. Doing so twice, or after its end, does nothing."""


NewBatchEmbedder = Callable[[str, int], "BatchEmbedder | None"]
"""Makes one for a model and a dimension, those of the settings if empty; None where the model has no batch jobs."""


# -- executions


class BulkRunner(Protocol):
    """Runs the stages of a job outside of this process, by an execution of a service. Raises `StoreUnavailableError`."""

    def start(self, job_id: str) -> str:
        """Starts the job's execution, or continues it with the stages and shards that are left; returns its id. A second
        call while it runs returns the same."""

    def problem(self, execution_id: str) -> str:
        """Reason for which an execution ended early, for people; "" while it runs, and after success."""

    def cancel(self, execution_id: str) -> None:
        """Stops the execution. Returns when no stage is started any more; stages that run may go on for a while. Doing so
        twice does nothing."""
