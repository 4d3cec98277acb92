"""Programs of the repository that are no part of the library."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

_FOLDER = Path(__file__).resolve().parents[2] / ".ci"


def program(name: str) -> ModuleType:
    """The module `.ci/<name>.py`."""
    spec = importlib.util.spec_from_file_location(name, _FOLDER / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
