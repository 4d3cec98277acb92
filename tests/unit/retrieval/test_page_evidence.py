"""Documents of a search's hits, their evidence, and how they are judged: in which order, and how likely each is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.domain.queries import Band, QueryConfig, SearchMode, band_of
from opx.domain.record import replace
from opx.retrieval import confidence
from opx.retrieval.confidence import DOUBTFUL, OTHER, Judgement, Judges, LinearModel, engine_judgement, judged, shipped
from opx.retrieval.evidence import CONFIDENCE, NEARNESS, NO_RIVAL, ORDER, Parts, evidence_of, ordered_evidence
from opx.retrieval.hybrid import BOTH, JUDGED, LEXICAL, VECTOR, FusedHits, HybridQuery, HybridSearch
from opx.retrieval.judging import PASSAGES, pages_of
from opx.text.analyzer import ENGLISH
from opx_testing.entries import EVERYONE, a_change
from tests.support.fakes import WordsEmbedder
from tests.support.judging_support import WORDS, Found, a_page, found_lists, searched, texts, titles
from tests.unit.retrieval.test_query import a_text

OF_ORDER = {"margin", "first", "rank"}
SHARES = (
    *("fused", "document", "document_best", "title_match", "title_asked"),
    *("title_letters", "question_letters", "document_rare", "passage_rare", "pairs", "unknown"),
)
PAGES = [
    a_page("Database disk full", "the disk of a database is full and writes fail"),
    a_page("Log collector disk full", "the disk of a log collector is full"),
    a_page("Pods are crash looping", "pods restart again and again"),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedIndex]:
    folder = tmp_path_factory.mktemp("evidence") / "index"
    index = EmbeddedIndex(folder, model_id=WordsEmbedder.model_id, dimension=WordsEmbedder.dimension)
    pages = [a_text(f"{word} {other} {word}", title=f"{other} {word}") for word in WORDS for other in WORDS[:3]]
    index.apply(map(a_change, pages))
    yield index
    index.close()


def rows_of(text: str, *found: Found, **options: object) -> list[Parts]:
    hits = searched(text, *found, **options)  # type: ignore[arg-type]
    return evidence_of(text, hits, pages_of(hits))


def ranked(*pages: int) -> list[Found]:
    return [(PAGES[page], 9.0 - at, 0.9 - at / 10) for at, page in enumerate(pages)]


def check_ranges(rows: list[Parts]) -> None:
    for row in rows:
        assert all(map(math.isfinite, row.values()))
        assert all(-1e-9 <= row[name] <= 1 + 1e-9 for name in SHARES), row
        assert all(-1 - 1e-6 <= row[name] <= 1 + 1e-6 for name in ("cosine", "cosine_best")), row
        assert row["both"] in (0, 1)
        assert row["title_missing"] >= 0
        assert row["length"] >= 0


class TestRanges:
    @settings(deadline=None)
    @given(texts, found_lists)
    def test_inputs_are_within_their_ranges_for_any_text(self, text: str, found: list[Found]) -> None:
        rows = rows_of(text, *found)
        check_ranges(rows)
        assert all(set(ORDER) | set(CONFIDENCE) - OF_ORDER | set(NEARNESS) == set(row) for row in rows)

    @settings(deadline=None, max_examples=60)
    @given(text=texts | st.text(max_size=500))
    def test_so_they_are_for_what_an_index_finds(self, index: EmbeddedIndex, text: str) -> None:
        query = HybridQuery(text, WordsEmbedder().embed_query(text), ENGLISH)
        found = HybridSearch(index).search(query, EVERYONE, QueryConfig(), per_document=PASSAGES)
        rows = evidence_of(text, found, pages_of(found))
        check_ranges(rows)
        assert all(0 <= row["bm25"] <= row["bm25_best"] <= 2 for row in rows)  # title and text give a term 1 each


class TestInputs:
    def test_no_documents_have_no_rows(self) -> None:
        assert rows_of("disk full") == []
        assert ordered_evidence([], []) == []

    def test_title_that_is_the_question_matches_it(self) -> None:
        row = rows_of("Database disk full", *ranked(0, 1))[0]
        assert [row["title_match"], row["title_asked"], row["title_letters"]] == pytest.approx([1, 1, 1])
        assert row["title_missing"] == 0

    @pytest.mark.parametrize(
        ("text", "title"), [("", "Disk"), ("?!", "Disk"), ("the of", "Disk"), ("disk", ""), ("", "")]
    )
    def test_question_or_title_without_terms_matches_nothing(self, text: str, title: str) -> None:
        (row,) = rows_of(text, (a_page(title, "disk full", "d"), 1.0, 0.5))
        assert (row["title_match"], row["title_asked"]) == (0, 0)

    def test_value_that_nothing_has_does_not_count_against_a_title(self) -> None:
        (row,) = rows_of("disk full web01", (a_page("Disk full", "x"), 1.0, 0.5), frequencies={"web01": 0})
        assert row["title_match"] == 1

    def test_words_of_the_question_that_nothing_has_are_unknown(self) -> None:
        (row,) = rows_of("disk brimming web01", (PAGES[0], 1.0, 0.5), frequencies={"brim": 0, "web01": 0})
        assert row["unknown"] == pytest.approx(1 / 3)  # a value is not expected to be known

    def test_rare_words_of_the_question_count_more(self) -> None:
        pages = (a_page("A", "disk"), 5.0, 0.5), (a_page("B", "outage"), 4.0, 0.4)
        common, rare = rows_of("disk outage", *pages, frequencies={"disk": 30, "outag": 1})
        assert common["document"] < 0.5 < rare["document"]
        assert common["document_best"] == rare["document_best"] == rare["document"]

    def test_all_of_a_document_counts_not_only_its_best_passage(self) -> None:
        first, second = a_page("A", "disk", "d", 0), a_page("A", "outage", "d", 1)
        (row,) = rows_of("disk outage", (first, 5.0, 0.5), (second, 1.0, 0.1))
        assert row["document"] == 1

    def test_word_that_all_documents_have_distinguishes_none(self) -> None:
        database, collector, pods = rows_of("disk database", *ranked(0, 1, 2))
        assert database["passage_rare"] > collector["passage_rare"] > pods["passage_rare"] == 0
        assert collector["passage_rare"] < 0.5  # `database` is rarer among them than `disk`

    def test_neighbouring_words_count_as_pairs(self) -> None:
        apart, together = a_page("A", "disk is never full"), a_page("B", "disk full")
        near, far = rows_of("disk full", (together, 5.0, 0.5), (apart, 4.0, 0.4))
        assert (near["pairs"], far["pairs"]) == (1, 0)

    def test_letters_match_where_words_are_joined_or_inflected(self) -> None:
        joined, other = a_page("KubePodCrashLooping", "x", "a"), a_page("DiskFull", "y", "b")
        rows = rows_of("pods are crash looping", (joined, 5.0, 0.5), (other, 4.0, 0.4))
        assert rows[0]["title_asked"] > 0.5 > rows[1]["question_letters"]
        assert rows[0]["question_letters"] > 0.9

    def test_document_that_meaning_did_not_find_has_the_lowest_cosine_found(self) -> None:
        rows = rows_of("disk", (PAGES[0], 9.0, 0.9), (PAGES[1], 8.0, None), (PAGES[2], 0.0, 0.3))
        assert {row["cosine"] for row in rows} == {0.9, 0.3}
        by_level = dict(zip((0.9, None, 0.3), rows, strict=True))
        assert by_level[None]["cosine"] == 0.3
        assert [row["both"] for row in rows] == [1, 0, 0]

    def test_bm25_is_a_share_of_what_it_could_be_and_nothing_without_words(self) -> None:
        best, other = rows_of("disk", (PAGES[0], 4.0, 0.9), (PAGES[1], 2.0, 0.8))
        assert best["bm25"] == best["bm25_best"] == other["bm25_best"] == pytest.approx(2 * other["bm25"])
        assert rows_of("", (PAGES[0], 4.0, 0.9))[0]["bm25"] == 0


class TestOrder:
    def test_margin_is_the_difference_to_the_best_other_document(self) -> None:
        rows = ordered_evidence([{}, {}, {}], [4.0, 1.0, 0.5])
        assert [row["margin"] for row in rows] == [3.0, -3.0, -3.5]
        assert [row["first"] for row in rows] == [1, 0, 0]
        assert [row["rank"] for row in rows] == pytest.approx([0, math.log(2), math.log(3)])

    def test_document_that_was_found_alone_has_no_rival(self) -> None:
        assert ordered_evidence([{}], [0.5])[0]["margin"] == NO_RIVAL

    def test_rows_stay_as_they_were(self) -> None:
        row = {"fused": 0.5}
        assert ordered_evidence([row], [1.0])[0]["fused"] == 0.5
        assert row == {"fused": 0.5}


DISK, LOGS, POD = (a_page(title, f"{title} is full", title) for title in ("Disk", "Logs", "Pod"))


def test_documents_are_in_the_order_of_their_levels() -> None:
    found = searched("full", (LOGS, 1.0, 0.2), (DISK, 9.0, 0.9), (POD, 5.0, 0.5))
    pages = pages_of(found)
    assert titles(pages) == ["Disk", "Pod", "Logs"]
    assert [page.level for page in pages] == [found.levels[0], found.levels[1], found.levels[2]]


def test_equal_documents_are_in_the_order_of_their_ids() -> None:
    found = searched("full", (POD, 5.0, 0.5), (LOGS, 5.0, 0.5), (DISK, 5.0, 0.5))
    assert [page.document_id for page in pages_of(found)] == ["Disk", "Logs", "Pod"]


def test_document_has_its_hits_the_best_first_and_the_level_of_the_best() -> None:
    first, second = (a_page("Disk", f"part {n}", "d", n) for n in range(2))
    found = searched("part", (second, 9.0, 0.9), (POD, 7.0, 0.7), (first, 5.0, 0.5), (LOGS, 0.1, 0.0))
    page = pages_of(found)[0]
    assert [hit.indexed.chunk.content for hit in page.hits] == ["part 1", "part 0"]
    assert page.best is page.hits[0]
    assert page.level == found.levels[0]


def test_evidence_is_the_first_hits_however_many_are_shown() -> None:
    many = [(a_page("Disk", f"disk number {n}", "d", n), 9.0 - n, 0.9 - n / 10) for n in range(PASSAGES + 3)]
    (page,) = pages_of(searched("disk", *many, per_document=10))
    assert len(page.hits) == PASSAGES + 3
    assert list(page.evidence) == list(page.hits[:PASSAGES])


@settings(deadline=None)
@given(found_lists)
def test_every_hit_is_in_one_page_once(some: list[Found]) -> None:
    found = searched("disk full", *some)
    pages = pages_of(found)
    entries = [hit.indexed.entry_id for page in pages for hit in page.hits]
    assert len(entries) == len(set(entries))
    assert set(entries) == {hit.indexed.entry_id for hit in found.hits}
    assert [page.level for page in pages] == sorted((page.level for page in pages), reverse=True)
    assert all(0 <= page.level <= 1 for page in pages)


BUILT_IN = "all-MiniLM-L6-v2"
LEGS = (BOTH, LEXICAL, VECTOR)
BY_WORDS = Judges(
    order=LinearModel(0.0, {"document": (1.0, 0.0, 1.0)}),
    confidence=LinearModel(-1.0, {"document": (2.0, 0.0, 1.0), "margin": (0.5, 0.0, 1.0)}),
    near=LinearModel(-2.0, {"document_best": (4.0, 0.0, 1.0)}),
)
"""Orders by the share of the question's words."""

THREE_PAGES = [a_page("A", "pods restart"), a_page("B", "disk"), a_page("C", "disk is full")]
DISK_FULL = [(page, 9.0 - at, 0.9 - at / 10) for at, page in enumerate(THREE_PAGES)]


def judgement_of(text: str, found: FusedHits, judges: Judges = BY_WORDS, *, reorder: bool = True) -> Judgement:
    return judged(text, found, pages_of(found), judges, reorder=reorder)


def ids(judgement: Judgement) -> list[str]:
    return [one.page.document_id for one in judgement.pages]


def confidences(judgement: Judgement) -> list[float]:
    return [one.confidence for one in judgement.pages]


class TestJudging:
    def test_nothing_found_is_near_nothing(self) -> None:
        assert judgement_of("disk", searched("disk")) == Judgement((), 0.0)

    @settings(deadline=None)
    @given(
        texts,
        found_lists,
        st.sampled_from([BUILT_IN, OTHER]),
        st.sampled_from(LEGS),
        st.sampled_from(SearchMode),
        st.booleans(),
    )
    def test_probabilities_never_rise_down_the_list(
        self, text: str, found: list[Found], embedder: str, legs: str, mode: SearchMode, reorder: bool
    ) -> None:
        hits = searched(text, *found)
        judgement = judgement_of(text, hits, shipped(embedder, legs, mode), reorder=reorder)
        values = confidences(judgement)
        assert sorted(ids(judgement)) == sorted(page.document_id for page in pages_of(hits))
        assert all(0 <= value <= 1 for value in (*values, judgement.near))
        assert all(earlier >= later for earlier, later in pairwise(values))

    def test_the_model_decides_the_order(self) -> None:
        assert ids(judgement_of("disk full", searched("disk full", *DISK_FULL))) == ["C", "B", "A"]

    def test_without_reordering_the_fused_order_stays(self) -> None:
        found = searched("disk full", *DISK_FULL)
        judgement = judgement_of("disk full", found, reorder=False)
        assert ids(judgement) == ["A", "B", "C"]
        assert len(set(confidences(judgement))) == 1  # no document is surer than one before it

    def test_equal_documents_keep_their_order(self) -> None:
        alike = [(a_page(name, "disk"), 5.0, 0.5) for name in "cab"]
        assert ids(judgement_of("disk", searched("disk", *alike))) == ["a", "b", "c"]

    def test_documents_behind_the_judged_ones_keep_their_order_and_are_less_likely(self) -> None:
        many = [(a_page(f"{n:02}", f"disk {'full' * (n % 2)} {n}"), 90.0 - n, 0.9 - n / 100) for n in range(JUDGED + 5)]
        judgement = judgement_of("disk full", searched("disk full", *many))
        names = [f"{n:02}" for n in range(JUDGED + 5)]
        assert ids(judgement)[:JUDGED] != names[:JUDGED]
        assert sorted(ids(judgement)[:JUDGED]) == names[:JUDGED]
        assert ids(judgement)[JUDGED:] == names[JUDGED:]
        last = confidences(judgement)[JUDGED - 1 :]
        assert all(earlier > later for earlier, later in pairwise(last))

    def test_the_best_document_behind_the_judged_ones_is_not_moved_up(self) -> None:
        poor = [(a_page(f"{n:02}", f"pods {n}"), 90.0 - n, 0.9 - n / 100) for n in range(JUDGED)]
        best = (a_page("zz", "disk full"), 1.0, 0.1)
        assert ids(judgement_of("disk full", searched("disk full", *poor, best)))[-1] == "zz"

    @pytest.mark.parametrize("legs", LEGS)
    @pytest.mark.parametrize("mode", SearchMode)
    def test_number_of_shown_passages_changes_no_confidence(self, legs: str, mode: SearchMode) -> None:
        parts = [(a_page("Disk", f"disk part {n}", "d", n), 9.0 - n, 0.9 - n / 10) for n in range(PASSAGES + 4)]
        found = [*parts, (a_page("Logs", "disk logs"), 4.0, None), (a_page("Pods", "pods"), 0.0, 0.4)]
        few, many = (searched("disk full", *found, per_document=most) for most in (PASSAGES, 100))
        assert len(few.hits) < len(many.hits)
        judges = shipped(BUILT_IN, legs, mode)
        one, other = (judgement_of("disk full", hits, judges) for hits in (few, many))
        assert ids(one) == ids(other)
        assert (confidences(one), one.near) == (confidences(other), other.near)

    def test_near_is_what_the_documents_have_of_the_question_together(self) -> None:
        near = judgement_of("disk full", searched("disk full", *DISK_FULL)).near
        far = judgement_of("egg butter", searched("egg butter", *DISK_FULL)).near
        assert [near, far] == pytest.approx([1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2))])

    @pytest.mark.parametrize(
        ("text", "likely"),
        [("restart", []), ("restart?", []), ("1 2", []), ("ENOSPC", ["A", "B"]), ("eth0", ["A", "B"]), ("disk", ["B"])],
    )
    def test_one_everyday_word_makes_nothing_likely_but_its_title(self, text: str, likely: list[str]) -> None:
        sure = Judges(order=BY_WORDS.order, confidence=LinearModel(5.0, {}), near=LinearModel(5.0, {}))
        entries = [(a_page("A", f"pods {text}"), 9.0, 0.9), (a_page("B disk", f"it {text}"), 8.0, 0.8)]
        found = judgement_of(text, searched(text, *entries), sure)
        assert [one.page.document_id[0] for one in found.pages if one.confidence > DOUBTFUL] == likely
        assert all(one.confidence <= DOUBTFUL for one in found.pages) or likely

    def test_an_engine_that_judges_by_itself_is_believed(self) -> None:
        pages = pages_of(replace(searched("disk", *DISK_FULL), judged=True))
        judgement = engine_judgement(pages)
        assert confidences(judgement) == [page.level for page in pages]
        assert judgement.near == 1


class TestLinearModel:
    MODEL = LinearModel(0.5, {"x": (2.0, 1.0, 4.0)})

    @pytest.mark.parametrize(("x", "expected"), [(1.0, 0.5), (3.0, 1.5), (-3.0, -1.5)])
    def test_score_is_the_scaled_sum_and_probability_its_logistic(self, x: float, expected: float) -> None:
        assert self.MODEL.score({"x": x, "y": 9.0}) == pytest.approx(expected)
        assert self.MODEL.probability({"x": x}) == pytest.approx(1 / (1 + math.exp(-expected)))

    @pytest.mark.parametrize("x", [1e300, -1e300, 1e6, -1e6])
    def test_extreme_values_do_not_overflow(self, x: float) -> None:
        assert 0 <= self.MODEL.probability({"x": x}) <= 1


class TestShipped:
    @pytest.mark.parametrize("mode", SearchMode)
    @pytest.mark.parametrize("legs", LEGS)
    @pytest.mark.parametrize("embedder", [BUILT_IN, OTHER])
    def test_there_are_models_for_every_way_of_searching(self, embedder: str, legs: str, mode: SearchMode) -> None:
        judges = shipped(embedder, legs, mode)
        inputs = {"order": ORDER, "confidence": CONFIDENCE, "near": NEARNESS}
        for name, known in inputs.items():
            parts = getattr(judges, name).parts
            assert set(parts) <= set(known)
            assert all(map(math.isfinite, (number for part in parts.values() for number in part)))
            assert all(scale > 0 for _, _, scale in parts.values())
        assert judges.order.parts
        assert judges.confidence.parts["margin"][0] > 0  # who is ahead is likelier right

    @pytest.mark.parametrize("mode", SearchMode)
    def test_unknown_embedding_model_has_models_that_look_at_no_cosine(self, mode: SearchMode) -> None:
        judges = shipped("somebody/else", BOTH, mode)
        assert judges == shipped(OTHER, BOTH, mode)
        parts = {*judges.order.parts, *judges.confidence.parts, *judges.near.parts}
        assert not [name for name in parts if "cosine" in name]

    def test_variant_of_an_embedding_model_has_its_models(self) -> None:
        variant = shipped(f"{BUILT_IN}/int8", BOTH, SearchMode.BALANCED)
        assert variant == shipped(BUILT_IN, BOTH, SearchMode.BALANCED) != shipped(OTHER, BOTH, SearchMode.BALANCED)

    def test_they_record_their_data_date_and_command(self) -> None:
        made = confidence._shipped()["made"]
        assert all(made[name] for name in ("data", "date", "command"))


@pytest.mark.parametrize(
    ("confidence", "band"),
    [(1.0, "sure"), (0.95, "sure"), (0.949999, "likely"), (0.5, "likely"), (0.499999, "weak"), (0.0, "weak")],
)
def test_bands_begin_at_their_least_confidence(confidence: float, band: str) -> None:
    assert band_of(confidence) is Band(band)
    assert band_of(Band(band).least) is Band(band)
