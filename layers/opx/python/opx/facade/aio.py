"""The knowledge for code that awaits: each method runs the plain one in a thread, so that the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from opx.domain.documents import KnowledgeDocument
from opx.facade.knowledge import Knowledge
from opx.facade.learning import LearningKnowledge

K = TypeVar("K")
P = ParamSpec("P")
R = TypeVar("R")


class _Awaiting(Generic[K]):
    """Calls methods of `plain` in other threads."""

    def __init__(self, plain: K) -> None:
        self._plain = plain


def awaited(method: Callable[Concatenate[K, P], R]) -> Callable[Concatenate[_Awaiting[K], P], Coroutine[Any, Any, R]]:
    """The method with the same parameters whose result is awaited."""

    @wraps(method)
    async def run(self: _Awaiting[K], /, *args: P.args, **kwargs: P.kwargs) -> R:
        plain: Callable[P, R] = getattr(self._plain, method.__name__)
        return await asyncio.to_thread(plain, *args, **kwargs)

    run.__qualname__ = f"Async{method.__qualname__}"  # Python names it if it isn't awaited
    return run


class AsyncKnowledge(_Awaiting[Knowledge]):
    """`Knowledge` whose methods are awaited: `AsyncKnowledge.open(...)`, or `AsyncKnowledge(knowledge)` beside the plain one.
    It is an asynchronous context manager. A method that isn't awaited does nothing, and Python warns of it."""

    @classmethod
    def open(cls, address: str | Path = "", *, client_id: str = "", project_id: str = "", token: str = "") -> Self:
        """See `Knowledge.open`."""
        return cls(Knowledge.open(address, client_id=client_id, project_id=project_id, token=token))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Releases files and connections."""
        await asyncio.to_thread(self._plain.close)

    @property
    def sync(self) -> Knowledge:
        """The same knowledge with plain methods."""
        return self._plain

    # -- questions

    query = awaited(Knowledge.query)
    answer = awaited(Knowledge.answer)
    query_with_context = awaited(Knowledge.query_with_context)
    get_baseline = awaited(Knowledge.get_baseline)
    search_internet = awaited(Knowledge.search_internet)
    research = awaited(Knowledge.research)
    procedure = awaited(Knowledge.procedure)
    read = awaited(Knowledge.read)

    async def documents(self, category: str = "") -> list[KnowledgeDocument]:
        """Returns what `Knowledge.documents` yields."""
        return await asyncio.to_thread(lambda: list(self._plain.documents(category)))

    document = awaited(Knowledge.document)
    status = awaited(Knowledge.status)

    # -- documents and sources

    ingest_document = awaited(Knowledge.ingest_document)
    ingest_batch = awaited(Knowledge.ingest_batch)
    ingest_from_evidence = awaited(Knowledge.ingest_from_evidence)
    add_files = awaited(Knowledge.add_files)
    delete = awaited(Knowledge.delete)
    register_source = awaited(Knowledge.register_source)
    pull_now = awaited(Knowledge.pull_now)

    @property
    def learning(self) -> AsyncLearningKnowledge:
        """Captures, checkpoints, patterns and outcomes."""
        return AsyncLearningKnowledge(self._plain.learning)


class AsyncLearningKnowledge(_Awaiting[LearningKnowledge]):
    """`LearningKnowledge` whose methods are awaited."""

    capture_failure_solution = awaited(LearningKnowledge.capture_failure_solution)
    capture_gate_rejection = awaited(LearningKnowledge.capture_gate_rejection)
    capture_gate_approval = awaited(LearningKnowledge.capture_gate_approval)
    verify = awaited(LearningKnowledge.verify)
    process_checkpoint = awaited(LearningKnowledge.process_checkpoint)
    query_for_task = awaited(LearningKnowledge.query_for_task)
    query_for_failure = awaited(LearningKnowledge.query_for_failure)
    build_context_for_task = awaited(LearningKnowledge.build_context_for_task)
    record_outcome = awaited(LearningKnowledge.record_outcome)
    prune_old_knowledge = awaited(LearningKnowledge.prune_old_knowledge)
