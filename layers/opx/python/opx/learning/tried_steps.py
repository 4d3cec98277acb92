"""Finds steps in passages that were tried before, and builds their warnings."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from opx.domain.documents import DocumentKey
from opx.domain.learning import StepWarning, TriedEffect
from opx.domain.outcomes import JudgedPassage
from opx.domain.scopes import GLOBAL_KEY, scope_of_key, scope_of_object
from opx.errors import InvalidScopeError
from opx.hygiene.untrusted import spoken
from opx.learning.warnings import TriedStep, incidents_of
from opx.text.analyzer import analyze

PLAIN = 4
"""Number of terms from which on a step identifies itself; `restart the pods` could be about any service."""

MAX_SHOWN = 5
"""Maximum of warnings per passage."""

_INCIDENTS_NAMED = 5
_STEP_CHARACTERS, _PROBLEM_CHARACTERS = 200, 160
_SAME_PROBLEM = 1 / 3
"""The share of a problem's terms that a passage must have to be about it."""

Holds = Callable[[str, str], str]
"""Maps scope and source of a warning to the id of its document; "" if that doesn't exist any more, or not yet."""


class TriedSteps:
    """Tried steps of one scope, indexed by terms and by referenced document."""

    def __init__(self, scope_key: str, tried: Sequence[TriedStep]) -> None:
        self._scope_key = scope_key
        together: dict[frozenset[str], list[TriedStep]] = defaultdict(list)
        self._by_reference: dict[str, list[TriedStep]] = defaultdict(list)
        for one in tried:
            together[frozenset() if one.whole else terms_of(one.step)].append(one)
            if one.reference:
                self._by_reference[one.reference].append(one)
        self._references: dict[str, dict[str, str]] = {}
        together.pop(frozenset(), None)
        self._terms = list(together)
        self._tried = [together[terms] for terms in self._terms]
        self._finder = StepFinder(self._terms)

    def warnings(self, passage: JudgedPassage, holds: Holds) -> list[StepWarning]:
        """Warnings in the order of the text, those about the document as a whole first."""
        referenced = self._referenced(passage)
        found = dict(self._in_text(passage, referenced))
        located = {one.entry_id for step in found.values() for one in step[1]}
        warnings = [self._warning(line, tried, holds) for line, tried in found.values()]
        warnings += [self._warning(None, [one], holds) for one in referenced if one.entry_id not in located]
        distinct = _distinct(warning for warning in warnings if warning is not None)
        return sorted(distinct, key=lambda one: (-1 if one.line is None else one.line, one.step))[:MAX_SHOWN]

    def _referenced(self, passage: JudgedPassage) -> list[TriedStep]:
        """Tried steps whose reference is the passage's document."""
        if not self._by_reference or not passage.key_id:
            return []
        scope_key = passage.scope_key
        if scope_key not in self._references:
            self._references[scope_key] = {
                name: reference for reference in self._by_reference for name in _key_ids(reference, scope_key)
            }
        names = (passage.key_id, passage.document_id, passage.source_uri)
        known = self._references[scope_key]
        references = dict.fromkeys(known[name] for name in names if name in known)
        return [one for reference in references for one in self._by_reference[reference]]

    def _in_text(
        self, passage: JudgedPassage, referenced: Collection[TriedStep]
    ) -> Iterator[tuple[int, tuple[int, list[TriedStep]]]]:
        """Tried steps by their index in `_tried`, with the line of the first matching step of the passage."""
        content = passage_terms(passage.content)
        possible = set(self._finder.found(content))  # most passages have none of them, and needn't be split into steps
        about = content | terms_of(f"{passage.title}\n{passage.section}")
        for step in steps_of(passage.content) if possible else ():
            for at in self._finder.found(terms_of(step.text), possible):
                possible.discard(at)
                tried = [one for one in self._tried[at] if one in referenced or _concerns(one, self._terms[at], about)]
                if tried:
                    yield at, (step.line, tried)

    def _warning(self, line: int | None, tried: Sequence[TriedStep], holds: Holds) -> StepWarning | None:
        """Warning about those of the steps whose documents exist; None if none does."""
        documents = {source: holds(self._scope_key, source) for source in {one.source for one in tried}}
        kept = sorted((one for one in tried if documents[one.source]), key=lambda one: one.at)
        if not kept:
            return None
        worst = [one for one in kept if one.effect is TriedEffect.MADE_WORSE] or kept
        return StepWarning(
            step=spoken(worst[-1].step, _STEP_CHARACTERS),
            effect=worst[-1].effect,
            incidents=tuple(spoken(name, 80) for name in incidents_of(iter(worst))[:_INCIDENTS_NAMED]),
            problem=spoken(worst[-1].problem, _PROBLEM_CHARACTERS),
            times=len({one.entry_id for one in worst}),
            line=line,
            document_id=documents[worst[-1].source],
        )


def _concerns(tried: TriedStep, terms: frozenset[str], about: frozenset[str]) -> bool:
    """True if a step with the same words is the same step: a plain one only in a passage about its technology or problem."""
    if len(terms) >= PLAIN:
        return True
    if len(terms) < 2:
        return False
    technology, problem = terms_of(tried.technology), terms_of(tried.problem)
    if not technology and not problem:
        return not tried.reference
    shared = len(problem & about)
    return bool(technology and technology <= about) or (shared >= 2 and shared >= _SAME_PROBLEM * len(problem))


def _distinct(warnings: Iterable[StepWarning]) -> Iterator[StepWarning]:
    seen: set[tuple[str, int | None, str]] = set()
    for warning in warnings:
        identity = (warning.step, warning.line, warning.document_id)
        if identity not in seen:
            seen.add(identity)
            yield warning


def _key_ids(reference: str, scope_key: str) -> Iterator[str]:
    """Key ids of the document in this scope that a reference names: by its key id, or as an object."""
    yield reference
    try:
        scope, source = scope_of_object(reference)
    except InvalidScopeError:
        return
    if scope.key in (GLOBAL_KEY, scope_key):
        yield DocumentKey(scope_of_key(scope_key), source).id


# -- splitting text into steps


COVERED = 0.85
"""Share of a tried step's terms that a step must have to count as the same."""

_BEGINS = re.compile(r"\s*(?:[-*+]\s|\d{1,3}[.)]\s|#|\||>|\$\s)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_LONGEST = 60
"""Maximum of words of a step: a longer one would match most tried steps."""


class TextStep(Struct, frozen=True):
    """A sentence, item or command, and the line (from 0) that it begins in."""

    line: int
    text: str


def steps_of(content: str) -> Iterator[TextStep]:
    """Splits Markdown into steps, in order. Lines of a paragraph or item belong together, those of code don't."""
    block: list[tuple[int, str]] = []
    in_code = False
    for number, line in enumerate(content.splitlines()):
        fence = bool(_FENCE.match(line))
        alone = in_code or fence
        if block and (alone or not line.strip() or _BEGINS.match(line)):
            yield from _sentences(block)
            block = []
        in_code ^= fence
        if line.strip() and not fence:
            block.append((number, line.strip()))
        if alone and block:
            yield from _sentences(block)
            block = []
    yield from _sentences(block)


def _sentences(block: Sequence[tuple[int, str]]) -> Iterator[TextStep]:
    text = ""
    starts: list[tuple[int, int]] = []
    for number, piece in block:
        starts.append((len(text), number))
        text += f"{piece} "
    at = 0
    for sentence in _SENTENCE.split(text.rstrip()):
        begins = text.index(sentence, at)
        at = begins + len(sentence)
        if sentence.strip():
            line = max(number for start, number in starts if start <= begins)
            yield TextStep(line, " ".join(sentence.split()[:_LONGEST]))


class StepFinder:
    """Finds the sets of terms that a given set covers by at least `COVERED`. Sets are identified by their index."""

    def __init__(self, wanted: Sequence[frozenset[str]]) -> None:
        self._wanted = wanted
        self._needed = [needed(terms) for terms in wanted]
        spread = Counter(term for terms in wanted for term in terms)
        self._by_term: dict[str, list[int]] = defaultdict(list)
        for at, terms in enumerate(wanted):
            # Terms that cover the set miss at most `len - needed` terms, so they have one of the `len - needed + 1` rarest.
            rarest = sorted(terms, key=lambda term: (spread[term], term))
            for term in rarest[: len(terms) - self._needed[at] + 1]:
                self._by_term[term].append(at)

    def found(self, terms: Collection[str], within: Collection[int] | None = None) -> list[int]:
        """Indexes of the covered sets, of all or of those `within`."""
        candidates = {at for term in terms for at in self._by_term.get(term, ())}
        if within is not None:
            candidates.intersection_update(within)
        wanted, enough = self._wanted, self._needed
        return sorted(at for at in candidates if len(wanted[at].intersection(terms)) >= enough[at])


def needed(terms: Collection[str]) -> int:
    """Number of the terms that cover them."""
    return max(math.ceil(COVERED * len(terms)), 1)


def terms_of(text: str) -> frozenset[str]:
    """Analysed terms, by which texts are compared."""
    return frozenset(analyze(text))


@lru_cache(maxsize=1024)
def passage_terms(text: str) -> frozenset[str]:
    """Cached `terms_of` a passage: popular ones are found again and again."""
    return terms_of(text)
