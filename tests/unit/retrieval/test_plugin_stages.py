"""Stages of plugins in an answer: where they stand, what they may change, and what happens if they fail."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from opx import plugins
from opx.runtime.knowledge_file import corpus_path
from tests.support.cli_support import Opx
from tests.support.plugin_folders import on_the_path, write_distribution

STAGES = """
    from opx.domain.record import replace

    class Demote:
        name = "demote"

        def apply(self, query, found):
            first, *others = found.judged
            query.note("demoted one of %d" % len(found.judged))
            return replace(found, judged=[*others, first])

    class Broken:
        name = "broken"

        def apply(self, query, found):
            found.judged.clear()
            raise ValueError("secret words of a document")

    class Silent:
        name = "silent"

        def apply(self, query, found):
            found.judged.clear()

    class Refused:
        def __init__(self):
            raise RuntimeError("no licence")

    demote, number = Demote(), 7
"""
ENTRIES = """
    [opx.stages]
    demote = opx_staged:demote
    made = opx_staged:Demote
    broken = opx_staged:Broken
    silent = opx_staged:Silent
    number = opx_staged:number
    refused = opx_staged:Refused
    missing = opx_nowhere:Stage
"""


@pytest.fixture(scope="module")
def opx(tmp_path_factory: pytest.TempPathFactory) -> Opx:
    opx = Opx(tmp_path_factory.mktemp("stages"))
    for at in range(4):
        opx.write(f"{at}.md", f"# Disk full {at}\n\nThe disk is full: remove old logs of host {at}.\n")
    assert opx("ingest", opx.folder / "docs").exit_code == 0
    write_distribution(opx.folder / "plugins", "opx-staged", ENTRIES, {"opx_staged": STAGES})
    return opx


def knowledge_file(opx: Opx, section: str) -> str:
    path = corpus_path("knowledge.yaml")
    assert path
    file = opx.folder / "knowledge.yaml"
    file.write_text(f"{path.read_text(encoding='utf-8')}\n{section}\n", encoding="utf-8")
    return str(file)


def search(opx: Opx, stages: str, *options: str) -> dict[str, Any]:
    file = knowledge_file(opx, f"retrieval: {{stages: {stages}}}")
    with on_the_path(opx.folder / "plugins"):
        result = opx("search", "disk full", "--json", "--limit", "2", *options, OPX_KNOWLEDGE_FILE=file)
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def titles(answer: dict[str, Any]) -> list[str]:
    return [result["metadata"]["title"] for result in answer["results"]]


@pytest.mark.parametrize("name", ["demote", "made"])
def test_a_stage_sees_all_ranked_hits_and_changes_their_order(opx: Opx, name: str) -> None:
    before, after = search(opx, "[]"), search(opx, f"[{name}]")
    assert titles(before)[1] == titles(after)[0]
    assert titles(before)[0] not in titles(after)
    assert "demoted one of 4" in after["notes"]


def test_stages_are_applied_in_the_order_of_the_file(opx: Opx) -> None:
    assert titles(search(opx, "[demote, made]"))[0] not in titles(search(opx, "[]"))


def test_the_time_of_a_stage_follows_that_of_the_search(opx: Opx) -> None:
    names = list(search(opx, "[demote]")["timingsMs"])
    assert names[-2:] == ["judge", "demote"]


@pytest.mark.parametrize(("name", "error"), [("broken", "ValueError"), ("silent", "TypeError")])
def test_an_answer_goes_on_without_a_stage_that_fails(
    opx: Opx, name: str, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        after = search(opx, f"[{name}]")
    assert titles(after) == titles(search(opx, "[]"))
    assert f"the stage {name} is missing from this answer: it failed with {error}" in after["notes"]
    assert "secret words" not in json.dumps(after)
    assert f"the stage {name} of a plugin failed" in caplog.text


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("retrieval:\n  stages: [rerank_more]", ":2: no installed distribution has the plugin 'rerank_more'"),
        ("retrieval:\n  stages:\n  - number", ":3: the plugin 'number' of opx.stages is no stage"),
        ("retrieval:\n  stages: [refused]", ":2: the plugin 'refused' of opx.stages can't be made: RuntimeError"),
        ("retrieval:\n  stages: [missing]", ":2: the plugin opx-staged 1.0 (opx.stages: missing) can't be imported"),
        ("retrieval:\n  stages: demote", ":2: retrieval.stages must be a list"),
        ("retrieval:\n  stages: [7]", ":2: retrieval.stages[0] must be a string"),
        ("retrieval: {}", ":1: retrieval needs the key 'stages'"),
        ("retrieval:\n  stage: [demote]", ":2: unknown key 'stage'; allowed: stages"),
    ],
)
def test_a_mistake_in_the_section_is_refused_with_its_line(opx: Opx, section: str, problem: str) -> None:
    file = knowledge_file(opx, section)
    line, _, text = problem[1:].partition(":")
    number = len(Path(file).read_text(encoding="utf-8").splitlines()) - len(section.splitlines()) + int(line)
    with on_the_path(opx.folder / "plugins"):
        result = opx("search", "disk full", OPX_KNOWLEDGE_FILE=file)
    assert result.exit_code == 2
    assert f"{file}:{number}:{text}" in result.stderr


def test_no_search_looks_up_entry_points_unless_a_stage_is_named(opx: Opx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_all", lambda: pytest.fail("looked up"))
    assert opx("search", "disk full").exit_code == 0
