"""Questions with gold spans: that they are what docs/quality.md says, and that replies help as often as expected."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

import pytest

from opx.domain.record import replace
from opx.evaluation.datasets import Dataset, load_dataset
from opx.evaluation.runs import Run
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
"""The half that is asked here, to save time: `python -m tests.quality.answers_expected` asks both."""

REFRESH = (
    "if that is meant, run `python -m tests.quality.answers_expected --write` and say in the change why it is better"
)
STYLES = {"alert", "log", "chatty", "short", "misspelt", "language"}


def half_of(page: str) -> str:
    """The half of all questions of a page."""
    return SPLITS[int(hashlib.sha256(page.encode()).hexdigest(), 16) % 2]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load_dataset(FOLDER)


@pytest.fixture(scope="module")
def elsewhere() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ELSEWHERE.read_text(encoding="utf-8").splitlines()]


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
        asked = [question["metadata"] for question in elsewhere]
        assert all(one["split"] == half_of(span["page"]) for one in asked for span in one["spans"])

    def test_over_another_corpus_hold_nothing_of_its_pages(self, elsewhere: list[dict[str, Any]]) -> None:
        assert len(elsewhere) == 180
        keys = {frozenset(span) for question in elsewhere for span in question["metadata"]["spans"]}
        assert keys == {frozenset(("page", "grade", "start", "end", "sha256"))}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, dataset: Dataset) -> Run:
    with services_with(tmp_path_factory.mktemp("answers"), clock=clock) as services:
        return run_of(services, dataset.of_split(CHECKED))


@pytest.mark.timeout(600)
class TestReplies:
    def test_help_as_often_as_expected(self, found: Run) -> None:
        expected = {CHECKED: expected_figures()[CHECKED]}
        differing = "\n".join(sorted(differences(expected, figures(found))))
        assert not differing, f"{differing}\n{REFRESH}"

    def test_that_are_worse_are_noticed(self, found: Run) -> None:
        """What the tolerance lets through must not be everything: here one in ten replies loses its line."""
        answers = {
            form: tuple(one and replace(one, grade=one.grade if at % 10 else 0) for at, one in enumerate(replies))
            for form, replies in found.answers.items()
        }
        differing = list(differences(figures(found), figures(replace(found, answers=answers))))
        assert any("reply, bar 0, all, helped" in line for line in differing)
        assert any("reply, bar 0.7, all, grade" in line for line in differing)
