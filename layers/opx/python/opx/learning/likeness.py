"""When two entries tell of the same problem and the same way to deal with it, in other words.

Two vectors are compared, of the problem and of the solution, and two things that vectors don't tell apart: "increase the
pool" and "decrease the pool" have a cosine of 0.93 with the built-in embedder, and two errors of a product that differ in
their code alone one of 0.6.
"""

from __future__ import annotations

import re
from operator import mul

from opx.domain.learning import EntryType, Pattern, StagingEntry
from opx.learning.pattern_documents import problem_of, solution_of
from opx.ports import Vector
from opx.text.fields import query_terms

MIN_PROBLEM = 0.45
MIN_SOLUTION = 0.60
"""Cosines. With the built-in embedder, 28 of 37 entries that repeat one of 81 patterns in other words are recognised, and
none of 18 that solve its problem in another way (docs/decisions/0041-learning.md). A wrong match spoils the counts of a
pattern, a missed one shows two that are alike."""

_NUMBER = re.compile(r"(?m)^\d+\. ")
_CODES = (
    re.compile(r"\b[A-Z][A-Z0-9]*[-_]?\d{2,}\b"),
    re.compile(r"\b[1-5]\d\d\b"),
    re.compile(r"\b[A-Za-z]+(?:Exception|Error)\b"),
    re.compile(r"\b(?:E[A-Z]{4,}|0x[0-9A-Fa-f]{4,})\b"),
)
"""Codes of products (ORA-01555), statuses of HTTP, names of exceptions, and numbers of errors (ECONNRESET, 0x80070005)."""

_OPPOSITES = tuple(
    (frozenset(one.split()), frozenset(other.split()))
    for one, other in (
        ("increas rais enlarg grow expand", "decreas reduc lower shrink"),
        ("enabl", "disabl"),
        ("upgrad", "downgrad"),
        ("add creat attach", "remov delet drop detach"),
        ("allow permit unblock grant", "deni block forbid revok"),
        ("start", "stop"),
        ("open", "close"),
        ("lock", "unlock"),
    )
)
"""Terms of what can be done, and of its opposite."""


def problem_text(told: StagingEntry | Pattern) -> str:
    """What the vector of a problem is made of."""
    problem = told.problem if isinstance(told, Pattern) else problem_of(told)
    return f"{problem}\n{told.error_message}".strip()


def solution_text(told: StagingEntry | Pattern) -> str:
    """What the vector of a solution is made of: its steps without their numbers."""
    return _NUMBER.sub("", told.solution if isinstance(told, Pattern) else solution_of(told))


def may_be_same(entry: StagingEntry, pattern: Pattern) -> bool:
    """Whether they are of one kind, about the same technology or gate, and nothing says that they differ. A warning
    needn't name a technology."""
    tried = entry.entry_type is EntryType.WARNING
    kind = EntryType.FAILURE_SOLUTION if tried else entry.entry_type
    if kind is not pattern.entry_type or _folded(entry.gate_type) != _folded(pattern.gate_type):
        return False
    if _folded(entry.technology) != _folded(pattern.technology) and not (tried and not entry.technology):
        return False
    return not (_other_codes(entry, pattern) or _opposed(entry, pattern))


def cosine(one: Vector, other: Vector) -> float:
    """Of unit vectors."""
    return float(sum(map(mul, one, other)))


def _other_codes(entry: StagingEntry, pattern: Pattern) -> bool:
    mine, theirs = problem_text(entry), problem_text(pattern)
    found = ((set(code.findall(mine)), set(code.findall(theirs))) for code in _CODES)
    return any(one and other and one.isdisjoint(other) for one, other in found)


def _opposed(entry: StagingEntry, pattern: Pattern) -> bool:
    mine, theirs = set(query_terms(solution_text(entry))), set(query_terms(solution_text(pattern)))
    for one, other in _OPPOSITES:
        for here, there in ((mine, theirs), (theirs, mine)):
            only_one = not here.isdisjoint(one) and here.isdisjoint(other)
            only_other = not there.isdisjoint(other) and there.isdisjoint(one)
            if only_one and only_other:
                return True
    return False


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
