"""How likely a pattern is about what was asked: a logistic model over the cosine of both, the words that they share, and
whether their error messages agree.

A cosine by itself says little: those of questions with the pattern that they are about lie between .2 and .7, and those
with the next best pattern of the same technology reach .5. The coefficients are fitted on one half of
`tests/quality/learning` by `python -m tests.quality.learning --fit`; docs/decisions/0042-asking-for-patterns.md has what
they are worth on the other half. They belong to the built-in model of sentences.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import lru_cache

from opx.domain.learning import EntryType, Pattern
from opx.text.fields import query_terms

TASK_MODEL: Mapping[str, float] = {"intercept": -8.74, "cosine": 16.55, "overlap": 13.13, "technology": 2.14}
FAILURE_MODEL: Mapping[str, float] = {
    "intercept": -7.17,
    "cosine": 11.95,
    "overlap": 6.59,
    "error_agrees": 4.07,
    "error_differs": -3.14,
}

_VALUES = re.compile(r"[\"'`][^\"'`]{0,200}[\"'`]|\d+")
"""What differs from one occurrence of an error to the next: what is quoted, and numbers."""


@dataclass(frozen=True, slots=True)
class PatternQuestion:
    """What is asked. An empty `agent_type`, `task_type` or `technology` stands for any. `of_failure`: something failed,
    and `error_message` says how."""

    text: str
    error_message: str = ""
    agent_type: str = ""
    task_type: str = ""
    technology: str = ""
    of_failure: bool = False

    @property
    def searched(self) -> str:
        """What is searched for."""
        return f"{self.text}\n{self.error_message}" if self.error_message else self.text

    def admits(self, pattern: Pattern) -> bool:
        """Whether the pattern is for such agents, tasks and technology. What it doesn't say of itself, it is for any."""
        return (
            _is_any_of(self.agent_type, pattern.agent_types)
            and _is_any_of(self.task_type, pattern.task_types)
            and (not self.technology or not pattern.technology or same_technology(self.technology, pattern.technology))
        )


def similarity(question: PatternQuestion, pattern: Pattern, cosine: float) -> float:
    """The chance, in [0, 1], that the pattern is about what was asked."""
    model = FAILURE_MODEL if question.of_failure else TASK_MODEL
    parts = similarity_parts(question, pattern, cosine)
    z = model["intercept"] + sum(weight * parts[name] for name, weight in model.items() if name != "intercept")
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, z))))


def similarity_parts(question: PatternQuestion, pattern: Pattern, cosine: float) -> dict[str, float]:
    """The inputs of the models. `overlap` is the geometric mean of two shares: of the question's words that the pattern
    has, and of the problem's words that the question has."""
    asked, about = _terms(question.text), _terms(_about(pattern))
    has = _share(asked, _terms(_all_text(pattern)))
    agrees = errors_agree(question.error_message, pattern.error_message)
    known = bool(question.technology and pattern.technology)
    return {
        "cosine": cosine,
        "overlap": math.sqrt(has * _share(about, asked)),
        "error_agrees": agrees or 0.0,
        "error_differs": 0.0 if agrees is None else 1.0 - agrees,
        "technology": float(known and same_technology(question.technology, pattern.technology)),
    }


def errors_agree(one: str, other: str) -> float | None:
    """How much of the shorter of two error messages the other has, values aside; None if one says nothing."""
    first, second = _terms(_VALUES.sub(" ", one)), _terms(_VALUES.sub(" ", other))
    if not first or not second:
        return None
    return len(first & second) / min(len(first), len(second))


def same_problem(one: Pattern, other: Pattern) -> bool:
    """Whether two patterns are ways to deal with one problem, as far as their words tell."""
    if one.technology and other.technology and not same_technology(one.technology, other.technology):
        return False
    first, second = _terms(_about(one)), _terms(_about(other))
    shared = math.sqrt(_share(first, second) * _share(second, first))
    agrees = errors_agree(one.error_message, other.error_message)
    return shared >= 0.6 or (agrees is not None and agrees >= 0.8 and shared >= 0.2)


def same_technology(one: str, other: str) -> bool:
    """Whether all words of one name are in the other: `PostgreSQL 16` is PostgreSQL."""
    first, second = _names(one), _names(other)
    return bool(first and second) and (first <= second or second <= first)


def _is_any_of(wanted: str, there: tuple[str, ...]) -> bool:
    return not wanted or not there or _plain(wanted) in map(_plain, there)


def _plain(name: str) -> str:
    """`Backend_Engineer` and `backend engineer` are one."""
    return " ".join(re.split(r"[\W_]+", name.casefold())).strip()


def _names(technology: str) -> frozenset[str]:
    return frozenset(re.findall(r"[^\s/_,;()-]+", technology.casefold()))


def _about(pattern: Pattern) -> str:
    """What a pattern is about. That something was approved says so only in how."""
    return pattern.solution if pattern.entry_type is EntryType.GATE_APPROVAL else pattern.problem


def _all_text(pattern: Pattern) -> str:
    parts = (pattern.problem, pattern.solution, pattern.error_message, pattern.technology, *pattern.task_types)
    return "\n".join(parts)


def _share(wanted: Set[str], there: Set[str]) -> float:
    return len(wanted & there) / len(wanted) if wanted else 0.0


@lru_cache(1024)
def _terms(text: str) -> frozenset[str]:
    return frozenset(query_terms(text))
