"""`opx eval` on own questions and kept runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli_support import Opx

DISK = "# Disk full on Linux hosts\n\nFind the biggest directories. Delete rotated logs. Grow the volume."
QUESTION = "disk full on linux hosts"


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    made = Opx(tmp_path)
    made.write("runbooks/disk.md", DISK)
    assert made("ingest", made.folder / "docs").exit_code == 0
    return made


def a_run(opx: Opx) -> str:
    found = opx("eval", "run", "--json")
    assert found.exit_code == 0, found.stderr
    return str(json.loads(found.stdout)["runId"])


def document_id(opx: Opx) -> str:
    return str(json.loads(opx("list", "--json").stdout)[0]["documentId"])


def test_own_questions_are_added_listed_and_removed(opx: Opx) -> None:
    added = json.loads(opx("eval", "add", QUESTION, document_id(opx), "--json").stdout)
    assert added["titles"] == ["Disk full on Linux hosts"]
    assert [one["text"] for one in json.loads(opx("eval", "set", "--json").stdout)] == [QUESTION]
    assert opx("eval", "remove", added["questionId"]).exit_code == 0
    assert json.loads(opx("eval", "set", "--json").stdout) == []
    assert opx("eval", "remove", added["questionId"]).exit_code != 0


def test_a_run_of_own_questions_is_kept(opx: Opx) -> None:
    opx("eval", "add", QUESTION, document_id(opx))
    run = a_run(opx)
    (kept,) = json.loads(opx("eval", "runs", "--json").stdout)
    assert (kept["runId"], kept["state"], kept["asked"]) == (run, "done", 1)
    (question,) = json.loads(opx("eval", "show", run, "--json").stdout)
    assert question["reply"]["rank"] == 1
    assert QUESTION in opx("eval", "show", run).stdout


def test_kept_runs_are_compared_by_their_ids(opx: Opx) -> None:
    opx("eval", "add", QUESTION, document_id(opx))
    first = a_run(opx)
    opx.write("runbooks/other.md", "# Printer\n\nRestart it.")
    opx("ingest", opx.folder / "docs")
    rows = json.loads(opx("eval", "compare", first, a_run(opx), "--json").stdout)
    (ndcg,) = [one for one in rows if (one["measure"], one["kind"]) == ("nDCG@10", "all")]
    assert (ndcg["first"], ndcg["second"], ndcg["questions"]) == (1.0, 1.0, 1)
    assert "no evaluation run" in opx("eval", "compare", first, "20260101T000000-abcdef").stderr


def test_a_run_of_a_dataset_is_kept_beside_the_knowledge(opx: Opx, tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    (dataset / "documents").mkdir(parents=True)
    (dataset / "qrels").mkdir()
    (dataset / "documents" / "disk.md").write_text(DISK)
    (dataset / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": QUESTION}) + "\n")
    (dataset / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tdisk.md\t2\n")
    assert opx("eval", dataset, "--mode", "fast", "--json").exit_code == 0
    (kept,) = json.loads(opx("eval", "runs", "--json").stdout)
    assert (kept["dataset"], kept["modes"], kept["figures"][0]["ndcg"]) == ("dataset", ["fast"], 1.0)


def test_without_questions_the_remedy_is_named(opx: Opx) -> None:
    assert "opx eval add" in opx("eval", "run").stderr


def test_options_of_datasets_need_one(opx: Opx) -> None:
    found = opx("eval", "run", "--mode", "fast")
    assert (found.exit_code, "are for a DATASET" in found.stderr) == (2, True)


@pytest.mark.parametrize("question", ["disk", "grow the disk of hosts", "delete logs of the printer", "boil an egg"])
def test_a_question_without_a_page_is_refused_exactly_where_a_search_finds_nothing_likely(
    opx: Opx, question: str
) -> None:
    assert opx("eval", "add", question).exit_code == 0
    (judged,) = json.loads(opx("eval", "show", a_run(opx), "--json").stdout)
    bands = {one["band"] for one in json.loads(opx("search", question, "--json").stdout)["documents"]}
    assert (judged["reply"]["verdict"] == "refused") == (not bands & {"sure", "likely"})
