"""Embeds texts by models on Bedrock, within a quota of requests.

Request and reply bodies: Amazon Bedrock user guide, "Amazon Titan Embeddings G1 - Text" (with V2), "Cohere Embed v3" and
"Cohere Embed v4". All numbers in `MODELS` are limits from there, unless noted.
"""

from __future__ import annotations

import json
import math
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from opx.errors import EmbeddingError, InvalidInputError, ThrottledError
from opx.ports import Vector, Vectors
from opx.ports.search import embedded_in_order
from opx.runtime.speed_limit import Quota, ReservedCalls, SpeedLimit
from opx.runtime.threads import within
from opx_aws.vendor_errors import BUSY_MODEL_CODES, CONNECTION_ERRORS, Backoff, error_code, safe_message

if TYPE_CHECKING:
    from mypy_boto3_bedrock_runtime import BedrockRuntimeClient

Body = dict[str, Any]
DOCUMENT, QUERY = "search_document", "search_query"


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """`dimensions` that the model supports, the default first. `request` builds a body of texts, purpose and dimension.

    `max_characters` limits one text, `max_call_characters` the texts of a call together. `in_batches`: batch inference
    supports it.
    """

    name: str
    dimensions: tuple[int, ...]
    texts_a_call: int
    max_characters: int
    max_call_characters: int
    request: Callable[[Sequence[str], str, int], Body]
    vectors: Callable[[Mapping[str, Any]], Sequence[Sequence[float]]]
    in_batches: bool = False

    def checked_dimension(self, dimension: int | None) -> int:
        """The dimension to use. Raises `InvalidInputError` for one that the model doesn't support."""
        wanted = dimension or self.dimensions[0]
        if wanted not in self.dimensions:
            raise InvalidInputError(f"{self.name} makes vectors of dimension {self.dimensions}, not {wanted}")
        return wanted


def _titan_v2_request(texts: Sequence[str], _purpose: str, dimension: int) -> Body:
    return {"inputText": texts[0], "dimensions": dimension, "normalize": True, "embeddingTypes": ["float"]}


def _titan_v1_request(texts: Sequence[str], _purpose: str, _dimension: int) -> Body:
    return {"inputText": texts[0]}


def _titan_vectors(answer: Mapping[str, Any]) -> Sequence[Sequence[float]]:
    return [answer["embedding"]]


def _cohere_request(texts: Sequence[str], purpose: str, dimension: int) -> Body:
    return {
        "texts": list(texts),
        "input_type": purpose,
        "embedding_types": ["float"],
        "output_dimension": dimension,
        "truncate": "RIGHT",
    }


def _cohere_v3_request(texts: Sequence[str], purpose: str, _dimension: int) -> Body:
    return {"texts": list(texts), "input_type": purpose, "embedding_types": ["float"], "truncate": "END"}


def _cohere_vectors(answer: Mapping[str, Any]) -> Sequence[Sequence[float]]:
    vectors: Sequence[Sequence[float]] = answer["embeddings"]["float"]
    return vectors


_TITAN_CHARACTERS = 50_000
_COHERE_V3_CHARACTERS = 2048
_COHERE_TEXTS = 96
_COHERE_CHARACTERS = 400_000
"""About 100,000 tokens, where the model reads 128,000 and truncates longer input."""

MODELS: dict[str, EmbeddingModel] = {
    model.name: model
    for model in (
        EmbeddingModel(
            "amazon.titan-embed-text-v2:0",
            dimensions=(1024, 512, 256),
            texts_a_call=1,
            max_characters=_TITAN_CHARACTERS,
            max_call_characters=_TITAN_CHARACTERS,
            request=_titan_v2_request,
            vectors=_titan_vectors,
            in_batches=True,
        ),
        EmbeddingModel(
            "amazon.titan-embed-text-v1",
            dimensions=(1536,),
            texts_a_call=1,
            max_characters=_TITAN_CHARACTERS,
            max_call_characters=_TITAN_CHARACTERS,
            request=_titan_v1_request,
            vectors=_titan_vectors,
        ),
        EmbeddingModel(
            "cohere.embed-v4:0",
            dimensions=(1536, 1024, 512, 256),
            texts_a_call=_COHERE_TEXTS,
            max_characters=_COHERE_CHARACTERS,
            max_call_characters=_COHERE_CHARACTERS,
            request=_cohere_request,
            vectors=_cohere_vectors,
        ),
        EmbeddingModel(
            "cohere.embed-multilingual-v3",
            dimensions=(1024,),
            texts_a_call=_COHERE_TEXTS,
            max_characters=_COHERE_V3_CHARACTERS,
            max_call_characters=_COHERE_V3_CHARACTERS * _COHERE_TEXTS,
            request=_cohere_v3_request,
            vectors=_cohere_vectors,
        ),
    )
}


def embedding_model(model: str) -> EmbeddingModel:
    """The model with this id, or the one behind an inference profile such as `eu.cohere.embed-v4:0`.

    Raises `InvalidInputError` that lists the known models.
    """
    for name, known in MODELS.items():
        if model == name or model.endswith("." + name):
            return known
    raise InvalidInputError(f"unknown embedding model {model!r}; known: {', '.join(MODELS)}, or an inference profile")


THREADS = 2
"""Requests at once, by default."""

QUERY_SECONDS = 3.0
"""Time for the vector of a question. A model that was idle for a while takes a second or two."""

DEFAULT_MODEL = "amazon.titan-embed-text-v2:0"

_TOO_LONG = "too many input tokens"
_SHORTEST_CUT = 1000
_BLANK = "."
"""Sent for empty text, which the models refuse."""

_THROTTLED = "ThrottlingException"
_REFUSALS, _REFUSED_SECONDS = 30, 60.0
"""Blocks of calls in a row without any success, after which the quota counts as used up: it may be a day's, or zero."""

_BYTES_A_TOKEN = 4
"""As a rule: English has about 4.7 letters a token, Chinese three bytes."""


@dataclass(slots=True)
class _Call:
    """The texts of one call, by their positions among those of the caller."""

    positions: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def tokens(self) -> float:
        return sum(len(text.encode()) / _BYTES_A_TOKEN for text in self.texts)


class BedrockEmbedder:
    """`Embedder` that calls a model of `MODELS`, by its id or an inference profile's.

    Texts beyond a model's limit of characters are truncated, and further by halves if they still have too many tokens. Calls
    for documents keep to `limit`, which is shared with other workers; those for queries are sent at once, and slow the others
    down when they are throttled. The client should not retry by itself.
    """

    def __init__(
        self,
        client: BedrockRuntimeClient,
        model: str,
        *,
        dimension: int | None = None,
        limit: SpeedLimit | None = None,
        threads: int = THREADS,
        query_seconds: float = QUERY_SECONDS,
        backoff: Backoff = Backoff(),  # noqa: B008
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._called = model
        self._model = embedding_model(model)
        self._dimension = self._model.checked_dimension(dimension)
        self._limit = limit or SpeedLimit(Quota())
        self._threads = threads
        self._query_seconds = query_seconds
        self._backoff = backoff
        self._sleep = sleep

    @property
    def model_id(self) -> str:
        """Model and dimension; the same through every inference profile, as the vectors are."""
        return f"{self._model.name}/{self._dimension}"

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def called(self) -> str:
        """Id of the model or inference profile."""
        return self._called

    @property
    def works_in_batches(self) -> bool:
        """True if batch inference supports the model."""
        return self._model.in_batches

    def request(self, text: str) -> Body:
        """The body of a request for one text of a document."""
        return self._model.request([self._readable(text)], DOCUMENT, self._dimension)

    def vectors_of(self, answer: Mapping[str, Any]) -> Vectors:
        """The vectors of a reply to such a request. Raises `EmbeddingError` for anything else."""
        try:
            (vector,) = map(self._unit, self._model.vectors(answer))
        except (ValueError, KeyError, TypeError) as exc:
            raise EmbeddingError(f"{self._called} returned a reply of an unknown form: {exc!r}") from exc
        return (vector,)

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        return embedded_in_order(self, texts)

    def embed_each(self, texts: Sequence[str], found: Callable[[int, Vectors], None]) -> None:
        waiting = deque(self._calls(texts))
        refused = 0
        while waiting:
            block = self._limit.reserve([call.tokens for call in waiting])
            calls = [waiting.popleft() for _ in block.starts]
            refused += 1
            for call, vectors in self._answers(calls, block):
                if vectors is None:
                    waiting.append(call)
                    continue
                refused = 0
                for position, vector in zip(call.positions, vectors, strict=True):
                    found(position, (vector,))
            if refused > _REFUSALS:
                raise ThrottledError(f"{self._called} refuses every call: its quota is used up", _REFUSED_SECONDS)

    def embed_query(self, text: str) -> Vector:
        """Raises `EmbeddingError` also when its time is over."""
        return within(self._query_seconds, lambda: self.embed_queries([text])[0], self._called, EmbeddingError)

    def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        vectors: dict[int, Vector] = {}
        for call in self._calls(texts):
            vectors.update(zip(call.positions, self._query(call), strict=True))
        return [vectors[position] for position in range(len(texts))]

    def _query(self, call: _Call) -> list[Vector]:
        pauses = self._backoff.pauses()
        while True:
            try:
                return self._embed(call.texts, QUERY)
            except ThrottledError:
                self._limit.throttled()
                pause = next(pauses, None)
                if pause is None:
                    raise
            self._sleep(pause)

    def _calls(self, texts: Sequence[str]) -> Iterator[_Call]:
        call, size = _Call(), 0
        for position, text in enumerate(map(self._readable, texts)):
            full = len(call.texts) == self._model.texts_a_call or size + len(text) > self._model.max_call_characters
            if call.texts and full:
                yield call
                call, size = _Call(), 0
            call.positions.append(position)
            call.texts.append(text)
            size += len(text)
        if call.texts:
            yield call

    def _answers(self, calls: Sequence[_Call], block: ReservedCalls) -> Iterator[tuple[_Call, list[Vector] | None]]:
        """Each call with its vectors as it ends, None if it is to be repeated: it was throttled, or not sent as another one
        failed. Raises the first other error after the calls that were sent."""
        failed = Event()
        if len(calls) == 1 or self._threads < 2:
            for call, start in zip(calls, block.starts, strict=True):
                yield call, self._answer(call, start, block, failed)
            return
        with ThreadPoolExecutor(min(self._threads, len(calls)), "embed") as pool:
            sent = {
                pool.submit(self._answer, call, start, block, failed): call
                for call, start in zip(calls, block.starts, strict=True)
            }
            failure: EmbeddingError | None = None
            for ended in as_completed(sent):
                try:
                    yield sent[ended], ended.result()
                except EmbeddingError as exc:
                    failure = failure or exc
        if failure:
            raise failure

    def _answer(self, call: _Call, start: float, block: ReservedCalls, failed: Event) -> list[Vector] | None:
        """Sends a call at its time, unless another one has `failed` meanwhile; None if it is to be repeated."""
        if not failed.is_set():
            self._limit.due(start)
        if failed.is_set():
            return None
        try:
            return self._embed(call.texts, DOCUMENT)
        except ThrottledError:
            failed.set()
            self._limit.throttled(block)
            return None
        except EmbeddingError:
            failed.set()
            raise

    def _readable(self, text: str) -> str:
        """Text as the model accepts it: not blank, not too long, and valid Unicode."""
        cut = text[: self._model.max_characters].encode("utf-8", "replace").decode()
        return cut if cut.strip() else _BLANK

    def _embed(self, texts: list[str], purpose: str) -> list[Vector]:
        """Embeds one call's texts, retrying while the service is busy. Raises `ThrottledError` at once, and
        `EmbeddingError`."""
        pauses = self._backoff.pauses()
        while True:
            try:
                return self._invoke(texts, purpose)
            except (ClientError, *CONNECTION_ERRORS) as exc:
                message = f"{self._called} could not embed {len(texts)} texts: {safe_message(exc)}"
                if isinstance(exc, ClientError) and error_code(exc) == _THROTTLED:
                    raise ThrottledError(message) from exc
                too_long = isinstance(exc, ClientError) and _TOO_LONG in str(exc).lower()
                if too_long and max(map(len, texts)) > _SHORTEST_CUT:
                    texts = [text[: max(len(text) // 2, _SHORTEST_CUT)] for text in texts]
                    continue
                pause = next(pauses, None) if _is_busy(exc) else None
                if pause is None:
                    raise EmbeddingError(message) from exc
            except BotoCoreError as exc:
                raise EmbeddingError(f"{self._called} could not be called: {exc}") from exc
            self._sleep(pause)

    def _invoke(self, texts: list[str], purpose: str) -> list[Vector]:
        body = json.dumps(self._model.request(texts, purpose, self._dimension))
        answer = self._client.invoke_model(
            modelId=self._called, body=body, contentType="application/json", accept="application/json"
        )
        try:
            vectors = [self._unit(vector) for vector in self._model.vectors(json.loads(answer["body"].read()))]
        except (ValueError, KeyError, TypeError) as exc:
            raise EmbeddingError(f"{self._called} returned a reply of an unknown form: {exc!r}") from exc
        if len(vectors) != len(texts):
            raise EmbeddingError(f"{self._called} returned {len(vectors)} vectors for {len(texts)} texts")
        return vectors

    def _unit(self, values: Sequence[float]) -> Vector:
        length = math.hypot(*values)
        if len(values) != self._dimension or not 0 < length < math.inf:
            raise EmbeddingError(f"{self._called} returned a vector of {len(values)} numbers and length {length}")
        return array("f", (value / length for value in values))


def _is_busy(error: Exception) -> bool:
    if isinstance(error, ClientError):
        return error_code(error) in BUSY_MODEL_CODES
    return isinstance(error, CONNECTION_ERRORS)
