"""The function for writes works with the packages of its own layer."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys

from infra.api import MANAGE_KNOWLEDGE
from infra.constructs.code import REQUIREMENTS
from opx import plugins
from opx.operations import load
from opx.operations.registry import Function

_PROGRAM = """
import importlib, sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused:
            raise ImportError(f"{name} is not in the layer")

refused = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Refused())
for name in sys.argv[2].split(","):
    importlib.import_module(name)
"""


def distributions(layer: str) -> set[str]:
    """Names of the pinned packages of a layer."""
    return {
        name.lower() for name in re.findall(r"^([\w.-]+)==", (REQUIREMENTS / f"{layer}.txt").read_text(), re.MULTILINE)
    }


def modules_of(names: set[str]) -> set[str]:
    """Importable modules of installed packages."""
    owners = importlib.metadata.packages_distributions()
    return {module for module, found in owners.items() if {one.lower() for one in found} & names}


def test_layer_of_the_managing_function_has_no_parsers() -> None:
    assert MANAGE_KNOWLEDGE.dependencies == "manage"
    left_out = distributions("ingest") - distributions("manage")
    assert {"pypdfium2", "pillow", "python-pptx", "openpyxl", "mammoth", "docutils", "tree-sitter-python"} <= left_out
    assert distributions("api") <= distributions("manage") <= distributions("ingest")


def test_all_that_the_managing_function_may_load_is_in_its_layer() -> None:
    operations = {
        one.run.__module__ for one in load().routes.values() if one.route and one.route.function is Function.MANAGE
    }
    connectors = {entry.module for entry in importlib.metadata.entry_points(group=plugins.CONNECTORS)}
    needed = [
        "lambdas.manage_knowledge.handler",
        "opx.ingestion.pipeline",
        "opx.ingestion.reading",
        "opx.operations.forms",
    ]
    refused = modules_of(distributions("ingest") - distributions("manage"))
    assert {"PIL", "pptx", "tree_sitter_python", "pypdfium2"} <= refused
    names = [*needed, *sorted(operations), *sorted(connectors)]
    command = [sys.executable, "-c", _PROGRAM, ",".join(refused), ",".join(names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
