"""Whether what looks like an operator makes sense, and what its value means."""

from __future__ import annotations

import re

from opx.domain.knowledge import KnowledgeModel, Tier
from opx.domain.times import first_day
from opx.errors import UnknownCategoryError
from opx.retrieval.operators import Kind, Operator
from opx.retrieval.pasted import MIN_EXCLUDED
from opx.retrieval.phrases import required_groups, whole_terms

MAX_PHRASE_CHARACTERS = 300
"""A longer phrase is hardly anywhere as it stands, the less as documents are searched in pieces."""

_EXCLUDABLE = re.compile(r"[^\W\d_](?:[\w.'’-]*\w)?\Z")
_TIERS = tuple(map(str, Tier))


def problem(operator: Operator, knowledge: KnowledgeModel) -> str:
    """Why an operator can't be read; "" if it can."""
    match operator.kind:
        case Kind.OPEN_QUOTE:
            return "the quote is not closed, or touches a word"
        case Kind.PHRASE | Kind.EXCLUDED_PHRASE:
            return _problem_of_phrase(operator.value)
        case Kind.EXCLUDED_WORD:
            return _problem_of_exclusion(operator.value)
    return _problem_of_filter(operator, knowledge)


def paths_of(value: str, knowledge: KnowledgeModel) -> tuple[str, ...]:
    """The paths of a category and of all below it; none if it doesn't exist."""
    try:
        return knowledge.within(value.strip("/").casefold())
    except UnknownCategoryError:
        return ()


def _problem_of_phrase(value: str) -> str:
    if not any(character.isalnum() for character in value):
        return "there is no word between the quotes"
    return f"a phrase has at most {MAX_PHRASE_CHARACTERS} characters" if len(value) > MAX_PHRASE_CHARACTERS else ""


def _problem_of_exclusion(word: str) -> str:
    if not _EXCLUDABLE.match(word):
        return 'only words and "quoted phrases" can be excluded'
    if len(word) < MIN_EXCLUDED:
        return f'so short a word is rather an option of a command: -"{word}" excludes it'
    return "" if whole_terms(word) else "a word that is everywhere can't be excluded"


def _problem_of_filter(operator: Operator, knowledge: KnowledgeModel) -> str:
    kind, value = operator.kind, operator.value
    if not value:
        return f"{kind}: needs a value right after it"
    if not operator.quoted and ('"' in value or value.startswith("//")):
        return "the quote is not closed, or touches a word" if '"' in value else "this looks like an address"
    return _problem_of_value(kind, value, knowledge)


def _problem_of_value(kind: Kind, value: str, knowledge: KnowledgeModel) -> str:
    match kind:
        case Kind.BEFORE | Kind.AFTER if first_day(value) is None:
            return "not a day, month or year such as 2026-03-31, 2026-03 or 2026"
        case Kind.TIER if value.casefold() not in _TIERS:
            return f"unknown tier; there are {', '.join(_TIERS)}"
        case Kind.CATEGORY if not paths_of(value, knowledge):
            return "unknown category"
        case Kind.TITLE if not required_groups(value):
            return "there is no word in it to look for"
    return ""
