"""Documents that a model reads: its verdicts become the confidence, and what goes wrong with it costs nothing but that."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.knowledge import KnowledgeModel
from opx.domain.queries import Band, Basis, QueryConfig, ReaderVerdict, band_of
from opx.domain.record import replace
from opx.errors import InvalidInputError, ModelError
from opx.ports import Candidate, CandidateReading, Ranking
from opx.ports.models import MAX_CANDIDATES as CANDIDATES
from opx.ports.models import MAX_CHARACTERS, reading_of
from opx.retrieval.confidence import JudgedPage
from opx.retrieval.hybrid import FusedHit
from opx.retrieval.identifiers import ABOUT, FEW_MENTION, NOT_ABOUT, ONLY_MENTION, QuestionIdentifier, bounded, certain
from opx.retrieval.judging import DocumentHits, Judged, result_of
from opx.retrieval.query_language import ParsedQuery, parse_query
from opx.retrieval.reranking import (
    MAX_LINE,
    MOST_USELESS,
    LabelledReading,
    ReaderModel,
    RerankStage,
    assumed_model,
    candidate_of,
    combined,
    fit_reader,
    model_of,
)
from opx.runtime.deadlines import deadline
from opx.runtime.threads import within
from opx_quality.evaluation.bands import calibration
from opx_testing.entries import an_entry
from tests.support.judging_support import a_fused_hit

NO_KNOWLEDGE = KnowledgeModel({}, "")
ANSWERS, HELPS, NO = (CandidateReading(verdict) for verdict in ReaderVerdict)
VERDICTS, SCORES = assumed_model(scores=False), assumed_model(scores=True)
Give = Callable[[Sequence[Candidate]], Any]


class ScriptedReranker:
    """Gives these readings, or what a function of the candidates does."""

    name = "scripted"

    def __init__(self, *readings: Any, give: Give | None = None) -> None:
        self._give = give or (lambda some: readings[: len(some)])
        self.seen: list[Candidate] = []

    def rank(self, question: str, candidates: Sequence[Candidate], *, seconds: float) -> Ranking:
        self.seen = list(candidates)
        return Ranking(tuple(self._give(candidates)))


def a_hit(name: str, content: str = "", index: int = 0, **fields: Any) -> FusedHit:
    entry = an_entry(content or f"text of {name}", document_id=name, title=name, index=index, **fields)
    return a_fused_hit(entry.indexed)


def a_document(name: str, confidence: float, content: str = "", **fields: Any) -> Judged:
    hit = a_hit(name, content)
    return Judged(hit, confidence, (hit,), **fields)


def documents(count: int, confidence: float = 0.6) -> list[Judged]:
    """d0, d1, ..."""
    return [a_document(f"d{n}", confidence - n / 1000) for n in range(count)]


def a_query() -> ParsedQuery:
    return parse_query("disk full", QueryConfig(), NO_KNOWLEDGE)


def read(judged: Sequence[Judged], *readings: Any, about: ParsedQuery | None = None) -> list[Judged]:
    return RerankStage(ScriptedReranker(*readings), 1).read(about or a_query(), judged)


def confidences(judged: Sequence[Judged]) -> dict[str, float]:
    return {one.hit.indexed.chunk.document_id: one.confidence for one in judged}


class TestVerdicts:
    def test_a_verdict_is_combined_with_the_estimate_by_bayes_rule_for_nine_right_of_ten(self) -> None:
        assert combined(0.5, ANSWERS, VERDICTS) == pytest.approx(0.9, abs=1e-4)
        assert combined(0.25, ANSWERS, VERDICTS) == pytest.approx(0.75, abs=1e-4)
        assert combined(0.25, HELPS, VERDICTS) == pytest.approx(0.25)
        assert combined(0.25, NO, VERDICTS) == pytest.approx(1 / 28, abs=1e-4)

    def test_a_score_counts_as_the_verdict_does_that_it_is_as_sure_of(self) -> None:
        for estimate in (0.1, 0.4):
            for score, verdict in ((0.99, ANSWERS), (0.5, HELPS), (0.01, NO)):
                found = combined(estimate, reading_of(score), SCORES)
                assert found == pytest.approx(combined(estimate, verdict, VERDICTS), abs=1e-4)

    @given(st.floats(0, 1), st.sampled_from(ReaderVerdict))
    def test_useless_document_is_weak_and_confidence_stays_between_zero_and_one(
        self, estimate: float, verdict: ReaderVerdict
    ) -> None:
        found = combined(estimate, CandidateReading(verdict), VERDICTS)
        assert 0 < found < 1
        assert verdict is not ReaderVerdict.NO or band_of(found) is Band.WEAK

    @given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
    def test_it_rises_with_the_score_and_with_the_estimate(self, low: float, high: float, other: float) -> None:
        low, high = sorted((low, high))
        assert combined(other, reading_of(low), SCORES) <= combined(other, reading_of(high), SCORES)
        assert combined(low, reading_of(other), SCORES) <= combined(high, reading_of(other), SCORES)

    def test_models_that_nothing_was_fitted_for_are_assumed_to_be_right_nine_times_of_ten(self) -> None:
        assert model_of("chat:openai:unheard-of", scores=False) is VERDICTS
        assert model_of("bedrock:unheard-of", scores=True) is SCORES
        assert VERDICTS["answers"] == -VERDICTS["no"] == pytest.approx(math.log(9), abs=1e-4)


class TestStage:
    def test_the_verdict_is_the_confidence(self) -> None:
        about = a_query()
        found = read([a_document("page", 0.5), a_document("other", 0.4)], NO, ANSWERS, about=about)
        assert confidences(found) == pytest.approx({"page": 0.1, "other": 6 / 7}, abs=1e-4)
        assert about.ranked_by == "scripted"
        assert about.notes == []
        assert "rerank" in about.timings

    def test_documents_are_all_weak_if_the_model_finds_none_helpful(self) -> None:
        found = read([a_document("page", 0.99), *documents(CANDIDATES + 3, 0.8)], *[NO] * CANDIDATES)
        assert {band_of(one.confidence) for one in found} == {Band.WEAK}
        assert len(found) == CANDIDATES + 4

    def test_one_document_that_helps_lifts_no_other_that_was_judged(self) -> None:
        honest = confidences(read(documents(3, 0.95), NO, NO, NO))
        one_lies = confidences(read(documents(3, 0.95), NO, ANSWERS, NO))
        assert one_lies.pop("d1") > honest.pop("d1")
        assert one_lies == honest

    def test_a_document_that_an_identifier_makes_certain_is_not_doubted(self) -> None:
        certain = a_document("about", 0.97, least=0.97)
        [found, other] = read([certain, a_document("other", 0.9)], NO, NO)
        assert found == certain
        assert other.confidence == MOST_USELESS
        assert read([certain], ANSWERS)[0].confidence > 0.97
        assert read([certain], HELPS)[0].reading is not None

    def test_nothing_is_certain_where_what_the_question_names_is_absent(self) -> None:
        [found] = read([a_document("sibling", 0.8, most=NOT_ABOUT)], ANSWERS)
        assert found.confidence == NOT_ABOUT

    def test_documents_are_read_once_with_all_their_hits_judged_alike(self) -> None:
        first, second = a_hit("page", "one"), a_hit("page", "two", 1)
        hits = [Judged(hit, 0.5, (first, second)) for hit in (first, second)]
        reranker = ScriptedReranker(ANSWERS, NO)
        found = RerankStage(reranker, 1).read(a_query(), [hits[0], a_document("other", 0.5), hits[1]])
        assert [candidate.title for candidate in reranker.seen] == ["page", "other"]
        assert [one.confidence for one in found] == pytest.approx([0.9, 0.1, 0.9], abs=1e-4)

    def test_so_many_are_read_and_the_others_are_estimated(self) -> None:
        reranker = ScriptedReranker(*[HELPS] * CANDIDATES)
        found = RerankStage(reranker, 1).read(a_query(), documents(CANDIDATES + 2))
        assert len(reranker.seen) == CANDIDATES
        assert [one.reading is None for one in found] == [False] * CANDIDATES + [True] * 2
        assert [one.confidence for one in found] == pytest.approx([one.confidence for one in documents(CANDIDATES + 2)])

    def test_unread_document_is_never_surer_than_the_surest_read_one_unless_it_is_certain(self) -> None:
        certain = a_document("about", 0.93, least=0.93)
        found = confidences(read([*documents(CANDIDATES + 1, 0.8), certain], *[NO] * (CANDIDATES - 1), HELPS))
        assert found[f"d{CANDIDATES}"] < max(found[f"d{n}"] for n in range(CANDIDATES)) == found[f"d{CANDIDATES - 1}"]
        assert found["about"] == 0.93
        lower = confidences(read(documents(CANDIDATES + 1, 0.8), *[NO] * CANDIDATES))
        assert lower[f"d{CANDIDATES}"] == max(lower.values())

    def test_a_certain_document_does_not_speak_for_what_was_not_read(self) -> None:
        certain = a_document("about", 0.98, least=0.98)
        found = confidences(read([certain, *documents(CANDIDATES, 0.8)], ANSWERS, *[NO] * (CANDIDATES - 1)))
        assert found.pop("about") >= 0.98
        assert max(found.values()) <= MOST_USELESS

    def test_a_model_that_was_fitted_is_used(self) -> None:
        model = {"estimate": 0.0, "answers": 1.0, "helps": 0.0, "no": -1.0}
        [found] = RerankStage(ScriptedReranker(ANSWERS), 1, model).read(a_query(), [a_document("page", 0.1)])
        assert found.confidence == pytest.approx(1 / (1 + math.exp(-1)))

    def test_no_hits_are_not_sent(self) -> None:
        never = ScriptedReranker(give=lambda _: pytest.fail("asked"))
        assert RerankStage(never, 1).read(a_query(), []) == []


class TestMissingVerdicts:
    def test_a_document_without_one_keeps_its_estimate_whatever_the_others_got(self) -> None:
        about = a_query()
        found = confidences(read(documents(3, 0.9), None, NO, NO, about=about))
        assert found.pop("d0") == 0.9
        assert max(found.values()) <= MOST_USELESS
        assert about.notes == ["scripted gave no valid verdict on 1 of 3 documents: these are estimated"]
        assert not about.partial


class TestDeadline:
    def test_a_model_gets_a_share_of_the_time_that_is_left_and_the_answer_lacks_its_part(self) -> None:
        about, before = a_query(), documents(3)
        late = ScriptedReranker(give=lambda _: time.sleep(0.4))
        with deadline(0.2):
            assert RerankStage(late, 60).read(about, before) == before
        assert about.partial
        [note] = about.notes
        assert note.startswith("not reranked by scripted (scripted did not answer within 0.1")

    def test_a_model_that_has_its_own_time_costs_the_answer_nothing(self) -> None:
        about = a_query()
        with deadline(60):
            RerankStage(ScriptedReranker(give=lambda _: time.sleep(0.4)), 0.01).read(about, documents(3))
        assert (about.partial, len(about.notes)) == (False, 1)


class TestBoundsOfIdentifiers:
    CVE = QuestionIdentifier("CVE-2024-3094", "CVE", "cve-2024-3094", 2)

    def judged(self, *contents: str, title: str = "Library") -> list[JudgedPage]:
        hits = (
            a_fused_hit(an_entry(text, document_id=f"d{at}", title=title).indexed) for at, text in enumerate(contents)
        )
        return [JudgedPage(DocumentHits(hit.indexed.chunk.document_id, (hit,), 1.0), 0.5) for hit in hits]

    def test_a_document_about_one_and_the_only_one_that_mentions_it_are_certain(self) -> None:
        [about] = certain(self.judged("Install it.", title="CVE-2024-3094"), [self.CVE])
        assert (about.least, about.most) == (ABOUT, 1.0)
        mention, other = certain(self.judged("See CVE-2024-3094.", "Nothing."), [self.CVE])
        assert (mention.least, other.least) == (ONLY_MENTION, 0.0)

    def test_the_likeliest_of_a_few_that_mention_it_may_be_doubted(self) -> None:
        first, _ = certain(self.judged("See CVE-2024-3094.", "CVE-2024-3094 too."), [self.CVE])
        assert (first.confidence, first.least) == (FEW_MENTION, 0.0)

    def test_nothing_is_certain_where_one_is_absent(self) -> None:
        [found] = bounded(certain(self.judged("See CVE-2024-3094."), [self.CVE]))
        assert (found.confidence, found.least, found.most) == (NOT_ABOUT, 0.0, NOT_ABOUT)


class TestCandidates:
    def test_title_and_passages_the_best_first_under_their_headings(self) -> None:
        hits = (
            a_hit("page", "Delete logs.", section=("Steps", "Make room")),
            a_hit("page", "## Before\n\nLook first.", section=("Before",)),
            a_hit("page", "For all disks.", section=()),
        )
        candidate = candidate_of(Judged(hits[1], 0.5, hits))
        assert candidate == Candidate(
            "page", "## Make room\nDelete logs.\n\n## Before\n\nLook first.\n\nFor all disks."
        )

    def test_it_is_bounded(self) -> None:
        hits = tuple(a_hit("t" * 500, "word " * 400, n) for n in range(4))
        candidate = candidate_of(Judged(hits[0], 0.5, hits))
        assert len(f"{candidate.title}\n\n{candidate.text}") == MAX_CHARACTERS


class TestLines:
    TEXT = "Look at the disk.\n\nDelete old archive logs."

    def line(self, reading: CandidateReading, text: str = TEXT) -> str:
        [found] = read([a_document("page", 0.5, text)], reading)
        assert found.reading is not None
        return found.reading.line

    @pytest.mark.parametrize(
        ("number", "line"),
        [(1, "## Steps"), (2, "Look at the disk."), (3, "Delete old archive logs."), (4, ""), (0, ""), (-1, "")],
    )
    def test_the_line_is_the_documents_and_one_that_is_not_there_is_dropped(self, number: int, line: str) -> None:
        assert self.line(CandidateReading(ReaderVerdict.HELPS, number)) == line

    def test_a_document_that_does_not_help_has_none(self) -> None:
        assert self.line(CandidateReading(ReaderVerdict.NO, 2)) == ""

    def test_a_long_one_is_cut(self) -> None:
        assert self.line(CandidateReading(ReaderVerdict.HELPS, 2), "x" * 300) == "x" * (MAX_LINE - 1) + "…"

    def test_a_result_records_that_it_was_read_and_the_line(self) -> None:
        page = a_document("page", 0.5, self.TEXT)
        result = result_of(read([page], CandidateReading(ReaderVerdict.ANSWERS, 3))[0])
        assert (result.judged, result.helps_by) == (Basis.READ, "Delete old archive logs.")
        assert result.parts is not None
        assert (result.parts.estimated, result.parts.verdict, result.parts.rerank) == (0.5, ReaderVerdict.ANSWERS, None)
        found = result.to_json()
        assert (found["judged"], found["helpsBy"], found["scores"]["verdict"]) == (
            "read",
            "Delete old archive logs.",
            "answers",
        )

    def test_a_score_is_shown_with_its_parts(self) -> None:
        parts = result_of(read([a_document("page", 0.5)], reading_of(0.75))[0]).parts
        assert parts is not None
        assert (parts.rerank, parts.verdict) == (0.75, ReaderVerdict.ANSWERS)

    def test_a_result_that_was_not_read_is_estimated(self) -> None:
        result = result_of(a_document("page", 0.5))
        assert (result.judged, result.helps_by) == (Basis.ESTIMATED, "")
        assert result.parts is not None
        assert (result.parts.estimated, result.parts.verdict) == (None, None)


class TestFailures:
    def unread(self, reranker: ScriptedReranker, seconds: float = 1) -> str:
        """The note of an answer that is as it was estimated."""
        about, before = a_query(), documents(3)
        assert RerankStage(reranker, seconds).read(about, before) == before
        assert about.ranked_by == "fused"
        [note] = about.notes
        assert "not reranked by scripted" in note
        return note

    @pytest.mark.parametrize(
        "nonsense",
        [
            lambda some: [],
            lambda some: [ANSWERS] * (len(some) - 1),
            lambda some: [ANSWERS] * (len(some) + 1),
            lambda some: [reading_of(0.5)] * (len(some) - 1) + [ANSWERS],
            lambda some: [replace(ANSWERS, score=math.nan)] * len(some),
            lambda some: [replace(ANSWERS, score=2.0)] * len(some),
            lambda some: [replace(ANSWERS, score=-0.1)] * len(some),
            lambda some: [replace(ANSWERS, score="9")] * len(some),
        ],
    )
    def test_nonsense_leaves_the_estimates_and_is_noted(self, nonsense: Give) -> None:
        self.unread(ScriptedReranker(give=nonsense))

    def test_a_failure_leaves_the_estimates_and_is_noted(self) -> None:
        def fail(_: Sequence[Candidate]) -> list[CandidateReading]:
            raise ModelError("throttled")

        assert "throttled" in self.unread(ScriptedReranker(give=fail))

    def test_nobody_waits_longer_than_the_time_there_is(self) -> None:
        def sleep(some: Sequence[Candidate]) -> list[CandidateReading]:
            time.sleep(0.3)
            return [ANSWERS] * len(some)

        assert "did not answer within 0.01 s" in self.unread(ScriptedReranker(give=sleep), 0.01)

    def test_a_failure_within_the_time_limit_is_raised_to_the_caller(self) -> None:
        with pytest.raises(ZeroDivisionError):
            within(1, lambda: 1 // 0, "dividing")


RIGHT = {True: (0.8, 0.15, 0.05), False: (0.05, 0.15, 0.8)}
ANYHOW = {True: (0.6, 0.2, 0.2), False: (0.6, 0.2, 0.2)}
Shares = dict[bool, tuple[float, float, float]]
Read = Callable[[random.Random, bool], CandidateReading]


def a_model_with_verdicts(shares: Shares) -> Read:
    """A model with these shares of verdicts for relevant documents, and for others."""
    return lambda chance, relevant: CandidateReading(chance.choices(tuple(ReaderVerdict), shares[relevant])[0])


def a_scorer(chance: random.Random, relevant: bool) -> CandidateReading:
    """Gives scores that overlap, and are no probabilities."""
    return reading_of(chance.betavariate(4, 3) if relevant else chance.betavariate(1, 5))


def readings(read: Read, count: int, seed: int) -> list[LabelledReading]:
    """Of documents whose estimates are calibrated."""
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        estimate = chance.betavariate(0.6, 1.2)
        relevant = chance.random() < estimate
        rows.append(LabelledReading(estimate, read(chance, relevant), relevant))
    return rows


def error_of(model: ReaderModel, rows: list[LabelledReading]) -> float:
    """The expected calibration error."""
    return calibration([(combined(row.estimated, row.reading, model), row.relevant) for row in rows]).error


@pytest.mark.parametrize("read", [a_model_with_verdicts(RIGHT), a_model_with_verdicts(ANYHOW), a_scorer])
def test_fitted_model_is_calibrated_on_other_readings(read: Read) -> None:
    model = fit_reader(readings(read, 2000, seed=1))
    assert error_of(model, readings(read, 4000, seed=2)) < 0.03


def test_a_model_that_judges_anyhow_counts_for_nothing() -> None:
    model = fit_reader(readings(a_model_with_verdicts(ANYHOW), 4000, seed=3))
    assert model["estimate"] == pytest.approx(1, abs=0.1)
    assert [model[verdict] for verdict in ReaderVerdict] == pytest.approx([0, 0, 0], abs=0.2)
    assert error_of(assumed_model(scores=False), readings(a_model_with_verdicts(ANYHOW), 4000, seed=4)) > 0.1


def test_few_readings_leave_what_is_assumed() -> None:
    assumed = assumed_model(scores=False)
    model = fit_reader([LabelledReading(0.5, CandidateReading(ReaderVerdict.ANSWERS), True)])
    assert model == pytest.approx(assumed, abs=0.05)
    assert model["answers"] > assumed["answers"]
    assert (model["helps"], model["no"]) == (assumed["helps"], assumed["no"])


def test_perfectly_separating_readings_give_a_finite_model() -> None:
    rows = [
        LabelledReading(0.5, CandidateReading(ReaderVerdict.ANSWERS if at % 2 else ReaderVerdict.NO), bool(at % 2))
        for at in range(200)
    ]
    model = fit_reader(rows)
    assert 2 < model["answers"] < 10
    assert -10 < model["no"] < -2


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [LabelledReading(0.5, CandidateReading(ReaderVerdict.NO), False), LabelledReading(0.5, reading_of(0.1), False)],
    ],
)
def test_readings_that_cannot_be_fitted_are_refused(rows: list[LabelledReading]) -> None:
    with pytest.raises(InvalidInputError, match="all scores, or none"):
        fit_reader(rows)
