"""Contract of `SearchIndex`. An adapter's test class inherits this one and provides the `index` fixture."""

from __future__ import annotations

from functools import partial

import pytest

from opx.domain.knowledge import Tier
from opx.domain.queries import MAX_QUERY_CHARACTERS
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.ports import DocumentChange, SearchEngine, SearchFilter, SearchIndex, SearchRequest, Vector, Vectors
from opx.text.fields import VALUE_WEIGHT, words
from opx_testing.entries import EVERYONE, a_change, a_unit_vector, an_entry, any_vector
from opx_testing.index_writing import IndexWritingContract
from opx_testing.search_engine import Put, SearchEngineContract
from opx_testing.searches import (
    OPERATIONS_TEXTS,
    SCORE_TOLERANCE,
    a_german_corpus,
    an_operations_corpus,
    bm25,
    by_score,
    by_vector,
    dot,
    fill,
    ids_of,
    lexical,
    lexical_ids,
    vector_ids,
    with_vectors,
)


class SearchIndexContract(IndexWritingContract, SearchEngineContract):
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

    def test_scores_of_values_count_half(self, index: SearchIndex) -> None:
        corpus = an_operations_corpus()
        fill(index, *corpus)
        full, half = bm25(corpus, "disk full"), bm25(corpus, "database gateway")
        expected = {
            key: self.bm25_factor * (full.get(key, 0.0) + VALUE_WEIGHT * half.get(key, 0.0)) for key in {*full, *half}
        }
        values = frozenset(words("database gateway"))
        request = SearchRequest(EVERYONE, text="disk full on the database gateway", values=values)
        hits = index.search(request).lexical.hits
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
        entry = an_entry("disk full", tags=("linux",), resources=("checkout",))
        fill(index, entry, an_entry("disk full", source="other.md"))
        many = tuple(f"value{n}" for n in range(10_000))
        where = replace(EVERYONE, tags=(*many, "linux"), resources=(*many, "checkout"), excluded_terms=many)
        assert lexical_ids(index, "disk", where) == vector_ids(index, any_vector("q"), where) == ids_of(entry)

    def test_long_question_with_many_groups_of_terms_is_answered(self, index: SearchIndex) -> None:
        entry = an_entry(" ".join(f"word{n}" for n in range(200)))
        fill(index, entry)
        groups = tuple((f"word{n}",) for n in range(200))
        text = "word7 " + " ".join(f"absent{n}" for n in range(2000))
        assert lexical_ids(index, text, replace(EVERYONE, required_terms=groups, updated_from=0)) == ids_of(entry)

    def test_empty_values_are_found_by_nobody(self, index: SearchIndex) -> None:
        fill(index, an_entry("disk full"))
        for part in ({"tags": ("",)}, {"resources": ("",)}, {"required_terms": (("",),)}, {"title_terms": (("",),)}):
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
