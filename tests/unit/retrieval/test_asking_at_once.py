"""Many questions at once to one system: each is answered as if it were alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from opx.domain.queries import Expand, QueryConfig, SearchMode
from opx.domain.scopes import Identity
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.agent_calls import CORPUS
from tests.support.fakes import WordsEmbedder

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
def services(tmp_path: Path) -> Iterator[System]:
    """A system without earlier questions, and with time for a busy machine to rank."""
    with bootstrap(Settings(home=str(tmp_path), rerank_seconds=60), embedder=WordsEmbedder()) as system:
        for key, text in {**CORPUS, **DOCUMENTS}.items():
            system.store.put(key, text.encode())
        list(system.manager.work())
        yield system


def answer_of(services: System, question: str, config: QueryConfig, caller: Identity) -> dict[str, Any]:
    """An answer without its timings and receipt."""
    answer = services.questions.search(caller).answer(question, config).to_json()
    return {name: value for name, value in answer.items() if name not in {"timingsMs", "receiptId", "receipt"}}


def test_answers_equal_those_of_sequential_questions(services: System) -> None:
    """The questions at once come first, as all that is made at the first question is made by several of them then."""
    ready = threading.Barrier(THREADS)

    def ask_all(first: int) -> dict[int, dict[str, Any]]:
        """Some of the questions, other ones in each thread."""
        ready.wait(timeout=30)
        places = [(first * 7 + step) % len(QUERIES) for step in range(0, len(QUERIES), 8)]
        return {place: answer_of(services, *QUERIES[place]) for place in places}

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(ask_all, range(THREADS)))
    alone = [answer_of(services, *query) for query in QUERIES]
    assert {place for answers in found for place in answers} == set(range(len(QUERIES)))
    for answers in found:
        assert answers == {place: alone[place] for place in answers}
    assert len({str(answer["results"]) for answer in alone}) > len(QUERIES) / 4
