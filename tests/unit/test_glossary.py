"""The types that the glossary names exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ROOT / "layers"
ROW = re.compile(r"\|[^|]+\|[^|]+\|([^|]+)\|\n?\Z")


def glossary_types() -> list[str]:
    lines = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    cells = [found[1] for line in lines if (found := ROW.match(line))]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def defined_names() -> Iterator[str]:
    """Names of packages, modules, classes, functions, fields and constants."""
    yield from ("opx", "*")
    for file in LAYERS.glob("*/python/**/*.py"):
        yield from (file.stem, file.parent.name)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                yield node.name
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


@pytest.fixture(scope="module")
def known() -> set[str]:
    return set(defined_names())


def test_every_type_of_the_glossary_exists(known: set[str]) -> None:
    types = glossary_types()
    assert len(types) > 50
    missing = {name for name in types if not known.issuperset(re.split(r"[./]", name))}
    assert missing == set()
