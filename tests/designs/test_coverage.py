"""docs/coverage-of-the-designs.md names tests that exist, and counts its rows."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "coverage-of-the-designs.md"
_ROW = re.compile(r"^\| (?P<promise>.+) \| (?P<shown>[^|]+) \|$")
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::([\w:]+))?`")


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


def kind_of(shown: str) -> str:
    return next((kind for kind in ("different", "open") if shown.startswith(f"{kind}: ")), "shown")


def test_every_named_test_exists() -> None:
    assert missing(PAGE.read_text(encoding="utf-8")) == []


def test_every_row_names_a_test_or_a_reason() -> None:
    rows = [row for rows in sections().values() for row in rows]
    assert len(rows) > 180
    assert [promise for promise, shown in rows if kind_of(shown) == "shown" and not _TEST.search(shown)] == []
    assert [promise for promise, shown in rows if len(shown) < len("different: x y")] == []


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
