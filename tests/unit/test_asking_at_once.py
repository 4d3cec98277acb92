"""Many questions at once to one system: each is answered as if it were alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest

from opx.domain.queries import Expand, QueryConfig, SearchMode
from opx.domain.scopes import Identity
from opx.services import Services
from tests.agent_calls import CORPUS, a_system

THREADS = 20
PAIRS = [(f"symptom{number}", f"remedy{number}") for number in range(12)]
DOCUMENTS = {
    f"documents/runbooks/{symptom}.md": f"# When {symptom} shows\n\nApply {remedy}, then wait.\n\n## Details\n\n{symptom} again."
    for symptom, remedy in PAIRS
}
QUESTIONS = [f"What helps against {symptom}?" for symptom, _ in PAIRS[:6]] + [
    "when symptom7 shows",
    '"Apply remedy8" tag:none',
    "Unseal the acme vault",
    "-remedy9 symptom9",
]
CONFIGS = [
    QueryConfig(min_confidence=0, mode=mode, expand=expand)
    for mode, expand in zip(SearchMode, (Expand.NONE, Expand.SECTION, Expand.DOCUMENT), strict=True)
]
CALLERS = [Identity(), Identity("acme")]
ASKED = list(product(QUESTIONS, CONFIGS, CALLERS))


@pytest.fixture
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with a_system(tmp_path_factory.mktemp("home"), {**CORPUS, **DOCUMENTS}) as system:
        yield system


def told(services: Services, question: str, config: QueryConfig, caller: Identity) -> dict[str, Any]:
    """What an answer says, without how long it took and under which number it was recorded."""
    answer = services.query_service(caller).answer(question, config).to_json()
    return {name: value for name, value in answer.items() if name not in {"timingsMs", "receiptId", "receipt"}}


def test_answers_are_those_of_questions_asked_alone(services: Services) -> None:
    """The questions at once come first, as all that is made at the first question is made by several of them then."""
    ready = threading.Barrier(THREADS)

    def ask_all(first: int) -> dict[int, dict[str, Any]]:
        """Every third question, from another one on in each thread."""
        ready.wait(timeout=30)
        places = [(first * 7 + step) % len(ASKED) for step in range(0, len(ASKED), 3)]
        return {place: told(services, *ASKED[place]) for place in places}

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(ask_all, range(THREADS)))
    alone = [told(services, *asked) for asked in ASKED]
    assert {place for answers in found for place in answers} == set(range(len(ASKED)))
    for answers in found:
        assert answers == {place: alone[place] for place in answers}
    assert len({str(answer["results"]) for answer in alone}) > len(ASKED) / 4
