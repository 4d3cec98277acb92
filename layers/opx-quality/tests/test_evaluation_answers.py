"""Judging answers: spans and what is refused of them, grades of replies, and the figures that are made of those."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from opx.domain.queries import SearchMode
from opx.domain.record import replace
from opx.edges.cli.main import Launch, cli
from opx.errors import InvalidInputError
from opx.settings import Settings
from opx.system import bootstrap, connect
from opx_quality.cli.evaluate import reply_forms
from opx_quality.evaluation.answers import ReplyJudgement, Shown, answer_figures, judged
from opx_quality.evaluation.comparison import compare_runs, unhelped
from opx_quality.evaluation.datasets import Span, load_dataset, span_hash
from opx_quality.evaluation.figures import summary
from opx_quality.evaluation.querying import run_queries
from opx_quality.evaluation.report import report_html
from opx_quality.evaluation.runner import Evaluation
from opx_quality.evaluation.runs import EvaluationRun, load_run, save_run
from tests.support.evaluation_support import a_question, a_reply, a_run, lines
from tests.support.fakes import WordsEmbedder

DISK = "storage/disk"
FAR = "Call the tape robot's vendor" + " and note the serial number of each cartridge" * 4 + "."
PARTS = [f"## Part {n}\n\n" + f"The disk has rotated logs in part {n}. " * 12 for n in range(30)]
FILLER = "\n\n".join([*PARTS[:9], f"## Tapes\n\n{FAR}", *PARTS[9:]])
PAGES = {
    DISK: ("Disk full", f"Intro.\n\n1. Delete   rotated logs.\n2. Check `df -h`.\n\n{FILLER}\n"),
    "certificates": ("Certificate expired", "Renew the certificate and reload the gateway.\n"),
}


def a_span(text: str, grade: int = 2, page: str = DISK) -> dict[str, Any]:
    return {"page": page, "grade": grade, "text": text}


def a_position(text: str, grade: int = 2, page: str = DISK) -> dict[str, Any]:
    start = PAGES[page][1].index(text)
    return {"page": page, "grade": grade, "start": start, "end": start + len(text), "sha256": span_hash(text)}


def a_record(name: str, text: str, *spans: object, split: str = "dev") -> dict[str, Any]:
    return {"_id": name, "text": text, "metadata": {"kind": "words", "split": split, "spans": list(spans)}}


def write_corpus(folder: Path) -> Path:
    folder.mkdir()
    corpus = [{"_id": page, "title": title, "text": text} for page, (title, text) in PAGES.items()]
    (folder / "corpus.jsonl").write_text(lines(corpus))
    return folder


def write_questions(path: Path, *records: Mapping[str, Any]) -> Path:
    path.write_text(lines(records))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "small")


def spans_of(folder: Path, *spans: object) -> tuple[Span, ...]:
    return (
        load_dataset(folder, write_questions(folder / "questions.jsonl", a_record("q1", "?", *spans)))
        .questions[0]
        .spans
    )


class TestSpans:
    def test_are_given_by_their_text_or_by_their_position(self, folder: Path) -> None:
        found = spans_of(folder, a_span("Check `df -h`."), a_position("rotated logs", 1))
        assert found == (Span(DISK, 2, "Check `df -h`."), Span(DISK, 1, "rotated logs"))

    def test_label_their_pages_where_the_questions_are_in_a_file_of_their_own(self, folder: Path) -> None:
        spans = (a_span("rotated logs", 1), a_span("Renew the certificate", 1, "certificates"), a_span("Check"))
        path = write_questions(folder / "questions.jsonl", a_record("q1", "?", *spans))
        assert load_dataset(folder, path).questions[0].relevant == {DISK: 2, "certificates": 1}

    def test_of_a_dataset_stand_beside_its_labels(self, folder: Path) -> None:
        write_questions(folder / "queries.jsonl", a_record("q1", "?", a_span("Check")), {"_id": "q2", "text": "?"})
        (folder / "qrels").mkdir()
        (folder / "qrels" / "test.tsv").write_text(
            "query-id\tcorpus-id\tscore\nq1\tcertificates\t1\nq2\tcertificates\t1\n"
        )
        first, second = load_dataset(folder).questions
        assert (first.relevant, first.spans) == ({"certificates": 1}, (Span(DISK, 2, "Check"),))
        assert second.spans == ()

    def test_may_be_of_files_of_a_folder(self, folder: Path) -> None:
        (folder / "corpus.jsonl").unlink()
        (folder / "documents").mkdir()
        (folder / "documents" / "pods.md").write_text("Read its events.\n")
        assert spans_of(folder, a_span("its events", page="pods.md")) == (Span("pods.md", 2, "its events"),)

    @pytest.mark.parametrize(
        ("span", "reason"),
        [
            (a_span("Delete the database."), "doesn't have the text 'Delete the database.'"),
            (a_span("Renew the certificate"), f"{DISK} doesn't have the text"),
            (a_span("Check", page="gone"), "the corpus has no page gone"),
            (a_span("Check", grade=3), "the grade is 1 or 2"),
            ({**a_position("Check"), "sha256": span_hash("check")}, "its hash is not"),
            ({**a_position("Check"), "start": -5}, "another text"),
            ({"page": DISK, "grade": 2}, "expected page, grade"),
            ({"page": DISK, "text": "Check"}, "expected page, grade"),
            ("Check", "expected page, grade"),
        ],
    )
    def test_that_the_page_lacks_or_that_is_malformed_is_refused_by_name(
        self, folder: Path, span: object, reason: str
    ) -> None:
        with pytest.raises(InvalidInputError, match="question q1, span 2: ") as refused:
            spans_of(folder, a_span("Check"), span)
        assert reason in str(refused.value)

    def test_of_a_page_that_has_changed_are_refused(self, folder: Path) -> None:
        position = a_position("rotated logs")
        changed = (folder / "corpus.jsonl").read_text().replace("Intro.", "A longer intro.")
        (folder / "corpus.jsonl").write_text(changed)
        with pytest.raises(InvalidInputError, match="question q1, span 1"):
            spans_of(folder, position)

    @pytest.mark.parametrize("records", [[], [{"_id": "q1", "text": "?"}], [a_record("q1", "?", *"xy")]])
    def test_have_to_be_there_where_nothing_else_labels(
        self, folder: Path, records: Sequence[Mapping[str, Any]]
    ) -> None:
        with pytest.raises(InvalidInputError, match=r"no questions|question q1"):
            load_dataset(folder, write_questions(folder / "questions.jsonl", *records))


QUESTION = replace(
    a_question("q"),
    spans=(Span("a", 1, "Look at the **queue** first"), Span("a", 2, "| `pg-2` | call the [owner](x.md) |")),
)


def judgement(text: str, *pages: str, rendered: bool = False) -> ReplyJudgement:
    return judged(QUESTION, Shown(text, tuple((page, page) for page in pages), rendered), pages)


class TestGrades:
    def test_are_the_best_of_the_spans_in_the_text(self) -> None:
        assert judgement("Look at the **queue** first.", "a").grade == 1
        assert judgement("Look at the **queue** first.\n| `pg-2` | call the [owner](x.md) |", "a").grade == 2
        assert judgement("Look at the queue first.", "a").grade == 0

    def test_do_not_depend_on_white_space(self) -> None:
        assert judgement("   Look at\n   the **queue**  first", "a").grade == 1

    def test_of_rendered_text_do_not_depend_on_marks(self) -> None:
        assert judgement("│ pg-2 │ call the owner │", "a", rendered=True).grade == 2
        assert judgement("│ pg-2 │ call an owner │", "a", rendered=True).grade == 0

    def test_count_a_line_of_another_page_too_as_the_reader_has_it(self) -> None:
        found = judgement("| `pg-2` | call the [owner](x.md) |", "b")
        assert (found.grade, found.rank) == (2, None)

    def test_come_with_the_rank_of_the_right_page_among_documents(self) -> None:
        assert judgement("", "b", "b", "a").rank == 2

    def test_come_with_tokens_and_refusals(self) -> None:
        assert (judgement("one two three").tokens, judgement("").refused, judgement("", "a").refused) == (
            3,
            True,
            False,
        )


# -- from the corpus to the figures

ASKED = (
    a_record("found", "disk full of rotated logs", a_span("Delete   rotated logs."), a_span("Check `df -h`.", 1)),
    a_record("cut", "disk full of rotated logs", a_span(FAR), split="test"),
    a_record("elsewhere", "renew the certificate", a_span("Delete   rotated logs."), split="test"),
    a_record("nothing", "zebra", a_span("Renew the certificate", page="certificates"), split="test"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvaluationRun]:
    folder = write_corpus(tmp_path_factory.mktemp("answers") / "small")
    dataset = load_dataset(folder, write_questions(folder / "questions.jsonl", *ASKED))
    dataset = replace(dataset, questions=(*dataset.questions, a_question("without spans", "certificates")))
    home = str(folder / "home")
    with bootstrap(Settings(home=home, audit_days=0, gap_days=0), embedder=WordsEmbedder()) as services:
        evaluation = Evaluation(services, dataset)
        evaluation.ingest()
        yield run_queries(evaluation, [SearchMode.BALANCED], compared_at=None, forms=reply_forms(services))


def graded(run: EvaluationRun, form: str) -> dict[str, int]:
    return {q.id: one.grade for q, one in zip(run.questions, run.answers[form], strict=True) if one}


class TestReplies:
    def test_every_form_answers_every_question_that_has_spans(self, run: EvaluationRun) -> None:
        forms = ["reply, bar 0", "reply, bar 0.5", "reply, bar 0.95", "passages", "whole page", "terminal"]
        assert list(run.answers) == forms
        answered = [[one is not None for one in found] for found in run.answers.values()]
        assert answered == [[*[True] * len(ASKED), False]] * len(forms)

    def test_span_that_fits_is_found(self, run: EvaluationRun) -> None:
        assert graded(run, "reply, bar 0")["found"] == 2
        assert graded(run, "whole page")["found"] == 2

    def test_span_that_the_budget_cuts_is_missed_where_the_whole_page_has_it(self, run: EvaluationRun) -> None:
        assert graded(run, "reply, bar 0")["cut"] == 0
        assert graded(run, "whole page")["cut"] == 2

    def test_span_of_a_document_behind_the_first_is_missed_by_the_first_page_alone(self, run: EvaluationRun) -> None:
        first = run.answers["whole page"][2]
        assert first is not None
        assert (first.grade, first.rank) == (0, None)

    def test_question_that_nothing_is_near_is_refused_from_likely_on(self, run: EvaluationRun) -> None:
        refused = {form: found[3].refused for form, found in run.answers.items() if found[3]}
        assert refused["reply, bar 0.5"]
        assert refused["reply, bar 0.95"]

    def test_bar_refuses_what_is_less_certain(self, run: EvaluationRun) -> None:
        refused = {form: sum(one.refused for one in found if one) for form, found in run.answers.items()}
        assert refused["reply, bar 0"] <= refused["reply, bar 0.5"] <= refused["reply, bar 0.95"]

    def test_are_within_their_budget(self, run: EvaluationRun) -> None:
        assert all(one.tokens <= 1250 for one in run.answers["reply, bar 0"] if one)


def a_judgement(grade: int, rank: int | None = 1, tokens: int = 100, *, refused: bool = False) -> ReplyJudgement:
    return ReplyJudgement(grade, rank, tokens, refused)


SPANS = (Span("a", 2, "text"),)
QUESTIONS = (
    replace(a_question("q1", "a", kind="log", split="dev"), spans=SPANS),
    replace(a_question("q2", "a", kind="short", split="test"), spans=SPANS),
    replace(a_question("q3", "a", kind="short", split="test"), spans=SPANS),
    a_question("q4", "a", kind="short", split="test"),
)


def judged_run(*found: ReplyJudgement | None) -> EvaluationRun:
    run = a_run(*[(question, a_reply("a")) for question in QUESTIONS])
    return replace(run, answers={"reply": found})


BEFORE = judged_run(a_judgement(2), a_judgement(1, None), a_judgement(2, 6, 300), None)
AFTER = judged_run(a_judgement(2), a_judgement(2), a_judgement(0, 3, refused=True), None)


class TestFigures:
    def test_are_shares_and_means_by_split_and_kind(self) -> None:
        figures = answer_figures(BEFORE.questions, BEFORE.answers)
        every = figures["all"]["reply"]["all"]
        assert list(figures) == ["all", "dev", "test"]
        assert every.to_json() == {
            "questions": 3, "helped": 0.6667, "helpedIfFound": 1.0, "first": 0.3333, "inFive": 0.3333,
            "grade": 1.6667, "tokens": 166.6667, "tokensP95": 280.0, "refused": 0.0,
        }  # fmt: skip
        assert figures["test"]["reply"]["short"].helped == 0.5

    def test_of_pages_that_are_never_found_have_no_share_of_those_found(self) -> None:
        run = judged_run(*[a_judgement(0, None)] * 3, None)
        assert answer_figures(run.questions, run.answers)["all"]["reply"]["all"].helped_if_found is None
        assert "-" in report_html(run)

    def test_of_one_split_alone_are_not_repeated(self) -> None:
        half = AFTER.of_split("test")
        assert list(answer_figures(half.questions, half.answers)) == ["all"]
        assert [one and one.grade for one in half.answers["reply"]] == [2, 0, None]

    def test_are_in_the_summary_and_the_report(self) -> None:
        assert summary(AFTER)["answers"]["all"]["reply"]["all"]["helped"] == 0.6667
        assert "answers, test (2)" in report_html(AFTER)
        json.dumps(summary(AFTER))

    def test_of_runs_without_spans_are_left_out(self) -> None:
        run = replace(BEFORE, answers={})
        assert "answers" not in summary(run)
        assert "answers" not in run.to_json()
        assert "Answers" not in report_html(run)


class TestRuns:
    def test_with_answers_come_back_as_they_were(self, tmp_path: Path) -> None:
        save_run(BEFORE, tmp_path / "run.json")
        assert load_run(tmp_path / "run.json") == BEFORE

    def test_with_an_answer_too_few_are_refused(self, tmp_path: Path) -> None:
        save_run(replace(BEFORE, answers={"reply": BEFORE.answers["reply"][:2]}), tmp_path / "run.json")
        with pytest.raises(InvalidInputError, match="is incomplete"):
            load_run(tmp_path / "run.json")

    def test_over_other_spans_can_not_be_compared(self) -> None:
        changed = replace(AFTER, questions=(replace(QUESTIONS[0], spans=()), *QUESTIONS[1:]))
        with pytest.raises(InvalidInputError, match="differ"):
            list(compare_runs(BEFORE, changed))

    def test_are_compared_answer_by_answer(self) -> None:
        turned = replace(
            AFTER,
            questions=AFTER.questions[::-1],
            replies={"balanced": AFTER.replies["balanced"][::-1]},
            answers={"reply": AFTER.answers["reply"][::-1]},
        )
        rows = [row for row in compare_runs(BEFORE, turned) if row.first == "reply"]
        found = {(row.kind, row.measure): row.difference for row in rows}
        assert found["all", "answer helps"].difference == 0
        assert found["all", "answer's grade"].difference == pytest.approx(-1 / 3)
        assert (found["short", "answer helps"].count, found["short", "answer helps"].p) == (2, 1.0)

    def test_name_the_questions_that_are_not_helped(self) -> None:
        assert [question.id for question, _ in unhelped(AFTER, "reply", 5)] == ["q3"]
        assert [question.id for question, _ in unhelped(BEFORE, "reply", 5)] == ["q2"]
        assert [question.id for question, _ in unhelped(AFTER, "reply", 5, BEFORE)] == ["q3"]
        assert unhelped(BEFORE, "reply", 5, BEFORE) == []


class TestCommand:
    @pytest.fixture
    def printed(self, folder: Path, tmp_path: Path) -> str:
        path = write_questions(folder / "questions.jsonl", *ASKED)
        launch = Launch(lambda settings: bootstrap(settings, embedder=WordsEmbedder()), connect, {})
        options = ["--questions", str(path), "--mode", "fast", "--losers", "2"]
        result = CliRunner().invoke(cli, ["--home", str(tmp_path / "home"), "eval", str(folder), *options], obj=launch)
        assert result.exit_code == 0, result.output
        return click.unstyle(result.stdout)

    def test_prints_a_table_a_split_and_what_was_missed(self, printed: str) -> None:
        heads = [
            line.split("(")[0].strip() for line in printed.splitlines() if line.startswith(("answers,", "helped,"))
        ]
        assert [head.split()[1] for head in heads] == ["all", "all", "dev", "dev", "test", "test"]
        assert "  reply, bar 0.95 " in printed
        assert f"    wanted  {DISK}: {FAR}" in printed
