"""Names that `opx` exports: lazily, with types, and documented."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import opx

STUB = Path(str(opx.__file__)).with_suffix(".pyi")
CHEAP = "import sys, opx; print([name for name in sys.modules if name.startswith(('opx.', 'msgspec', 'tantivy'))])"


def stub_names() -> dict[str, str]:
    """Names of the stub, with their modules."""
    found = {}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            found.update({alias.asname or alias.name: str(node.module) for alias in node.names})
    return found


def test_the_stub_has_the_names_that_are_exported() -> None:
    assert sorted(stub_names()) == sorted(opx.__all__)


@pytest.mark.parametrize("name", opx.__all__)
def test_each_name_is_what_its_module_has(name: str) -> None:
    module = sys.modules.get(stub_names()[name]) or __import__(stub_names()[name], fromlist=[name])
    assert getattr(opx, name) is getattr(module, name)
    assert name in dir(opx)


def test_importing_the_package_loads_none_of_them() -> None:
    done = subprocess.run([sys.executable, "-c", CHEAP], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'opx' has no attribute 'Nothing'"):
        _ = opx.Nothing  # type: ignore[attr-defined]


def test_the_page_of_the_python_api_is_current() -> None:
    """`make schemas` writes it."""
    root = Path(__file__).resolve().parents[3]
    made = runpy.run_path(str(root / ".ci" / "python_api.py"))
    assert (root / "docs" / "api" / "python.md").read_text(encoding="utf-8") == made["page"]()
