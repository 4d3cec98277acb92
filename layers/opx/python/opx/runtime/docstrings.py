"""Leaves out what only readers of an interactive Python need."""

from __future__ import annotations

import sys
from types import ModuleType

_OF_NUMPY = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")
"""Modules that do nothing but write the docstrings of numpy's compiled functions, an eighth of its import."""


def without_docstrings() -> None:
    """For a process of our own, before numpy is imported."""
    for name in _OF_NUMPY:
        sys.modules.setdefault(name, ModuleType(name))
