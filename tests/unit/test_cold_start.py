"""A search in a fresh process: modules that only other operations need cost every cold start, and each call on the way to the
index is read by everyone who follows a question."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli_support import environment

PASSAGES, DOCUMENTS, COMMAND_MODULES = 104, 119, 129
"""Of the library, packages included: of a search for passages alone, of one that hands documents over (it reads the catalog,
the corpus store and the table of effects), and of the command, which renders them. Raise them only for what a search itself
needs."""

FRAMES, OF_QUESTIONS = 14, 7
"""Calls from the function of the command to the index's search, and those from `KnowledgeQuery.search`, both included."""

DOCUMENT = "# Pods keep restarting\n\nLook at the memory limit and the liveness probe.\n"

INGEST = """
import sys
from opx.edges.cli.main import Launch, run
from opx.system import bootstrap, connect
sys.exit(run(["--home", sys.argv[1], "ingest", sys.argv[2]], Launch(bootstrap, connect)))
"""

CLIENT = """
import sys
from opx.system import bootstrap
from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient
from opx.operations.context import Caller, Context
from opx.operations.search import Search, search
from opx.settings import Settings

with bootstrap(Settings(home=sys.argv[1])) as system:
    client = LocalClient(Context(system, Caller(Identity(), owns_system=True)))
    assert client.call(search, Search(q="pods keep restarting", budget=BUDGET)).results
"""

COMMAND = """
import sys
from opx.edges.cli.main import Launch, run
from opx.system import bootstrap, connect
assert run(["--home", sys.argv[1], "search", "pods keep restarting"], Launch(bootstrap, connect)) == 0
"""

CALLS = """
import inspect
from opx.adapters.embedded.search_index import EmbeddedIndex
search = EmbeddedIndex.search

def counted(self, request):
    names = [f"{frame.frame.f_globals['__name__']}.{frame.function}" for frame in inspect.stack()]
    print(*names[:names.index("opx.edges.cli.search.search_command") + 1], sep="\\n")
    print("end")
    return search(self, request)

EmbeddedIndex.search = counted
"""

LOADED = """
print(*sorted(name for name in sys.modules if name.partition(".")[0] in ("opx", "importlib")), sep="\\n")
"""


def run(program: str, *arguments: Path) -> list[str]:
    line = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cold")
    document = folder / "pods.md"
    document.write_text(DOCUMENT, encoding="utf-8")
    run(INGEST, folder / "home", document)
    return folder / "home"


@pytest.mark.parametrize(
    ("program", "most"),
    [
        (CLIENT.replace("BUDGET", "0"), PASSAGES),
        (CLIENT.replace("BUDGET", "1200"), DOCUMENTS),
        (COMMAND, COMMAND_MODULES),
    ],
    ids=["passages", "documents", "command"],
)
def test_one_search_imports_few_modules(home: Path, program: str, most: int) -> None:
    lines = run(program + LOADED, home)
    loaded = [line for line in lines if line.partition(".")[0] == "opx"]
    assert "opx.operations.search" in loaded
    assert len(loaded) <= most, f"{len(loaded)} modules:\n" + "\n".join(loaded)
    assert "importlib.metadata" not in lines, (
        "plugins are looked up where no built-in name fits, which takes up to 50 ms"
    )
    assert "importlib.resources" not in lines, "files of the package are read by their paths, which takes 4 ms less"


def test_few_calls_lead_from_the_command_to_the_index(home: Path) -> None:
    calls = run(CALLS + COMMAND, home)
    calls = calls[: calls.index("end")]
    assert len(calls) <= FRAMES, calls
    assert calls.index("opx.retrieval.query.search") < OF_QUESTIONS, calls


def test_a_command_writes_nothing_of_its_own_among_the_compiled_modules(home: Path, tmp_path: Path) -> None:
    """A file of ours there would end every command once it is damaged."""
    line = [
        sys.executable,
        "-c",
        "from opx.system import command; command()",
        "--home",
        str(home),
        "search",
        "restarting",
    ]
    env = {**environment(), "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run(line, env=env, check=True, capture_output=True, timeout=100)
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".pyc"}
