"""Evaluation runs: files, comparisons, losers, and the report."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from opx.domain.record import replace
from opx.errors import InvalidInputError
from opx_quality.cli.evaluate import lapse_lines
from opx_quality.evaluation.bands import ROWS, SURE_AND_WRONG
from opx_quality.evaluation.comparison import compare_runs, false_answers, losers
from opx_quality.evaluation.datasets import LabelledQuestion
from opx_quality.evaluation.figures import lapses, summary
from opx_quality.evaluation.report import (
    Drawing,
    abstention_chart,
    latency_chart,
    quality_chart,
    reliability_chart,
    report_html,
    write_report,
)
from opx_quality.evaluation.runs import EvaluationRun, load_run, save_run
from tests.support.evaluation_support import CONFIDENCE, a_question, a_reply, a_run

SURE, BANDS = 0.97, {*ROWS, SURE_AND_WRONG}
HOSTILE = '</title><script>alert("x")</script>\'& <b>'
QUESTIONS = (
    a_question("q1", "a", kind="exact", split="dev"),
    a_question("q2", grades={"b": 2, "c": 1}, kind="semantic", split="test"),
    a_question("q3", "d", kind="semantic", split="dev"),
    a_question("n1", kind="unanswerable", split="dev"),
)


def before() -> EvaluationRun:
    replies = (a_reply("a", "b"), a_reply("b", "c"), a_reply("x", "d"), a_reply("a", confidences=(0.8,)))
    return a_run(*zip(QUESTIONS, replies, strict=True))


def after(confidence: float = CONFIDENCE) -> EvaluationRun:
    found = (a_reply(*pages, confidences=(confidence,) * len(pages)) for pages in (("b", "a"), ("x", "c"), ("d",)))
    return a_run(*zip(QUESTIONS, (*found, a_reply("a", confidences=(0.2,))), strict=True))


def reporting(run: EvaluationRun, *absent: str) -> EvaluationRun:
    """The same run, with something reported absent for the questions with these ids."""
    replies = [
        replace(reply, absent=("DiskFull",) if question.id in absent else ())
        for question, reply in zip(run.questions, run.replies["balanced"], strict=True)
    ]
    return replace(run, replies={"balanced": tuple(replies)})


class TestFiles:
    def test_run_comes_back_as_it_was(self, tmp_path: Path) -> None:
        save_run(before(), tmp_path / "run.json")
        assert load_run(tmp_path / "run.json") == before()

    def test_reported_absence_is_saved(self, tmp_path: Path) -> None:
        save_run(reporting(before(), "q2"), tmp_path / "run.json")
        assert load_run(tmp_path / "run.json") == reporting(before(), "q2")

    def test_legs_alone_have_no_confidence_in_the_file(self, tmp_path: Path) -> None:
        run = replace(before(), replies={"lexical": tuple(replace(r, confidences=(), milliseconds=0.0, timings_ms={})
                                                          for r in before().replies["balanced"])})  # fmt: skip
        save_run(run, tmp_path / "run.json")
        assert json.loads((tmp_path / "run.json").read_text())["replies"]["lexical"][0] == {"pages": ["a", "b"]}

    @pytest.mark.parametrize("text", ["", "{}", "[]", "7", '{"format": 1}', "\xff", '{"format": 1, "questions": [{}]}'])
    def test_anything_else_is_refused(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "run.json").write_text(text, encoding="latin-1")
        with pytest.raises(InvalidInputError, match="not a run"):
            load_run(tmp_path / "run.json")

    def test_another_format_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "run.json").write_text(json.dumps({**before().to_json(), "format": 9}))
        with pytest.raises(InvalidInputError, match="format 9"):
            load_run(tmp_path / "run.json")

    def test_run_with_a_reply_too_few_is_refused(self, tmp_path: Path) -> None:
        data = before().to_json()
        data["replies"]["balanced"].pop()
        (tmp_path / "run.json").write_text(json.dumps(data))
        with pytest.raises(InvalidInputError, match="is incomplete"):
            load_run(tmp_path / "run.json")

    @pytest.mark.parametrize("act", [lambda path: save_run(before(), path), lambda path: write_report(before(), path)])
    def test_file_that_can_not_be_written_is_named(self, tmp_path: Path, act: object) -> None:
        with pytest.raises(InvalidInputError, match="nowhere"):
            act(tmp_path / "nowhere" / "file")  # type: ignore[operator]


class TestSplit:
    def test_half_of_a_run_has_its_own_questions_and_replies(self) -> None:
        half = before().of_split("dev")
        assert [question.id for question in half.questions] == ["q1", "q3", "n1"]
        assert [reply.pages[0] for reply in half.replies["balanced"]] == ["a", "x", "a"]


class TestComparison:
    def test_every_kind_and_measure_has_a_row(self) -> None:
        rows = list(compare_runs(before(), after()))
        assert [(row.kind, row.measure) for row in rows if row.measure in ("MRR", "refused@0.7")] == [
            ("all", "MRR"), ("exact", "MRR"), ("semantic", "MRR"), ("unanswerable", "refused@0.7")
        ]  # fmt: skip
        assert {(row.kind, row.difference.count) for row in rows} == {
            ("all", 3), ("exact", 1), ("semantic", 2), ("unanswerable", 1)
        }  # fmt: skip

    def test_rows_are_second_minus_first(self) -> None:
        found = {(row.kind, row.measure): row.difference for row in compare_runs(before(), after())}
        assert found["exact", "MRR"].difference == -0.5
        assert found["semantic", "MRR"].difference == pytest.approx((0.5 - 1 + 1 - 0.5) / 2)
        assert found["unanswerable", "refused@0.7"].difference == 1.0

    def test_shares_in_each_band_are_compared(self) -> None:
        rows = {(row.kind, row.measure): row.difference for row in compare_runs(before(), after(SURE))}
        found = {name: (one.first, one.second) for name, one in rows.items() if name[1] in BANDS}
        assert found["all", "sure"] == (0.0, 1.0)
        assert found["all", "likely"] == (1.0, 0.0)
        assert found["all", "sure and wrong"] == pytest.approx((0.0, 2 / 3))
        assert found["unanswerable", "likely"] == (1.0, 0.0)
        assert found["unanswerable", "weak"] == (0.0, 1.0)
        assert ("unanswerable", "sure and wrong") not in found

    def test_reported_absence_is_compared_if_both_runs_have_it(self) -> None:
        def rows(first: EvaluationRun, second: EvaluationRun) -> dict[str, tuple[float, float]]:
            absent = [row for row in compare_runs(first, second) if row.measure == "told absent"]
            return {row.kind: (row.difference.first, row.difference.second) for row in absent}

        assert rows(reporting(before()), reporting(after(), "n1")) == {"all": (0.0, 0.0), "unanswerable": (0.0, 1.0)}
        assert rows(before(), reporting(after(), "n1")) == {}

    def test_run_compared_with_itself_differs_in_nothing(self) -> None:
        assert all(row.difference.difference == 0 and row.difference.p == 1 for row in compare_runs(before(), before()))

    def test_questions_are_matched_by_id_not_by_place(self) -> None:
        other = after()
        turned = replace(
            other,
            questions=other.questions[::-1],
            replies={"balanced": other.replies["balanced"][::-1]},
        )
        assert list(compare_runs(before(), turned)) == list(compare_runs(before(), other))

    def test_two_modes_of_one_run_can_be_compared(self) -> None:
        run = replace(
            before(), replies={**before().replies, "fast": after().replies["balanced"]}, modes=("balanced", "fast")
        )
        assert [row.difference for row in compare_runs(run, run, [("balanced", "fast")])] == [
            row.difference for row in compare_runs(before(), after())
        ]

    def test_system_without_confidence_has_no_row_of_refusals(self) -> None:
        run = replace(before(), replies={**before().replies, "lexical": before().replies["balanced"]})
        rows = list(compare_runs(run, run, [("lexical", "balanced")]))
        assert rows
        assert not [row for row in rows if row.measure.startswith("refused") or row.measure in BANDS]

    @pytest.mark.parametrize(
        ("questions", "reason"),
        [
            (
                (*QUESTIONS[:3], a_question("n2", kind="unanswerable", split="dev")),
                "2 questions are in one of them only",
            ),
            ((a_question("q1", "b", kind="exact", split="dev"), *QUESTIONS[1:]), "differ"),
            ((replace(QUESTIONS[0], text="other"), *QUESTIONS[1:]), "differ"),
        ],
    )
    def test_runs_over_different_questions_are_refused(
        self, questions: tuple[LabelledQuestion, ...], reason: str
    ) -> None:
        other = replace(before(), questions=questions)
        with pytest.raises(InvalidInputError, match=reason):
            list(compare_runs(before(), other))

    def test_system_that_a_run_has_not_is_named(self) -> None:
        with pytest.raises(InvalidInputError, match="no system 'thorough'"):
            list(compare_runs(before(), after(), [("balanced", "thorough")]))

    def test_runs_without_a_common_mode_need_names(self) -> None:
        other = replace(after(), replies={"fast": after().replies["balanced"]}, modes=("fast",))
        with pytest.raises(InvalidInputError, match="no mode in common"):
            list(compare_runs(before(), other))


class TestLosers:
    def test_worst_questions_come_first_with_their_ranks(self) -> None:
        found = losers(after(), "balanced", 5)
        assert [loser.question.id for loser in found] == ["q2", "q1"]
        assert found[0].ranks == {"b": None, "c": 2}

    def test_against_another_run_the_greatest_loss_comes_first(self) -> None:
        found = losers(after(), "balanced", 5, before())
        assert [loser.question.id for loser in found] == ["q2", "q1"]
        assert found[1].lost == pytest.approx(1 - 0.6309, abs=1e-4)

    def test_no_more_than_requested(self) -> None:
        assert len(losers(after(), "balanced", 1)) == 1

    def test_most_certain_answers_to_questions_without_one(self) -> None:
        run = a_run(
            (a_question("q", "a"), a_reply("a")),
            (a_question("n1"), a_reply("a", confidences=(0.3,))),
            (a_question("n2"), a_reply("b", confidences=(0.6,))),
            (a_question("n3"), a_reply()),
        )
        assert [loser.question.id for loser in false_answers(run, "balanced", 5)] == ["n2", "n1"]


class Reading(HTMLParser):
    """Parses what a browser would show: tags, attributes, text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


class TestReport:
    def test_has_a_drawing_of_each_sort_and_the_questions_that_went_worst(self) -> None:
        page = Reading(report_html(after(), before=before()))
        assert page.tags.count("svg") == 5
        assert "Compared with another run" in page.text
        assert "balanced told absent" in page.text
        assert "text of q2" in page.text

    def test_whatever_questions_and_pages_are_called_nothing_but_text_comes_of_it(self) -> None:
        question = a_question("q", HOSTILE, kind=HOSTILE, text=HOSTILE)
        unanswered = a_question("n", kind=HOSTILE + "n", text=HOSTILE)
        run = replace(a_run((question, a_reply("x", HOSTILE)), (unanswered, a_reply(HOSTILE))), dataset=HOSTILE)
        page = Reading(report_html(run, before=run))
        assert not {"script", "b", "img", "link", "iframe"} & set(page.tags)
        assert HOSTILE in page.text

    def test_fetches_nothing(self) -> None:
        page = Reading(report_html(before()))
        assert not [name for name, _ in page.attributes if name in ("src", "href", "srcset", "data", "action")]
        assert "default-src 'none'" in dict(page.attributes)["content"]  # type: ignore[operator]

    def test_run_without_unanswerable_questions_has_a_report_too(self) -> None:
        assert "separation" in report_html(a_run((a_question("q", "a"), a_reply("a"))))

    def test_run_in_which_nothing_was_found_has_a_report_too(self) -> None:
        assert "not found" in report_html(a_run((a_question("q", "a"), a_reply()), (a_question("n"), a_reply())))

    def test_other_run_over_other_questions_is_refused(self) -> None:
        with pytest.raises(InvalidInputError, match="different questions"):
            report_html(before(), before=a_run((a_question("q", "a"), a_reply("a"))))


class TestDrawings:
    @pytest.mark.parametrize(
        "drawn",
        [
            quality_chart(before()),
            reliability_chart(before(), "ten pages"),
            abstention_chart(before(), "balanced", 0.7),
            latency_chart(before()),
        ],
    )
    def test_are_well_formed(self, drawn: str) -> None:
        assert ElementTree.fromstring(drawn).tag.endswith("svg")

    def test_bar_is_as_high_as_its_value(self) -> None:
        drawing = Drawing("bars", y_most=10)
        drawing.bars({"a": {"x": 10.0, "y": 5.0, "z": 0.0}})
        bars = [
            element
            for element in ElementTree.fromstring(drawing.to_svg()).iter()
            if len(element) and "height" in element.attrib
        ]
        heights = [float(bar.attrib["height"]) for bar in bars]
        assert heights[1] == pytest.approx(heights[0] / 2)
        assert heights[2] == 0

    def test_point_beyond_the_axis_stays_in_the_drawing(self) -> None:
        drawing = Drawing("line")
        drawing.line("x", [(0.0, -1.0), (2.0, 2.0)])
        line = next(e for e in ElementTree.fromstring(drawing.to_svg()).iter() if e.tag.endswith("polyline"))
        assert line.attrib["points"] == "50.0,250.0 540.0,20.0"


class TestLapses:
    def test_partial_answers_and_those_ranked_otherwise_are_counted(self) -> None:
        usual = replace(a_reply("a"), ranked_by="local")
        replies = [usual, replace(usual, partial=True), replace(usual, ranked_by="fused"), usual]
        run = a_run(*zip(QUESTIONS, replies, strict=True))
        assert lapses(run, "balanced") == {"partial": 1, "ranked by fused": 1}
        assert "answers of balanced: partial" in report_html(run)
        assert list(lapse_lines(run)) == ["of 4 answers of balanced: 1 partial, 1 ranked by fused"]

    def test_nothing_is_reported_without_lapses(self) -> None:
        assert lapses(before(), "balanced") == {}
        assert list(lapse_lines(before())) == []


def test_summary_has_figures_of_systems_and_modes() -> None:
    found = summary(before(), 0.5)
    assert found["figures"]["balanced"]["exact"]["MRR"] == 1.0
    assert found["confidence"]["balanced"]["atFloor"]["unanswerableRefused"] == 0.0
    assert found["confidence"]["balanced"]["bands"]["likely"] == {
        "answerable": 3, "right": 0.6667, "unanswerable": 1, "unanswerableByKind": {"unanswerable": 1}
    }  # fmt: skip
    assert found["latency"]["balanced"]["answer"]["p50"] == 5.0
    json.dumps(found)
