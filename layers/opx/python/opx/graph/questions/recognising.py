"""Recognises questions in plain words that the graph can answer, by fixed rules, and the nodes that a question names.

A question that matches no rule, or names no node of the reader's graph, is not recognised: then search alone answers it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from opx.domain.ids import day_text, first_day, iso_time
from opx.graph.extraction.own_node import has_namespace, make_reference, read_reference, reference_of_identifier
from opx.graph.knowledge_graph import KnowledgeGraph
from opx.graph.questions.answers import GraphAnswer, Row, Uncovered, coverage, is_a
from opx.graph.questions.impact import blast_radius, changes, exposure, incidents, runbooks_for_cve, what_handles

MAX_CHARACTERS = 400
"""Characters of a recognised question; longer texts were pasted."""

COVERAGE_DAYS = 90
"""Days of firings that count, where a question about coverage gives no time."""

MOST_LOOKED_AT = 100
"""Alerts, runbooks and services each that an answer reads, because of its time limit; `opx graph coverage` reads more."""

_CHANGED = r"(?:chang\w*|deploy\w*|releas\w*|roll(?:ed|ing)?[ -]?outs?|shipped|merged|modif\w+|commit\w*)"
_WENT_WRONG = r"(?:incidents?|outages?|postmortems?)"
_UP = (
    r"(?:upstream|dependenc(?:y|ies)\s+of"
    r"|(?:that|which|what|anything|everything|things?)\s+\S+(?:\s+\S+)?\s+(?:(?:depends?|relies)\s+(?:up)?on|needs))"
)
_DOWN = r"(?:downstream|depend(?:s|ing|ents?)?\s+(?:on|of)|relies\s+on)"
_LACK = r"(?:without|(?:has|have|with|lack\w*)\s+no|don't\s+have|do\s+not\s+have|miss\w*|lack\w*)"

_CVE = r"\bCVE-\d{4}-\d{4,9}\b"
_SYSTEMS = ("service", "host", "product")
_UNUSED = (
    r"\brunbooks?\b[^.?!]*\b(?:(?:never|not?|n't)\s+(?:\w+\s+)?(?:fires?|fired|used|needed|trigger\w*)|unused)"
    r"|\bunused\s+runbooks?\b"
)
_HIT = (
    rf"(?=.*{_CVE}).*(?:\b(?:which|what)\b.*\b(?:services?|systems?|hosts?)\b|\b(?:are|is)\s+(?:we|anything|any)\b"
    r".*\b(?:affected|vulnerable|exposed|hit)\b|\b(?:affected|vulnerable|exposed)\s+(?:by|to)\b)"
)
_HANDLED = (
    r"\b(?:what|who|which\s+runbooks?)\s+(?:handles?|covers?|is\s+(?:there\s+)?for|do\s+we\s+have\s+for)\b"
    r"|\brunbooks?\s+(?:for|of)\b|\bwhat\s+(?:do|should|can|must)\s+(?:i|we)\s+do\b"
)
_BREAKS = (
    rf"\bblast\s+radius\b|\bdownstream\s+(?:of|from)\b|\b(?:what|who|which)\b[^.?!]*\b{_DOWN}\b"
    r"|\b(?:what|who|which)\b[^.?!]*\b(?:breaks?|fails?|suffers?|affected|notices?|impacted)\b.*\b(?:if|when)\b"
    r".*\b(?:down|fail(?:s|ed)?|dies|breaks?|unavailable|stops?|away)\b"
)

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

MAX_CANDIDATES = 60
"""References that are looked up for one question, in each scope of the reader."""

_MAX_WORDS = 40
_WORD = re.compile(r"[^\s,;!?()\[\]{}\"'`<>|“”„‘’]+")
_ENDS = ".:/-_"
_POSSESSIVE = re.compile(r"['’]s?\Z")
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+\Z|[\w-]+\.[a-z]{1,5}\Z")
_WORDS = """
    a about after all an and any are as at be been before behind between breaks but by came can changed change changes
    could cover covers depend depends did do does down during every everything fails fires for from goes had handles has
    have how i if in into is it its last least made me my need no not of off on one or our out over per run runbook
    runbooks runs service services shall should since so team than that the their them then there these they this those
    to today until up upstream us version was we were what when where which while who whose why will with within would
    yesterday you
"""
"""Words of questions that are rarely names."""

_COMMON = frozenset(_WORDS.split())


@dataclass(frozen=True, slots=True)
class GraphQuestion:
    """A question that the graph may answer. `now` is in seconds since the epoch."""

    graph: KnowledgeGraph
    text: str
    identifiers: Sequence[str]
    now: float

    @property
    def since(self) -> str:
        return since_when(self.text, self.now)

    def reference(self, *namespaces: str) -> str:
        """The first node of these namespaces that the question names, in the order of the namespaces; "" for none."""
        found = named_nodes(self.graph, self.text, self.identifiers)
        return next((key for namespace in namespaces for key in found if is_a(key, namespace)), "")


Rule = Callable[[GraphQuestion], GraphAnswer | None]


def recognised(graph: KnowledgeGraph, text: str, *, now: float, identifiers: Sequence[str] = ()) -> GraphAnswer | None:
    """The graph's answer to a question; None if no rule recognises it. Raises `StoreUnavailableError`."""
    if len(text) > MAX_CHARACTERS:
        return None
    for pattern, rule in _RULES:
        if pattern.search(text):
            return rule(GraphQuestion(graph, text, identifiers, now))
    return None


def _about(*namespaces: str, answer: Callable[[GraphQuestion, str], GraphAnswer]) -> Rule:
    """A rule for questions that name a node of one of these namespaces."""

    def rule(question: GraphQuestion) -> GraphAnswer | None:
        key = question.reference(*namespaces)
        return answer(question, key) if key else None

    return rule


def _lacking(field: str, what: str) -> Rule:
    """A rule for a list of the coverage report; without a time in the question, firings of `COVERAGE_DAYS` count."""

    def rule(question: GraphQuestion) -> GraphAnswer:
        since = question.since or iso_time(max(0.0, question.now - COVERAGE_DAYS * 86_400))
        found = coverage(question.graph, since=since, limit=MOST_LOOKED_AT)
        listed: tuple[Uncovered, ...] = getattr(found, field)
        rows = tuple(Row(one.key, at=one.last_fired, values={"firings": one.firings}) for one in listed)
        return GraphAnswer(what, f"{what}, with firings since {since}: {len(rows)} found", rows, bool(found.cut))

    return rule


def _changes(*, upstream: bool) -> Rule:
    return _about(
        *_SYSTEMS,
        "file",
        answer=lambda question, key: changes(question.graph, key, since=question.since, upstream=upstream),
    )


_PATTERNS: tuple[tuple[str, Rule], ...] = (
    (
        rf"\balerts?\b[^.?!]*\b{_LACK}\b[^.?!]*\brunbooks?\b|\balerts?\s+(?:are\s+)?(?:not\s+covered|uncovered)\b",
        _lacking("alerts_without_runbook", "alerts without a runbook"),
    ),
    (_UNUSED, _lacking("runbooks_never_fired", "runbooks whose alerts never fired")),
    (
        rf"\bservices?\b[^.?!]*\b{_LACK}\b[^.?!]*\brunbooks?\b",
        _lacking("services_without_runbook", "services without a runbook"),
    ),
    (
        rf"(?=.*{_CVE}).*\brunbooks?\b",
        _about("cve", answer=lambda question, key: runbooks_for_cve(question.graph, key)),
    ),
    (_HIT, _about("cve", answer=lambda question, key: exposure(question.graph, key))),
    (rf"\b{_CHANGED}\b.*\b{_UP}|\b{_UP}.*\b{_CHANGED}\b", _changes(upstream=True)),
    (
        rf"\b{_WENT_WRONG}\b.*\b{_UP}|\b{_UP}.*\b{_WENT_WRONG}\b",
        _about(*_SYSTEMS, answer=lambda question, key: incidents(question.graph, key, since=question.since)),
    ),
    (rf"\b{_CHANGED}\b.*\b(?:downstream)|\bdownstream\b.*\b{_CHANGED}\b", _changes(upstream=False)),
    (_HANDLED, _about("alert", "alert_event", answer=lambda question, key: what_handles(question.graph, key))),
    (_BREAKS, _about(*_SYSTEMS, answer=lambda question, key: blast_radius(question.graph, key))),
)
"""The first match decides: more specific patterns come first."""

_RULES = tuple((re.compile(pattern, re.IGNORECASE), rule) for pattern, rule in _PATTERNS)


def since_when(text: str, now: float) -> str:
    """The start of the period in a question, ISO 8601 in UTC: `in the last day`, `since yesterday`, `since 2026-03-31`; ""
    without one. Days begin at midnight UTC, weeks on Mondays."""
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


def candidates(text: str, identifiers: Sequence[str] = ()) -> list[str]:
    """References that the text may name, the likeliest first, at most `MAX_CANDIDATES`.

    First references, then identifiers by their shape (CVE-2024-3094, INC-12), then other names: in CamelCase an alert, a
    path a file, with digits a host; and each word and pair of words a service, a product or a team.
    """
    words = [word for word in map(_bare, _WORD.findall(text)[: 4 * _MAX_WORDS]) if word][:_MAX_WORDS]
    names = dict.fromkeys((*words, *identifiers))
    found = dict.fromkeys(read_reference(name, "") for name in names if has_namespace(name))
    found.update(dict.fromkeys(map(reference_of_identifier, names)))
    found.update(dict.fromkeys(key for name in names for key in _by_form(name)))
    plain = [word for word in words if word.casefold() not in _COMMON and len(word) > 1 and not has_namespace(word)]
    for namespace in ("service", "product", "team"):
        found.update(dict.fromkeys(make_reference(namespace, name) for name in _joined(plain, words)))
    found.pop("", None)
    return list(found)[:MAX_CANDIDATES]


def named_nodes(graph: KnowledgeGraph, text: str, identifiers: Sequence[str] = ()) -> list[str]:
    """Canonical references of the nodes in the reader's graph that the text names, the likeliest first. Raises
    `StoreUnavailableError`."""
    return list(dict.fromkeys(graph.existing(candidates(text, identifiers)).values()))


def _bare(word: str) -> str:
    return _POSSESSIVE.sub("", word).strip(_ENDS)


def _by_form(name: str) -> Iterator[str]:
    if has_namespace(name):
        return
    if _CAMEL.search(name) and "/" not in name:
        yield make_reference("alert", name)
        yield make_reference("class", name)
    if _PATH.match(name):
        yield make_reference("file", name)
        yield make_reference("runbook", name)
    if any(character.isdigit() for character in name) and not name.isdigit():
        yield make_reference("host", name)


def _joined(plain: Sequence[str], words: Sequence[str]) -> Iterable[str]:
    """Each word, and each pair of neighbours as one name: `freight desk` may be `freight-desk`."""
    yield from plain
    known = set(plain)
    yield from (f"{one}-{two}" for one, two in pairwise(words) if one in known and two in known)
