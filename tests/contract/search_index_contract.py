"""Contract of `SearchIndex`. An adapter's test class inherits this one and provides the `index` fixture."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from opx.domain.knowledge import Tier
from opx.domain.queries import MAX_QUERY_CHARACTERS
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.ports import (
    DocumentChange,
    HeldDocument,
    IndexEntry,
    SearchEngine,
    SearchFilter,
    SearchIndex,
    SearchRequest,
    SearchResponse,
    Vector,
    Vectors,
)
from opx.text.fields import LEXICAL_FIELDS, analysed_fields, words
from tests.contract.search_engine_contract import Put, SearchEngineContract
from tests.support.builders import EVERYONE, a_change, a_removal, a_unit_vector, an_entry, any_vector

K1, B = 1.2, 0.75
SCORE_TOLERANCE = 1e-4
"""Relative: engines compute in 32-bit floats."""

OPERATIONS_TEXTS = (
    "Disk full on the database server: delete old archive logs, then extend the volume.",
    "The pod is crash looping. Read the pod log, then the events of the namespace.",
    "Disk latency alert. Compare the disk queue of both servers, then fail over.",
    "Certificate expired on the gateway. Renew it and reload the gateway.",
    "Login fails with ORA-01555, snapshot too old. Extend the undo retention of the database.",
)


def an_operations_corpus() -> list[IndexEntry]:
    """Five documents whose title, section and content all have terms, each short enough for exact field lengths."""
    sections = (("Steps",), ("Pod log", "Steps"), ("Steps",), ("Gateway",), ("Steps", "Database"))
    return [
        an_entry(text, title=f"Incident {n} disk" if n % 2 else f"Incident {n}", section=section, source=f"{n}.md")
        for n, (text, section) in enumerate(zip(OPERATIONS_TEXTS, sections, strict=True))
    ]


def a_german_corpus() -> list[IndexEntry]:
    """Among them one in English, with a word of the German ones' and an English one."""
    german = ("Festplatten prüfen.", "Die Festplatte ist voll, alte Protokolle löschen.", "Zertifikate erneuern.")
    entries = [an_entry(text, title=f"Vorfall {n}", language="de", source=f"{n}.md") for n, text in enumerate(german)]
    return [*entries, an_entry("Festplatten means disks, and disks are full.", title="Glossary", source="g.md")]


def bm25(entries: Sequence[IndexEntry], text: str, languages: Sequence[str] = ("en",)) -> dict[str, float]:
    """BM25 in Lucene's form (no `k1 + 1` in the numerator) summed over the searched fields, written down plainly; of the
    terms that stand for one word the best counts.

    Robertson and Zaragoza, The Probabilistic Relevance Framework (2009), section 3.
    """
    scores: defaultdict[str, float] = defaultdict(float)
    for field, boost in LEXICAL_FIELDS.items():
        documents = {e.indexed.entry_id: analysed_fields(e.indexed.chunk, e.indexed.language)[field] for e in entries}
        for terms in words(text, languages).values():
            of_terms = [bm25_of_term(documents, term) for term in terms]
            for entry_id in set().union(*of_terms):
                scores[entry_id] += boost * max(each.get(entry_id, 0.0) for each in of_terms)
    return dict(scores)


def bm25_of_term(documents: dict[str, list[str]], term: str) -> dict[str, float]:
    """The scores of the documents that have the term."""
    average = sum(map(len, documents.values())) / len(documents)
    found = {entry_id: terms.count(term) for entry_id, terms in documents.items() if term in terms}
    idf = math.log(1 + (len(documents) - len(found) + 0.5) / (len(found) + 0.5))
    lengths = {entry_id: K1 * (1 - B + B * len(documents[entry_id]) / average) for entry_id in found}
    return {entry_id: idf * times / (times + lengths[entry_id]) for entry_id, times in found.items()}


def dot(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def nearness_of_mean(vectors: Vectors, query: Vector) -> float:
    """Cosine with the mean vector, for indexes with one vector an entry."""
    summed = [sum(values) for values in zip(*vectors, strict=True)]
    return dot(summed, query) / math.hypot(*summed)


def with_vectors(*counts: int, **facets: Any) -> list[IndexEntry]:
    """Entries of one document with so many vectors each."""
    return [
        an_entry(
            f"disk part {n}",
            index=n,
            document_id="windows",
            vectors=[any_vector(f"{n}/{at}") for at in range(count)],
            **facets,
        )
        for n, count in enumerate(counts)
    ]


def by_score(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda entry_id: (-scores[entry_id], entry_id))


def fill(index: SearchIndex, *entries: IndexEntry) -> list[list[str]]:
    """Apply each entry as a document of its own."""
    return index.apply([a_change(entry) for entry in entries])


def lexical(index: SearchIndex, text: str, where: SearchFilter = EVERYONE, depth: int = 50) -> SearchResponse:
    return index.search(SearchRequest(where, text=text, depth=depth))


def by_vector(index: SearchIndex, vector: Vector, where: SearchFilter = EVERYONE, depth: int = 50) -> SearchResponse:
    return index.search(SearchRequest(where, vector=vector, depth=depth))


def lexical_ids(index: SearchIndex, text: str, where: SearchFilter = EVERYONE, depth: int = 50) -> list[str]:
    return [entry_id for entry_id, _ in lexical(index, text, where, depth).lexical.hits]


def vector_ids(index: SearchIndex, vector: Vector, where: SearchFilter = EVERYONE, depth: int = 50) -> list[str]:
    return [entry_id for entry_id, _ in by_vector(index, vector, where, depth).vector.hits]


def ids_of(*entries: IndexEntry) -> list[str]:
    return [entry.indexed.entry_id for entry in entries]


def _held(entry: IndexEntry, entries: int) -> HeldDocument:
    one = entry.indexed
    return HeldDocument(one.scope_key, one.key_id, one.chunk.document_id, one.chunk.category, entries)


class SearchIndexContract(SearchEngineContract):
    """Inherit and add a fixture `index`: an empty `SearchIndex` for vectors of `VECTOR_DIMENSION`, whose writes are
    visible at once. `bm25_factor` is the engine's constant."""

    bm25_factor = 1.0

    @staticmethod
    def nearness(vectors: Vectors, query: Vector) -> float:
        """Of an entry with several vectors: that of the nearest, unless the engine holds one vector an entry."""
        return max(dot(vector, query) for vector in vectors)

    @pytest.fixture
    def engine(self, index: SearchIndex) -> SearchEngine:
        return index

    @pytest.fixture
    def put(self, index: SearchIndex) -> Put:
        return partial(fill, index)

    # -- nothing there ---------------------------------------------------------------------------------------------

    def test_empty_index_gives_empty_legs(self, index: SearchIndex) -> None:
        response = index.search(SearchRequest(EVERYONE, text="disk full", vector=any_vector("q")))
        assert response.lexical.hits == ()
        assert response.vector.hits == ()
        assert response.lexical.error == response.vector.error == ""
        assert response.chunks == {}
        assert response.entry_count == 0

    def test_empty_index_counts_nothing(self, index: SearchIndex) -> None:
        assert index.count(EVERYONE) == 0

    def test_empty_index_has_entries_with_no_term(self, index: SearchIndex) -> None:
        assert index.entries_with(["disk", "full"], EVERYONE.scopes) == {}

    def test_unknown_key_has_no_references(self, index: SearchIndex) -> None:
        assert index.references("no-such-key") == []

    def test_no_changes_give_no_references(self, index: SearchIndex) -> None:
        assert index.apply([]) == []

    # -- entries with terms ----------------------------------------------------------------------------------------

    def test_entries_with_a_term_in_title_or_text_are_counted(self, index: SearchIndex) -> None:
        fill(index, *an_operations_corpus())
        counted = index.entries_with(["disk", "undo", "certif", "disc", "disk"], EVERYONE.scopes)
        assert counted == {"disk": 4, "undo": 1, "certif": 1}

    def test_entries_with_terms_are_those_of_the_scopes(self, index: SearchIndex) -> None:
        mine, theirs = Scope("acme"), Scope("other")
        own, others = an_entry("disk full", scope=mine), an_entry("disk and zebra", scope=theirs, source="z.md")
        fill(index, own, others, an_entry("disk full", source="d.md"))
        assert index.entries_with(["disk", "full", "zebra"], (mine.key,)) == {"disk": 1, "full": 1}
        assert index.entries_with(["zebra"], (mine.key, Scope().key)) == {}
        assert index.entries_with(["disk"], (mine.key, Scope().key)) == {"disk": 2}

    def test_entries_with_a_term_follow_a_replaced_document(self, index: SearchIndex) -> None:
        fill(index, an_entry("disk full", source="a.md"))
        fill(index, an_entry("disk and volume", source="b.md"))
        assert index.entries_with(["disk", "volum"], EVERYONE.scopes) == {"disk": 2, "volum": 1}

    def test_entries_are_counted_for_thousands_of_terms_of_any_kind(self, index: SearchIndex) -> None:
        fill(index, *an_operations_corpus())
        odd = ["", " ", "💥", "a b", 'q"\\', "x" * 10_000, "日本"]
        terms = [*odd, *(f"term{n}" for n in range(3000)), "snapshot"]
        assert index.entries_with(terms, EVERYONE.scopes) == {"snapshot": 1}
        assert index.entries_with([], EVERYONE.scopes) == {}

    # -- ranking ---------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "text", ["disk", "disk full on the database", "the gateway certificate", "pod pod log", "ORA-01555 undo"]
    )
    def test_lexical_leg_is_bm25(self, index: SearchIndex, text: str) -> None:
        corpus = an_operations_corpus()
        fill(index, *corpus)
        expected = {entry_id: self.bm25_factor * score for entry_id, score in bm25(corpus, text).items()}
        hits = lexical(index, text).lexical.hits
        assert [entry_id for entry_id, _ in hits] == by_score(expected)
        assert dict(hits) == pytest.approx(expected, rel=SCORE_TOLERANCE)

    @pytest.mark.parametrize("text", ["Festplatten voll", "Welche Zertifikate?", "disks Festplatte"])
    def test_of_the_stems_of_a_word_the_best_counts(self, index: SearchIndex, text: str) -> None:
        corpus, languages = a_german_corpus(), ("de", "en")
        fill(index, *corpus)
        expected = {key: self.bm25_factor * score for key, score in bm25(corpus, text, languages).items()}
        hits = index.search(SearchRequest(EVERYONE, text=text, languages=languages)).lexical.hits
        assert [entry_id for entry_id, _ in hits] == by_score(expected)
        assert dict(hits) == pytest.approx(expected, rel=SCORE_TOLERANCE)

    def test_an_entry_is_found_by_inflections_of_its_language_and_by_its_own_words_in_any(
        self, index: SearchIndex
    ) -> None:
        checks, full, _, glossary = ids_of(*a_german_corpus())
        fill(index, *a_german_corpus())
        in_german = index.search(SearchRequest(EVERYONE, text="Festplatte", languages=("de", "en"))).lexical.hits
        assert {entry_id for entry_id, _ in in_german} == {checks, full}
        assert set(lexical_ids(index, "Festplatten")) == {checks, glossary}

    def test_lexical_scores_do_not_depend_on_the_filter(self, index: SearchIndex) -> None:
        corpus = an_operations_corpus()
        fill(index, *corpus)
        wanted = corpus[2]
        where = replace(EVERYONE, document_ids=(wanted.indexed.chunk.document_id,))
        ((entry_id, score),) = lexical(index, "disk", where).lexical.hits
        assert entry_id == wanted.indexed.entry_id
        assert score == pytest.approx(self.bm25_factor * bm25(corpus, "disk")[entry_id], rel=SCORE_TOLERANCE)

    def test_vector_leg_is_the_cosine(self, index: SearchIndex) -> None:
        corpus = an_operations_corpus()
        fill(index, *corpus)
        query = any_vector("query")
        expected = {e.indexed.entry_id: sum(a * b for a, b in zip(e.vectors[0], query, strict=True)) for e in corpus}
        hits = by_vector(index, query).vector.hits
        assert [entry_id for entry_id, _ in hits] == by_score(expected)
        assert dict(hits) == pytest.approx(expected, abs=SCORE_TOLERANCE)

    def test_an_entry_with_several_vectors_is_one_hit(self, index: SearchIndex) -> None:
        entries = with_vectors(1, 3, 2, 1)
        index.apply([a_change(*entries), a_change(an_entry("pod", source="pod.md"))])
        for query in map(any_vector, ("0/0", "1/1", "1/2", "2/1", "q")):
            expected = {one.indexed.entry_id: self.nearness(one.vectors, query) for one in entries}
            hits = by_vector(index, query, replace(EVERYONE, document_ids=("windows",))).vector.hits
            assert [entry_id for entry_id, _ in hits] == by_score(expected)
            assert dict(hits) == pytest.approx(expected, abs=SCORE_TOLERANCE)
        assert index.count(EVERYONE) == len(entries) + 1

    def test_entries_with_several_vectors_keep_them_when_others_of_the_document_go(self, index: SearchIndex) -> None:
        entries = with_vectors(2, 1, 3, 1, 2)
        (references,) = index.apply([a_change(*entries)])
        index.apply([DocumentChange(entries[0].indexed.key_id, "windows", (), [references[1], references[4]])])
        for query in map(any_vector, ("0/1", "2/0", "2/2", "3/0", "q")):
            expected = {entries[n].indexed.entry_id: self.nearness(entries[n].vectors, query) for n in (0, 2, 3)}
            assert dict(by_vector(index, query).vector.hits) == pytest.approx(expected, abs=SCORE_TOLERANCE)

    def test_equal_scores_of_entries_with_one_vector_and_with_more_are_in_the_order_of_the_ids(
        self, index: SearchIndex
    ) -> None:
        one = a_unit_vector(1)
        twins = [an_entry("disk full", source=f"{n}.md", vectors=[one] * (1 + n % 3)) for n in range(12)]
        fill(index, *twins)
        assert vector_ids(index, one) == sorted(ids_of(*twins))

    def test_vector_scores_reach_from_one_to_minus_one(self, index: SearchIndex) -> None:
        same, across, opposite = (
            an_entry(source=f"{x}-{y}.md", vector=a_unit_vector(x, y)) for x, y in ((1, 0), (0, 1), (-1, 0))
        )
        fill(index, opposite, across, same)
        hits = by_vector(index, a_unit_vector(1, 0)).vector.hits
        assert [entry_id for entry_id, _ in hits] == ids_of(same, across, opposite)
        assert [score for _, score in hits] == pytest.approx([1, 0, -1], abs=SCORE_TOLERANCE)

    def test_both_legs_in_one_search_equal_each_leg_alone(self, index: SearchIndex) -> None:
        fill(index, *an_operations_corpus())
        query = any_vector("query")
        both = index.search(SearchRequest(EVERYONE, text="disk log", vector=query))
        assert both.lexical == lexical(index, "disk log").lexical
        assert both.vector == by_vector(index, query).vector
        assert both.lexical.hits
        assert both.vector.hits

    def test_leg_that_is_not_requested_is_empty_without_an_error(self, index: SearchIndex) -> None:
        fill(index, an_entry("disk full"))
        assert lexical(index, "disk").vector.hits == ()
        assert lexical(index, "disk").vector.error == ""
        assert by_vector(index, any_vector("q")).lexical.hits == ()
        assert by_vector(index, any_vector("q")).lexical.error == ""

    def test_equal_scores_are_in_the_order_of_the_ids(self, index: SearchIndex) -> None:
        twins = [an_entry("disk full", source=f"{n}.md", vector=a_unit_vector(1, 2)) for n in range(12)]
        fill(index, *twins)
        ordered = sorted(ids_of(*twins))
        assert lexical_ids(index, "disk") == ordered
        assert vector_ids(index, a_unit_vector(1, 2)) == ordered

    def test_depth_bounds_each_leg(self, index: SearchIndex) -> None:
        corpus = [an_entry("disk " * (n + 1), source=f"{n}.md", vector=a_unit_vector(1, n)) for n in range(9)]
        fill(index, *corpus)
        query = a_unit_vector(1, 0)
        assert lexical_ids(index, "disk", depth=4) == lexical_ids(index, "disk")[:4]
        assert vector_ids(index, query, depth=4) == vector_ids(index, query)[:4] == ids_of(*corpus[:4])

    # -- queries ---------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("text", ["", "   ", "?!... --- ***"])
    def test_text_without_terms_gives_no_hits(self, index: SearchIndex, text: str) -> None:
        fill(index, an_entry("disk full"))
        response = lexical(index, text)
        assert response.lexical.hits == ()
        assert response.lexical.error == ""
        assert response.term_frequencies == {}

    def test_text_without_terms_leaves_the_vector_leg_alone(self, index: SearchIndex) -> None:
        entry = an_entry("disk full")
        fill(index, entry)
        response = index.search(SearchRequest(EVERYONE, text="?!", vector=any_vector("q")))
        assert [entry_id for entry_id, _ in response.vector.hits] == ids_of(entry)

    def test_query_of_ten_thousand_characters_is_answered(self, index: SearchIndex) -> None:
        fill(index, an_entry("the needle is in the stack"), an_entry("nothing of the kind", source="other.md"))
        text = "needle " + " ".join(f"word{n}" for n in range(2000))
        assert lexical_ids(index, text[:MAX_QUERY_CHARACTERS]) == ids_of(an_entry("the needle is in the stack"))

    def test_query_syntax_has_no_meaning(self, index: SearchIndex) -> None:
        entry = an_entry("disk full")
        fill(index, entry)
        assert lexical_ids(index, '+disk -full AND (title:"x" OR *) ~2 ^3 \\') == ids_of(entry)

    @pytest.mark.parametrize(
        ("content", "query"),
        [
            ("Überlauf der Warteschlange auf dem Gerät", "GERÄT überlauf"),
            ("キュー 障害 再起動", "障害"),
            ("перезапуск службы после сбоя", "службы"),
            ("emoji 🚒 in der Meldung", "meldung"),
            ("call moduleControllerCreate first", "controller"),
        ],
    )
    def test_unicode_text_and_identifiers_are_found_and_come_back_unchanged(
        self, index: SearchIndex, content: str, query: str
    ) -> None:
        entry = an_entry(content)
        fill(index, entry, an_entry("something else", source="other.md"))
        response = lexical(index, query)
        assert response.chunks == {entry.indexed.entry_id: entry.indexed}

    def test_chunks_hold_every_hit_of_both_legs_as_it_was_put(self, index: SearchIndex) -> None:
        one = an_entry("disk full", tags=("a", "b"), trust=0.95, section=("A", "B > C"), language="de", index=3)
        two = an_entry("pod down", source="two.md", tier=Tier.INTERNET, trust=0.55, vector=a_unit_vector(1))
        fill(index, one, two)
        response = index.search(SearchRequest(EVERYONE, text="disk", vector=a_unit_vector(1), depth=1))
        assert response.chunks == {e.indexed.entry_id: e.indexed for e in (one, two)}

    def test_flags_and_fingerprint_outlive_a_change_of_other_entries(self, index: SearchIndex) -> None:
        kept = an_entry("kept disk", index=0, document_id="d", flags=("x",), fingerprint="0123456789abcdef")
        dropped = an_entry("dropped", index=1, document_id="d")
        references = index.apply([a_change(kept, dropped)])[0]
        index.apply([DocumentChange(kept.indexed.key_id, "d", (), references[1:])])
        assert lexical(index, "kept dropped").chunks == {kept.indexed.entry_id: kept.indexed}

    # -- filters by words ------------------------------------------------------------------------------------------

    def test_terms_are_looked_for_before_the_best_hits_are_chosen(self, index: SearchIndex) -> None:
        crowd = [an_entry("disk disk disk", source=f"{n}.md", vector=any_vector("q")) for n in range(99)]
        last = an_entry("the disk among many other words and a needle", source="last.md", vector=a_unit_vector(-1))
        fill(index, *crowd, last)
        where = replace(EVERYONE, required_terms=(("needl",),))
        assert lexical_ids(index, "disk", where, depth=1) == ids_of(last)
        assert vector_ids(index, any_vector("q"), where, depth=1) == ids_of(last)

    def test_excluded_terms_leave_room_for_the_next_best_hits(self, index: SearchIndex) -> None:
        crowd = [an_entry("disk disk kafka", source=f"{n}.md", vector=a_unit_vector(1)) for n in range(99)]
        rest = [an_entry("disk of many", source=f"rest{n}.md", vector=a_unit_vector(-1, n)) for n in range(3)]
        fill(index, *crowd, *rest)
        where = replace(EVERYONE, excluded_terms=("kafka",))
        assert sorted(lexical_ids(index, "disk", where, depth=2)) == sorted(lexical_ids(index, "disk", where)[:2])
        assert vector_ids(index, a_unit_vector(-1), where, depth=3) == vector_ids(index, a_unit_vector(-1))[:3]
        assert vector_ids(index, a_unit_vector(1), where) == ids_of(*reversed(rest))

    def test_count_counts_what_has_the_terms(self, index: SearchIndex) -> None:
        fill(index, *an_operations_corpus())
        assert index.count(replace(EVERYONE, required_terms=(("disk",),), excluded_terms=("latenc",))) == 3
        assert index.count(replace(EVERYONE, required_terms=(("disk",),), updated_before=0)) == 0
        assert index.count(SearchFilter(("client:other",), required_terms=(("disk",),))) == 0

    def test_terms_of_replaced_entries_find_nothing(self, index: SearchIndex) -> None:
        old, new = an_entry("old needle", document_id="old"), an_entry("new thread", document_id="new")
        (superseded,) = fill(index, old)
        index.apply([a_change(new, superseded=superseded)])
        where = replace(EVERYONE, required_terms=(("needl",),))
        assert vector_ids(index, any_vector("q"), where) == []
        assert index.count(where) == 0

    def test_thousands_of_values_are_taken(self, index: SearchIndex) -> None:
        entry = an_entry("disk full", tags=("linux",), services=("checkout",))
        fill(index, entry, an_entry("disk full", source="other.md"))
        many = tuple(f"value{n}" for n in range(10_000))
        where = replace(EVERYONE, tags=(*many, "linux"), services=(*many, "checkout"), excluded_terms=many)
        assert lexical_ids(index, "disk", where) == vector_ids(index, any_vector("q"), where) == ids_of(entry)

    def test_long_question_with_many_groups_of_terms_is_answered(self, index: SearchIndex) -> None:
        entry = an_entry(" ".join(f"word{n}" for n in range(200)))
        fill(index, entry)
        groups = tuple((f"word{n}",) for n in range(200))
        text = "word7 " + " ".join(f"absent{n}" for n in range(2000))
        assert lexical_ids(index, text, replace(EVERYONE, required_terms=groups, updated_from=0)) == ids_of(entry)

    def test_empty_values_are_found_by_nobody(self, index: SearchIndex) -> None:
        fill(index, an_entry("disk full"))
        for part in ({"tags": ("",)}, {"services": ("",)}, {"required_terms": (("",),)}, {"title_terms": (("",),)}):
            assert vector_ids(index, any_vector("q"), replace(EVERYONE, **part)) == []

    # -- statistics ------------------------------------------------------------------------------------------------

    def test_term_frequencies_count_the_entries_with_each_term_in_any_field(self, index: SearchIndex) -> None:
        fill(
            index,
            an_entry("disk disk disk", source="1.md"),
            an_entry("pod down", title="disk", source="2.md"),
            an_entry("pod up", section=("disk",), source="3.md"),
        )
        assert lexical(index, "disk pod absent").term_frequencies == {"disk": 3, "pod": 2, "absent": 0}

    def test_term_frequencies_name_a_word_of_several_terms_once(self, index: SearchIndex) -> None:
        fill(index, *a_german_corpus()[:3])
        request = SearchRequest(EVERYONE, text="Festplatten", languages=("de", "en"))
        assert index.search(request).term_frequencies == {"festplatt": 2}

    def test_entry_count_is_how_many_entries_there_are(self, index: SearchIndex) -> None:
        fill(index, *an_operations_corpus())
        assert lexical(index, "certificate").entry_count == len(OPERATIONS_TEXTS)

    def test_count_counts_what_passes_the_filter(self, index: SearchIndex) -> None:
        fill(index, an_entry(source="1.md", tags=("linux",)), an_entry(source="2.md"))
        assert index.count(EVERYONE) == 2
        assert index.count(replace(EVERYONE, tags=("linux",))) == 1
        assert index.count(replace(EVERYONE, tags=("linux",), tiers=("specialized",))) == 0
        assert index.count(SearchFilter(scopes=("client:other",))) == 0

    # -- writing ---------------------------------------------------------------------------------------------------

    def test_references_come_back_per_change_and_entry(self, index: SearchIndex) -> None:
        document = [an_entry(f"part {n}", index=n, document_id="d") for n in range(3)]
        other = an_entry("other", source="other.md")
        references = index.apply([a_change(*document), a_change(other)])
        assert [len(of_change) for of_change in references] == [3, 1]
        assert len({reference for of_change in references for reference in of_change}) == 4
        if index.derives_ids:
            assert references == [ids_of(*document), ids_of(other)]

    def test_references_of_a_key_are_those_that_apply_gave(self, index: SearchIndex) -> None:
        document = [an_entry(f"part {n}", index=n, document_id="d") for n in range(3)]
        applied, _ = index.apply([a_change(*document), a_change(an_entry("other", source="other.md"))])
        assert sorted(index.references(document[0].indexed.key_id)) == sorted(applied)

    def test_applying_a_change_again_gives_the_same_hits(self, index: SearchIndex) -> None:
        corpus = an_operations_corpus()
        fill(index, *corpus)
        fill(index, *corpus)
        query = any_vector("q")
        assert sorted(lexical_ids(index, "disk log gateway database")) == sorted(ids_of(*corpus))
        assert sorted(vector_ids(index, query)) == sorted(ids_of(*corpus))

    def test_applying_a_change_again_stores_nothing_twice_where_ids_are_derived(self, index: SearchIndex) -> None:
        if not index.derives_ids:
            pytest.skip("this service assigns ids")
        corpus = an_operations_corpus()
        assert fill(index, *corpus) == fill(index, *corpus)
        assert index.count(EVERYONE) == len(corpus)

    def test_applying_an_entry_again_replaces_every_field(self, index: SearchIndex) -> None:
        old = an_entry("disk full", tags=("a",), vector=a_unit_vector(1))
        new = IndexEntry(
            replace(
                old.indexed,
                trust=0.5,
                language="de",
                chunk=replace(
                    old.indexed.chunk, content="pod", metadata=replace(old.indexed.chunk.metadata, tags=("b",))
                ),
            ),
            (a_unit_vector(0, 1),),
        )
        (superseded,) = fill(index, old)
        index.apply([a_change(new, superseded=superseded)])
        assert lexical(index, "pod").chunks == {new.indexed.entry_id: new.indexed}
        assert lexical_ids(index, "disk") == []
        assert lexical_ids(index, "pod", replace(EVERYONE, tags=("a",))) == []
        assert by_vector(index, a_unit_vector(0, 1)).vector.hits[0][1] == pytest.approx(1, abs=SCORE_TOLERANCE)

    def test_replacing_a_document_leaves_only_the_new_entries(self, index: SearchIndex) -> None:
        old = [an_entry(f"old disk part {n}", index=n, document_id="old") for n in range(4)]
        new = [an_entry(f"new disk part {n}", index=n, document_id="new") for n in range(2)]
        (superseded,) = index.apply([a_change(*old)])
        index.apply([a_change(*new, superseded=superseded)])
        assert sorted(lexical_ids(index, "disk part")) == sorted(ids_of(*new))
        assert sorted(vector_ids(index, any_vector("q"))) == sorted(ids_of(*new))
        assert index.count(EVERYONE) == len(new)

    def test_entry_that_is_new_and_superseded_stays(self, index: SearchIndex) -> None:
        kept, dropped = an_entry("kept disk", index=0, document_id="d"), an_entry("dropped", index=1, document_id="d")
        (superseded,) = index.apply([a_change(kept, dropped)])
        index.apply([a_change(kept, superseded=superseded)])
        assert lexical_ids(index, "kept dropped") == ids_of(kept)

    def test_entry_that_a_later_change_brings_back_stays(self, index: SearchIndex) -> None:
        entry = an_entry("disk full")
        (superseded,) = fill(index, entry)
        index.apply([a_removal(entry, superseded), a_change(entry)])
        assert lexical_ids(index, "disk") == ids_of(entry)

    def test_superseded_references_that_do_not_exist_are_ignored(self, index: SearchIndex) -> None:
        entry = an_entry("disk full")
        index.apply([a_change(entry, superseded=("0" * 32, "never-there"))])
        assert lexical_ids(index, "disk") == ids_of(entry)

    def test_change_without_entries_removes_the_document(self, index: SearchIndex) -> None:
        gone, stays = an_entry("disk full"), an_entry("disk empty", source="other.md")
        superseded, _ = fill(index, gone, stays)
        assert index.apply([a_removal(gone, superseded)]) == [[]]
        assert lexical_ids(index, "disk") == ids_of(stays)
        assert vector_ids(index, any_vector("q")) == ids_of(stays)
        assert index.references(gone.indexed.key_id) == []

    def test_removing_twice_does_nothing(self, index: SearchIndex) -> None:
        entry = an_entry("disk full")
        (superseded,) = fill(index, entry)
        index.apply([a_removal(entry, superseded)])
        index.apply([a_removal(entry, superseded)])
        assert index.count(EVERYONE) == 0

    def test_same_text_under_two_keys_is_two_entries(self, index: SearchIndex) -> None:
        one, two = an_entry("disk full", source="one.md"), an_entry("disk full", source="two.md")
        superseded, _ = fill(index, one, two)
        assert one.indexed.chunk.chunk_id == two.indexed.chunk.chunk_id
        assert sorted(lexical_ids(index, "disk")) == sorted(ids_of(one, two))
        index.apply([a_removal(one, superseded)])
        assert lexical_ids(index, "disk") == ids_of(two)

    def test_large_document_from_a_generator_is_taken_whole(self, index: SearchIndex) -> None:
        size = 2000

        def entries() -> Iterator[IndexEntry]:
            return (an_entry(f"disk part{n}", index=n, document_id="large") for n in range(size))

        key = an_entry().indexed.key_id
        (references,) = index.apply(change for change in [DocumentChange(key, "large", entries())])
        assert len(set(references)) == size
        assert index.count(EVERYONE) == size
        assert sorted(index.references(key)) == sorted(references)
        assert lexical_ids(index, f"part{size - 1}", depth=1) == ids_of(
            an_entry(f"disk part{size - 1}", index=size - 1, document_id="large")
        )

    # -- what there is ---------------------------------------------------------------------------------------------

    def test_empty_index_holds_nothing(self, index: SearchIndex) -> None:
        assert index.held() == []

    def test_held_documents_come_in_order_with_how_many_entries_they_have(self, index: SearchIndex) -> None:
        parts = [an_entry(f"part {n}", index=n, document_id="d") for n in range(3)]
        others = [an_entry("x", source=f"{n}.md", scope=Scope("acme"), document_id="e") for n in range(2)]
        index.apply([a_change(*parts), *(a_change(other) for other in others)])
        expected = [_held(parts[0], 3), *(_held(other, 1) for other in others)]
        assert index.held() == sorted(expected)

    def test_held_documents_come_page_by_page(self, index: SearchIndex) -> None:
        fill(index, *(an_entry("disk", source=f"{n}.md") for n in range(5)))
        everything = index.held()
        pages = [index.held(limit=2)]
        while len(pages[-1]) == 2:
            pages.append(index.held(after=pages[-1][-1], limit=2))
        assert [len(page) for page in pages] == [2, 2, 1]
        assert [one for page in pages for one in page] == everything
        assert index.held(after=everything[-1]) == []

    def test_replaced_and_removed_documents_are_not_held(self, index: SearchIndex) -> None:
        old, new = an_entry("old", document_id="old"), an_entry("new", document_id="new")
        gone = an_entry("gone", source="gone.md")
        first, second = fill(index, old, gone)
        index.apply([a_change(new, superseded=first), a_removal(gone, second)])
        assert index.held() == [_held(new, 1)]

    def test_versions_of_a_document_that_are_both_there_are_both_held(self, index: SearchIndex) -> None:
        old, new = an_entry("old", document_id="old"), an_entry("new", document_id="new")
        fill(index, old)
        index.apply([a_change(new)])
        assert index.held() == [_held(new, 1), _held(old, 1)]

    def test_inputs_are_not_changed(self, index: SearchIndex) -> None:
        entry = an_entry("disk full", tags=("a",))
        superseded = ["unknown"]
        before = copy.deepcopy(entry)
        index.apply([a_change(entry, superseded=superseded)])
        query = any_vector("q")
        index.search(SearchRequest(EVERYONE, text="disk", vector=query))
        assert entry == before
        assert superseded == ["unknown"]
        assert query == any_vector("q")
