"""A planner that needs no model: the same searches for the same topic and the same findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice, zip_longest

from opx.domain.results import RetrievalResult
from opx.retrieval.research.planning import (
    MAX_SUB_QUERIES,
    Gap,
    Plan,
    SoFar,
    SubQuery,
    one_line,
    same_query,
)
from opx.retrieval.research.topics import Topic, identifiers_of, read_topic, subject, telling_words
from opx.text.fields import query_terms

_COMMON_SHARE = 0.5
"""A word that more than this share of what was found has doesn't tell findings apart."""

_FEEDBACK_WORDS = 12
_FEWEST_WORDS = 2
_ANGLES = (
    ("postmortem root cause {}", "what past incidents say"),
    ("{} runbook steps to diagnose and fix", "what procedures say"),
)


class RulePlanner:
    """Searches for the topic, for each part of it, and for what is missing in other words.

    Other words come from the topic's other parts, from the title and section that came nearest, from leaving out words
    which no finding has or which all have, and from asking for an incident or a procedure. Text of documents is only ever
    words to search for.
    """

    name = "rules"

    def first(self, topic: str, *, seconds: float) -> Plan:  # noqa: ARG002 - takes none
        read = read_topic(topic)
        whole = SubQuery(topic, "the topic", read.parts[0] if len(read.parts) == 1 else "")
        if len(read.parts) == 1:
            return Plan(_distinct([whole, *_around(read)], ()), read.parts)
        each = [SubQuery(part, "a part of the topic", part) for part in read.parts]
        wanted = [whole, *each] if len(each) < MAX_SUB_QUERIES else each
        return Plan(_distinct(wanted, ()), read.parts)

    def again(self, topic: str, so_far: SoFar, *, seconds: float) -> Plan:  # noqa: ARG002
        read = read_topic(topic)
        ways = [_other_ways(read, gap, so_far) for gap in so_far.gaps]
        in_turns = chain.from_iterable(zip_longest(*ways))
        return Plan(_distinct([query for query in in_turns if query], so_far.asked))


def _distinct(queries: Sequence[SubQuery], asked: Sequence[str]) -> tuple[SubQuery, ...]:
    """As many as an iteration may have, without those that were asked already."""
    known = set(map(same_query, asked))
    kept: list[SubQuery] = []
    for query in queries:
        same = same_query(query.text)
        if query.text and same not in known:
            known.add(same)
            kept.append(query)
    return tuple(kept[:MAX_SUB_QUERIES])


def _around(topic: Topic) -> Iterator[SubQuery]:
    """Other searches for a topic of one part."""
    part = topic.parts[0]
    if topic.identifiers:
        yield SubQuery(one_line(" ".join(topic.identifiers)), "the identifiers in it", part, judged_by=part)
    yield from _angles(subject(topic.text), part)


def _other_ways(topic: Topic, gap: Gap, so_far: SoFar) -> Iterator[SubQuery]:
    """Ways to ask for what is missing, the most promising ones first."""
    part = gap.part
    yield SubQuery(one_line(part), "a part of the topic", part)
    words = telling_words(part)
    known = {term for word in words for term in query_terms(word)}
    context = [word for word in telling_words(topic.text) if not known.intersection(query_terms(word))]
    if context:
        yield SubQuery(one_line(" ".join([*words, *context])), "with the rest of the topic", part, judged_by=part)
    for result in gap.near[:2]:
        if not result.flags:
            named = one_line(" ".join([*words, *_naming(result, known)]))
            yield SubQuery(named, "as what came nearest calls it", part, from_findings=True, judged_by=part)
    yield from _fewer_words(words, gap, so_far)
    if names := identifiers_of(part):
        yield SubQuery(one_line(" ".join(names)), "the identifiers in it", part, judged_by=part)
    yield from _angles(subject(part), part)


def _angles(about: str, part: str) -> Iterator[SubQuery]:
    if about:
        yield from (SubQuery(one_line(angle.format(about)), why, part, judged_by=part) for angle, why in _ANGLES)


def _naming(result: RetrievalResult, known: set[str]) -> list[str]:
    """How a result names what it is about, as far as that is new."""
    named = telling_words(f"{result.title} {result.section} {' '.join(map(str, result.metadata.get('tags', ())))}")
    return list(islice((word for word in named if not known.intersection(query_terms(word))), _FEEDBACK_WORDS))


def _fewer_words(words: Sequence[str], gap: Gap, so_far: SoFar) -> Iterator[SubQuery]:
    """Without the words that nothing has, then also without those that most of what was found has."""
    seen = [*gap.near, *so_far.findings]
    texts = [set(query_terms(f"{result.title} {result.section} {result.content}")) for result in seen]
    if not texts:
        return
    shares = {word: sum(not text.isdisjoint(query_terms(word)) for text in texts) / len(texts) for word in words}
    there = [word for word in words if shares[word] > 0]
    if len(there) >= _FEWEST_WORDS:
        yield _shorter(there, "without words that nothing has", gap.part)
    rare = [word for word in there if shares[word] <= _COMMON_SHARE]
    if len(rare) >= _FEWEST_WORDS:
        yield _shorter(rare, "without words that most findings have", gap.part)


def _shorter(words: Sequence[str], why: str, part: str) -> SubQuery:
    return SubQuery(one_line(" ".join(words)), why, part, from_findings=True, judged_by=part)
