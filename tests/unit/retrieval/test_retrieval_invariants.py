"""Invariants of answers over any corpus, also of many questions at once."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.domain.queries import Expand, QueryConfig, SearchMode
from opx.domain.results import RetrievalResult
from opx.domain.scopes import Identity
from opx.operations.system import System
from opx.ports import DocumentChange
from opx.settings import Settings
from opx.system import bootstrap
from opx_testing.entries import an_entry
from tests.support.agent_calls import CORPUS
from tests.support.fakes import WordsEmbedder

WORDS = ("disk", "full", "pod", "restart", "kafka", "lag", "queue", "certificate", "expired", "rotate")
UNRELATED = "zebra xylophone quartz"
EVERYTHING = QueryConfig(min_confidence=0.0, max_results=50)

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
corpora = st.lists(texts, min_size=1, max_size=8, unique=True)
few = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    embedder = WordsEmbedder()
    with bootstrap(Settings(home=str(tmp_path_factory.mktemp("invariants"))), embedder=embedder) as services:
        yield services


@contextmanager
def filled(services: System, corpus: Sequence[str]) -> Iterator[None]:
    """While the block runs, the services answer from these texts, each a document of its own."""
    folder = services.settings.home_path / "index"
    shutil.rmtree(folder, ignore_errors=True)
    embedder = services.indexing.embedder
    index = EmbeddedIndex(Path(folder), model_id=embedder.model_id, dimension=embedder.dimension)
    entries = [
        an_entry(text, source=f"documents/{text}.md", title=text, vector=embedder.embed_query(text)) for text in corpus
    ]
    index.apply(DocumentChange(e.indexed.key_id, e.indexed.chunk.document_id, [e]) for e in entries)
    services.indexing.index = index
    try:
        yield
    finally:
        index.close()


def answered(services: System, question: str) -> tuple[RetrievalResult, ...]:
    return services.questions.for_reader().search(question, EVERYTHING).results


@few
@given(corpus=corpora, question=texts)
def test_results_are_sorted_and_their_scores_are_between_zero_and_one(
    services: System, corpus: list[str], question: str
) -> None:
    with filled(services, corpus):
        results = answered(services, question)
    assert [result.score for result in results] == sorted((result.score for result in results), reverse=True)
    assert all(0 <= result.score <= 1 and 0 <= result.confidence <= 1 for result in results)


@few
@given(corpus=corpora, question=texts, seed=st.integers(0, 99))
def test_order_does_not_depend_on_the_order_of_ingestion(
    services: System, corpus: list[str], question: str, seed: int
) -> None:
    with filled(services, corpus):
        before = [(result.source, round(result.score, 9)) for result in answered(services, question)]
    with filled(services, random.Random(seed).sample(corpus, len(corpus))):
        assert [(result.source, round(result.score, 9)) for result in answered(services, question)] == before


@few
@given(corpus=corpora, data=st.data())
def test_document_about_something_else_does_not_remove_the_best_hit(
    services: System, corpus: list[str], data: st.DataObject
) -> None:
    question = data.draw(st.sampled_from(corpus), "the text of a document")
    with filled(services, corpus):
        best = answered(services, question)[0].source
    with filled(services, [*corpus, UNRELATED]):
        assert best in [result.source for result in answered(services, question)]


THREADS = 20
SYMPTOMS = [f"symptom{number}" for number in range(10)]
RUNBOOK = "# When {0} shows\n\nApply the remedy of {0}, then wait.\n\n## Details\n\nIt was {0} again."
DOCUMENTS = {f"documents/runbooks/{symptom}.md": RUNBOOK.format(symptom) for symptom in SYMPTOMS}
QUESTIONS = [
    *(f"What helps against {symptom}?" for symptom in SYMPTOMS[:4]),
    "when symptom5 shows",
    '"the remedy of symptom6"',
    "Unseal the acme vault",
    "symptom7 -symptom8 after:2020",
]
CONFIGS = [
    QueryConfig(min_confidence=0, mode=mode, expand=expand)
    for mode, expand in zip(SearchMode, (Expand.NONE, Expand.SECTION, Expand.DOCUMENT), strict=True)
]
CALLERS = [Identity(), Identity("acme")]
QUERIES = list(product(QUESTIONS, CONFIGS, CALLERS))


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[System]:
    """A system without earlier questions, and with time for a busy machine to rank."""
    with bootstrap(Settings(home=str(tmp_path), rerank_seconds=60), embedder=WordsEmbedder()) as system:
        for key, text in {**CORPUS, **DOCUMENTS}.items():
            system.store.put(key, text.encode())
        list(system.manager.work())
        yield system


def answer_of(loaded: System, question: str, config: QueryConfig, caller: Identity) -> dict[str, Any]:
    """An answer without its timings and receipt."""
    answer = loaded.questions.for_reader(caller).search(question, config).to_json()
    return {name: value for name, value in answer.items() if name not in {"timingsMs", "receiptId", "receipt"}}


def test_answers_equal_those_of_sequential_questions(loaded: System) -> None:
    """The questions at once come first, as all that is made at the first question is made by several of them then."""
    ready = threading.Barrier(THREADS)

    def ask_all(first: int) -> dict[int, dict[str, Any]]:
        """Some of the questions, other ones in each thread."""
        ready.wait(timeout=30)
        places = [(first * 7 + step) % len(QUERIES) for step in range(0, len(QUERIES), 8)]
        return {place: answer_of(loaded, *QUERIES[place]) for place in places}

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(ask_all, range(THREADS)))
    alone = [answer_of(loaded, *query) for query in QUERIES]
    assert {place for answers in found for place in answers} == set(range(len(QUERIES)))
    for answers in found:
        assert answers == {place: alone[place] for place in answers}
    assert len({str(answer["results"]) for answer in alone}) > len(QUERIES) / 4
