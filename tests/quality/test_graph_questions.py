"""Checks a sample of the graph questions of docs/decisions/0038-graph-in-answers.md.

To run all of them, with the shipped embedder: `python -m tests.quality.graph_questions`.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

import pytest

from opx_quality.evaluation.datasets import load_dataset
from opx_quality.evaluation.figures import recall
from tests.quality.graph_questions import FOLDER, Comparison, GraphQuestions, graph_questions
from tests.support.fakes import WordsEmbedder

EXPECTED = 0.85
"""Recall of the first ten documents with the graph, over the questions of `SAMPLE`."""

SAMPLE = ("changes-05", "cve-04", "handles-02", "radius-04", "owner-05", "cause-02", "code-03", "host-04", "around-05")


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphQuestions]:
    with graph_questions(tmp_path_factory.mktemp("ferries"), embedder=WordsEmbedder()) as questions:
        yield questions


@pytest.fixture(scope="module")
def comparisons(questions: GraphQuestions) -> list[Comparison]:
    return [questions.ask(one) for one in load_dataset(FOLDER).questions if one.id in SAMPLE]


def test_there_are_enough_and_every_label_names_a_document() -> None:
    dataset = load_dataset(FOLDER)
    assert len(dataset.questions) >= 60
    assert dataset.documents is not None
    labelled = {page for question in dataset.questions for page in question.relevant}
    assert not [page for page in labelled if not (dataset.documents / page).is_file()]
    assert {len(question.relevant) > 0 for question in dataset.questions} == {True}


def test_the_graph_finds_what_words_do_not(comparisons: list[Comparison]) -> None:
    assert [one.question.id for one in comparisons] == list(SAMPLE)
    with_graph = fmean(recall(one.graph, one.question.relevant, 10) for one in comparisons)
    without = fmean(recall(one.text, one.question.relevant, 10) for one in comparisons)
    assert with_graph >= EXPECTED
    assert without <= EXPECTED / 2


def test_answer_about_upstream_changes_has_only_changes_newest_first(comparisons: list[Comparison]) -> None:
    pack = next(one.answer.evidence for one in comparisons if one.question.id == "changes-05")
    assert pack is not None
    assert [item.node for item in pack.items if item.answers] == [
        "change:chg-109", "change:chg-104", "change:chg-108",
    ]  # fmt: skip


def test_runbooks_are_of_services_in_an_affected_version_alone(comparisons: list[Comparison]) -> None:
    pack = next(one.answer.evidence for one in comparisons if one.question.id == "cve-04")
    assert pack is not None
    assert [item.node for item in pack.items if item.answers] == ["runbook:leased-line", "runbook:quote-mismatch"]
