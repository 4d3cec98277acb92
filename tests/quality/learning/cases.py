"""The labelled cases.

`patterns.jsonl` are captures of projects, `questions.jsonl` queries of others: in other words, about the same (`expects`
names the pattern) or about something else of the same kind that no pattern helps with. `decisions.jsonl` and
`decision_questions.jsonl` are more of both, mostly of decisions at gates and of tasks that they should be remembered for; ids
of questions begin with `same`, `near` (work on the same thing that the pattern says nothing about) or `far` (the same words,
another subject). `repeats.jsonl` is captured anew by others: the same solution in other words (`same`), or another one for
the same problem. All were written before anything was measured. Every other pattern is held out, with whatever is about it:
such questions are judged, and neither thresholds nor coefficients have seen them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ALIKE = (
    ("rej-big-bang-schema", "app-expand-contract"),
    ("rej-pii-signup", "gate-pii-logs"),
    ("rej-hardcoded-text", "app-icu"),
    ("gate-payments-rollout", "app-canary-slo"),
    ("rej-flag-missing", "app-canary-slo"),
    ("gate-dr-approved", "app-pitr-drill"),
    ("gate-migration-plan", "rej-no-rollback"),
    ("rej-mock-everything", "app-consumer-contract"),
    ("gate-cost", "rej-always-on"),
    ("rej-cascade", "app-erasure"),
)
"""Patterns with the same advice: whichever is returned helps. By their texts alone, and regardless of what is returned."""

TUNED, HELD_OUT = "tuned", "held out"
FAILURE, TASK = "failure", "task"


@dataclass(frozen=True, slots=True)
class Taught:
    """A capture of a project, and the name of its pattern here."""

    id: str
    facts: dict[str, Any]

    @property
    def entry_type(self) -> str:
        return str(self.facts.get("entry_type", "failure_solution"))

    def text(self, name: str) -> str:
        return str(self.facts.get(name, ""))

    @property
    def steps(self) -> list[str]:
        return list(self.facts.get("solution_steps", ()))


@dataclass(frozen=True, slots=True)
class Case:
    """A question. `about` is the pattern that it is about, or which it is like; `expects` is "" if none helps."""

    id: str
    query_kind: str
    text: str
    about: str
    expects: str
    error_message: str = ""
    agent_type: str = ""
    task_type: str = ""
    technology: str = ""

    @property
    def half(self) -> str:
        return half_of(self.about)

    @property
    def helps(self) -> frozenset[str]:
        """The patterns that help: the expected one, and those with the same advice."""
        pairs = (set(pair) for pair in ALIKE if self.expects in pair)
        return frozenset({self.expects} if self.expects else ()).union(*pairs)

    @property
    def entry_type(self) -> str:
        """The type of the pattern that it is about."""
        return _types()[self.about]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repeated capture. `same`: a solution of the pattern `about` in other words; else another solution of its problem."""

    about: str
    same: bool
    taught: Taught

    @property
    def half(self) -> str:
        return half_of(self.about)


def patterns() -> list[Taught]:
    return [Taught(str(row["id"]), row) for row in (*_rows("patterns"), *_rows("decisions"))]


def cases() -> list[Case]:
    return [
        Case(
            expects=next(iter(row["expects"]), ""),
            query_kind=row["asks"],
            **{name: row[name] for name in row if name not in ("expects", "asks")},
        )
        for row in (*_rows("questions"), *_rows("decision_questions"))
    ]


def repeats() -> list[Repeat]:
    return [Repeat(row["about"], row["same"], Taught(row["id"], row)) for row in _rows("repeats")]


def half_of(pattern: str) -> str:
    """Neighbours, which are often of one technology, are in different halves."""
    return (TUNED, HELD_OUT)[_positions()[pattern] % 2]


@cache
def _types() -> dict[str, str]:
    return {pattern.id: pattern.entry_type for pattern in patterns()}


@cache
def _positions() -> dict[str, int]:
    return {pattern.id: at for at, pattern in enumerate(patterns())}


def _rows(name: str) -> list[dict[str, Any]]:
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
