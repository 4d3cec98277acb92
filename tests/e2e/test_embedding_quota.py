"""Ingestion within the account's quota of the embedding model: the whole pipeline with several workers, in simulated time.

`python -m tests.support.quota_simulation` runs 400 documents, at more quotas, with bursts and with others in the account.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.errors import EmbeddingError, ThrottledError
from opx.ingestion.indexing.query_vectors import CachedQueries
from opx.ports.tables import EMBEDDINGS
from opx.runtime.speed_limit import Quota, SpeedLimit
from opx_aws.bedrock_embedder import BedrockEmbedder
from tests.doubles.model_quota import DIMENSION, QuotaDouble, VirtualTime
from tests.support.quota_simulation import CHUNKS, TITAN, Load, limited, simulate

DOCUMENTS = 24


@pytest.mark.parametrize(("quota", "workers"), [(60, 10), (600, 10)])
def test_a_known_quota_is_used_and_nothing_fails_or_is_computed_twice(quota: int, workers: int) -> None:
    result = simulate(Load(quota, workers, known=True, documents=DOCUMENTS), limited)
    assert (result.ingested, result.failed, result.dead_letters) == (DOCUMENTS, 0, 0)
    assert result.repeated == 0
    assert result.throttled_share <= 0.05
    assert result.slowness <= 1.15


def test_an_unknown_quota_is_found_without_a_failure() -> None:
    result = simulate(Load(60, 10, known=False, documents=DOCUMENTS), limited)
    assert (result.ingested, result.failed, result.dead_letters) == (DOCUMENTS, 0, 0)
    assert result.repeated == 0
    assert result.throttled > 0
    assert result.throttled_share <= 0.05
    assert result.slowness <= 1.25


def test_other_callers_that_use_half_of_the_quota_make_it_slower_and_no_more() -> None:
    result = simulate(Load(200, 3, known=True, others=0.5, documents=DOCUMENTS), limited)
    assert (result.ingested, result.failed, result.dead_letters) == (DOCUMENTS, 0, 0)
    assert result.repeated == 0


def test_slow_answers_delay_their_documents_alone() -> None:
    slow = frozenset(range(1, 200, 10))
    result = simulate(Load(600, 10, known=True, documents=DOCUMENTS, slow=slow), limited)
    assert (result.ingested, result.failed, result.dead_letters) == (DOCUMENTS, 0, 0)
    assert result.repeated == 0
    assert result.seconds > simulate(Load(600, 10, known=True, documents=DOCUMENTS), limited).seconds


def test_malformed_answers_are_repeated_and_fail_no_document() -> None:
    malformed = frozenset(range(3, 100, 20))
    result = simulate(Load(600, 10, known=True, documents=DOCUMENTS, malformed=malformed), limited)
    assert (result.ingested, result.failed, result.dead_letters) == (DOCUMENTS, 0, 0)
    assert result.calls >= DOCUMENTS * CHUNKS + len(malformed)
    assert result.repeated <= len(malformed)


# -- questions


@dataclass
class Shares:
    """Questions by what happened to their vectors. `lost_known`: those without a vector whose text had one before."""

    cached: int = 0
    embedded: int = 0
    lost: int = 0
    lost_known: int = 0


def vectors_of(texts: Sequence[str], tmp_path: Path, *, ingestion: bool = False) -> Shares:
    """Ten questions a second, at random times, with Titan's quota of 600 requests a minute; answered by 20 processes with a
    cache each and one that they share. `ingestion`: two workers embed documents in the same account meanwhile."""
    time = VirtualTime()
    model = QuotaDouble(time.clock, time.sleep, requests_per_minute=600)
    with closing(Database(tmp_path / "vectors.db")) as database:
        table = SqliteTable(EMBEDDINGS, database, clock=time.clock)
        shares, known = Shares(), set[str]()
        moments = random.Random(7)
        arrivals = iter(sorted((time.now + moments.uniform(0, len(texts) / 10), text) for text in texts))
        client: Any = model

        def an_embedder() -> BedrockEmbedder:
            limit = SpeedLimit(Quota(600), lambda: table, "titan", clock=time.clock, sleep=time.sleep)
            return BedrockEmbedder(client, TITAN, dimension=DIMENSION, limit=limit, threads=1, sleep=time.sleep)

        def answer() -> None:
            embedder = CachedQueries(an_embedder(), lambda: table, clock=time.clock, run=lambda work: work())
            for arrival, text in arrivals:
                time.sleep(max(0.0, arrival - time.now))
                before = model.embedded[text]
                try:
                    embedder.embed_query(text)
                except EmbeddingError:
                    shares.lost += 1
                    shares.lost_known += text in known
                    continue
                shares.embedded += model.embedded[text] > before
                shares.cached += model.embedded[text] == before
                known.add(text)

        def ingest() -> None:
            worker = an_embedder()
            while time.elapsed < len(texts) / 10:
                try:
                    worker.embed_documents([f"document {time.now} {number}" for number in range(8)])
                except ThrottledError as exc:
                    time.sleep(exc.retry_after)

        for _ in range(20):
            time.spawn(answer)
        for _ in range(2 if ingestion else 0):
            time.spawn(ingest)
        time.run()
    return shares


def repeating(number: int, kinds: int = 1000) -> list[str]:
    """Questions that repeat as those of people do: the n-th most frequent is 1/n times as frequent as the first."""
    weights = [1 / rank for rank in range(1, kinds + 1)]
    return random.Random(11).choices([f"question {kind}" for kind in range(kinds)], weights, k=number)


class TestQuestions:
    def test_repeated_questions_have_their_vectors_also_while_documents_are_ingested(self, tmp_path: Path) -> None:
        found = vectors_of(repeating(900), tmp_path, ingestion=True)
        assert found.lost_known == 0
        assert found.lost <= 0.01 * 900
        assert found.cached > found.embedded

    def test_new_questions_at_the_whole_quota_are_nearly_all_embedded(self, tmp_path: Path) -> None:
        found = vectors_of([f"question {number}" for number in range(900)], tmp_path)
        assert found.cached == 0
        assert found.lost <= 0.03 * 900
