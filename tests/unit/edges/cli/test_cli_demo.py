from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from opx.domain.queries import QueryConfig
from opx.edges.cli.demo import QUESTIONS, example_documents
from opx.edges.cli.main import Launch, cli
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap, connect
from opx.text.analyzer import analyze
from tests.quality.expected import KnownVectors
from tests.support.cli_support import Opx

BY_MEANING = QUESTIONS[2]
UNANSWERED = QUESTIONS[4]


def test_the_question_by_meaning_shares_no_content_word_with_the_document_that_answers_it() -> None:
    """Compared as the index does: stemmed, compounds whole and in parts, stop words left out."""
    document = (example_documents() / BY_MEANING.answered_by).read_text(encoding="utf-8")
    words = set(analyze(BY_MEANING.text))
    assert len(words) >= 3
    assert words.isdisjoint(analyze(document))


@pytest.mark.parametrize("question", QUESTIONS[:4], ids=lambda question: question.answered_by)
def test_the_document_that_answers_is_in_the_corpus(question: object) -> None:
    assert (example_documents() / question.answered_by).is_file()  # type: ignore[attr-defined]


def test_the_demo_runs_five_queries_and_suggests_another(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    opx.write("runbooks/disk.md", "# Disk full\n\nDeleted log files, df still shows the disk full.\n")
    result = opx("demo", "--documents", opx.folder / "docs")
    assert result.exit_code == 0
    assert [line for line in result.stdout.splitlines() if line.startswith("=== ")] == [
        f"=== {number}. {question.shows}" for number, question in enumerate(QUESTIONS, start=1)
    ]
    assert all(question.text in result.stdout for question in QUESTIONS)
    assert result.stdout.splitlines()[-1].startswith(f"  opx --home {opx.home} search ")


def test_the_demo_without_documents_is_an_error(tmp_path: Path) -> None:
    result = Opx(tmp_path)("demo", "--documents", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "name one with --documents" in result.stderr


def with_known_vectors(settings: Settings) -> System:
    system = bootstrap(settings)
    system.indexing.embedder = KnownVectors(system.indexing.embedder)
    return system


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_demo_finds_each_answer_first_and_none_where_there_is_none(tmp_path: Path) -> None:
    """With the real model, whose vectors of the corpus are known, and corpus; the second run has nothing to ingest."""
    home = tmp_path / ".opx"
    launch = Launch(with_known_vectors, connect, {})
    runs = [CliRunner().invoke(cli, ["--home", str(home), "demo"], obj=launch, prog_name="opx") for _ in range(2)]
    assert "3 new patterns learnt, 48 values of baselines added" in runs[0].stdout
    assert "nothing changed, nothing ingested" in runs[1].stdout
    assert "0 new patterns learnt, 0 values of baselines added" in runs[1].stdout
    parts = re.split(r"^=== \d\. .*$", runs[1].stdout, flags=re.MULTILINE)[1:]
    for question, part in zip(QUESTIONS[:4], parts, strict=False):
        first = part.split("Document ID")[0]
        assert question.answered_by in first, question.text
    assert "nothing here is near" in parts[4]
    with bootstrap(Settings(home=str(home))) as services:
        answer = services.questions.for_reader().search(BY_MEANING.text, QueryConfig(min_confidence=0))
    assert answer.results[0].parts is not None
    assert answer.results[0].parts.lexical_rank is None
