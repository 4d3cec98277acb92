"""Stand-ins that are simple enough to be right: an embedder without a model, and what Lambda hands to a function."""

from __future__ import annotations

import hashlib
import logging
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Barrier
from types import SimpleNamespace
from typing import Any

from opx.errors import IndexUnavailableError, InvalidInputError
from opx.ports import Message, SearchRequest, SearchResponse, Vector, Vectors
from opx.runtime.metrics import SERVICE, Metric

_WORD = re.compile(r"\w+")


class WordsEmbedder:
    """An `Embedder` whose vectors count words: texts that share words are near each other. 64 dimensions."""

    model_id = "words/64"
    dimension = 64

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        return [(self.embed_query(text),) for text in texts]

    def embed_query(self, text: str) -> Vector:
        values = [0.0] * self.dimension
        for word in _WORD.findall(text.casefold()) or [""]:
            digest = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
            values[digest[0] % self.dimension] += 1.0
        length = math.hypot(*values)
        return array("f", (value / length for value in values))


class WindowsEmbedder(WordsEmbedder):
    """Reads `words` words of a document at a time: it has a vector for each window."""

    def __init__(self, words: int) -> None:
        self._words = words
        self.model_id = f"{WordsEmbedder.model_id}/windows of {words}"

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        return [[self.embed_query(window) for window in self._windows(text)] for text in texts]

    def _windows(self, text: str) -> list[str]:
        found = text.split()
        return [" ".join(found[at : at + self._words]) for at in range(0, len(found), self._words)] or [""]


class BrokenIndex:
    """An index that can't be reached."""

    derives_ids = True

    def search(self, request: SearchRequest) -> SearchResponse:
        raise IndexUnavailableError("no route to host")

    def close(self) -> None:
        """There is nothing to close."""


class SentMessages:
    """A queue that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def send(self, body: str, *, delay_seconds: int = 0) -> None:
        self.sent.append(body)

    def receive(self, *, limit: int = 10, hide_seconds: int = 300) -> list[Message]:
        return []


@dataclass
class FakeContext:
    """A Lambda context. `client_context` is what a gateway sends along; action groups send none."""

    client_context: Any = None
    function_name: str = "function"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:eu-west-1:123456789012:function:function"
    aws_request_id: str = "8f5a1a52-0000-4000-8000-000000000000"
    remaining_seconds: float = 300.0

    def get_remaining_time_in_millis(self) -> int:
        return int(self.remaining_seconds * 1000)

    @classmethod
    def of_gateway(cls, tool: str, headers: Mapping[str, Any] | None = None) -> FakeContext:
        custom = {
            "bedrockAgentCoreToolName": f"retrieve-knowledge___{tool}",
            "bedrockAgentCoreMessageVersion": "1.0",
            "bedrockAgentCoreGatewayId": "gateway-1",
        }
        if headers is not None:
            custom["bedrockAgentCorePropagatedHeaders"] = headers  # type: ignore[assignment]
        return cls(SimpleNamespace(custom=custom))


@dataclass
class Measured:
    """A `Report` that records values, and the labels of each."""

    values: dict[Metric, list[float]] = field(default_factory=dict)
    labels: dict[Metric, list[dict[str, str]]] = field(default_factory=dict)

    def __call__(self, metric: Metric, value: float = 1.0, /, **labels: str) -> None:
        self.values.setdefault(metric, []).append(value)
        self.labels.setdefault(metric, []).append(labels)

    @property
    def counts(self) -> Counter[Metric]:
        return Counter({metric: len(values) for metric, values in self.values.items()})


@contextmanager
def function_logs() -> Iterator[None]:
    """Logging as a function configures it, undone afterwards: its handler writes to the standard output of this test."""
    logger = logging.getLogger(SERVICE)
    before = dict(logger.__dict__)
    logger.handlers = []
    for mark in ("init", "powertools_handler"):  # set where a logger was made already
        logger.__dict__.pop(mark, None)
    try:
        yield
    finally:
        logger.__dict__.clear()
        logger.__dict__.update(before)
        logger.manager._clear_cache()  # type: ignore[attr-defined]


def at_once(count: int, work: Any) -> list[Any]:
    """Results and errors of `work(number)`, run in `count` threads that begin together."""
    barrier = Barrier(count)

    def run(number: int) -> Any:
        barrier.wait()
        try:
            return work(number)
        except InvalidInputError as exc:
            return exc

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
