"""docs/coverage-of-the-designs.md names tests, commands, routes and tools that exist, and counts its rows."""

from __future__ import annotations

import ast
import re
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path

import click
import pytest

from opx import Knowledge, plugins
from opx.edges.cli.main import cli
from opx.errors import InvalidInputError
from opx.operations import load
from opx.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "coverage-of-the-designs.md"
_ROW = re.compile(r"^\| (?P<promise>.+) \| (?P<shown>[^|]+) \|$")
_TEST = re.compile(r"`((?:layers/opx-\w+/)?tests/[\w/]+\.py)(?:::([\w:]+))?`")


def sections() -> dict[str, list[tuple[str, str]]]:
    """Rows by design: the promise, and where it is shown."""
    found: dict[str, list[tuple[str, str]]] = {}
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, *lines = part.splitlines()
        rows = [match for line in lines if (match := _ROW.match(line)) and match["promise"] != "promise"]
        found[title.partition(":")[0]] = [(row["promise"], row["shown"]) for row in rows]
    return found


@cache
def names_in(file: str) -> frozenset[str]:
    """Tests of a file, those of classes with their class."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return frozenset(found)


def missing(text: str) -> list[str]:
    """Tests that are named here and that don't exist."""
    named = _TEST.findall(text)
    return [
        f"{file}::{name}" for file, name in named if not (ROOT / file).exists() or (name and name not in names_in(file))
    ]


def is_command(text: str) -> bool:
    """True for a command of `opx` with its options, and with a kind of source that there is."""
    _, *words = text.split()
    command: click.Command = cli
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words.pop(0)) if words else None
        if found is None:
            return False
        command = found
    options = {name for one in command.params for name in one.opts}
    kind = words[words.index("--kind") + 1] if "--kind" in words else "directory"
    return {word for word in words if word.startswith("--")} <= options and kind in plugins.names(plugins.CONNECTORS)


def is_there(name: str) -> bool:
    """True for a command, a route, a tool, a method of `Knowledge`, or a setting, that exists."""
    first, _, rest = name.partition(" ")
    if first == "opx":
        return is_command(name)
    if rest.startswith("/"):
        return name in {key.replace("+}", "}") for key in load().routes}
    if name.startswith("Knowledge."):
        return hasattr(Knowledge, name.removeprefix("Knowledge."))
    if name.startswith("OPX_"):
        return is_setting(*name.partition("=")[::2])
    return name in load().tools()


def is_setting(name: str, value: str) -> bool:
    """True for a setting, and for a value that it may have."""
    if name.removeprefix("OPX_").lower() not in Settings.__struct_fields__:
        return False
    chat = {"OPX_CHAT_MODEL": "m", "OPX_CHAT_URL": "http://127.0.0.1/v1"}
    with suppress(InvalidInputError):
        return bool(Settings.from_environ({**chat, name: value} if value else chat))
    return False


def ways(shown: str) -> list[str]:
    """The code in a row, apart from its tests."""
    return [name for name in re.findall(r"`([^`]+)`", shown) if not _TEST.fullmatch(f"`{name}`")]


def kind_of(shown: str) -> str:
    return next((kind for kind in ("different", "open") if shown.startswith(f"{kind}: ")), "shown")


def test_every_named_test_exists() -> None:
    assert missing(PAGE.read_text(encoding="utf-8")) == []


def test_every_row_names_a_test_or_a_reason() -> None:
    rows = [row for rows in sections().values() for row in rows]
    assert len(rows) > 180
    assert [promise for promise, shown in rows if kind_of(shown) == "shown" and not _TEST.search(shown)] == []
    assert [promise for promise, shown in rows if len(shown) < len("different: x y")] == []


def test_every_way_to_a_promise_exists() -> None:
    rows = [shown for rows in sections().values() for _, shown in rows if kind_of(shown) == "shown"]
    assert [name for shown in rows for name in ways(shown) if not is_there(name)] == []
    assert sum(bool(ways(shown)) for shown in rows) >= 90


@pytest.mark.parametrize(
    "name",
    [
        "opx serch",
        "opx search --moode",
        "opx source",
        "opx source add --kind gopher",
        "GET /knowledge/{id}/search",
        "Knowledge.ask",
        "OPX_SEARCH_LEG",
        "OPX_SEARCH_LEGS=none",
        "search_doc",
    ],
)
def test_a_way_that_does_not_exist_is_found(name: str) -> None:
    assert ways(f"`{name}`; `tests/designs/test_coverage.py`") == [name]
    assert not is_there(name)


@pytest.mark.parametrize("name", ["tests/designs/test_coverage.py::test_nothing", "tests/designs/test_none.py"])
def test_a_test_that_does_not_exist_is_found(name: str) -> None:
    assert missing(f"| x | `{name}` |")


def test_the_counts_are_those_of_the_rows() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    counted = {
        cells[1].strip(): [int(one) for one in cells[2:6]]
        for cells in (line.split("|") for line in lines)
        if len(cells) == 7 and cells[2].strip().isdigit()
    }
    wanted = {}
    for title, rows in sections().items():
        kinds = Counter(kind_of(shown) for _, shown in rows)
        wanted[title] = [len(rows), kinds["shown"], kinds["different"], kinds["open"]]
    wanted["all"] = [sum(column) for column in zip(*wanted.values(), strict=True)]
    assert counted == wanted
