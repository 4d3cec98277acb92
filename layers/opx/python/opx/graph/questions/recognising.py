"""Questions in plain words that the graph has an answer to, by fixed rules.

What doesn't fit a rule, or names nothing that the reader's graph knows, is not recognised: then it is a question to the text
alone, as any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from opx.domain.times import day_text, first_day, iso_time
from opx.graph.coverage import Uncovered, coverage
from opx.graph.questions.answers import GraphAnswer, Row, is_a
from opx.graph.questions.impact import affected, blast_radius, changes, incidents, runbooks_for_cve, what_handles
from opx.graph.questions.naming import named

if TYPE_CHECKING:
    from opx.graph.knowledge_graph import KnowledgeGraph

MAX_CHARACTERS = 400
"""Of a question that is recognised; what is longer has been pasted."""

COVERAGE_DAYS = 90
"""Within which an alert has fired, where a question about runbooks that never do doesn't say since when."""

MOST_LOOKED_AT = 100
"""Alerts, runbooks and services each, within the time that an answer has; `opx graph coverage` looks at more."""

_CHANGED = r"(?:chang\w*|deploy\w*|releas\w*|roll(?:ed|ing)?[ -]?outs?|shipped|merged|modif\w+|commit\w*)"
_WENT_WRONG = r"(?:incidents?|outages?|postmortems?)"
_UP = (
    r"(?:upstream|dependenc(?:y|ies)\s+of"
    r"|(?:that|which|what|anything|everything|things?)\s+\S+(?:\s+\S+)?\s+(?:(?:depends?|relies)\s+(?:up)?on|needs))"
)
_DOWN = r"(?:downstream|depend(?:s|ing|ents?)?\s+(?:on|of)|relies\s+on)"
_LACK = r"(?:without|(?:has|have|with|lack\w*)\s+no|don't\s+have|do\s+not\s+have|miss\w*|lack\w*)"

_CVE = re.compile(r"\bCVE-\d{4}-\d{4,9}\b", re.IGNORECASE)

_UNITS = {"minute": 60, "hour": 3600, "day": 86_400, "week": 7 * 86_400, "month": 30 * 86_400}
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "few": 3, "couple of": 2}
_SPAN = re.compile(
    r"\b(?:last|past|previous|within|in|recent)\s+(?:the\s+)?(?:last\s+|past\s+)?"
    r"(?:(\d{1,4}|an?|one|two|three|few|couple\s+of)\s+)?(minute|hour|day|week|month)s?\b(?!\s+ago)",
    re.IGNORECASE,
)
_AGO = re.compile(r"\b(\d{1,4}|an?|one|two|three)\s+(minute|hour|day|week|month)s?\s+ago\b", re.IGNORECASE)
_SHORT = re.compile(r"\b(?:last|past)\s+(\d{1,4})\s*(m|h|d|w)\b", re.IGNORECASE)
_SHORT_UNITS = {"m": "minute", "h": "hour", "d": "day", "w": "week"}
_SINCE = re.compile(r"\b(?:since|after|from)\s+(\d{4}-\d{1,2}-\d{1,2})(?:[T ](\d{2}:\d{2})(?::\d{2})?Z?)?")
_DAY = re.compile(r"\b(?:(yesterday)|(today|this\s+morning)|(this\s+week)|(tonight|last\s+night))\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that may be one of the graph's. `now` is in seconds since the epoch."""

    graph: KnowledgeGraph
    text: str
    identifiers: Sequence[str]
    now: float

    def reference(self, *namespaces: str) -> str:
        """The first thing of one of these kinds that the question names, "" for none; kinds in their order."""
        found = named(self.graph, self.text, self.identifiers)
        return next((key for namespace in namespaces for key in found if is_a(key, namespace)), "")


Rule = Callable[[Asked], GraphAnswer | None]


def recognised(graph: KnowledgeGraph, text: str, *, now: float, identifiers: Sequence[str] = ()) -> GraphAnswer | None:
    """What the graph answers to the question; None if it is none of those that it knows. Raises
    `StoreUnavailableError`."""
    if len(text) > MAX_CHARACTERS:
        return None
    for pattern, rule in _RULES:
        if pattern.search(text):
            return rule(Asked(graph, text, identifiers, now))
    return None


def _changes(asked: Asked, *, upstream: bool) -> GraphAnswer | None:
    key = asked.reference("service", "host", "product", "file")
    if not key:
        return None
    return changes(asked.graph, key, since=since_when(asked.text, asked.now), upstream=upstream)


def _incidents(asked: Asked) -> GraphAnswer | None:
    key = asked.reference("service", "host", "product")
    return incidents(asked.graph, key, since=since_when(asked.text, asked.now)) if key else None


def _runbooks_for_cve(asked: Asked) -> GraphAnswer | None:
    key = asked.reference("cve")
    return runbooks_for_cve(asked.graph, key) if key else None


def _affected(asked: Asked) -> GraphAnswer | None:
    key = asked.reference("cve")
    return affected(asked.graph, key) if key else None


def _handles(asked: Asked) -> GraphAnswer | None:
    key = asked.reference("alert", "alert_event")
    return what_handles(asked.graph, key) if key else None


def _radius(asked: Asked) -> GraphAnswer | None:
    key = asked.reference("service", "host", "product")
    return blast_radius(asked.graph, key) if key else None


def _lacking(asked: Asked, field: str, what: str) -> GraphAnswer:
    """A list of the coverage report; firings of the last `COVERAGE_DAYS` count where the question doesn't say since when."""
    since = since_when(asked.text, asked.now) or iso_time(max(0.0, asked.now - COVERAGE_DAYS * 86_400))
    found = coverage(asked.graph, since=since, limit=MOST_LOOKED_AT)
    listed: tuple[Uncovered, ...] = getattr(found, field)
    rows = tuple(Row(one.key, at=one.last_fired, values={"firings": one.firings}) for one in listed)
    return GraphAnswer(what, f"{what}, with firings since {since}: {len(rows)} found", rows, bool(found.cut))


def _rule(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_RULES: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (
        _rule(
            rf"\balerts?\b[^.?!]*\b{_LACK}\b[^.?!]*\brunbooks?\b|\balerts?\s+(?:are\s+)?(?:not\s+covered|uncovered)\b"
        ),
        lambda asked: _lacking(asked, "alerts_without_runbook", "alerts without a runbook"),
    ),
    (
        _rule(
            r"\brunbooks?\b[^.?!]*\b(?:(?:never|not?|n't)\s+(?:\w+\s+)?(?:fires?|fired|used|needed|trigger\w*)|unused)|\bunused\s+runbooks?\b"
        ),
        lambda asked: _lacking(asked, "runbooks_never_fired", "runbooks whose alerts never fired"),
    ),
    (
        _rule(rf"\bservices?\b[^.?!]*\b{_LACK}\b[^.?!]*\brunbooks?\b"),
        lambda asked: _lacking(asked, "services_without_runbook", "services without a runbook"),
    ),
    (_rule(rf"(?=.*{_CVE.pattern}).*\brunbooks?\b"), _runbooks_for_cve),
    (
        _rule(
            rf"(?=.*{_CVE.pattern}).*(?:\b(?:which|what)\b.*\b(?:services?|systems?|hosts?)\b|\b(?:are|is)\s+(?:we|anything|any)\b"
            r".*\b(?:affected|vulnerable|exposed|hit)\b|\b(?:affected|vulnerable|exposed)\s+(?:by|to)\b)"
        ),
        _affected,
    ),
    (_rule(rf"\b{_CHANGED}\b.*\b{_UP}|\b{_UP}.*\b{_CHANGED}\b"), lambda asked: _changes(asked, upstream=True)),
    (_rule(rf"\b{_WENT_WRONG}\b.*\b{_UP}|\b{_UP}.*\b{_WENT_WRONG}\b"), _incidents),
    (
        _rule(rf"\b{_CHANGED}\b.*\b(?:downstream)|\bdownstream\b.*\b{_CHANGED}\b"),
        lambda asked: _changes(asked, upstream=False),
    ),
    (
        _rule(
            r"\b(?:what|who|which\s+runbooks?)\s+(?:handles?|covers?|is\s+(?:there\s+)?for|do\s+we\s+have\s+for)\b"
            r"|\brunbooks?\s+(?:for|of)\b|\bwhat\s+(?:do|should|can|must)\s+(?:i|we)\s+do\b"
        ),
        _handles,
    ),
    (
        _rule(
            rf"\bblast\s+radius\b|\bdownstream\s+(?:of|from)\b|\b(?:what|who|which)\b[^.?!]*\b{_DOWN}\b"
            r"|\b(?:what|who|which)\b[^.?!]*\b(?:breaks?|fails?|suffers?|affected|notices?|impacted)\b.*\b(?:if|when)\b"
            r".*\b(?:down|fail(?:s|ed)?|dies|breaks?|unavailable|stops?|away)\b"
        ),
        _radius,
    ),
)
"""The first that fits decides: what is more special comes first."""


def since_when(text: str, now: float) -> str:
    """From when on, ISO 8601 in UTC: `in the last day`, `since yesterday`, `since 2026-03-31`; "" if the text doesn't
    say. Days begin at midnight UTC, weeks on Mondays."""
    match = _SINCE.search(text)
    if match and (day := first_day(match[1])) is not None:
        return f"{day_text(day)}T{match[2] or '00:00'}:00Z"
    for pattern in (_SPAN, _AGO):
        if match := pattern.search(text):
            return iso_time(max(0.0, now - _number(match[1]) * _UNITS[match[2].lower()]))
    if match := _SHORT.search(text):
        return iso_time(max(0.0, now - int(match[1]) * _UNITS[_SHORT_UNITS[match[2].lower()]]))
    return _named_day(text, now)


def _named_day(text: str, now: float) -> str:
    match = _DAY.search(text)
    if not match:
        return ""
    midnight = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    back = 1 if match[1] or match[4] else midnight.weekday() if match[3] else 0
    return iso_time((midnight - timedelta(days=back)).timestamp())


def _number(text: str | None) -> int:
    word = " ".join((text or "a").lower().split())
    return int(word) if word.isdigit() else _NUMBERS[word]
