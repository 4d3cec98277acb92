"""A plugin as strangers install it: its wheel, built outside of the repository, beside those of the library."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.constructs.layer_contents import ROOT
from tests.packaging.test_wheel import DISTRIBUTIONS, Environment, uv

pytestmark = [pytest.mark.packaging, pytest.mark.enable_socket, pytest.mark.timeout(900)]

SHIFTS = [
    {"team": "payments", "person": "Ada", "start": "2026-11-30T08:00Z", "end": "2026-12-07T08:00Z"},
    {"team": "search", "person": "Grace", "start": "2026-11-30T08:00Z", "end": "2026-12-07T08:00Z"},
]
NOTE = "* Valve stuck\n\n** Steps\n\nTurn the zirconium valve twice.\n"
TOOLS = """
import asyncio, json, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["mcp"], env=json.loads(sys.argv[2]))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        print([tool.name for tool in (await session.list_tools()).tools])
        found = await session.call_tool("list_shifts", {"team": "search"})
        print(found.content[0].text)
asyncio.run(main())
"""


class PluginEnvironment(Environment):
    """It has the plugin, whose operation reads shifts from a file."""

    @property
    def shifts(self) -> Path:
        return self.work / "shifts.json"

    @property
    def index(self) -> Path:
        return self.work / "json-index"

    @property
    def variables(self) -> dict[str, str]:
        return {**super().variables, "ON_CALL_SHIFTS_FILE": str(self.shifts), **self.more}

    more: dict[str, str] = {}  # noqa: RUF012 - replaced, never changed


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels of the library, and that of a copy of the plugin in a folder of its own."""
    folder = tmp_path_factory.mktemp("wheels")
    copy = tmp_path_factory.mktemp("elsewhere") / "plugin"
    shutil.copytree(ROOT / "examples" / "plugin", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for project in (ROOT, *DISTRIBUTIONS, copy):
        uv("build", "--quiet", "--wheel", "--out-dir", str(folder), str(project))
    assert len(list(folder.glob("*.whl"))) == len(DISTRIBUTIONS) + 2
    return folder


@pytest.fixture(scope="module")
def environment(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> PluginEnvironment:
    made = PluginEnvironment(tmp_path_factory.mktemp("user"))
    made.install("--find-links", str(wheels), "opx-example", "opx-knowledge[code,connectors,documents,mcp]")
    made.shifts.write_text(json.dumps(SHIFTS))
    (made.work / "note.opxnote").write_text(NOTE)
    made.run("ingest", "note.opxnote")
    return made


@pytest.fixture
def with_json_index(environment: PluginEnvironment) -> Iterator[PluginEnvironment]:
    environment.more = {"OPX_INDEX": f"jsonfolder://{environment.index}", "OPX_HOME": str(environment.work / "other")}
    yield environment
    environment.more = {}


def test_the_doctor_counts_the_plugins(environment: PluginEnvironment) -> None:
    counts = "28 connectors, 5 webhooks, 13 formats, 1 adapters, 8 operations, 5 parts, 5 rows"
    assert re.search(f"ok +plugins +{counts}", environment.run("doctor"))


def test_its_kind_of_source_is_listed_and_pulled(environment: PluginEnvironment) -> None:
    assert "on_call_shifts: shifts of on-call teams" in environment.run("source", "kinds")
    option = f"path={environment.shifts}"
    kind = ("--kind", "on_call_shifts", "--category", "runbooks/procedures", "--option", option)
    environment.run("source", "add", "shifts", *kind)
    assert "source shifts: done: 2 put" in environment.run("source", "pull", "shifts")
    assert "On-call shifts of payments" in environment.run("search", "shifts of payments")


def test_its_format_is_ingested_and_found(environment: PluginEnvironment) -> None:
    found = environment.run("search", "zirconium valve")
    assert "Valve stuck" in found
    assert "Steps" in found


def test_its_index_is_chosen_by_its_scheme(with_json_index: PluginEnvironment) -> None:
    with_json_index.run("ingest", "note.opxnote")
    assert "Valve stuck" in with_json_index.run("search", "zirconium valve")
    assert list(with_json_index.index.glob("index-*/entries.json"))
    assert not list((with_json_index.work / "other").glob("index*"))


def test_its_operation_is_a_command_and_a_tool(environment: PluginEnvironment) -> None:
    assert "Ada" in environment.run("shifts", "--team", "payments")
    assert "Grace" not in environment.run("shifts", "--team", "payments")
    called = environment.run("call", "list_shifts", "--team", "search")
    assert "Grace" in called


def test_its_tool_answers_over_mcp_once_it_is_granted(environment: PluginEnvironment) -> None:
    granted = environment.work / "knowledge.yaml"
    usual = (ROOT / "corpus" / "knowledge.yaml").read_text()
    granted.write_text(usual.replace("    - explain_relation\n", "    - explain_relation\n    - list_shifts\n"))
    variables = json.dumps({"ON_CALL_SHIFTS_FILE": str(environment.shifts), "OPX_KNOWLEDGE_FILE": str(granted)})
    done = subprocess.run(
        [str(environment.python), "-c", TOOLS, str(environment.opx), variables],
        cwd=environment.work,
        env=environment.variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    listed, _, answer = done.stdout.partition("\n")
    assert ("'list_shifts'" in listed, "Grace" in answer, "Ada" in answer) == (True, True, False), done.stderr


@pytest.fixture
def without_plugin(environment: PluginEnvironment, wheels: Path) -> Iterator[PluginEnvironment]:
    kind = ("--kind", "on_call_shifts", "--category", "runbooks/procedures", "--option", f"path={environment.shifts}")
    environment.run("source", "add", "rota", *kind)
    uv("pip", "uninstall", "--quiet", "--python", str(environment.python), "opx-example")
    yield environment
    environment.more = {}
    environment.install("--find-links", str(wheels), "opx-example")


def test_everything_else_works_without_it(without_plugin: PluginEnvironment) -> None:
    environment = without_plugin
    assert "on_call_shifts" not in environment.run("source", "kinds")
    assert "there is no command 'shifts'" in environment.run("shifts", code=2)
    assert "unknown kind of source 'on_call_shifts'" in environment.run("source", "pull", "rota", code=2)
    assert "Valve stuck" in environment.run("search", "zirconium valve")
    (environment.work / "later.md").write_text("# Pump\n\nPrime the osmium pump.\n")
    environment.run("ingest", "later.md")
    assert "Pump" in environment.run("search", "osmium pump")
    environment.more = {"OPX_INDEX": "jsonfolder:///x"}
    assert "OPX_INDEX must be" in environment.run("status", code=2)
