"""`AsyncKnowledge`: the same calls, awaited."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx import AsyncKnowledge, InvalidInputError, Knowledge, QueryConfig
from opx.facade.aio import AsyncLearningKnowledge
from opx.facade.learning import LearningKnowledge
from opx.facade.opening import of_system
from opx.settings import Settings
from tests.support.cli_support import word_services

ANY = QueryConfig(min_confidence=0)
ONLY_PLAIN = {
    "call",
    "close",
    "context",
    "get_webhook_endpoint",
    "learning",
    "open",
    "subscribe_stream",
    "tools",
    "watch_directory",
}
"""Calls that don't wait for anything, or are made once when a system is set up: they are those of `sync`."""


@pytest.fixture
def knowledge(tmp_path: Path) -> Iterator[Knowledge]:
    with Knowledge(of_system(word_services(Settings(home=str(tmp_path / "home"))))) as found:
        yield found


def public(kind: type) -> dict[str, object]:
    return {name: found for name, found in vars(kind).items() if not name.startswith("_")}


@pytest.mark.parametrize(
    ("plain", "awaited"), [(Knowledge, AsyncKnowledge), (LearningKnowledge, AsyncLearningKnowledge)]
)
def test_every_method_is_there_with_the_same_parameters(plain: type, awaited: type) -> None:
    methods = {name for name in public(plain) if name not in ONLY_PLAIN}
    assert methods <= set(public(awaited))
    for name in methods:
        own, other = getattr(awaited, name), getattr(plain, name)
        assert inspect.iscoroutinefunction(own), name
        assert list(inspect.signature(own).parameters.items()) == list(inspect.signature(other).parameters.items()), (
            name
        )


def test_questions_are_answered_at_the_same_time(knowledge: Knowledge) -> None:
    async def story() -> list[str]:
        async with AsyncKnowledge(knowledge) as kb:
            for number in range(3):
                await kb.ingest_document("internal", "runbooks/procedures", f"# Page {number}\n\nword{number} here")
            found = await asyncio.gather(*(kb.query(f"word{number}", ANY) for number in range(3)))
            assert len(await kb.documents()) == 3
            return [one[0].title for one in found]

    assert asyncio.run(story()) == ["Page 0", "Page 1", "Page 2"]


def test_the_event_loop_goes_on_while_a_call_waits(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    going = threading.Event()
    monkeypatch.setattr(Knowledge, "status", lambda self: going.wait(60))

    async def story() -> object:
        call = asyncio.create_task(AsyncKnowledge(knowledge).status())
        await asyncio.sleep(0)
        going.set()  # would never be set by a loop that waits
        return await call

    assert asyncio.run(story())


def test_learning_is_awaited(knowledge: Knowledge) -> None:
    async def story() -> str:
        learning = AsyncKnowledge(knowledge).learning
        entry = await learning.capture_failure_solution("a", "b", "c", "helm hangs", "", ["Delete the job."], "helm")
        await learning.verify(entry, True)
        await learning.process_checkpoint("a")
        assert await learning.prune_old_knowledge() == 0
        return await learning.build_context_for_task("helm hangs")

    assert "Delete the job." in asyncio.run(story())


def test_a_call_that_is_not_awaited_does_nothing_and_is_warned_of(knowledge: Knowledge) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        AsyncKnowledge(knowledge).ingest_document("internal", "runbooks/procedures", "# A\n\ntext")  # type: ignore[unused-coroutine]
        gc.collect()
    (warning,) = caught
    assert "'AsyncKnowledge.ingest_document' was never awaited" in str(warning.message)
    assert knowledge.status().documents == 0


def test_a_coroutine_handed_in_as_evidence_is_named(knowledge: Knowledge) -> None:
    async def run() -> dict[str, str]:
        return {"conclusion": "A leak."}

    with pytest.raises(InvalidInputError, match="never awaited"):
        knowledge.ingest_from_evidence(run())


def test_it_opens_a_folder_itself(tmp_path: Path) -> None:
    async def story() -> int:
        async with AsyncKnowledge.open(tmp_path / "home") as kb:
            assert kb.sync.status().documents == 0
            return (await kb.status()).documents

    assert asyncio.run(story()) == 0
