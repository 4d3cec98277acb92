"""The Bedrock embedder against a double of InvokeModel, and the cache over it."""

from __future__ import annotations

import hashlib
import logging
import math
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.errors import EmbeddingError, InvalidInputError, ThrottledError
from opx.ingestion.indexing.embedding_cache import KEPT_AT_ONCE, CachedEmbedder
from opx.ports import Embedder, Vector, Vectors, tables
from opx.ports.search import TEXTS_A_STEP
from opx.runtime.speed_limit import MARGIN, Quota, SpeedLimit
from opx_aws.bedrock_embedder import BedrockEmbedder
from opx_aws.vendor_errors import Backoff
from opx_testing.embedder import DISK, TEA, EmbedderContract
from opx_testing.fake_time import FakeTime
from tests.doubles.bedrock import MAX_TITAN_CHARACTERS, MAX_TITAN_TOKENS, THROTTLED, BedrockDouble, a_failure
from tests.doubles.http_double import Response
from tests.support.fakes import WindowsEmbedder
from tests.support.records_support import BrokenTable

if TYPE_CHECKING:
    from mypy_boto3_bedrock_runtime import BedrockRuntimeClient

TITAN_V2, TITAN_V1, COHERE = "amazon.titan-embed-text-v2:0", "amazon.titan-embed-text-v1", "cohere.embed-v4:0"
COHERE_V3 = "cohere.embed-multilingual-v3"
THREE_TRIES = Backoff(attempts=3, base=1.0, longest=9.0, random=lambda: 0.0)


@pytest.fixture
def table(database: Database, time: FakeTime) -> SqliteTable:
    return SqliteTable(tables.EMBEDDINGS, database, clock=time.clock)


@contextmanager
def a_client(double: BedrockDouble) -> Iterator[BedrockRuntimeClient]:
    client = boto3.client(
        "bedrock-runtime",
        region_name="eu-west-1",
        endpoint_url=double.endpoint,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}),
    )
    yield client
    client.close()


class Bedrock:
    """A double, and embedders over it whose time is not real."""

    def __init__(self, double: BedrockDouble, client: BedrockRuntimeClient) -> None:
        self.double = double
        self.client = client
        self.time = FakeTime()

    def embedder(self, model: str = TITAN_V2, **options: Any) -> BedrockEmbedder:
        usual: dict[str, Any] = {"backoff": THREE_TRIES, "limit": self.limit(60_000), "sleep": self.time.sleep}
        return BedrockEmbedder(self.client, model, **usual | options)

    def limit(self, requests_per_minute: float) -> SpeedLimit:
        return SpeedLimit(Quota(requests_per_minute), clock=self.time.clock, sleep=self.time.sleep)


@pytest.fixture(scope="module")
def _service() -> Iterator[tuple[BedrockDouble, BedrockRuntimeClient]]:
    with BedrockDouble() as double, a_client(double) as client:
        yield double, client


@pytest.fixture
def bedrock(_service: tuple[BedrockDouble, BedrockRuntimeClient]) -> Bedrock:
    double, client = _service
    double.reset()
    return Bedrock(double, client)


class TestTitanV2(EmbedderContract):
    @pytest.fixture(params=[1024, 256])
    def embedder(self, bedrock: Bedrock, request: pytest.FixtureRequest) -> Embedder:
        return bedrock.embedder(TITAN_V2, dimension=request.param)


class TestTitanV1(EmbedderContract):
    @pytest.fixture
    def embedder(self, bedrock: Bedrock) -> Embedder:
        return bedrock.embedder(TITAN_V1)


class TestCohereV4(EmbedderContract):
    @pytest.fixture
    def embedder(self, bedrock: Bedrock) -> Embedder:
        return bedrock.embedder(COHERE)


class TestCohereMultilingualV3(EmbedderContract):
    @pytest.fixture
    def embedder(self, bedrock: Bedrock) -> Embedder:
        return bedrock.embedder(COHERE_V3)

    def test_texts_are_cut_at_2048_characters(self, bedrock: Bedrock) -> None:
        bedrock.embedder(COHERE_V3).embed_documents(["word " * 1000, DISK])
        assert [len(text) for text in bedrock.double.calls[-1]["texts"]] == [2048, len(DISK)]


class TestCachedEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self, bedrock: Bedrock, table: SqliteTable, time: FakeTime) -> Embedder:
        return CachedEmbedder(bedrock.embedder(TITAN_V2, dimension=256), table, clock=time.clock)


class TestModels:
    @pytest.mark.parametrize(
        ("model", "dimension"), [(TITAN_V2, 1024), (TITAN_V2, 512), (TITAN_V2, 256), (TITAN_V1, 1536), (COHERE, 512)]
    )
    def test_vectors_have_the_requested_dimension(self, bedrock: Bedrock, model: str, dimension: int) -> None:
        embedder = bedrock.embedder(model, dimension=dimension)
        assert embedder.dimension == len(embedder.embed_query(DISK)) == dimension
        assert embedder.model_id == f"{model}/{dimension}"

    @pytest.mark.parametrize(("model", "dimension"), [(TITAN_V2, 1536), (TITAN_V1, 1024), (COHERE, 100)])
    def test_dimension_that_a_model_does_not_make_is_refused(
        self, bedrock: Bedrock, model: str, dimension: int
    ) -> None:
        with pytest.raises(InvalidInputError, match=f"not {dimension}"):
            bedrock.embedder(model, dimension=dimension)

    def test_unknown_model_is_refused(self, bedrock: Bedrock) -> None:
        with pytest.raises(InvalidInputError, match=r"cohere\.embed-v4:0"):
            bedrock.embedder("acme.embed-v1")

    def test_inference_profile_is_called_and_gives_vectors_of_its_model(self, bedrock: Bedrock) -> None:
        embedder = bedrock.embedder("eu.cohere.embed-v4:0")
        embedder.embed_query(DISK)
        assert embedder.model_id == f"{COHERE}/1536"
        assert bedrock.double.requests[-1].path == "/model/eu.cohere.embed-v4:0/invoke"

    def test_titan_takes_a_text_a_call(self, bedrock: Bedrock) -> None:
        bedrock.embedder(TITAN_V2, dimension=512, threads=1).embed_documents([DISK, TEA])
        assert bedrock.double.calls == [
            {"inputText": text, "dimensions": 512, "normalize": True, "embeddingTypes": ["float"]}
            for text in (DISK, TEA)
        ]

    def test_cohere_takes_96_texts_a_call(self, bedrock: Bedrock) -> None:
        bedrock.embedder(COHERE).embed_documents([f"text {n}" for n in range(200)])
        assert sorted(len(call["texts"]) for call in bedrock.double.calls) == [8, 96, 96]

    def test_cohere_call_is_bounded_in_characters(self, bedrock: Bedrock) -> None:
        bedrock.embedder(COHERE).embed_documents(["word " * 30_000] * 5)
        assert sorted(len(call["texts"]) for call in bedrock.double.calls) == [1, 2, 2]

    def test_cohere_gets_the_input_type(self, bedrock: Bedrock) -> None:
        embedder = bedrock.embedder(COHERE)
        embedder.embed_documents([DISK])
        embedder.embed_query(DISK)
        assert [call["input_type"] for call in bedrock.double.calls] == ["search_document", "search_query"]

    def test_text_is_cut_at_the_characters_that_the_model_takes(self, bedrock: Bedrock) -> None:
        bedrock.embedder().embed_documents(["word" * 20_000])
        assert [len(call["inputText"]) for call in bedrock.double.calls] == [MAX_TITAN_CHARACTERS]

    def test_text_with_too_many_tokens_is_cut_by_halves(self, bedrock: Bedrock) -> None:
        bedrock.embedder().embed_documents(["! " * (MAX_TITAN_TOKENS + 1)])
        assert [len(call["inputText"]) for call in bedrock.double.calls] == [16_386, 8193]

    def test_unpaired_surrogate_is_replaced(self, bedrock: Bedrock) -> None:
        ((vector,),) = bedrock.embedder().embed_documents(["disk \ud800 full"])
        assert math.hypot(*vector) == pytest.approx(1, abs=1e-5)


class TestFailures:
    def test_throttled_call_is_tried_again_after_growing_pauses(self, bedrock: Bedrock) -> None:
        expected = bedrock.embedder().embed_query(DISK)
        bedrock.double.throttle(2)
        assert bedrock.embedder().embed_query(DISK) == expected
        assert [pause for pause in bedrock.time.slept if pause >= 1] == [1.0, 2.0]

    @pytest.mark.parametrize(
        "problem",
        [
            THROTTLED,
            a_failure(503, "ServiceUnavailableException"),
            a_failure(500, "InternalServerException"),
            a_failure(408, "ModelTimeoutException"),
            a_failure(429, "ModelNotReadyException"),
            Response(hang_up=True),
        ],
        ids=str,
    )
    def test_transient_failure_is_retried_and_lasting_failure_raises(self, bedrock: Bedrock, problem: Response) -> None:
        bedrock.double.inject(problem, times=2)
        assert len(bedrock.embedder().embed_query(DISK)) == 1024
        bedrock.double.inject(problem, times=3)
        with pytest.raises(EmbeddingError, match=TITAN_V2):
            bedrock.embedder().embed_query(DISK)
        assert len(bedrock.double.requests) == 6

    def test_question_waits_no_longer_than_its_time(self, bedrock: Bedrock) -> None:
        over = threading.Event()

        def pause(_seconds: float) -> None:
            over.wait(60)
            raise EmbeddingError("nobody waits for this")

        bedrock.double.throttle(1)
        embedder = bedrock.embedder(query_seconds=0.05, sleep=pause)
        with pytest.raises(EmbeddingError, match=r"did not answer within 0\.05 s"):
            embedder.embed_query(DISK)
        over.set()

    @pytest.mark.parametrize(
        ("status", "code"),
        [(403, "AccessDeniedException"), (400, "ValidationException"), (404, "ResourceNotFoundException")],
    )
    def test_refused_call_raises_at_once(self, bedrock: Bedrock, status: int, code: str) -> None:
        bedrock.double.inject(a_failure(status, code))
        with pytest.raises(EmbeddingError, match=code):
            bedrock.embedder().embed_query(DISK)
        assert len(bedrock.double.requests) == 1

    @pytest.mark.parametrize(
        "answer", [{}, [], {"embedding": None}, {"embedding": [1.0, 0.0]}, {"embedding": [0.0] * 1024}], ids=str
    )
    def test_answer_without_a_usable_vector_raises(self, bedrock: Bedrock, answer: object) -> None:
        bedrock.double.inject(Response(200, answer))
        with pytest.raises(EmbeddingError, match="returned a"):
            bedrock.embedder().embed_query(DISK)

    def test_answer_with_too_few_vectors_raises(self, bedrock: Bedrock) -> None:
        bedrock.double.inject(Response(200, {"embeddings": {"float": [[1.0] * 1536]}}))
        with pytest.raises(EmbeddingError, match="1 vectors for 2 texts"):
            bedrock.embedder(COHERE).embed_documents([DISK, TEA])

    def test_texts_after_one_that_fails_are_not_sent(self, bedrock: Bedrock) -> None:
        bedrock.double.inject(a_failure(403, "AccessDeniedException"), times=1000)
        with pytest.raises(EmbeddingError):
            bedrock.embedder(threads=2).embed_documents([f"text {n}" for n in range(500)])
        assert len(bedrock.double.requests) < 400


class TestSpeed:
    def test_documents_keep_to_the_requests_per_minute(self, bedrock: Bedrock) -> None:
        embedder = bedrock.embedder(limit=bedrock.limit(60), threads=1)
        embedder.embed_documents([f"text {n}" for n in range(31)])
        assert bedrock.time.elapsed == pytest.approx(30 / MARGIN, abs=0.1)

    def test_throttled_documents_are_sent_again_until_all_are_embedded(self, bedrock: Bedrock) -> None:
        bedrock.double.throttle(9)
        vectors = bedrock.embedder(limit=bedrock.limit(600)).embed_documents([f"text {n}" for n in range(20)])
        assert vectors == bedrock.embedder().embed_documents([f"text {n}" for n in range(20)])

    def test_quota_that_is_used_up_for_the_day_ends_the_work(self, bedrock: Bedrock) -> None:
        bedrock.double.throttle(1000)
        with pytest.raises(ThrottledError, match="its quota is used up"):
            bedrock.embedder(threads=1).embed_documents([DISK, TEA])
        assert len(bedrock.double.calls) < 40

    def test_queries_do_not_wait_for_documents(self, bedrock: Bedrock) -> None:
        embedder = bedrock.embedder(limit=bedrock.limit(60), threads=1)
        embedder.embed_documents([f"text {n}" for n in range(5)])
        before = bedrock.time.elapsed
        embedder.embed_query(DISK)
        assert bedrock.time.elapsed == before

    def test_throttled_query_slows_documents_down(self, bedrock: Bedrock) -> None:
        limit = bedrock.limit(60)
        embedder = bedrock.embedder(limit=limit, threads=1)
        bedrock.double.throttle(1)
        embedder.embed_query(DISK)
        before = bedrock.time.elapsed
        embedder.embed_documents([f"text {n}" for n in range(5)])
        assert limit.throttled_calls == 1
        assert bedrock.time.elapsed - before > 1.1 * 4 / MARGIN


class TestEachVector:
    @pytest.mark.parametrize("threads", [1, 4])
    @pytest.mark.parametrize("model", [TITAN_V2, COHERE])
    def test_vectors_come_once_each_by_their_positions(self, bedrock: Bedrock, model: str, threads: int) -> None:
        texts = [f"text {n}" for n in range(120)]
        found: list[tuple[int, Vectors]] = []
        embedder = bedrock.embedder(model, threads=threads)
        embedder.embed_each(texts, lambda position, vectors: found.append((position, vectors)))
        assert [vectors for _, vectors in sorted(found)] == embedder.embed_documents(texts)
        assert len(found) == 120

    def test_vectors_before_an_error_come_too(self, bedrock: Bedrock) -> None:
        bedrock.double.inject(a_failure(400, "ValidationException"), containing="text 3")
        found: dict[int, Vectors] = {}
        with pytest.raises(EmbeddingError, match="ValidationException"):
            bedrock.embedder(threads=1).embed_each([f"text {n}" for n in range(9)], found.__setitem__)
        assert sorted(found) == [0, 1, 2]

    def test_queries_of_a_model_that_takes_many_are_one_call(self, bedrock: Bedrock) -> None:
        embedder = bedrock.embedder(COHERE)
        assert embedder.embed_queries([DISK, TEA]) == [embedder.embed_query(DISK), embedder.embed_query(TEA)]
        assert [len(call["texts"]) for call in bedrock.double.calls] == [2, 1, 1]


class FailingEmbedder:
    """Fails for texts with the word poison; records its input."""

    model_id = "failing"
    dimension = 2

    def __init__(self) -> None:
        self.given: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        self.given += texts
        if any("poison" in text for text in texts):
            raise EmbeddingError("poison")
        return [[(1.0, 0.0)]] * len(texts)

    def embed_query(self, text: str) -> Vector:
        return (1.0, 0.0)


class TestCache:
    def test_text_is_embedded_once(self, bedrock: Bedrock, table: SqliteTable, time: FakeTime) -> None:
        cached = CachedEmbedder(bedrock.embedder(), table, clock=time.clock)
        first = cached.embed_documents([DISK, TEA])
        assert cached.embed_documents([TEA, DISK]) == first[::-1]
        assert len(bedrock.double.calls) == 2
        assert (cached.hits, cached.misses) == (2, 2)

    def test_equal_texts_of_a_call_are_embedded_once(
        self, bedrock: Bedrock, table: SqliteTable, time: FakeTime
    ) -> None:
        cached = CachedEmbedder(bedrock.embedder(), table, clock=time.clock)
        one, _, other = cached.embed_documents([DISK, TEA, DISK])
        assert one == other
        assert len(bedrock.double.calls) == 2
        assert (cached.hits, cached.misses) == (1, 2)

    def test_questions_are_not_kept(self, bedrock: Bedrock, table: SqliteTable, time: FakeTime) -> None:
        cached = CachedEmbedder(bedrock.embedder(), table, clock=time.clock)
        cached.embed_query(DISK)
        cached.embed_query(DISK)
        assert len(bedrock.double.calls) == 2
        assert (cached.hits, cached.misses) == (0, 0)

    def test_vectors_of_another_model_are_not_taken(self, bedrock: Bedrock, table: SqliteTable, time: FakeTime) -> None:
        for dimension in (512, 256):
            cached = CachedEmbedder(bedrock.embedder(dimension=dimension), table, clock=time.clock)
            ((vector,),) = cached.embed_documents([DISK])
            assert len(vector) == dimension

    def test_entry_expires(self, bedrock: Bedrock, table: SqliteTable, time: FakeTime) -> None:
        cached = CachedEmbedder(bedrock.embedder(), table, days=90, clock=time.clock)
        cached.embed_documents([DISK])
        time.now += 89 * 86_400
        cached.embed_documents([DISK])
        assert cached.hits == 1
        time.now += 2 * 86_400
        cached.embed_documents([DISK])
        assert cached.misses == 2

    def test_vector_is_stored_as_little_endian_floats(
        self, bedrock: Bedrock, table: SqliteTable, time: FakeTime
    ) -> None:
        cached = CachedEmbedder(bedrock.embedder(dimension=256), table, clock=time.clock)
        ((vector,),) = cached.embed_documents(["disk"])
        (item,) = table.get_many([{"cacheKey": cached_key(cached, "disk")}])
        assert struct.unpack("<256f", item["vector"]) == tuple(vector)
        assert item["expiresAt"] == int(time.now) + 90 * 86_400

    def test_entry_of_the_wrong_length_is_embedded_again(
        self, bedrock: Bedrock, table: SqliteTable, time: FakeTime
    ) -> None:
        cached = CachedEmbedder(bedrock.embedder(), table, clock=time.clock)
        expires = int(time.now) + 1000
        table.put({"cacheKey": cached_key(cached, DISK), "vector": b"1234", "expiresAt": expires})
        ((vector,),) = cached.embed_documents([DISK])
        assert len(vector) == cached.dimension

    def test_each_text_gets_as_many_vectors_as_it_had(self, table: SqliteTable, time: FakeTime) -> None:
        cached = CachedEmbedder(WindowsEmbedder(words=3), table, clock=time.clock)
        texts = ["one", "one two three four", "", "a b c d e f g"]
        fresh = cached.embed_documents(texts)
        assert [len(vectors) for vectors in fresh] == [1, 2, 1, 3]
        assert [list(map(list, each)) for each in cached.embed_documents(texts)] == [
            list(map(list, each)) for each in fresh
        ]
        assert (cached.hits, cached.misses) == (4, 4)

    def test_unavailable_table_costs_nothing_but_work(self, bedrock: Bedrock, caplog: pytest.LogCaptureFixture) -> None:
        cached = CachedEmbedder(bedrock.embedder(), BrokenTable())
        with caplog.at_level(logging.WARNING):
            assert cached.embed_documents([DISK]) == bedrock.embedder().embed_documents([DISK])
        assert [record.message.split(",")[0] for record in caplog.records] == [
            "embedding cache can't be read",
            "embedding cache can't be written",
        ]

    def test_failing_model_is_not_hidden(self, table: SqliteTable, time: FakeTime) -> None:
        with pytest.raises(EmbeddingError, match="poison"):
            CachedEmbedder(FailingEmbedder(), table, clock=time.clock).embed_documents(["poison"])

    def test_embeddings_from_before_a_failure_are_cached(self, table: SqliteTable, time: FakeTime) -> None:
        failing = FailingEmbedder()
        cached = CachedEmbedder(failing, table, clock=time.clock)
        texts = [f"text {n}" for n in range(TEXTS_A_STEP)]
        with pytest.raises(EmbeddingError):
            cached.embed_documents([*texts, "poison"])
        failing.given.clear()
        cached.embed_documents([*texts, "antidote"])
        assert failing.given == ["antidote"]

    def test_no_vector_is_computed_twice_after_an_error_of_another_text(
        self, bedrock: Bedrock, table: SqliteTable, time: FakeTime
    ) -> None:
        texts = [f"text {n}" for n in range(9)]
        cached = CachedEmbedder(bedrock.embedder(threads=1), table, clock=time.clock)
        bedrock.double.inject(a_failure(400, "ValidationException"), containing="text 5")
        with pytest.raises(EmbeddingError):
            cached.embed_documents(texts)
        cached.embed_documents(texts)
        assert [call["inputText"] for call in bedrock.double.calls] == [*texts[:6], *texts[5:]]

    def test_vectors_are_written_in_small_groups(self, bedrock: Bedrock, table: SqliteTable, time: FakeTime) -> None:
        written: list[int] = []
        hooked = HookedWrites(table, written)
        cached = CachedEmbedder(bedrock.embedder(threads=1), hooked, clock=time.clock)
        cached.embed_documents([f"text {n}" for n in range(KEPT_AT_ONCE + 3)])
        assert written == [KEPT_AT_ONCE, 3]


class HookedWrites:
    """A table that notes the sizes of batches."""

    def __init__(self, table: SqliteTable, written: list[int]) -> None:
        self._table, self._written = table, written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def put_many(self, items: Iterable[Mapping[str, Any]]) -> None:
        found = list(items)
        self._written.append(len(found))
        self._table.put_many(found)


def cached_key(embedder: Embedder, text: str) -> str:
    """The key as documented: model id and SHA-256 of the text."""
    return f"{embedder.model_id}#{hashlib.sha256(text.encode()).hexdigest()}"
