"""Questions with gold spans: that they are what docs/quality.md says, and that replies help as often as expected."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from opx.domain.record import replace
from opx_quality.evaluation.datasets import Dataset, load_dataset
from opx_quality.evaluation.runs import EvaluationRun
from tests.quality.answers_expected import (
    ELSEWHERE,
    FOLDER,
    clock,
    differences,
    expected_figures,
    figures,
    run_of,
)
from tests.quality.expected import services_with
from tests.quality.splits import SPLITS

CHECKED = SPLITS[0]
"""The half that is run here, to save time: `python -m tests.quality.answers_expected` runs both."""

REFRESH = (
    "if that is meant, run `python -m tests.quality.answers_expected --write` and say in the change why it is better"
)
UNANSWERABLE = FOLDER / "unanswerable.jsonl"
IDENTIFIERS = FOLDER / "identifiers.jsonl"
DOCUMENTS = Path(__file__).parents[2] / "corpus" / "documents"
ALERT_NAME = re.compile(r'(?:\] |"alertname":"|"AlarmName":"|^)([A-Z]\w+)')
STYLES = {"alert", "log", "chatty", "short", "misspelt", "language"}


def half_of(page: str) -> str:
    """The half of all questions of a page."""
    return SPLITS[int(hashlib.sha256(page.encode()).hexdigest(), 16) % 2]


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text_of(path).splitlines()]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def without_head(text: str) -> str:
    """A page without its front matter."""
    return text.split("---\n", 2)[2]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load_dataset(FOLDER)


@pytest.fixture(scope="module")
def elsewhere() -> list[dict[str, Any]]:
    return records(ELSEWHERE)


@pytest.fixture(scope="module")
def unanswerable() -> list[dict[str, Any]]:
    return records(UNANSWERABLE)


class TestQuestions:
    def test_all_have_a_line_that_is_enough_on_the_labelled_page(self, dataset: Dataset) -> None:
        assert len(dataset.questions) == 325
        for question in dataset.questions:
            assert {span.page for span in question.spans} == set(question.relevant)
            assert max(span.grade for span in question.spans) == 2

    def test_are_of_every_style_in_both_halves(self, dataset: Dataset) -> None:
        styles = Counter((question.kind, question.split) for question in dataset.questions)
        assert set(styles) == {(style, split) for style in STYLES for split in SPLITS}

    def test_recorded_half_is_that_of_the_page(self, dataset: Dataset, elsewhere: list[dict[str, Any]]) -> None:
        assert all(question.split == half_of(next(iter(question.relevant))) for question in dataset.questions)
        metadata = [question["metadata"] for question in elsewhere]
        assert all(one["split"] == half_of(span["page"]) for one in metadata for span in one["spans"])

    def test_over_another_corpus_hold_nothing_of_its_pages(self, elsewhere: list[dict[str, Any]]) -> None:
        assert len(elsewhere) == 180
        keys = {frozenset(span) for question in elsewhere for span in question["metadata"]["spans"]}
        assert keys == {frozenset(("page", "grade", "start", "end", "sha256"))}


class TestQuestionsWithoutAnAnswer:
    def test_are_of_three_kinds_and_every_style(self, unanswerable: list[dict[str, Any]]) -> None:
        assert load_dataset(FOLDER, UNANSWERABLE).questions == ()
        kinds = Counter(question["metadata"]["kind"] for question in unanswerable)
        assert kinds == {"near-miss": 82, "foreign": 41, "absent": 41}
        styles = {(question["metadata"]["kind"], question["metadata"]["style"]) for question in unanswerable}
        assert styles == {(kind, style) for kind in kinds for style in STYLES}

    def test_recorded_half_is_that_of_the_id(self, unanswerable: list[dict[str, Any]]) -> None:
        assert all(question["metadata"]["split"] == half_of(question["_id"]) for question in unanswerable)

    def test_that_nearly_have_one_name_the_page_that_looks_like_it(self, unanswerable: list[dict[str, Any]]) -> None:
        siblings = {one["_id"]: one["metadata"].get("sibling") for one in unanswerable}
        near = {one["_id"] for one in unanswerable if one["metadata"]["kind"] == "near-miss"}
        assert {name for name, page in siblings.items() if page} == near
        assert all((DOCUMENTS / siblings[name]).is_file() for name in near)

    def test_about_alerts_name_one_that_no_document_has(self, unanswerable: list[dict[str, Any]]) -> None:
        corpus = "\n".join(map(text_of, DOCUMENTS.rglob("*.md"))).casefold()
        alerts = [question["text"] for question in unanswerable if question["metadata"]["style"] == "alert"]
        names = [found[1] for text in alerts if (found := ALERT_NAME.search(text))]
        assert len(names) == len(alerts) >= 50
        assert [name for name in names if name.casefold() in corpus] == []


class TestQuestionsWithAnIdentifier:
    def test_have_words_around_it_and_a_line_that_is_enough(self) -> None:
        questions = {question.id: question for question in load_dataset(FOLDER, IDENTIFIERS).questions}
        assert len(questions) == 151
        for record in records(IDENTIFIERS):
            question, name = questions[record["_id"]], record["metadata"]["identifier"]
            assert question.spans[0].grade == 2
            assert question.split == half_of(question.spans[0].page)
            before, _, after = question.text.casefold().partition(name.casefold())
            assert 2 <= len(f"{before} {after}".split()) <= 30, question.id

    def test_label_the_page_of_an_answer_and_the_few_that_mention_it(self) -> None:
        bodies = {
            path.relative_to(DOCUMENTS).as_posix(): without_head(text_of(path)) for path in DOCUMENTS.rglob("*.md")
        }
        for record in records(IDENTIFIERS):
            name = re.compile(rf"(?<!\w){re.escape(record['metadata']['identifier'])}(?!\w)", re.IGNORECASE)
            naming = {page for page, text in bodies.items() if name.search(text)}
            labelled = [span["page"] for span in record["metadata"]["spans"]]
            assert labelled[0] in naming <= set(labelled), record["_id"]
            assert len(naming) <= 3, record["_id"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, dataset: Dataset) -> EvaluationRun:
    with services_with(tmp_path_factory.mktemp("answers"), clock=clock) as services:
        return run_of(services, dataset.of_split(CHECKED))


@pytest.mark.timeout(600)
class TestReplies:
    def test_help_as_often_as_expected(self, found: EvaluationRun) -> None:
        expected = {CHECKED: expected_figures()[CHECKED]}
        differing = "\n".join(sorted(differences(expected, figures(found))))
        assert not differing, f"{differing}\n{REFRESH}"

    def test_that_are_worse_are_noticed(self, found: EvaluationRun) -> None:
        """The tolerance must not hide everything: here one in ten replies loses its line."""
        answers = {
            form: tuple(one and replace(one, grade=one.grade if at % 10 else 0) for at, one in enumerate(replies))
            for form, replies in found.answers.items()
        }
        differing = list(differences(figures(found), figures(replace(found, answers=answers))))
        assert any("reply, bar 0, all, helped" in line for line in differing)
        assert any("reply, bar 0.5, all, grade" in line for line in differing)
