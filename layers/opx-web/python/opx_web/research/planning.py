"""Defines planners of a research, with their input and their plans."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from opx.domain.results import RetrievalResult
from opx.text.fields import query_terms
from opx_web.reports import Finding

MAX_SUB_QUERIES = 4
"""Searches in one iteration."""

MAX_SUB_QUERY_CHARACTERS = 200

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class SubQuery:
    """A planned search. `why` is for people. `part`: the part of the topic that it is for, "" for none in particular.

    `from_findings`: its words may come from findings, and thus from any author of a document. `judged_by`: its words differ
    from the topic's, so that a result counts by its share of the words of this text; "" if results count in full.
    """

    text: str
    why: str
    part: str = ""
    from_findings: bool = False
    judged_by: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Searches, the most important ones first; none if there is nothing left to search. `parts`: the parts of the topic; if
    empty, the parts that the searches are for."""

    sub_queries: tuple[SubQuery, ...] = ()
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A part of the topic without a good finding; `near` are the best results of its searches."""

    part: str
    near: tuple[RetrievalResult, ...] = ()


@dataclass(frozen=True, slots=True)
class SoFar:
    """The state of a research: the findings, the gaps, and the searches that were tried."""

    findings: tuple[Finding, ...] = ()
    gaps: tuple[OpenQuestion, ...] = ()
    tried: tuple[str, ...] = ()


class Planner(Protocol):
    """Plans searches. A planner is stateless: one serves all topics."""

    @property
    def name(self) -> str:
        """Name for traces: `rules`, `chat:bedrock:amazon.nova-lite-v1:0`."""

    def first(self, topic: str, *, seconds: float) -> Plan:
        """The first searches for a topic, planned within `seconds`. Raises `ModelError` if there can be no plan."""

    def again(self, topic: str, so_far: SoFar, *, seconds: float) -> Plan:
        """Searches for the gaps; none if there are no gaps, or nothing else can be searched. Raises `ModelError`."""


def one_line(text: str, most: int = MAX_SUB_QUERY_CHARACTERS) -> str:
    """Puts a query on one line without control characters, cut at a word."""
    plain = " ".join(_CONTROL.sub(" ", text[: 20 * most]).split())
    if len(plain) <= most:
        return plain
    return plain[: most + 1].rsplit(" ", 1)[0][:most]


def same_query(text: str) -> str:
    """A key that is equal for queries with the same results: the order of words, case and endings don't count."""
    return " ".join(sorted(query_terms(text))) or " ".join(text.split()).casefold()
