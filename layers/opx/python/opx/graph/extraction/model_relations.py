"""Which relations a language model may find, how it is asked for them, and what it takes to believe it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, field

from opx.graph.extraction.references import made
from opx.models.schema import ModelAnswer

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


def _one_of(names: Iterable[str]) -> Meta:
    return Meta(pattern=f"^({'|'.join(names)})$", extra_json_schema={"enum": list(names)})


class _Thing(ModelAnswer, frozen=True):
    kind: Annotated[str, _one_of(THINGS)]
    name: str


class StatedRelation(ModelAnswer, frozen=True):
    """A relation that a model gave, of the passage `id`."""

    id: int
    source: _Thing = field(name="from")
    relation: Annotated[str, _one_of(RELATIONS)]
    target: _Thing = field(name="to")
    quote: str


class Relations(ModelAnswer, frozen=True):
    relations: tuple[StatedRelation, ...]


def proven(given: StatedRelation, text: str) -> FoundRelation | None:
    """What a model gave, if the passage has these words, they have both names, and the relation is one of those that may
    be found; else None."""
    name, kinds = given.relation, (given.source.kind, given.target.kind)
    allowed = RELATIONS.get(name)
    if allowed is None or kinds[0] not in allowed[0] or kinds[1] not in allowed[1]:
        return None
    quote, passage = _folded(given.quote), _folded(text)
    ends = (given.source.name.strip(), given.target.name.strip())
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
