"""The files of a dataset, and what is refused in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from opx.errors import InvalidInputError
from opx_quality.evaluation.datasets import LabelledQuestion, load_dataset
from tests.support.evaluation_support import PAGES, lines, write_dataset


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "small")


class TestDataset:
    def test_questions_have_their_kind_and_labels_above_zero(self, folder: Path) -> None:
        assert load_dataset(folder).questions == (
            LabelledQuestion("q1", "rotated logs disk", "words", {"storage/disk": 2, "storage/slow": 1}),
            LabelledQuestion("q2", "pod crash looping", "words", {"pods": 1}),
            LabelledQuestion("q3", "gateway certificate renew", "other", {"certificates": 1}),
        )

    def test_pages_are_read_in_order(self, folder: Path) -> None:
        pages = [(page.id, page.title, page.text) for page in load_dataset(folder).pages()]
        assert pages == [(name, *page) for name, page in PAGES.items()]

    def test_page_without_a_title_has_an_empty_one(self, folder: Path) -> None:
        (folder / "corpus.jsonl").write_text('{"_id": 1, "title": null, "text": "a"}\n\n{"_id": "2", "text": "b"}\n')
        assert [(page.id, page.title) for page in load_dataset(folder).pages()] == [("1", ""), ("2", "")]

    @pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
    def test_missing_file_is_named(self, folder: Path, name: str) -> None:
        (folder / name).unlink()
        with pytest.raises(InvalidInputError, match=f"it has no {name}"):
            load_dataset(folder)

    @pytest.mark.parametrize(
        "bad", [b"{broken", b"[1, 2]", b"7", b'"_id text"', b'{"_id": "x"}', b'{"text": "x"}', b'{"_id": "\xff"}']
    )
    def test_malformed_record_is_refused_with_file_and_line(self, folder: Path, bad: bytes) -> None:
        path = folder / "queries.jsonl"
        path.write_bytes(path.read_bytes() + b"\n" + bad)
        with pytest.raises(InvalidInputError) as caught:
            load_dataset(folder)
        assert str(caught.value).startswith(f"{path}:6: ")

    @pytest.mark.parametrize("bad", ["q1\tpods", "q1\tpods\thigh", "q1\tpods\t1.5", "q1"])
    def test_malformed_label_is_refused_with_file_and_line(self, folder: Path, bad: str) -> None:
        path = folder / "qrels" / "test.tsv"
        path.write_text(f"query-id\tcorpus-id\tscore\nq1\tpods\t1\n{bad}\n")
        with pytest.raises(InvalidInputError) as caught:
            load_dataset(folder)
        assert str(caught.value).startswith(f"{path}:3: ")

    def test_labels_without_a_header_are_refused(self, folder: Path) -> None:
        (folder / "qrels" / "test.tsv").write_text("q1\tpods\t1\nq2\tpods\t1\n")
        with pytest.raises(InvalidInputError, match="query-id, corpus-id"):
            load_dataset(folder)

    def test_dataset_without_a_labelled_question_is_refused(self, folder: Path) -> None:
        (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq9\tpods\t1\n")
        with pytest.raises(InvalidInputError, match="no question"):
            load_dataset(folder)

    @pytest.mark.parametrize("metadata", ["null", '"words"', "[]", "{}"])
    def test_question_without_a_kind_is_of_the_other_kind(self, folder: Path, metadata: str) -> None:
        (folder / "queries.jsonl").write_text(f'{{"_id": "q1", "text": "x", "metadata": {metadata}}}\n')
        assert load_dataset(folder).questions[0].kind == "other"


class TestQuestionsWithoutAnAnswer:
    def add(self, folder: Path, **metadata: object) -> None:
        with (folder / "queries.jsonl").open("a") as queries:
            queries.write(lines([{"_id": "none", "text": "Who won?", "metadata": metadata}]))

    def test_are_marked_in_their_metadata(self, folder: Path) -> None:
        self.add(folder, kind="off-topic", answerable=False, split="dev")
        assert load_dataset(folder).unanswerable == (LabelledQuestion("none", "Who won?", "off-topic", {}, "dev"),)
        assert [question.id for question in load_dataset(folder).all_questions] == ["q1", "q2", "q3", "none"]

    def test_without_a_kind_are_called_unanswerable(self, folder: Path) -> None:
        self.add(folder, answerable=False)
        assert load_dataset(folder).unanswerable[0].kind == "unanswerable"

    def test_may_be_listed_in_a_file(self, folder: Path) -> None:
        (folder / "unanswerable.txt").write_text("Who won?\n\nWhy?\n")
        found = load_dataset(folder).unanswerable
        assert [(question.id, question.text) for question in found] == [
            ("unanswerable-line-1", "Who won?"), ("unanswerable-line-3", "Why?")
        ]  # fmt: skip

    def test_that_have_a_label_all_the_same_are_refused(self, folder: Path) -> None:
        self.add(folder, answerable=False)
        with (folder / "qrels" / "test.tsv").open("a") as labels:
            labels.write("\nnone\tpods\t1\n")
        with pytest.raises(InvalidInputError, match="question none is marked as unanswerable"):
            load_dataset(folder)

    def test_may_be_in_a_file_of_questions_beside_those_with_spans(self, folder: Path) -> None:
        span = {"page": "pods", "grade": 2, "text": PAGES["pods"][1][:5]}
        path = questions_in(folder, {"kind": "words", "spans": [span]}, {"kind": "near-miss", "answerable": False})
        found = load_dataset(folder, path)
        assert [(question.id, question.relevant) for question in found.questions] == [("n0", {"pods": 2})]
        assert found.unanswerable == (LabelledQuestion("n1", "Who won?", "near-miss", {}),)

    def test_may_be_all_of_a_file_of_questions(self, folder: Path) -> None:
        found = load_dataset(folder, questions_in(folder, {"answerable": False}))
        assert (found.questions, [question.id for question in found.unanswerable]) == ((), ["n0"])

    def test_that_have_spans_all_the_same_are_refused(self, folder: Path) -> None:
        span = {"page": "pods", "grade": 2, "text": PAGES["pods"][1][:5]}
        with pytest.raises(InvalidInputError, match="question n0 is marked as unanswerable, but has spans"):
            load_dataset(folder, questions_in(folder, {"answerable": False, "spans": [span]}))

    def test_of_a_file_have_ids_of_their_own(self, folder: Path) -> None:
        path = questions_in(folder, {"answerable": False})
        path.write_text(path.read_text() * 2)
        with pytest.raises(InvalidInputError, match=r"two questions of questions\.jsonl have the id n0"):
            load_dataset(folder, path)


def questions_in(folder: Path, *metadata: Mapping[str, object]) -> Path:
    """A file of questions with these metadata."""
    path = folder / "questions.jsonl"
    path.write_text(lines([{"_id": f"n{at}", "text": "Who won?", "metadata": one} for at, one in enumerate(metadata)]))
    return path


class TestSplits:
    def test_may_have_questions_without_an_answer_alone(self, folder: Path) -> None:
        path = questions_in(folder, *({"answerable": False, "split": split} for split in ("dev", "test")))
        assert [question.id for question in load_dataset(folder, path).of_split("test").all_questions] == ["n1"]

    def test_of_a_dataset_has_its_questions_alone(self, folder: Path) -> None:
        records = [{"_id": n, "text": n, "metadata": {"split": s}} for n, s in (("q1", "dev"), ("q2", "test"))]
        (folder / "queries.jsonl").write_text(lines(records))
        assert [question.id for question in load_dataset(folder).of_split("test").all_questions] == ["q2"]

    def test_that_is_not_there_is_refused_with_those_that_are(self, folder: Path) -> None:
        with pytest.raises(InvalidInputError, match="no questions of split 'dev'; it has none"):
            load_dataset(folder).of_split("dev")


def test_two_questions_with_one_id_are_refused(folder: Path) -> None:
    with (folder / "queries.jsonl").open("a") as queries:
        queries.write(lines([{"_id": "q1", "text": "again"}]))
    with pytest.raises(InvalidInputError, match=r"two questions of queries\.jsonl have the id q1"):
        load_dataset(folder)
