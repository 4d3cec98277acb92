"""Which relations a language model may find, how it is asked for them, and what it takes to believe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opx.graph.extraction.references import made

MIN_QUOTE, MAX_QUOTE = 12, 400
MAX_NAME = 100

THINGS = ("service", "host", "alert", "product", "team", "user", "incident", "change")
RELATIONS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "depends_on": (frozenset(("service",)), frozenset(("service",))),
    "runs": (frozenset(("service", "host")), frozenset(("product",))),
    "hosted_on": (frozenset(("service",)), frozenset(("host",))),
    "owned_by": (frozenset(("service", "host", "product")), frozenset(("team", "user"))),
    "fires_on": (frozenset(("alert",)), frozenset(("service", "host"))),
    "affects": (frozenset(("incident", "change")), frozenset(("service", "host"))),
    "caused": (frozenset(("change",)), frozenset(("incident",))),
    "resolved_by": (frozenset(("incident",)), frozenset(("change",))),
}
"""What may be found, and between things of which types."""

INSTRUCTIONS = f"""\
You read passages of an operations team's documents, given as JSON: "passages" with "id" and "text". Find relations that \
a passage states outright between two things that it names. Kinds of things: {", ".join(THINGS)}. Relations: \
{"; ".join(f"{name} (from {'/'.join(sorted(a))} to {'/'.join(sorted(b))})" for name, (a, b) in RELATIONS.items())}. \
For each give the passage's id, the two names exactly as the passage writes them, their kinds, the relation, and as \
"quote" the words of the passage that state it, both names among them, copied without any change. Leave out what is \
only likely, what is denied, and examples. Most passages state none."""


@dataclass(frozen=True, slots=True)
class FoundRelation:
    """A relation that stood the test, as it is kept in the cache."""

    source: str
    edge_type: str
    target: str
    names: tuple[str, str]


def proven(given: Mapping[str, Any], text: str) -> FoundRelation | None:
    """What a model gave, if the passage has these words, they have both names, and the relation is one of those that may
    be found; else None."""
    name, kinds = given["relation"], (given["from"]["kind"], given["to"]["kind"])
    allowed = RELATIONS.get(name)
    if allowed is None or kinds[0] not in allowed[0] or kinds[1] not in allowed[1]:
        return None
    quote, passage = _folded(given["quote"]), _folded(text)
    ends = (given["from"]["name"].strip(), given["to"]["name"].strip())
    if not MIN_QUOTE <= len(quote) <= MAX_QUOTE or quote not in passage:
        return None
    if not all(0 < len(end) <= MAX_NAME and _names(quote, _folded(end)) for end in ends):
        return None
    source, target = made(kinds[0], ends[0]), made(kinds[1], ends[1])
    return FoundRelation(source, name, target, ends) if source and target and source != target else None


def _names(text: str, name: str) -> bool:
    """Whether the name stands there as whole words."""
    at = text.find(name) if name else -1
    while at >= 0:
        before, after = text[max(0, at - 1) : at], text[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or after.isalnum()):
            return True
        at = text.find(name, at + 1)
    return False


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


_THING = {
    "type": "object",
    "properties": {"kind": {"type": "string", "enum": list(THINGS)}, "name": {"type": "string"}},
    "required": ["kind", "name"],
    "additionalProperties": False,
}
_RELATION = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "from": _THING,
        "relation": {"type": "string", "enum": list(RELATIONS)},
        "to": _THING,
        "quote": {"type": "string"},
    },
    "required": ["id", "from", "relation", "to", "quote"],
    "additionalProperties": False,
}
SCHEMA = {
    "type": "object",
    "properties": {"relations": {"type": "array", "items": _RELATION}},
    "required": ["relations"],
    "additionalProperties": False,
}
