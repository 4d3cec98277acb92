"""Searches both legs in one round trip, fuses them, collapses near-duplicates and limits the chunks per document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import dropwhile
from typing import TypeVar

from msgspec import Struct, field

from opx.domain.knowledge import NO_KNOWLEDGE, WARNINGS_CATEGORY, KnowledgeModel
from opx.domain.queries import Fusion, QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.hygiene.near_duplicates import GroupsOfCopies
from opx.ports import Leg, SearchEngine, SearchFilter, SearchRequest, SearchResponse, Vector
from opx.retrieval.fusion import DEFAULT_FUSION, Shortlist, fuse, lexical_weight, term_weights
from opx.text.analyzer import ENGLISH
from opx.text.fields import words

# -- near-duplicates: one of them is shown, the others are named with it

H = TypeVar("H")


def collapse_near_duplicates(hits: Sequence[H], indexed: Callable[[H], IndexedChunk]) -> Iterator[tuple[H, H, list[H]]]:
    """Yields for each group of near-duplicates, in the order of their first: the first hit, the most trusted one (ties: the
    first of them), and all others than that. `indexed` returns the chunk of a hit."""
    for group in groups_of_copies([indexed(hit) for hit in hits]):
        if len(group) == 1:
            yield hits[group[0]], hits[group[0]], []
            continue
        members = [hits[at] for at in group]
        chosen = max(members, key=lambda hit: indexed(hit).trust)
        yield members[0], chosen, [hit for hit in members if hit is not chosen]


def groups_of_copies(chunks: Sequence[IndexedChunk]) -> list[list[int]]:
    """Positions of near-duplicate chunks, group by group, in the order of each group's first.

    A chunk belongs to the first group whose first chunk it is a copy of. Chunks without a fingerprint (indexed before
    fingerprints existed) are only grouped by chunk id.
    """
    groups: list[list[int]] = []
    by_chunk: dict[str, int] = {}
    known = GroupsOfCopies()
    for position, indexed in enumerate(chunks):
        chunk, new = indexed.chunk, len(groups)
        at = by_chunk.get(chunk.chunk_id)
        if at is None:
            at = known.place(chunk, int(indexed.fingerprint, 16), new) if indexed.fingerprint else new
            by_chunk[chunk.chunk_id] = at
        if at == new:
            groups.append([])
        groups[at].append(position)
    return groups


# -- search

Accepts = Callable[[IndexedChunk], bool]
"""True if a hit may be shown."""

DEPTH = {SearchMode.FAST: 30, SearchMode.BALANCED: 100, SearchMode.THOROUGH: 100}
"""Candidates of each leg. nDCG@10 is the same within .002 from 30 to 400; see docs/decisions/0003-fusion.md."""

JUDGED = 20
"""Documents that are judged one by one; the following ones keep their order."""

SPARE_DOCUMENTS = 8
"""Documents that are read beyond those that are wanted, as some are copies of others or may not be shown."""

DOCUMENTS_READ = JUDGED + SPARE_DOCUMENTS
"""Documents whose hits are read, at least. Measured: docs/decisions/0103-reading-what-is-judged.md."""


class FusedHit(Struct, frozen=True, gc=False):
    """A chunk with its rank (from 1) and score in each leg (None if the leg lacks it), and its fused score.

    `copies` are its near-duplicates, best first; the fused score is that of the best of all of them.
    """

    indexed: IndexedChunk
    fused: float
    lexical: tuple[int, float] | None
    vector: tuple[int, float] | None
    copies: tuple[IndexedChunk, ...] = ()


BOTH, LEXICAL, VECTOR = "both", "lexical", "vector"
"""Legs that are searched, or that took part in a search."""


class FusedHits(Struct, frozen=True):
    """All hits, best first, with the index's statistics of the query's terms and the legs.

    `levels` are the scores of the default fusion for the same hits, descending: they measure the first, second ... hit on
    one scale, whatever decided the order. `judged`: the fused scores are the engine's own estimates of relevance, in
    [0, 1]. `leg_ms` is the duration of each leg, if the engine reports it. `words` are those of the question, each with the
    terms that represent it; `term_weights` has the first of them. `passages` are all chunks of each document that were
    read. `frequencies`: for each word, how many of the `entries` have it, if the engine reports it. `legs`: those that took
    part, `both`, `lexical` or `vector`. `is_cut`: further hits were not read. `instructions`: the same hits without the
    reports, None if there are none; `with_warnings`: with the warnings that were found, None if there are none.
    """

    hits: tuple[FusedHit, ...]
    levels: tuple[float, ...]
    term_weights: dict[str, float]
    failed_legs: dict[str, str]
    judged: bool = False
    notes: tuple[str, ...] = ()
    leg_ms: dict[str, float] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    passages: Mapping[str, tuple[IndexedChunk, ...]] = field(default_factory=dict)
    frequencies: Mapping[str, int] = field(default_factory=dict)
    entries: int = 0
    legs: str = BOTH
    is_cut: bool = False
    instructions: FusedHits | None = None
    with_warnings: FusedHits | None = None


class HybridQuery(Struct, frozen=True):
    """A query for both legs: words, their vector (None: lexical only), their possible languages, and a filter of hits.
    `by_meaning`: only the vector leg is searched. `values` are those of its words that count less; `whole`: every
    hit is read, not only those of the best documents."""

    text: str
    vector: Vector | None
    languages: tuple[str, ...] = ENGLISH
    accepts: Accepts | None = None
    by_meaning: bool = False
    values: frozenset[str] = frozenset()
    whole: bool = False


FEW_INSTRUCTIONS = 5
"""Documents of instructions among the candidates, below which they are searched alone if reports filled the rest. The best
of a leg are among its candidates: further ones rank behind these."""


class HybridSearch:
    """Searches an index. The order of a single leg is kept, and so is that of an engine that fuses by itself. `knowledge`
    has the categories of reports."""

    def __init__(self, index: SearchEngine, knowledge: KnowledgeModel = NO_KNOWLEDGE) -> None:
        self._index = index
        self._knowledge, self._reports = knowledge, knowledge.reports

    def search(
        self, query: HybridQuery, where: SearchFilter, config: QueryConfig, *, per_document: int = 1
    ) -> FusedHits:
        """The fused hits of the best documents, at least `per_document` of each that has them. Warnings and reports are
        separate: they have the same words as the page that they are about, and beside them the page would lose half of its
        confidence. If too few of the documents may be shown, all are read. Raises `IndexUnavailableError`."""
        method, question_words = config.fusion or DEFAULT_FUSION, words(query.text, query.languages)
        documents = max(DOCUMENTS_READ, config.max_results + SPARE_DOCUMENTS)
        choose = Shortlist(documents, method, tuple(question_words.items()), query.values, self._reports)
        response = self._index.search(_request(query, where, config, choose))
        fused = partial(
            fused_hits,
            method=method,
            per_document=max(config.max_chunks_per_document, per_document),
            require_provenance=config.require_provenance,
            accepts=query.accepts,
            question_words=question_words,
            values=query.values,
        )
        others = _without(response, lambda category: category == WARNINGS_CATEGORY)
        hits = replace(fused(others), legs=_legs(query, response))
        if hits.is_cut and len({hit.indexed.chunk.document_id for hit in hits.hits}) < documents - SPARE_DOCUMENTS:
            return self.search(replace(query, whole=True), where, config, per_document=per_document)
        own = _without(others, self._knowledge.is_report)
        if own is not others:
            own = self._alone(query, where, config, choose) if _is_crowded(own, response, config) else own
            hits = replace(hits, instructions=replace(fused(own), legs=hits.legs))
        return hits if others is response else replace(hits, with_warnings=replace(fused(response), legs=hits.legs))

    def _alone(self, query: HybridQuery, where: SearchFilter, config: QueryConfig, choose: Shortlist) -> SearchResponse:
        """The hits in categories of instructions alone."""
        categories = where.categories or tuple(self._knowledge.categories)
        within = tuple(path for path in categories if path not in self._reports)
        narrowed = replace(where, categories=within)
        return self._index.search(_request(query, narrowed, config, choose)) if within else SearchResponse()


def _request(query: HybridQuery, where: SearchFilter, config: QueryConfig, choose: Shortlist) -> SearchRequest:
    text, chosen = None if query.by_meaning else query.text, None if query.whole else choose
    return SearchRequest(where, text, query.vector, DEPTH[config.mode], query.languages, query.values, chosen)


def _legs(query: HybridQuery, response: SearchResponse) -> str:
    """Legs that took part; a failed leg didn't."""
    if query.by_meaning or response.lexical.error:
        return VECTOR
    return LEXICAL if query.vector is None or response.vector.error else BOTH


def fused_hits(
    response: SearchResponse,
    method: Fusion,
    per_document: int,
    *,
    require_provenance: bool = False,
    accepts: Accepts | None = None,
    question_words: Mapping[str, tuple[str, ...]] | None = None,
    values: Set[str] = frozenset(),
) -> FusedHits:
    """Fuses an index's response to one list without near-duplicates, with at most `per_document` chunks of a document.

    Hits that are not accepted, and with `require_provenance` those without a source, are removed first. Without
    `question_words`, each of the response's terms is a word. `values` are words that count less.
    """
    accepts = accepted_by(require_provenance, accepts)
    question_words = (
        question_words if question_words is not None else {term: (term,) for term in response.term_frequencies}
    )
    weights = term_weights(response, values)
    share = lexical_weight(response, weights, question_words)
    weights = weights or dict.fromkeys(question_words, 1.0)
    hits = (hit for hit in _fused(response, method, share) if accepts is None or accepts(hit.indexed))
    kept = tuple(thinned(_without_copies(list(hits)), per_document))
    legs = {"lexical": response.lexical, "vector": response.vector, "hybrid": response.fused or Leg()}
    failed = {name: leg.error for name, leg in legs.items() if leg.error}
    taken = {name: leg.took_ms for name, leg in legs.items() if leg.took_ms is not None}
    levels = _levels(kept, response, method, share)
    judged = response.fused is not None
    return FusedHits(
        kept,
        levels,
        weights,
        failed,
        judged=judged,
        notes=response.notes,
        leg_ms=taken,
        words=question_words,
        passages=_by_document(response.chunks.values()),
        frequencies=response.term_frequencies,
        entries=response.entry_count,
        is_cut=any(entry not in response.chunks for entry, _ in (*response.lexical.hits, *response.vector.hits)),
    )


def _is_crowded(own: SearchResponse, response: SearchResponse, config: QueryConfig) -> bool:
    """True if a search found few documents of instructions, and as many hits as it may."""
    legs = (response.lexical, response.vector, response.fused or Leg())
    documents = {indexed.chunk.document_id for indexed in own.chunks.values()}
    return len(documents) < FEW_INSTRUCTIONS and any(len(leg.hits) >= DEPTH[config.mode] for leg in legs)


def _without(response: SearchResponse, excludes: Callable[[str], bool]) -> SearchResponse:
    """Removes the hits in some categories, and hits before the first other one that were not read, as these may be of such
    a category; returns the same response if it has none."""
    chunks = {entry: indexed for entry, indexed in response.chunks.items() if not excludes(indexed.chunk.category)}
    if len(chunks) == len(response.chunks):
        return response

    excluded = response.chunks.keys() - chunks.keys()

    def kept(leg: Leg) -> Leg:
        hits = (hit for hit in leg.hits if hit[0] not in excluded)
        return replace(leg, hits=tuple(dropwhile(lambda hit: hit[0] not in chunks, hits)))

    lexical, vector, fused = kept(response.lexical), kept(response.vector), response.fused and kept(response.fused)
    return replace(response, lexical=lexical, vector=vector, fused=fused, chunks=chunks)


def _by_document(chunks: Iterable[IndexedChunk]) -> dict[str, tuple[IndexedChunk, ...]]:
    found: dict[str, list[IndexedChunk]] = {}
    for indexed in chunks:
        found.setdefault(indexed.chunk.document_id, []).append(indexed)
    return {document: tuple(some) for document, some in found.items()}


def accepted_by(require_provenance: bool, accepts: Accepts | None) -> Accepts | None:
    """Filter of hits that may be shown; with `require_provenance`, only hits with a source. None accepts every hit."""
    if not require_provenance:
        return accepts
    return lambda indexed: bool(indexed.source_uri) and (accepts is None or accepts(indexed))


def _fused(response: SearchResponse, method: Fusion, share: float) -> Iterator[FusedHit]:
    lexical, vector = _ranks(response.lexical), _ranks(response.vector)
    ready = response.fused
    for entry, score in ready.hits if ready else fuse(method, response.lexical.hits, response.vector.hits, share):
        if (indexed := response.chunks.get(entry)) is not None:
            yield FusedHit(indexed, score, lexical.get(entry), vector.get(entry))


def _levels(hits: tuple[FusedHit, ...], response: SearchResponse, method: Fusion, share: float) -> tuple[float, ...]:
    if response.fused or method is DEFAULT_FUSION:
        return tuple(hit.fused for hit in hits)
    scores = dict(fuse(DEFAULT_FUSION, response.lexical.hits, response.vector.hits, share))
    best = (max(scores[indexed.entry_id] for indexed in (hit.indexed, *hit.copies)) for hit in hits)
    return tuple(sorted(best, reverse=True))


def _ranks(leg: Leg) -> dict[str, tuple[int, float]]:
    return {entry: (rank, score) for rank, (entry, score) in enumerate(leg.hits, start=1)}


def _without_copies(hits: Sequence[FusedHit]) -> Iterator[FusedHit]:
    """One hit for each group of near-duplicates, at the best one's rank: the most trusted (ties: the best)."""
    for first, chosen, others in collapse_near_duplicates(hits, lambda hit: hit.indexed):
        copies = tuple(other.indexed for other in others)
        yield replace(chosen, fused=first.fused, copies=copies) if others else chosen


def thinned(hits: Iterable[FusedHit], per_document: int) -> Iterator[FusedHit]:
    """At most `per_document` chunks of a document."""
    counts: dict[str, int] = {}
    for hit in hits:
        document = hit.indexed.chunk.document_id
        if counts.get(document, 0) < per_document:
            counts[document] = counts.get(document, 0) + 1
            yield hit
