"""Similarity of a query and a pattern: the probability that the pattern is about the query.

A small logistic model for each kind of query and type of entry. The coefficients are in `similarity.json` with the data, the
date and the command that made them; docs/learning.md has the method and its figures.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from opx.domain.learning import GATES, EntryType, Pattern
from opx.learning.review_topics import ReviewTopic, topic_of
from opx.retrieval.confidence import LinearModel
from opx.text.fields import query_terms

FAILURE = "failure"
"""Name of the model of queries about failures; those of queries about work have the name of the entry's type."""

INPUTS: Mapping[str, tuple[str, ...]] = {
    FAILURE: ("cosine", "overlap", "error_agrees", "error_differs"),
    EntryType.FAILURE_SOLUTION.value: ("cosine", "overlap", "technology"),
    EntryType.GATE_REJECTION.value: ("cosine", "overlap", "work"),
    EntryType.GATE_APPROVAL.value: ("cosine", "overlap", "work"),
}
"""Inputs of the models, by name."""

_VALUES = re.compile(r"[\"'`][^\"'`]{0,200}[\"'`]|\d+")
"""Values that differ between occurrences of an error: quoted strings and numbers."""


@dataclass(frozen=True, slots=True)
class PatternQuestion:
    """A query for patterns. An empty `agent_type`, `task_type`, `technology` or `gate_type` stands for any. `of_failure`: the
    query is about a failure with this `error_message`."""

    text: str
    error_message: str = ""
    agent_type: str = ""
    task_type: str = ""
    technology: str = ""
    of_failure: bool = False
    gate_type: str = ""

    @property
    def searched(self) -> str:
        """The text of the search."""
        return f"{self.text}\n{self.error_message}" if self.error_message else self.text

    def admits(self, pattern: Pattern) -> bool:
        """True if the pattern is for such agents, tasks and technology; a field that it leaves empty matches any."""
        if self.gate_type and plain_name(self.gate_type) != plain_name(pattern.gate_type):
            return False
        return (
            _is_any_of(self.agent_type, pattern.agent_types)
            and _is_any_of(self.task_type, pattern.task_types)
            and (
                not self.technology
                or not pattern.technologies
                or _any_technology(self.technology, pattern.technologies)
            )
        )


def similarity(question: PatternQuestion, pattern: Pattern, cosine: float, work: float | None = None) -> float:
    """Probability, in [0, 1], that the pattern is about the query. `work` is the query's cosine with the work that raises
    the pattern's topic; None if that isn't known."""
    name = model_of(question, pattern)
    model = models()[name]
    parts = similarity_parts(question, pattern, cosine, work)
    return model.probability({one: _mean(model, one) if value is None else value for one, value in parts.items()})


def model_of(question: PatternQuestion, pattern: Pattern) -> str:
    """Name of the model for such a query and such a pattern."""
    return FAILURE if question.of_failure else pattern.entry_type.value


@cache
def models() -> Mapping[str, LinearModel]:
    """The models by name."""
    data = json.loads(Path(__file__).with_name("similarity.json").read_bytes())
    return {name: LinearModel.from_json(model) for name, model in data["models"].items()}


def _mean(model: LinearModel, name: str) -> float:
    """The value of an input that moves the model neither way."""
    return model.parts[name][1] if name in model.parts else 0.0


def similarity_parts(
    question: PatternQuestion, pattern: Pattern, cosine: float, work: float | None = None
) -> dict[str, float | None]:
    """The inputs of the models. `overlap` is the geometric mean of two shares: of the query's words that the pattern
    has, and of the problem's words that the query has. `work` is 0 for a pattern without a topic."""
    queried, about = _terms(question.text), _terms(_about(pattern))
    has = _share(queried, _terms(_all_text(pattern)))
    agrees = errors_agree(question.error_message, pattern.error_message)
    known = bool(question.technology and pattern.technologies)
    return {
        "cosine": cosine,
        "overlap": math.sqrt(has * _share(about, queried)),
        "error_agrees": agrees or 0.0,
        "error_differs": 0.0 if agrees is None else 1.0 - agrees,
        "technology": float(known and _any_technology(question.technology, pattern.technologies)),
        "work": work if topic_of_pattern(pattern) else 0.0,
    }


def topic_of_pattern(pattern: Pattern) -> ReviewTopic | None:
    """The topic of reviews that a decision at a gate is about."""
    return topic_of(f"{_about(pattern)}\n{pattern.solution}") if pattern.entry_type in GATES else None


def errors_agree(one: str, other: str) -> float | None:
    """Share of the shorter error message's terms that the other has, values aside; None if one has no terms."""
    first, second = _terms(_VALUES.sub(" ", one)), _terms(_VALUES.sub(" ", other))
    if not first or not second:
        return None
    return len(first & second) / min(len(first), len(second))


def same_problem(one: Pattern, other: Pattern) -> bool:
    """True if the words and error messages of two patterns are of one problem."""
    named = one.technologies and other.technologies
    if named and not any(_any_technology(technology, other.technologies) for technology in one.technologies):
        return False
    first, second = _terms(_about(one)), _terms(_about(other))
    shared = math.sqrt(_share(first, second) * _share(second, first))
    agrees = errors_agree(one.error_message, other.error_message)
    return shared >= 0.6 or (agrees is not None and agrees >= 0.8 and shared >= 0.2)


def same_technology(one: str, other: str) -> bool:
    """True if all words of one name are in the other: `PostgreSQL 16` is PostgreSQL."""
    first, second = _names(one), _names(other)
    return bool(first and second) and (first <= second or second <= first)


def _is_any_of(wanted: str, there: tuple[str, ...]) -> bool:
    return not wanted or not there or plain_name(wanted) in map(plain_name, there)


def plain_name(name: str) -> str:
    """`Backend_Engineer` and `backend engineer` are one."""
    return " ".join(re.split(r"[\W_]+", name.casefold())).strip()


def _any_technology(technology: str, known: tuple[str, ...]) -> bool:
    return any(same_technology(technology, one) for one in known)


def _names(technology: str) -> frozenset[str]:
    return frozenset(re.findall(r"[^\s/_,;()-]+", technology.casefold()))


def _about(pattern: Pattern) -> str:
    """The text that states the pattern's subject: the problem, but for a gate approval, whose solution states it."""
    if pattern.entry_type is EntryType.GATE_APPROVAL:
        return pattern.solution
    if pattern.entry_type is EntryType.GATE_REJECTION:  # without "Rejected at …", which says nothing about the subject
        return pattern.problem.partition(": ")[2] or pattern.problem
    return pattern.problem


def _all_text(pattern: Pattern) -> str:
    parts = (pattern.problem, pattern.solution, pattern.error_message, *pattern.technologies, *pattern.task_types)
    return "\n".join(parts)


def _share(wanted: Set[str], there: Set[str]) -> float:
    return len(wanted & there) / len(wanted) if wanted else 0.0


@lru_cache(1024)
def _terms(text: str) -> frozenset[str]:
    return frozenset(query_terms(text))
