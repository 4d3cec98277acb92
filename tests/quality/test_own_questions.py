"""Our own questions: that they are what docs/evaluation.md says, and that they are answered as well as expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from opx.domain.record import replace
from opx_quality.evaluation.datasets import Dataset, load_dataset
from opx_quality.evaluation.runs import EvaluationRun
from tests.quality.expected import FOLDER, differences, expected_figures, figures, run_of, services_with
from tests.quality.splits import SPLITS, split_of

OFF_TOPIC = Path(__file__).with_name("off_topic.txt")
CHECKED = SPLITS[0]
"""The half that is run here, to save time: `python -m tests.quality.expected` runs both."""

REFRESH = "if that is meant, run `python -m tests.quality.expected --write` and say in the change why it is better"


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load_dataset(FOLDER)


class TestQuestions:
    def test_are_enough_and_many_have_no_answer(self, dataset: Dataset) -> None:
        assert len(dataset.questions) >= 150
        assert len(dataset.unanswerable) >= 40

    def test_every_label_names_a_document(self, dataset: Dataset) -> None:
        assert dataset.documents is not None
        labelled = {page for question in dataset.questions for page in question.relevant}
        assert not [page for page in labelled if not (dataset.documents / page).is_file()]

    def test_every_document_answers_something(self, dataset: Dataset) -> None:
        assert dataset.documents is not None
        labelled = {page for question in dataset.questions for page in question.relevant}
        found = {path.relative_to(dataset.documents).as_posix() for path in dataset.documents.rglob("*.md")}
        assert found == labelled

    def test_recorded_half_is_the_one_that_is_drawn(self, dataset: Dataset) -> None:
        assert {question.id: question.split for question in dataset.all_questions} == {
            question.id: split_of(question) for question in dataset.all_questions
        }

    def test_every_kind_is_in_both_halves(self, dataset: Dataset) -> None:
        kinds = [{question.kind for question in dataset.all_questions if question.split == split} for split in SPLITS]
        assert kinds[0] == kinds[1]

    def test_none_was_used_to_fit_the_confidence(self, dataset: Dataset) -> None:
        fitted = {line.casefold().strip() for line in OFF_TOPIC.read_text(encoding="utf-8").splitlines()}
        assert not fitted & {question.text.casefold().strip() for question in dataset.all_questions}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> EvaluationRun:
    with services_with(tmp_path_factory.mktemp("own")) as services:
        return run_of(services, CHECKED)


@pytest.mark.timeout(600)
class TestScores:
    def test_are_those_expected(self, found: EvaluationRun) -> None:
        expected = {CHECKED: expected_figures()[CHECKED]}
        differing = "\n".join(sorted(differences(expected, figures(found))))
        assert not differing, f"{differing}\n{REFRESH}"

    def test_that_are_worse_are_noticed(self, found: EvaluationRun) -> None:
        """The tolerance must not hide everything: here the best page comes second, everywhere."""
        broken = {
            system: tuple(
                replace(reply, pages=(*reply.pages[1:2], *reply.pages[:1], *reply.pages[2:])) for reply in replies
            )
            for system, replies in found.replies.items()
        }
        differing = list(differences(figures(found), figures(replace(found, replies=broken))))
        assert any(", balanced, all, nDCG@10" in line for line in differing)
        assert any(", balanced, firstPageRight" in line for line in differing)

    def test_of_a_system_that_is_gone_are_noticed(self, found: EvaluationRun) -> None:
        fewer = {system: replies for system, replies in found.replies.items() if system != "lexical"}
        differing = list(differences(figures(found), figures(replace(found, replies=fewer))))
        assert any("lexical, all, MRR: only expected" in line for line in differing)
