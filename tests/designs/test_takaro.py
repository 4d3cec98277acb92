"""The listings of the documentation design: the two functions, the address, contextual chunks and the fusion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx import Knowledge
from opx.compat import takaro
from opx.domain.documents import DocumentChunk
from opx.domain.queries import QueryConfig
from opx.domain.record import to_json
from opx.edges.schemas import openapi
from opx.errors import InvalidInputError
from opx.facade.opening import of_system
from opx.operations.documents import ReadChunks, read_chunks
from opx.settings import Settings
from opx.system import bootstrap
from tests.designs.loading import recorded

_MORE = "The guide explains each field, its default, its limits and an example of its use. " * 40
HOOKS = f"""# Takaro developer guide

## Modules

### Hooks

A hook runs on hook.player.connected. {_MORE}

### Cronjobs

A cronjob runs at a time: how cronjobs work follows from their expression. {_MORE}
"""
MODULES = "# Module API\n\nmoduleControllerCreate makes a module.\n"


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Knowledge]:
    with Knowledge.open(tmp_path_factory.mktemp("takaro") / "kb") as knowledge:
        for name, text in (("hooks.md", HOOKS), ("modules.md", MODULES)):
            knowledge.ingest_document("internal", "runbooks/procedures", text, {"source": name})
        yield knowledge


def reply_fields(name: str) -> set[str]:
    """The fields of the reply in the listing of a function."""
    return set(re.findall(r"^\s+(\w+):", recorded(name).partition("→")[2], re.MULTILINE))


def names_in(value: Any) -> set[str]:
    if isinstance(value, list):
        return {name for one in value for name in names_in(one)}
    if isinstance(value, dict):
        return set(value) | {name for inner in value.values() for name in names_in(inner)}
    return set()


@pytest.mark.parametrize("thoroughness", ["fast", "balanced", "thorough"])
def test_the_search_answers_as_the_listing_states(docs: Knowledge, thoroughness: str) -> None:
    found = takaro.searchDocs(docs, "moduleControllerCreate", thoroughness, 5)
    assert names_in(found) == reply_fields("takaro-04")
    assert found["results"][0]["content"].startswith("# Module API")
    assert re.fullmatch(r"\d+%", found["results"][0]["relevance"])


def test_the_section_has_its_path(docs: Knowledge) -> None:
    found = takaro.searchDocs(docs, "hook.player.connected")["results"]
    assert found[0]["section"] == "Modules > Hooks"


def test_bounds_of_the_listing_hold(docs: Knowledge) -> None:
    assert "Optional: 1-20, default 5" in recorded("takaro-04")
    for limit in (0, 21):
        with pytest.raises(InvalidInputError, match="limit must be a whole number from 1 to 20"):
            takaro.searchDocs(docs, "hooks", limit=limit)
    with pytest.raises(InvalidInputError, match="fast, balanced, thorough"):
        takaro.searchDocs(docs, "hooks", "deep")


def test_research_answers_as_the_listing_states(docs: Knowledge) -> None:
    assert "Optional: 1-5, default 3" in recorded("takaro-05")
    found = takaro.researchTopic(docs, "how hooks work with cronjobs")
    assert names_in(found) == reply_fields("takaro-05")
    assert found["searchesPerformed"] >= 2
    with pytest.raises(InvalidInputError, match="from 1 to 5"):
        takaro.researchTopic(docs, "hooks", maxIterations=6)


def test_the_workflows_of_the_design_are_the_three_ways_to_ask(docs: Knowledge) -> None:
    assert "searchDocs(query, thoroughness='balanced')" in recorded("takaro-01")
    assert "searchDocs(query, thoroughness='thorough')" in recorded("takaro-02")
    assert "researchTopic(topic, maxIterations=3)" in recorded("takaro-03")
    assert takaro.searchDocs(docs, "hooks", thoroughness="balanced")["results"]
    assert takaro.searchDocs(docs, "hooks", thoroughness="thorough")["results"]
    assert takaro.researchTopic(docs, "hooks", maxIterations=3)["findings"]


def test_tools_are_made_by_the_factories(docs: Knowledge) -> None:
    search, research = takaro.createSearchDocsTool(docs), takaro.createResearchTopicTool(docs)
    assert (search.name, research.name) == ("search_docs", "research_topic")
    assert "Module API" in search(query="moduleControllerCreate", thoroughness="fast", limit=5)


def test_the_address_takes_the_parameters_of_the_design() -> None:
    listed = recorded("takaro-06").strip()
    assert listed == "GET /knowledge/:kbId/search?q=<query>&thoroughness=<mode>&limit=<n>"
    operation = openapi()["paths"]["/knowledge/{kbId}/search"]["get"]
    assert set(re.findall(r"[?&](\w+)=", listed)) <= {one["name"] for one in operation["parameters"]}


def test_chunks_know_title_and_section(docs: Knowledge) -> None:
    assert 'prepend "# {title}\\n## {section}\\n\\n"' in recorded("takaro-08")
    (document,) = (one for one in docs.documents() if one.title == "Takaro developer guide")
    chunks = docs.call(read_chunks, ReadChunks(document_id=document.document_id)).chunks
    assert {one.metadata.document_title for one in chunks} == {"Takaro developer guide"}
    assert {("Modules", "Hooks"), ("Modules", "Cronjobs")} <= {one.section for one in chunks}


def test_a_chunk_has_the_columns_of_the_design() -> None:
    columns = set(re.findall(r"ADD COLUMN (\w+)", recorded("takaro-09")))
    here = {"content_with_context": "context", "document_title": "metadata", "section_path": "section"}
    assert columns - {"content_tsvector"} == set(here)  # the lexical leg has an index of its own
    assert set(here.values()) <= set(DocumentChunk.__struct_fields__)


def test_the_fusion_is_that_of_the_design() -> None:
    assert "score += 1 / (k + i + 1)  where k = 60" in recorded("takaro-10")
    vector, keyword = ["a", "b", "c"], ["c", "a", "d"]
    scores: dict[str, float] = {}
    for ranking in (vector, keyword):
        for i, one in enumerate(ranking):
            scores[one] = scores.get(one, 0) + 1 / (60 + i + 1)
    assert takaro.fuseResults(vector, keyword) == sorted(scores, key=lambda one: -scores[one])


@pytest.mark.parametrize("query", ["moduleControllerCreate", "hook.player.connected", "how do cronjobs work"])
def test_queries_of_the_baseline_find_their_page(docs: Knowledge, query: str) -> None:
    (first, *_) = takaro.searchDocs(docs, query)["results"]
    assert to_json(first)["content"]
    assert ("Module API" in first["content"]) == (query == "moduleControllerCreate")


@pytest.mark.parametrize(("legs", "by_words"), [("both", True), ("vector", False)])
def test_the_flag_searches_by_vectors_alone(tmp_path: Path, legs: str, by_words: bool) -> None:
    settings = Settings.from_environ({"OPX_HOME": str(tmp_path / "kb"), "OPX_SEARCH_LEGS": legs})
    with Knowledge(of_system(bootstrap(settings))) as knowledge:
        knowledge.ingest_document("internal", "runbooks/procedures", MODULES, {"source": "modules.md"})
        (first, *_) = knowledge.query("how is a module made", QueryConfig(min_confidence=0))
    assert first.parts is not None
    assert (first.parts.vector_rank, first.parts.lexical_rank is not None) == (1, by_words)
