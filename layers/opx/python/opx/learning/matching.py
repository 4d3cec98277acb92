"""Matches an entry with a pattern in other words: one that a search finds, or one so new that a search may miss it.

Two vectors are compared, of the problem and of the solution (of a long text, the mean of its vectors), the words of the
solutions and the error messages, and two things that vectors don't distinguish: "increase the pool" and "decrease the pool"
have a cosine of 0.93 with the built-in embedder, and two errors of a product that differ in their code alone one of 0.6.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain, islice

from opx.domain.knowledge import PATTERNS_CATEGORY
from opx.domain.learning import EntryType, Pattern, StagingEntry
from opx.errors import IndexUnavailableError
from opx.learning.pattern_rows import pattern_id_of, problem_of, solution_of
from opx.learning.patterns import PatternStore
from opx.learning.similarity import errors_agree, same_technology
from opx.ports import Embedder, SearchEngine, SearchFilter, SearchRequest, Vector, cosine, mean_vector
from opx.text.fields import query_terms

CANDIDATES = 20
"""Hits of each leg that are compared with the entry."""

_MAX_SEARCHED = 1000
"""Characters of a problem that the lexical leg searches."""

MIN_PROBLEM = 0.40
MIN_MEANING = 0.50
MIN_SOLUTION = 0.85
"""Cosines of the problems and of the solutions, and the latter plus the share of words that the solutions have in common.
Problems are also the same if their errors agree, or, from `MIN_DOUBTFUL` on, if the solutions are as good as equal. With the
built-in embedder, 36 of 37 entries that repeat one of 195 patterns in other words are recognised, and none of 18 that solve
its problem in another way (docs/decisions/0070). A wrong match spoils the counts of a pattern, a missed one leaves two that
are alike."""

MIN_AGREEMENT, MIN_DOUBTFUL, EQUAL_SOLUTIONS, LEAST_WORDS = 0.8, 0.25, 1.15, 5
"""Share of an error's terms that the other has; cosine of problems whose solutions are as good as equal; their likeness from
which on they are; and the words that a solution needs for that ("restart it" solves much)."""

_NUMBER = re.compile(r"(?m)^\d+\. ")
_CODES = (
    re.compile(r"\b[A-Z][A-Z0-9]*[-_]?\d{2,}\b"),
    re.compile(r"\b[1-5]\d\d\b"),
    re.compile(r"\b[A-Za-z]+(?:Exception|Error)\b"),
    re.compile(r"\b(?:E[A-Z]{4,}|0x[0-9A-Fa-f]{4,})\b"),
)
"""Codes of products (ORA-01555), statuses of HTTP, names of exceptions, and numbers of errors (ECONNRESET, 0x80070005)."""

_OPPOSITES = tuple(
    (frozenset(one.split()), frozenset(other.split()))
    for one, other in (
        ("increas rais enlarg grow expand", "decreas reduc lower shrink"),
        ("enabl", "disabl"),
        ("upgrad", "downgrad"),
        ("add creat attach", "remov delet drop detach"),
        ("allow permit unblock grant", "deni block forbid revok"),
        ("start", "stop"),
        ("open", "close"),
        ("lock", "unlock"),
    )
)
"""Stems of actions and of their opposites."""


@dataclass(eq=False)
class PatternMatcher:
    """Finds patterns of one scope for the entries of one checkpoint.

    `documents` embeds texts (the cached embedder); `questions` is true if searches have a vector leg.
    """

    scope_key: str
    patterns: PatternStore
    _: KW_ONLY
    search: Callable[[], SearchEngine]
    documents: Callable[[], Embedder]
    questions: bool
    _fresh: dict[str, Pattern] | None = field(init=False, default=None)
    _vectors: dict[str, Vector] = field(init=False, default_factory=dict)

    def prepare(self, entries: Iterable[StagingEntry]) -> None:
        """Embeds problems and solutions of these entries in one batch. Raises `EmbeddingError`."""
        self._embed([text for entry in entries for text in (_problem_text(entry), _solution_text(entry))])

    def alike(self, entry: StagingEntry) -> Pattern | None:
        """The most similar pattern above the thresholds.

        Raises `IndexUnavailableError` if a leg of the search failed: it might have found the pattern.
        """
        return self._best(entry, self._candidates(entry))

    def _best(self, entry: StagingEntry, among: Iterable[Pattern]) -> Pattern | None:
        candidates = [one for one in among if _may_be_same(entry, one)]
        self._embed([text for one in candidates for text in (_problem_text(one), _solution_text(one))])
        rated = ((self._likeness(entry, one), one) for one in candidates)
        best = max(rated, key=lambda each: (each[0], each[1].pattern_id), default=None)
        return best[1] if best and best[0] > 0 else None

    def alike_since(self, entry: StagingEntry) -> Pattern | None:
        """As `alike`, but compares with new patterns that other processes have created since the comparison before."""
        known = self._known_fresh()
        new = {one.pattern_id: one for one in self.patterns.fresh(self.scope_key) if one.pattern_id not in known}
        known.update(new)
        return self._best(entry, new.values())

    def add(self, pattern: Pattern) -> None:
        """Adds a pattern that this checkpoint creates, to compare later entries with it."""
        self._known_fresh().setdefault(pattern.pattern_id, pattern)

    def _candidates(self, entry: StagingEntry) -> Iterator[Pattern]:
        fresh = self._known_fresh()
        found = [one for one in self._found(entry) if one not in fresh]
        return chain(fresh.values(), self.patterns.heads([self.scope_key], found))

    def _found(self, entry: StagingEntry) -> list[str]:
        """Ids of the patterns whose documents a search finds for the entry's problem."""
        self.prepare([entry])
        vector = self._vectors[_problem_text(entry)] if self.questions else None
        where = SearchFilter(scopes=(self.scope_key,), categories=(PATTERNS_CATEGORY,))
        request = SearchRequest(where, problem_of(entry)[:_MAX_SEARCHED], vector, CANDIDATES)
        response = self.search().search(request)
        legs = [leg for leg in (response.lexical, response.vector, response.fused) if leg]
        for leg in legs:
            if leg.error:
                raise IndexUnavailableError(f"patterns can't be compared with what was captured: {leg.error}")
        hits = dict.fromkeys(reference for leg in legs for reference, _ in islice(leg.hits, CANDIDATES))
        ids = (pattern_id_of(response.chunks[one].source_uri) for one in hits if one in response.chunks)
        return list(dict.fromkeys(filter(None, ids)))

    def _known_fresh(self) -> dict[str, Pattern]:
        if self._fresh is None:
            self._fresh = {one.pattern_id: one for one in self.patterns.fresh(self.scope_key)}
        return self._fresh

    def _likeness(self, entry: StagingEntry, pattern: Pattern) -> float:
        """Sum of the likenesses of problem and solution; 0 if one is too low. A gate approval has no problem to compare."""
        problem = cosine(self._vectors[_problem_text(entry)], self._vectors[_problem_text(pattern)])
        mine, theirs = _solution_text(entry), _solution_text(pattern)
        words, others = set(query_terms(mine)), set(query_terms(theirs))
        shared = len(words & others) / math.sqrt(max(len(words) * len(others), 1))
        meaning = cosine(self._vectors[mine], self._vectors[theirs])
        solution = meaning + shared
        agrees = errors_agree(entry.error_message, pattern.error_message)
        equal = solution >= EQUAL_SOLUTIONS and min(len(words), len(others)) >= LEAST_WORDS
        same_problem = (
            problem >= MIN_PROBLEM
            or entry.entry_type is EntryType.GATE_APPROVAL
            or (agrees or 0.0) >= MIN_AGREEMENT
            or (equal and problem >= MIN_DOUBTFUL and (agrees is None or agrees >= MIN_DOUBTFUL))
        )
        same_solution = meaning >= MIN_MEANING and solution >= MIN_SOLUTION
        return problem + solution if same_problem and same_solution else 0.0

    def _embed(self, texts: Sequence[str]) -> None:
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if missing:
            vectors = map(mean_vector, self.documents().embed_documents(missing))
            self._vectors.update(zip(missing, vectors, strict=True))


def _problem_text(source: StagingEntry | Pattern) -> str:
    """The text that a problem's vector is computed from."""
    problem = source.problem if isinstance(source, Pattern) else problem_of(source)
    return f"{problem}\n{source.error_message}".strip()


def _solution_text(source: StagingEntry | Pattern) -> str:
    """The text that a solution's vector is computed from: its steps without their numbers."""
    return _NUMBER.sub("", source.solution if isinstance(source, Pattern) else solution_of(source))


def _may_be_same(entry: StagingEntry, pattern: Pattern) -> bool:
    """True if they are of one type, about the same technology or gate, and neither codes nor actions contradict each other.
    A warning needn't name a technology."""
    tried = entry.entry_type is EntryType.WARNING
    kind = EntryType.FAILURE_SOLUTION if tried else entry.entry_type
    if kind is not pattern.entry_type or _folded(entry.gate_type) != _folded(pattern.gate_type):
        return False
    if not _same_technology(entry.technology, pattern) and not (tried and not entry.technology):
        return False
    return not (_other_codes(entry, pattern) or _opposed(entry, pattern))


def _same_technology(technology: str, pattern: Pattern) -> bool:
    if not technology or not pattern.technologies:
        return not technology and not pattern.technologies
    return any(same_technology(technology, known) for known in pattern.technologies)


def _other_codes(entry: StagingEntry, pattern: Pattern) -> bool:
    mine, theirs = _problem_text(entry), _problem_text(pattern)
    found = ((set(code.findall(mine)), set(code.findall(theirs))) for code in _CODES)
    return any(one and other and one.isdisjoint(other) for one, other in found)


def _opposed(entry: StagingEntry, pattern: Pattern) -> bool:
    mine, theirs = set(query_terms(_solution_text(entry))), set(query_terms(_solution_text(pattern)))
    for one, other in _OPPOSITES:
        for here, there in ((mine, theirs), (theirs, mine)):
            only_one = not here.isdisjoint(one) and here.isdisjoint(other)
            only_other = not there.isdisjoint(other) and there.isdisjoint(one)
            if only_one and only_other:
                return True
    return False


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
