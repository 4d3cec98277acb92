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
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from opx.domain.learning import RAGPattern
from opx.domain.scopes import Identity
from opx.operations.system import System
from tests.support.captures import capture_failure_solution, capture_gate_approval, capture_gate_rejection

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


CLIENT = "acme"
ORCHESTRATOR = "orchestrator"
"""Name of the orchestrator in knowledge.yaml."""

TEACHERS = ("orders", "billing", "warehouse")
ASKING = Identity(CLIENT, "second-shop", ORCHESTRATOR)
OTHER_CLIENT = Identity("globex", "shop", ORCHESTRATOR)


def teach(services: System, patterns: Iterable[Taught]) -> dict[str, str]:
    """Captures, verifies and processes the patterns; returns their names by pattern id."""
    entries: dict[str, tuple[Identity, str]] = {}
    for at, taught in enumerate(patterns):
        identity = Identity(CLIENT, TEACHERS[at % len(TEACHERS)])
        entries[taught.id] = (identity, capture(services, identity, taught))
    for project in TEACHERS:
        services.learning.checkpoints(Identity(CLIENT, project)).process_checkpoint(project, "project_completion")
    list(services.manager.work())
    return {
        services.learning.capture(identity).entry(entry).pattern_id: name for name, (identity, entry) in entries.items()
    }


def capture(services: System, identity: Identity, taught: Taught) -> str:
    """Captures a pattern; returns the id of the entry."""
    project, service = identity.project_id, services.learning.capture(identity)
    if taught.entry_type == "gate_rejection":
        feedback, revision = taught.text("human_feedback"), taught.text("revision_approach")
        return capture_gate_rejection(service, project, taught.text("gate_type"), feedback, revision)
    if taught.entry_type == "gate_approval":
        return capture_gate_approval(service, project, taught.text("gate_type"), taught.text("approved_approach"))
    return capture_failure_solution(
        service,
        project,
        taught.text("agent_type"),
        taught.text("task_type"),
        taught.text("failure_description"),
        taught.text("error_message"),
        taught.steps,
        taught.text("technology"),
        success_verified=True,
    )


def ask(services: System, case: Case, identity: Identity = ASKING, *, technology: bool = True) -> list[RAGPattern]:
    """Patterns that the querying project gets; without `technology`, a task is queried without its technology."""
    query = services.pattern_queries.of(identity)
    if case.query_kind == FAILURE:
        return query.query_for_failure(case.text, case.error_message, case.agent_type, case.task_type)
    named = case.technology if technology else ""
    return query.query_for_task(case.text, case.agent_type, case.task_type, named)
