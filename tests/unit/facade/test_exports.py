"""Names that `opx` exports: lazily, with types, and documented."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import opx
from opx import sdk

CHEAP = """
import sys, {0}
print([name for name in sys.modules if name.startswith(('opx.', 'msgspec', 'tantivy')) and name != '{0}'])
"""
EXPORTED = [(module, name) for module in (opx, sdk) for name in module.__all__]


def stub_names(module: ModuleType) -> dict[str, str]:
    """Names of the module's stub, with their modules."""
    names = {}
    for node in ast.parse(Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names.update({alias.asname or alias.name: str(node.module) for alias in node.names})
    return names


@pytest.mark.parametrize("module", [opx, sdk])
def test_the_stub_has_the_names_that_are_exported(module: ModuleType) -> None:
    assert sorted(stub_names(module)) == sorted(module.__all__)


@pytest.mark.parametrize(("module", "name"), EXPORTED)
def test_each_name_is_what_its_module_has(module: ModuleType, name: str) -> None:
    home = import_module(stub_names(module)[name])
    assert getattr(module, name) is getattr(home, name)
    assert name in dir(module)


@pytest.mark.parametrize("module", ["opx", "opx.sdk"])
def test_importing_the_module_loads_none_of_them(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", CHEAP.format(module)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'opx' has no attribute 'Nothing'"):
        _ = opx.Nothing  # type: ignore[attr-defined]


def test_the_page_of_the_python_api_is_current() -> None:
    """`make schemas` writes it."""
    root = Path(__file__).resolve().parents[3]
    made = runpy.run_path(str(root / ".ci" / "python_api.py"))
    assert (root / "docs" / "api" / "python.md").read_text(encoding="utf-8") == made["page"]()
