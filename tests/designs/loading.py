"""Loads the listings of the designs, as they were recorded and as they run."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).parent
RECORDED, LISTINGS = FOLDER / "recorded", FOLDER / "listings"


def recorded(name: str) -> str:
    """A listing as the design has it."""
    (found,) = RECORDED.glob(f"{name}.*")
    return found.read_text(encoding="utf-8")


def listing(name: str, **given: Any) -> ModuleType:
    """The module of a listing, with names that its design leaves to the reader."""
    path = LISTINGS / f"{name}.py"
    module = ModuleType(f"listing_{name}")
    sys.modules[module.__name__] = module  # where dataclasses look for it
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    module.__dict__.update(given)
    return module


def methods_of(kind: type) -> dict[str, Callable[..., Any]]:
    """Public methods that a class defines."""
    return {name: found for name, found in vars(kind).items() if inspect.isfunction(found) and not name.startswith("_")}


def accepted_calls(expected: Callable[..., Any], actual: Callable[..., Any]) -> list[str]:
    """Differences by which a call of the design would be refused: names, order and defaults of its parameters."""
    given = list(inspect.signature(actual).parameters.values())
    problems = []
    for position, one in enumerate(inspect.signature(expected).parameters.values()):
        found = given[position] if position < len(given) else None
        if found is None or found.name != one.name:
            problems.append(f"parameter {position} is {one.name} in the design and {found and found.name} here")
        elif found.default != one.default:
            problems.append(f"{one.name} has the default {one.default!r} in the design and {found.default!r} here")
    required = given[len(inspect.signature(expected).parameters) :]
    problems += [f"{one.name} is required here" for one in required if one.default is one.empty]
    return problems
