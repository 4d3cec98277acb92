"""The listings of the learning design: on the library, and on doubles of the services that they call themselves."""

from __future__ import annotations

import asyncio
import gc
import re
import warnings
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opx import Knowledge
from opx.compat import decision_68
from opx.domain.learning import StagingEntry
from opx.errors import InvalidInputError
from tests.designs.loading import LISTINGS, accepted_calls, listing, methods_of, recorded
from tests.designs.qdrant import Client, Collection, Embeddings

FAILURE = {
    "project_id": "alpha",
    "agent_type": "backend_developer",
    "task_type": "deployment",
    "failure_description": "helm upgrade times out although all pods are ready",
    "error_message": "Error: UPGRADE FAILED: timed out waiting for the condition",
    "solution_steps": "Delete the stuck hook job\nRun helm upgrade with --no-hooks",
    "technology": "kubernetes",
}
TASK = SimpleNamespace(
    description="helm upgrade times out although all pods are ready", type="deployment", technology="kubernetes"
)
SERVICES = {
    "decision_68_02": "KnowledgeCaptureService",
    "decision_68_03": "CheckpointEmbeddingService",
    "decision_68_04": "RAGQueryService",
    "decision_68_05": "OrchestratorContextBuilder",
    "decision_68_06": "KnowledgePruningService",
}


def text_of(entry: Any) -> str:
    """The text that an entry is embedded by."""
    return f"Failure: {entry.failure_description}\nError: {entry.error_message}"


def capturing(knowledge: Knowledge) -> Any:
    """The capture service of the listing, which stages into the library."""
    service = decision_68.KnowledgeCaptureService(knowledge)

    class Capture(listing("decision_68_02").KnowledgeCaptureService):  # type: ignore[misc]
        async def _stage_for_embedding(self, entry: decision_68.KnowledgeEntry) -> None:
            await service.stage(entry)

    return Capture()


def builder(queries: object) -> Any:
    """The context builder of the listing on a query service."""

    class Builder(listing("decision_68_05").OrchestratorContextBuilder):  # type: ignore[misc]
        rag = queries

        def _build_basic_context(self, task: Any) -> str:
            return f"Task: {task.description}"

    return Builder()


@pytest.mark.parametrize("name", SERVICES)
def test_calls_of_the_design_are_accepted_and_awaited(name: str) -> None:
    kind = SERVICES[name]
    for method, expected in methods_of(getattr(listing(name), kind)).items():
        actual = getattr(getattr(decision_68, kind), method)
        assert accepted_calls(expected, actual) == []
        assert asyncio.iscoroutinefunction(actual)


def test_an_entry_has_the_columns_of_the_table() -> None:
    columns = set(
        re.findall(r"^    (\w+) (?:UUID|VARCHAR|TEXT|BOOLEAN|TIMESTAMP)", recorded("decision-68-07"), re.MULTILINE)
    )
    assert len(columns) == 17
    assert columns <= set(StagingEntry.__struct_fields__)


def test_the_checks_of_the_table_hold(knowledge: Knowledge) -> None:
    assert "CHECK" in recorded("decision-68-07")
    learning = knowledge.learning
    with pytest.raises(InvalidInputError, match="failure_description"):
        learning.capture_failure_solution("a", "b", "c", "", "", ["x"], "d")
    with pytest.raises(InvalidInputError, match="gate_type"):
        learning.capture_gate_rejection("a", "", "too slow", "faster")


class TestOnTheLibrary:
    def test_a_captured_failure_helps_another_project(self, knowledge: Knowledge) -> None:
        async def story() -> tuple[list[decision_68.RAGPattern], str]:
            await capturing(knowledge).capture_failure_solution(**FAILURE)
            report = await decision_68.CheckpointEmbeddingService(knowledge).process_checkpoint(
                "alpha", "phase completion"
            )
            assert report is not None
            queries = decision_68.RAGQueryService(knowledge)
            found = await queries.query_for_failure(
                FAILURE["failure_description"], FAILURE["error_message"], "backend_developer", ""
            )
            return found, await builder(queries).build_context_for_task(TASK, "backend_developer")

        found, context = asyncio.run(story())
        (pattern,) = found
        assert pattern.success_count == 1
        assert pattern.solution.splitlines()[0].endswith("Delete the stuck hook job")
        assert context.startswith(f"Task: {TASK.description}\n\n[ORCHESTRATOR CONTEXT: Historical Knowledge]\n")
        assert "Pattern 1 (Less Common - 1 successes):" in context
        assert context.endswith("\n[END CONTEXT]\n")

    def test_the_builder_of_the_library_takes_the_task_of_the_listing(self, knowledge: Knowledge) -> None:
        async def story() -> str:
            await decision_68.KnowledgeCaptureService(knowledge).capture_failure_solution(**FAILURE)
            await decision_68.CheckpointEmbeddingService(knowledge).process_checkpoint("alpha", "manual trigger")
            return await decision_68.OrchestratorContextBuilder(knowledge).build_context_for_task(TASK, "")

        lines = asyncio.run(story()).splitlines()
        frame = [line for line in recorded("decision-68-01").splitlines() if line]
        assert [line for line in lines if line in frame] == [frame[0], frame[1], frame[-2], frame[-1]]
        assert [line.partition(":")[0] for line in lines if line.startswith("- ")] == [
            "- Problem",
            "- Solution",
            "- When to try",
        ]

    def test_gates_of_the_listing_are_captured(self, knowledge: Knowledge) -> None:
        async def story() -> None:
            service = capturing(knowledge)
            await service.capture_gate_rejection("alpha", "security_review", "Secrets in the log.", "Mask them.")
            await service.capture_gate_approval("alpha", "design_review", "An outbox for order events.")
            await decision_68.CheckpointEmbeddingService(knowledge).process_checkpoint("", "project completion")

        asyncio.run(story())
        assert {one.category for one in knowledge.documents("learning")} == {"learning/patterns"}

    def test_pruning_returns_a_number(self, knowledge: Knowledge) -> None:
        assert asyncio.run(decision_68.KnowledgePruningService(knowledge).prune_old_knowledge()) == 0

    def test_an_unknown_type_of_entry_is_refused(self, knowledge: Knowledge) -> None:
        service = decision_68.KnowledgeCaptureService(knowledge)
        with pytest.raises(InvalidInputError, match="unknown entry_type 'idea'"):
            asyncio.run(service.stage(decision_68.KnowledgeEntry("idea")))

    def test_a_call_that_is_never_awaited_is_warned_of(self, knowledge: Knowledge) -> None:
        service = decision_68.KnowledgeCaptureService(knowledge)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            service.capture_gate_approval("alpha", "design_review", "An outbox.")  # type: ignore[unused-coroutine]
            gc.collect()
        (warning,) = caught
        assert "KnowledgeCaptureService.capture_gate_approval' was never awaited" in str(warning.message)


class TestOnItsOwnServices:
    """Runs what the design implements itself on doubles of Qdrant and OpenAI, fed from the library's staging."""

    def services(self, knowledge: Knowledge, entries: list[Any]) -> tuple[Any, Any, Any]:
        collection = Collection()
        client = Embeddings(knowledge.context.system.indexing.embedder.embed_query)

        async def fetch_staged(project_id: str) -> list[Any]:
            return [one for one in entries if one.project_id == project_id]

        async def generate(self: Any, text: str) -> list[float]:
            return list((await client.create("model", text)).data[0].embedding)

        parts = {"qdrant": collection, "openai": client, "db": SimpleNamespace(fetch_staged=fetch_staged)}
        parts |= {
            "_format_entry_for_embedding": lambda _, entry: text_of(entry),
            "_generate_embedding": generate,
            "_format_as_pattern": lambda _, found: found.payload,
            "_rank_patterns": lambda _, found: sorted(found, key=lambda one: -one["success_count"]),
        }
        made = [
            type(kind, (getattr(listing(name), kind),), dict(parts))()
            for name, kind in SERVICES.items()
            if name in ("decision_68_03", "decision_68_04", "decision_68_06")
        ]
        return made[0], made[1], made[2]

    def test_the_design_and_the_library_find_the_same_failure(self, knowledge: Knowledge) -> None:
        asyncio.run(decision_68.KnowledgeCaptureService(knowledge).capture_failure_solution(**FAILURE))
        entries = knowledge.context.system.learning.capture(knowledge.context.identity).entries()
        checkpoint, queries, _ = self.services(knowledge, entries)

        async def story() -> tuple[list[Any], list[Any]]:
            await checkpoint.process_checkpoint("alpha", "manual")
            await decision_68.CheckpointEmbeddingService(knowledge).process_checkpoint("alpha", "manual")
            question = (FAILURE["failure_description"], FAILURE["error_message"], "backend_developer", "deployment")
            own = decision_68.RAGQueryService(knowledge)
            return await queries.query_for_failure(*question), await own.query_for_failure(*question)

        theirs, ours = asyncio.run(story())
        assert [one["text"].splitlines()[0] for one in theirs] == [f"Failure: {one.problem}" for one in ours]

    def test_what_is_older_than_a_year_is_deleted(self, knowledge: Knowledge) -> None:
        _, _, pruning = self.services(knowledge, [])
        old, new = (datetime.now() - timedelta(days=days) for days in (366, 364))  # noqa: DTZ005 - as the listing
        points = [{"id": name, "payload": {"embedded_at": at.isoformat()}} for name, at in (("old", old), ("new", new))]
        asyncio.run(pruning.qdrant.upsert("project_knowledge", points))
        assert asyncio.run(pruning.prune_old_knowledge()) == 1
        assert list(pruning.qdrant.points) == ["new"]


def test_the_collection_of_the_design_indexes_fields_that_entries_have() -> None:
    client = Client()
    names = {"qdrant_client": client, "VectorParams": dict, "Distance": SimpleNamespace(COSINE="cosine")}
    source = Path(LISTINGS / "decision_68_08.py").read_text(encoding="utf-8")
    exec(compile(source, "decision_68_08", "exec"), names)
    assert client.collections == {"project_knowledge": {"size": 1536, "distance": "cosine"}}
    assert {field for _, field, _ in client.indexes} <= set(asdict(decision_68.KnowledgeEntry("failure_solution")))
    assert len(client.indexes) == 4
