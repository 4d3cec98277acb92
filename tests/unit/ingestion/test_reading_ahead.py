"""Documents of a batch are prepared while the first ones are embedded."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from opx.domain.scopes import Scope
from opx.errors import StoreUnavailableError, ThrottledError
from opx.formats.registry import parse
from opx.ingestion import pipeline
from opx.ingestion.pipeline import READ_AHEAD_FROM
from opx.operations.system import System
from opx.ports import SearchFilter, Vectors
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.cli_support import WordEmbedder

MANY = 2 * READ_AHEAD_FROM
EVERYTHING = SearchFilter(scopes=(Scope().key,))


class NotedEmbedder(WordEmbedder):
    """Notes that it was called; raises an error from its so manyth call on."""

    def __init__(self, error: Exception | None = None, fails_from: int = 0) -> None:
        super().__init__()
        self.called = threading.Event()
        self._error = error
        self._calls_left = fails_from

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        self.called.set()
        self._calls_left -= 1
        if self._error and self._calls_left < 0:
            raise self._error
        return super().embed_documents(texts)


@pytest.fixture(autouse=True)
def few_chunks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "EMBED_AT_ONCE", 2)


def system_of(home: Path, embedder: WordEmbedder) -> System:
    return bootstrap(Settings(home=str(home), retry_base_seconds=0.0), embedder=embedder)


def put(system: System, count: int) -> None:
    for number in range(count):
        text = f"# Page {number}\n\nWhat to do about thing{number}.\n"
        system.manager.put_document("runbooks/procedures", text, {"source": f"page{number}.md"})


def test_first_documents_are_embedded_while_later_ones_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder, in_time = NotedEmbedder(), []

    def parsed(stream: object, *, name: str, **options: object) -> object:
        if name.endswith(f"page{MANY - 1}.md"):
            in_time.append(embedder.called.wait(20))
        return parse(stream, name=name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("opx.ingestion.reading.parse", parsed)
    with system_of(tmp_path, embedder) as system:
        put(system, MANY)
        assert Counter(outcome.result for outcome in system.manager.work()) == {"ingested": MANY}
        assert system.index.count(EVERYTHING) == MANY
    assert in_time == [True]


def test_document_that_cannot_be_read_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def parsed(stream: object, *, name: str, **options: object) -> object:
        if name.endswith("page3.md"):
            raise ZeroDivisionError("unforeseen")
        return parse(stream, name=name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("opx.ingestion.reading.parse", parsed)
    with system_of(tmp_path, WordEmbedder()) as system:
        put(system, MANY)
        outcomes = {outcome.object_key.rpartition("/")[2]: outcome.result for outcome in system.manager.work()}
    assert outcomes.pop("page3.md") == "failed"
    assert Counter(outcomes.values()) == {"ingested": MANY - 1}


def test_failing_model_leaves_no_claim(tmp_path: Path) -> None:
    error = StoreUnavailableError("down")
    with system_of(tmp_path, NotedEmbedder(error, fails_from=2)) as system:
        put(system, MANY)
        kept = 4  # vectors of the first calls, with which documents are written when they are tried again
        results = Counter(outcome.result for outcome in system.manager.work())
        assert results == {"ingested": kept, "failed": MANY - kept}
        assert system.index.count(EVERYTHING) == kept
    with system_of(tmp_path, WordEmbedder()) as system:
        put(system, MANY)
        assert Counter(outcome.result for outcome in system.manager.work()) == {
            "ingested": MANY - kept,
            "unchanged": kept,
        }


def test_used_up_quota_writes_what_is_embedded_and_postpones_the_others(tmp_path: Path) -> None:
    embedder = NotedEmbedder(ThrottledError("the quota is used up", 3600.0), fails_from=3)
    with system_of(tmp_path, embedder) as system:
        put(system, MANY)
        worker = system.ingestion.worker
        messages = [message for _ in range(MANY) for message in system.queue.receive(limit=10)]
        outcomes = worker.process([(message.body, 1) for message in messages])
        assert Counter((outcome.result, outcome.postponed) for outcome in outcomes) == {
            ("ingested", False): 6,
            ("retry", True): MANY - 6,
        }
        assert system.index.count(EVERYTHING) == 6
