"""Query configuration with its limits, and bands of confidence."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from enum import StrEnum
from typing import Annotated, TypeVar

from msgspec import Meta

from opx.domain.ids import utc_time
from opx.domain.knowledge import Tier
from opx.domain.record import Record, about, derive
from opx.errors import InvalidInputError

E = TypeVar("E", bound=StrEnum)

MAX_RESULTS = 100
MAX_VALUES = 500
"""Values that a filter may list."""

MAX_QUERY_CHARACTERS = 10_000
"""Longer queries are truncated here, which the answer notes: a pasted log helps, a whole log file doesn't."""

DEFAULT_BUDGET = 1200
MIN_BUDGET, MAX_BUDGET = 10, 20_000
"""Tokens of the handover."""


class SearchMode(StrEnum):
    """Effort of a search: `fast` considers fewer candidates, `balanced` more, and `thorough` reads and reranks the
    best."""

    FAST = "fast"
    BALANCED = "balanced"
    THOROUGH = "thorough"


class Expand(StrEnum):
    """Amount of its document returned with a found passage: nothing more, the rest of its section, or all of it."""

    NONE = "none"
    SECTION = "section"
    DOCUMENT = "document"


class Fusion(StrEnum):
    """Methods of combining the lexical and the vector ranking."""

    RRF = "rrf"
    WEIGHTED_RRF = "weighted_rrf"
    MIN_MAX = "min_max"


CATEGORY = "A category, or the beginning of one's path."
TAG = "A tag: a document has at least one of those given."
RESOURCE = "A node, service, workload, queue or other resource: a document is about at least one of those given."
SERVICE = "The same as `resource`."
UPDATED_FROM = "Only documents last updated on this day, such as 2026-03-31, or later."
UPDATED_BEFORE = "Only documents last updated before this day."
EXPAND = "Amount of its document returned with each passage: nothing more, the rest of its section, or all of it."
GRAPH = "Follow the graph from the results: the answer has an `evidencePack`."
AS_OF = "Answer from the corpus as of this time, such as 2026-03-31T14:05Z."
PLAIN = "Search for all of the question as words; without it, it may hold operators, such as tag:kafka."

T = TypeVar("T")
Text100 = Annotated[str, Meta(max_length=100)]
Name = Annotated[str, Meta(min_length=1, max_length=100)]
TierName = Annotated[str, Meta(pattern=f"^({'|'.join(Tier)})$", extra_json_schema={"enum": [*Tier]})]
Several = Annotated[tuple[T, ...], Meta(max_length=MAX_VALUES)]


class QueryConfig(Record, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Filters, limits and mode of a query. Names and defaults are part of the public interface.

    Raises `InvalidInputError` for an unknown tier or mode, a `min_confidence` outside [0, 1], or `max_results` below 1;
    `max_results` above `MAX_RESULTS` is lowered to it. Lists are accepted for tuples, a string for a list of one.
    `updated_from` (included) and `updated_before` (excluded) are days, `2026-03-31`. `plain`: the question is words only;
    without it, it may hold operators (`opx.retrieval.query_language`). `expand_graph`: the answer has an evidence pack
    with nodes related to the results. `as_of` is a time in ISO 8601, kept in UTC: the answer is that of the corpus at
    that time.
    """

    tiers: Annotated[Several[TierName], about("Tiers to search.")] = ("internal", "specialized")
    categories: Annotated[Several[Name], about(CATEGORY)] | None = None
    min_confidence: Annotated[float, Meta(ge=0, le=1, description="Leave out results below this confidence.")] = 0.7
    max_results: Annotated[int, Meta(ge=1, le=MAX_RESULTS, description="Maximum number of results.")] = 10
    include_internet: Annotated[bool, about("Also search documents fetched from the internet.")] = False
    require_provenance: Annotated[bool, about("Leave out results without a source.")] = True
    tags: Annotated[Several[Name], about(TAG)] = ()
    document_id: Annotated[Text100, about("Search within this document.")] = ""
    language: Annotated[Text100, about("Only documents in this language, such as en.")] = ""
    mode: Annotated[SearchMode, about("Effort of the search.")] = SearchMode.BALANCED
    fusion: Annotated[Fusion, about("Method of combining the lexical and the vector ranking.")] | None = None
    max_chunks_per_document: Annotated[
        int, Meta(ge=1, le=MAX_RESULTS, description="Results of one document at most.")
    ] = 2
    services: Annotated[Several[Name], about("The same as `resources`.")] = ()
    resources: Annotated[Several[Name], about(RESOURCE)] = ()
    updated_from: Annotated[Text100, about(UPDATED_FROM)] = ""
    updated_before: Annotated[Text100, about(UPDATED_BEFORE)] = ""
    expand: Annotated[Expand, about(EXPAND)] = Expand.NONE
    plain: Annotated[bool, about(PLAIN)] = False
    expand_graph: Annotated[bool, about(GRAPH)] = False
    as_of: Annotated[Text100, about(AS_OF)] = ""

    def __post_init__(self) -> None:
        if not 0 <= self.min_confidence <= 1:
            raise InvalidInputError(f"min_confidence must be between 0 and 1, not {self.min_confidence}")
        if self.max_results < 1:
            raise InvalidInputError(f"max_results must be at least 1, not {self.max_results}")
        if self.max_chunks_per_document < 1:
            raise InvalidInputError(f"max_chunks_per_document must be at least 1, not {self.max_chunks_per_document}")
        for name in ("updated_from", "updated_before"):
            _check_day(name, getattr(self, name))
        derive(
            self,
            max_results=min(self.max_results, MAX_RESULTS),
            tiers=tuple(_member(Tier, tier, "tier").value for tier in _several(self.tiers)),
            tags=_several(self.tags),
            services=_several(self.services),
            resources=_several(self.resources),
            categories=None if self.categories is None else _several(self.categories),
            mode=_member(SearchMode, self.mode, "mode"),
            expand=_member(Expand, self.expand, "expand"),
            as_of=_moment("as_of", self.as_of),
            fusion=None if self.fusion is None else _member(Fusion, self.fusion, "fusion"),
        )

    @property
    def searched_tiers(self) -> tuple[Tier, ...]:
        """The tiers to search, in order of trust; internet only if `include_internet`."""
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


# -- bands


class Band(StrEnum):
    """Degrees of confidence: `sure` from a probability of 0.95 on, `likely` from 0.5 on (more likely right than wrong),
    else `weak`. `docs/confidence.md` has the measured precision of each."""

    SURE = "sure"
    LIKELY = "likely"
    WEAK = "weak"

    @property
    def least(self) -> float:
        """The lowest confidence of the band."""
        return _LEAST[self]


_LEAST = {Band.SURE: 0.95, Band.LIKELY: 0.5, Band.WEAK: 0.0}


class Basis(StrEnum):
    """The basis of a confidence: `estimated` from words, meaning and counts, or `read` by a model."""

    ESTIMATED = "estimated"
    READ = "read"


class ReaderVerdict(StrEnum):
    """Verdict of a model that read a document: it answers the question, helps with a part of it, or does neither."""

    ANSWERS = "answers"
    HELPS = "helps"
    NO = "no"


def band_of(confidence: float) -> Band:
    return next(band for band in Band if confidence >= band.least)
