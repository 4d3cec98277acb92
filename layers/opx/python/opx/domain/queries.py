"""What can be asked, and within which bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import TypeVar

from opx.domain.knowledge import Tier
from opx.domain.times import utc_time
from opx.errors import InvalidInputError

E = TypeVar("E", bound=StrEnum)

MAX_RESULTS = 100
MAX_QUERY_CHARACTERS = 10_000
"""Longer queries are cut here, and the answer says so: a pasted log helps, a whole log file doesn't."""


class SearchMode(StrEnum):
    """How much work a question is worth: `fast` looks at fewer candidates, `balanced` at more, and `thorough` reads the
    best of them again to rank them anew."""

    FAST = "fast"
    BALANCED = "balanced"
    THOROUGH = "thorough"


class Expand(StrEnum):
    """What of its document comes with a passage that was found: nothing, the rest of its section, or all of it."""

    NONE = "none"
    SECTION = "section"
    DOCUMENT = "document"


class Fusion(StrEnum):
    """How the two result lists become one."""

    RRF = "rrf"
    WEIGHTED_RRF = "weighted_rrf"
    MIN_MAX = "min_max"


@dataclass(frozen=True, slots=True)
class QueryConfig:
    """How to answer a query. Names and defaults are those that callers already use.

    Raises `InvalidInputError` for an unknown tier or mode, a `min_confidence` outside [0, 1], or `max_results`
    below 1; `max_results` above `MAX_RESULTS` is lowered to it. Lists are taken for tuples, a text for a list of one.
    `updated_from` (included) and `updated_before` (excluded) are days, `2026-03-31`. `plain`: the question is words and
    nothing else; without it, it may hold what `opx.retrieval.query_language` reads. `expand_graph`: the answer has an
    evidence pack, with what is related to what was found. `as_of` is a time in ISO 8601, kept in UTC: what would have been
    answered then.
    """

    tiers: tuple[str, ...] = ("internal", "specialized")
    categories: tuple[str, ...] | None = None
    min_confidence: float = 0.7
    max_results: int = 10
    include_internet: bool = False
    require_provenance: bool = True
    tags: tuple[str, ...] = ()
    document_id: str = ""
    language: str = ""
    mode: SearchMode = SearchMode.BALANCED
    fusion: Fusion | None = None
    max_chunks_per_document: int = 2
    services: tuple[str, ...] = ()
    updated_from: str = ""
    updated_before: str = ""
    expand: Expand = Expand.NONE
    plain: bool = False
    expand_graph: bool = False
    as_of: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.min_confidence <= 1:
            raise InvalidInputError(f"min_confidence must be between 0 and 1, not {self.min_confidence}")
        if self.max_results < 1:
            raise InvalidInputError(f"max_results must be at least 1, not {self.max_results}")
        if self.max_chunks_per_document < 1:
            raise InvalidInputError(f"max_chunks_per_document must be at least 1, not {self.max_chunks_per_document}")
        object.__setattr__(self, "max_results", min(self.max_results, MAX_RESULTS))
        object.__setattr__(self, "tiers", _several(self.tiers))
        object.__setattr__(self, "tags", _several(self.tags))
        object.__setattr__(self, "services", _several(self.services))
        if self.categories is not None:
            object.__setattr__(self, "categories", _several(self.categories))
        object.__setattr__(self, "mode", _member(SearchMode, self.mode, "mode"))
        object.__setattr__(self, "expand", _member(Expand, self.expand, "expand"))
        for name in ("updated_from", "updated_before"):
            _check_day(name, getattr(self, name))
        object.__setattr__(self, "as_of", _moment("as_of", self.as_of))
        if self.fusion is not None:
            object.__setattr__(self, "fusion", _member(Fusion, self.fusion, "fusion"))
        for tier in self.tiers:
            _member(Tier, tier, "tier")

    @property
    def searched_tiers(self) -> tuple[Tier, ...]:
        """The tiers to search, in order of trust; internet only when it is both wanted and enabled."""
        wanted = {Tier(tier) for tier in self.tiers}
        if self.include_internet:
            wanted.add(Tier.INTERNET)
        else:
            wanted.discard(Tier.INTERNET)
        return tuple(tier for tier in Tier if tier in wanted)


def _several(values: str | Iterable[str]) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else tuple(values)


def _check_day(name: str, value: str) -> None:
    try:
        if value:
            date.fromisoformat(value)
    except ValueError:
        raise InvalidInputError(f"{name} must be a day such as 2026-03-31, not {value!r}") from None


def _moment(name: str, value: str) -> str:
    found = utc_time(value) if value else ""
    if found is None:
        raise InvalidInputError(f"{name} must be a time such as 2026-03-31T14:05Z, not {value!r}")
    return found


def _member(kind: type[E], value: str, name: str) -> E:
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(kind)
        raise InvalidInputError(f"unknown {name} {value!r}; allowed: {allowed}") from None
