"""What planners are told and what they answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from opx.domain.research import Finding
from opx.domain.results import RetrievalResult
from opx.text.fields import query_terms

MAX_SUB_QUERIES = 4
"""In one iteration."""

MAX_SUB_QUERY_CHARACTERS = 200

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class SubQuery:
    """A search to be done. `why` is for people. `part`: the part of the topic that it is for, "" for none of its own.

    `from_findings`: its words may come from what was found, and thus from anybody who can write a document. `judged_by`: its
    words are not those that were asked, so that a result counts as far as it has the words of this text; "" for one whose
    results count as they are.
    """

    text: str
    why: str
    part: str = ""
    from_findings: bool = False
    judged_by: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Searches, the most important ones first; none of them: there is nothing left to ask. `parts`: of what the topic
    consists; left out, the parts that the searches are for."""

    sub_queries: tuple[SubQuery, ...] = ()
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A part of the topic without a good finding; `near` is the best that its searches gave."""

    part: str
    near: tuple[RetrievalResult, ...] = ()


@dataclass(frozen=True, slots=True)
class SoFar:
    """Where a research stands: the findings, what is missing, and which searches were done."""

    findings: tuple[Finding, ...] = ()
    gaps: tuple[OpenQuestion, ...] = ()
    asked: tuple[str, ...] = ()


class Planner(Protocol):
    """Decides what to search for. A planner keeps nothing: one serves all topics."""

    @property
    def name(self) -> str:
        """Which one it is, for traces: `rules`, `chat:bedrock:amazon.nova-lite-v1:0`."""

    def first(self, topic: str, *, seconds: float) -> Plan:
        """The first searches for a topic, in a few of `seconds`. Raises `ModelError` if there can be no plan."""

    def again(self, topic: str, so_far: SoFar, *, seconds: float) -> Plan:
        """Searches for what is missing; none if nothing is, or nothing else can be asked. Raises `ModelError`."""


def one_line(text: str, most: int = MAX_SUB_QUERY_CHARACTERS) -> str:
    """A query on one line without control characters, cut at a word."""
    plain = " ".join(_CONTROL.sub(" ", text[: 20 * most]).split())
    if len(plain) <= most:
        return plain
    return plain[: most + 1].rsplit(" ", 1)[0][:most]


def same_query(text: str) -> str:
    """Equal for queries that would find the same: the order of words, their case and their endings don't count."""
    return " ".join(sorted(query_terms(text))) or " ".join(text.split()).casefold()
