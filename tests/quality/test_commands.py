"""How many of the labelled commands the table of effects classes rightly.

All were labelled by one person before the table was written. The first table had 641 of 710 right, and called 3 of 271
destructive ones read. Commands in even places were looked at afterwards, those in odd places were not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opx.domain.procedures import Effect
from opx.procedures.effects import effect_table

COMMANDS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "commands" / "commands.jsonl").read_text("utf-8").splitlines()
]
EXPECTED = {"seen": 0.99, "judged": 0.93}


def classed() -> list[tuple[Effect, Effect]]:
    """What each command is labelled and classed as."""
    table = effect_table()
    return [(Effect(one["effect"]), table.classify(one["command"], one["language"]).effect) for one in COMMANDS]


@pytest.mark.parametrize(("half", "first"), [("seen", 0), ("judged", 1)])
def test_commands_are_classed_as_they_are_labelled(half: str, first: int) -> None:
    found = classed()[first::2]
    right = sum(labelled is effect for labelled, effect in found)
    assert right / len(found) >= EXPECTED[half]


def test_nothing_that_changes_anything_is_called_read() -> None:
    wrong = [
        one["command"]
        for one, (labelled, effect) in zip(COMMANDS, classed(), strict=True)
        if effect is Effect.READ and labelled is not Effect.READ
    ]
    assert wrong == []
