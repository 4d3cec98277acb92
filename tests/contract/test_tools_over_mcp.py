"""Every tool over the Model Context Protocol, called by the official client over the example corpus. Some clients hand models
nothing but the structured result: it has the whole answer, and little more."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client

from opx.domain.record import Json
from opx.ingestion.events import EventOutcome
from opx.ingestion.files import plan_files
from opx.operations import load
from opx_serve.mcp import make_server, tools_for
from tests.contract.operation_edges import World, by_attribute, opened
from tests.contract.operation_examples import EXAMPLES, build

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

CORPUS = Path(__file__).parents[2] / "corpus" / "documents"
TOOLS = load().tools()
MOST = 1.5
"""Bytes of a structured result per byte of its text."""

FLOOR = 300
"""Bytes beside the text that a structured result may always have: a short text has no room for an id."""

QUESTIONS = (
    "No space left on device on a Linux host",
    "pods keep restarting in payments, CrashLoopBackOff",
    "FATAL: sorry, too many clients already",
    '[FIRING:1] KafkaConsumerLagHigh (consumergroup="notifications-order-mail" severity="critical")',
    "how do we brew espresso",
)
PARTS = ("", "outline", "steps", "all")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("tools") / "home"
    with opened(home, build(home)) as world:
        manager = world.services.manager
        for file in plan_files([CORPUS], CORPUS):
            assert not isinstance(file, EventOutcome), file
            manager.put_file(file, {})
        list(manager.work())
        yield world


def calls(world: World) -> Iterator[tuple[str, Json]]:
    """Calls of each tool: its example; questions with replies of all sizes, and a document part by part."""
    for name, tool in TOOLS.items():
        yield name, by_attribute(tool, EXAMPLES[name](world))
    for question in QUESTIONS:
        yield "find_procedure", {"alert": question}
        yield "research_topic", {"topic": question}
        for name in ("search_runbooks", "search_postmortems", "search_docs"):
            most = "limit" if name == "search_docs" else "max_results"
            yield name, {"query": question}
            yield from ((name, {"query": question, most: 20, "max_tokens": tokens}) for tokens in (200, 8000))
    for document in list(world.services.corpus.catalog.in_category("runbooks/procedures"))[:5]:
        yield "get_document_details", {"document_id": document.document_id}
        yield from (("read_document", {"document": document.document_id, "part": part}) for part in PARTS)


@pytest.fixture(scope="module")
def results(world: World) -> Mapping[str, list[Any]]:
    """The results of each tool's calls, in one session."""

    async def called() -> Mapping[str, list[Any]]:
        found: dict[str, list[Any]] = {name: [] for name in TOOLS}
        async with Client(make_server(tools_for(world.context), world.context)) as client:
            for name, arguments in calls(world):
                result = await client.call_tool(name, arguments)
                assert not result.is_error, (name, arguments, result.content)
                found[name].append(result)
        return found

    return anyio.run(called)


def rebuilt(structured: Json) -> str:
    """The text of a result, as a program reads it that has the structured result alone."""
    return structured["answer"] if "answer" in structured else json.dumps(structured, indent=2, ensure_ascii=False)


def size(value: Json) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


@pytest.mark.parametrize("name", TOOLS)
def test_text_can_be_rebuilt_from_the_structured_result_alone(results: Mapping[str, list[Any]], name: str) -> None:
    for result in results[name]:
        (content,) = result.content
        assert rebuilt(result.structured_content) == content.text


@pytest.mark.parametrize("name", TOOLS)
def test_structured_result_is_little_larger_than_the_text(results: Mapping[str, list[Any]], name: str) -> None:
    for result in results[name]:
        text = len(result.content[0].text.encode())
        assert size(result.structured_content) <= max(MOST * text, text + FLOOR), result.structured_content


def test_answer_comes_first_as_some_clients_cut_long_results(results: Mapping[str, list[Any]]) -> None:
    first = {next(iter(one.structured_content)) for name in TOOLS for one in results[name]}
    assert first == {"answer", "documentId"}  # get_document_details has JSON as its text


def test_each_document_that_a_search_names_has_its_id_and_band(results: Mapping[str, list[Any]]) -> None:
    for result in results["search_runbooks"]:
        found = result.structured_content
        for document in found.get("documents", ()):
            assert set(document) <= {"documentId", "band", "untrusted"}
            assert f"[Document ID: {document['documentId']}]" in found["answer"]
        assert len(found.get("documents", ())) == found["answer"].count("[Document ID: ")
