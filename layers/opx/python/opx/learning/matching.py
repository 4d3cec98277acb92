"""Which pattern an entry belongs to, if none says the same word by word: one of those that a search finds, or of those that
are so new that it may not find them yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from opx.domain.learning import CATEGORY, EntryType, Pattern, StagingEntry
from opx.errors import IndexUnavailableError
from opx.learning.likeness import MIN_PROBLEM, MIN_SOLUTION, cosine, may_be_same, problem_text, solution_text
from opx.learning.pattern_documents import pattern_id_of, problem_of
from opx.learning.patterns import PatternStore
from opx.ports import Embedder, SearchEngine, SearchFilter, SearchRequest, Vector

CANDIDATES = 20
"""Hits of each leg that are compared."""

_MAX_SEARCHED = 1000
"""Characters of a problem that are searched by their words."""


class PatternMatcher:
    """Finds patterns of one scope for the entries of one checkpoint.

    `documents` embeds texts (the cached embedder), `questions` says whether the engine is given vectors.
    """

    def __init__(
        self,
        scope_key: str,
        patterns: PatternStore,
        *,
        search: Callable[[], SearchEngine],
        documents: Callable[[], Embedder],
        questions: bool,
    ) -> None:
        self._scope_key = scope_key
        self._patterns = patterns
        self._search = search
        self._documents = documents
        self._questions = questions
        self._fresh: dict[str, Pattern] | None = None
        self._vectors: dict[str, Vector] = {}

    def prepare(self, entries: Iterable[StagingEntry]) -> None:
        """Embed what these entries say in one go. Raises `EmbeddingError`."""
        self._embed([text for entry in entries for text in (problem_text(entry), solution_text(entry))])

    def alike(self, entry: StagingEntry) -> Pattern | None:
        """The pattern that is most alike, if one is alike enough.

        Raises `IndexUnavailableError` where a leg of the search is missing: it might have found the pattern.
        """
        candidates = [one for one in self._candidates(entry) if may_be_same(entry, one)]
        self._embed([text for one in candidates for text in (problem_text(one), solution_text(one))])
        rated = ((self._likeness(entry, one), one) for one in candidates)
        best = max(rated, key=lambda each: (each[0], each[1].pattern_id), default=None)
        return best[1] if best and best[0] > 0 else None

    def made(self, pattern: Pattern) -> None:
        """Know a pattern that is being made."""
        self._known_fresh().setdefault(pattern.pattern_id, pattern)

    def _candidates(self, entry: StagingEntry) -> Iterator[Pattern]:
        fresh = self._known_fresh()
        found = [one for one in self._found(entry) if one not in fresh]
        return chain(fresh.values(), self._patterns.heads([self._scope_key], found))

    def _found(self, entry: StagingEntry) -> list[str]:
        """Ids of the patterns whose documents a search finds."""
        self.prepare([entry])
        vector = self._vectors[problem_text(entry)] if self._questions else None
        where = SearchFilter(scopes=(self._scope_key,), categories=(CATEGORY,))
        request = SearchRequest(where, problem_of(entry)[:_MAX_SEARCHED], vector, CANDIDATES)
        response = self._search().search(request)
        legs = [leg for leg in (response.lexical, response.vector, response.fused) if leg]
        for leg in legs:
            if leg.error:
                raise IndexUnavailableError(f"patterns can't be compared with what was captured: {leg.error}")
        hits = dict.fromkeys(reference for leg in legs for reference, _ in islice(leg.hits, CANDIDATES))
        ids = (pattern_id_of(response.chunks[one].source_uri) for one in hits if one in response.chunks)
        return list(dict.fromkeys(filter(None, ids)))

    def _known_fresh(self) -> dict[str, Pattern]:
        if self._fresh is None:
            self._fresh = {one.pattern_id: one for one in self._patterns.fresh(self._scope_key)}
        return self._fresh

    def _likeness(self, entry: StagingEntry, pattern: Pattern) -> float:
        """Above 0 if they are alike enough. What is approved at a gate has no problem to compare."""
        problem = cosine(self._vectors[problem_text(entry)], self._vectors[problem_text(pattern)])
        if problem < MIN_PROBLEM and entry.entry_type is not EntryType.GATE_APPROVAL:
            return 0.0
        solution = cosine(self._vectors[solution_text(entry)], self._vectors[solution_text(pattern)])
        return problem + solution if solution >= MIN_SOLUTION else 0.0

    def _embed(self, texts: Sequence[str]) -> None:
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if missing:
            self._vectors.update(zip(missing, self._documents().embed_documents(missing), strict=True))
