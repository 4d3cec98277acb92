"""Measuring retrieval: the measures to the digit, and a small dataset from end to end."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from opx.domain.queries import SearchMode
from opx.domain.record import replace
from opx.edges.cli.main import Launch, cli
from opx.errors import InvalidInputError, OpxError
from opx.operations.system import System
from opx.ports import SearchIndex, SearchRequest, SearchResponse, Vectors
from opx.settings import Settings
from opx.system import bootstrap, connect
from opx_quality.cli.evaluate import eval_command
from opx_quality.evaluation.bands import ROWS
from opx_quality.evaluation.datasets import Dataset, LabelledQuestion, load_dataset
from opx_quality.evaluation.figures import MEASURES, hit_rate, ndcg, recall, reciprocal_rank
from opx_quality.evaluation.querying import MODES, WARM_UP, run_queries
from opx_quality.evaluation.runner import Evaluation
from opx_quality.evaluation.runs import EvaluationRun, save_run
from tests.support.evaluation_support import PAGES, lines, write_dataset
from tests.support.fakes import WordsEmbedder

RANKED = ["a", "b", "c", "d", "e", "f"]

LAUNCH = Launch(lambda settings: bootstrap(settings, embedder=WordsEmbedder()), connect, {})


class TestMeasures:
    def test_names_and_cut_offs(self) -> None:
        assert list(MEASURES) == ["nDCG@10", "recall@5", "hit_rate@5", "MRR"]

    @pytest.mark.parametrize(
        ("relevant", "expected"),
        [
            ({"a": 1}, 1.0),
            ({"b": 1}, 1 / math.log2(3)),
            ({"a": 1, "c": 1}, (1 + 1 / 2) / (1 + 1 / math.log2(3))),
            ({"a": 1, "b": 2}, (1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3))),
            ({"x": 1}, 0.0),
            ({"a": 1, "x": 1}, 1 / (1 + 1 / math.log2(3))),
        ],
    )
    def test_ndcg_discounts_by_the_logarithm_of_the_rank(self, relevant: dict[str, int], expected: float) -> None:
        assert ndcg(RANKED, relevant) == pytest.approx(expected)

    def test_ndcg_does_not_look_beyond_k(self) -> None:
        assert ndcg(RANKED, {"c": 1}, k=2) == 0
        assert ndcg(RANKED, dict.fromkeys(RANKED, 1), k=2) == 1

    @pytest.mark.parametrize(("relevant", "expected"), [({"a", "e"}, 1.0), ({"a", "f"}, 0.5), ({"f"}, 0.0)])
    def test_recall_is_the_share_found_among_the_first_five(self, relevant: set[str], expected: float) -> None:
        assert recall(RANKED, dict.fromkeys(relevant, 1)) == expected

    @pytest.mark.parametrize(("relevant", "expected"), [({"a", "x"}, 1.0), ({"e"}, 1.0), ({"f"}, 0.0)])
    def test_hit_rate_is_one_if_any_is_among_the_first_five(self, relevant: set[str], expected: float) -> None:
        assert hit_rate(RANKED, dict.fromkeys(relevant, 1)) == expected

    @pytest.mark.parametrize(("relevant", "expected"), [({"a"}, 1.0), ({"c", "d"}, 1 / 3), ({"x"}, 0.0)])
    def test_reciprocal_rank_is_of_the_first_relevant_page(self, relevant: set[str], expected: float) -> None:
        assert reciprocal_rank(RANKED, dict.fromkeys(relevant, 1)) == expected

    @pytest.mark.parametrize("name", list(MEASURES))
    def test_nothing_found_scores_nothing(self, name: str) -> None:
        assert MEASURES[name]([], {"a": 1}) == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "small")


class TestCorpusAsAFolder:
    @pytest.fixture
    def documents(self, folder: Path) -> Path:
        (folder / "corpus.jsonl").unlink()
        for name, (title, text) in PAGES.items():
            path = folder / "documents" / "runbooks" / f"{name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# {title or name}\n\n{text}\n")
        labels = (folder / "qrels" / "test.tsv").read_text().splitlines()
        renamed = [labels[0], *("{}\trunbooks/{}.md\t{}".format(*line.split("\t")) for line in labels[1:])]
        (folder / "qrels" / "test.tsv").write_text("\n".join(renamed))
        return folder / "documents"

    def test_folder_is_ingested_as_it_is_and_pages_are_paths(
        self, folder: Path, documents: Path, services: System
    ) -> None:
        evaluation = Evaluation(services, load_dataset(folder))
        assert evaluation.ingest().pages == len(PAGES)
        ranked = evaluation.rankings("pod crash looping", SearchMode.FAST)
        assert ranked["hybrid"][0] == "runbooks/pods.md"
        assert evaluation.measure()["lexical"]["all"]["MRR"] == 1.0

    def test_may_be_named_from_the_folder_above(
        self, folder: Path, documents: Path, services: System, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(folder.parent)
        evaluation = Evaluation(services, load_dataset(Path(folder.name)))
        evaluation.ingest()
        assert evaluation.rankings("disk", SearchMode.BALANCED)["lexical"]

    def test_second_run_ingests_nothing(self, folder: Path, documents: Path, services: System) -> None:
        dataset = load_dataset(folder)
        Evaluation(services, dataset).ingest()
        figures = Evaluation(services, dataset).ingest()
        assert (figures.pages, figures.unchanged) == (0, len(PAGES))

    def test_may_be_elsewhere(self, folder: Path, documents: Path, tmp_path: Path) -> None:
        documents.rename(tmp_path / "pages")
        (folder / "dataset.json").write_text('{"documents": "../pages"}')
        assert load_dataset(folder).documents == tmp_path / "pages"

    @pytest.mark.parametrize("text", ["{", "[]", "{}", '{"documents": 7}'])
    def test_empty_pointer_is_refused(self, folder: Path, documents: Path, text: str) -> None:
        (folder / "dataset.json").write_text(text)
        with pytest.raises(InvalidInputError, match=r"dataset\.json"):
            load_dataset(folder)

    def test_fingerprint_changes_with_a_page(self, folder: Path, documents: Path) -> None:
        before = load_dataset(folder).corpus_fingerprint()
        (documents / "runbooks" / "pods.md").write_text("# Other\n\nOther.\n")
        assert load_dataset(folder).corpus_fingerprint() != before


class CountingEmbedder(WordsEmbedder):
    """Keeps the texts of documents that it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        self.texts.extend(texts)
        return super().embed_documents(texts)


@pytest.fixture
def dataset(folder: Path) -> Dataset:
    return load_dataset(folder)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    with bootstrap(Settings(home=str(tmp_path / "home")), embedder=CountingEmbedder()) as services:
        yield services


class TestEvaluation:
    def test_every_page_goes_through_the_pipeline(self, services: System, dataset: Dataset) -> None:
        figures = Evaluation(services, dataset).ingest()
        assert (figures.pages, figures.chunks, figures.unchanged) == (4, 4, 0)
        assert figures.seconds >= figures.embedding_seconds > 0
        assert figures.to_json()["pages"] == 4

    def test_unchanged_corpus_is_not_ingested_twice(self, tmp_path: Path, dataset: Dataset) -> None:
        embedders = CountingEmbedder(), CountingEmbedder()
        figures = []
        for embedder in embedders:
            with bootstrap(Settings(home=str(tmp_path / "home")), embedder=embedder) as services:
                figures.append(Evaluation(services, dataset).ingest())
        assert [one.pages for one in figures] == [4, 0]
        assert [one.unchanged for one in figures] == [0, 4]
        assert [len(embedder.texts) for embedder in embedders] == [4, 0]

    def test_questions_are_measured_by_system_and_kind(self, services: System, dataset: Dataset) -> None:
        evaluation = Evaluation(services, dataset)
        evaluation.ingest()
        figures = evaluation.measure(SearchMode.FAST)
        assert list(figures) == ["lexical", "vector", "hybrid", "hybrid (rrf)", "hybrid (weighted_rrf)"]
        assert figures["lexical"]["all"] == {
            "questions": 3, "nDCG@10": 1.0, "recall@5": 1.0, "hit_rate@5": 1.0, "MRR": 1.0
        }  # fmt: skip
        assert {kind: row["questions"] for kind, row in figures["hybrid"].items()} == {"all": 3, "words": 2, "other": 1}

    def test_page_is_as_good_as_its_best_chunk(self, tmp_path: Path, services: System) -> None:
        long = "\n\n".join(f"## Part {n}\n\nThe disk has part {n}. " + "Filler word. " * 200 for n in range(4))
        pages = {"long": ("Long", long), "short": ("Short", "A disk.")}
        dataset = Dataset(write_dataset(tmp_path / "long", pages), ())
        evaluation = Evaluation(services, dataset)
        assert evaluation.ingest().chunks > 4
        ranked = evaluation.rankings("disk part", SearchMode.FAST, ())
        assert sorted(ranked["lexical"]) == ["long", "short"]

    def test_empty_page_is_kept_out(self, tmp_path: Path, services: System) -> None:
        dataset = Dataset(write_dataset(tmp_path / "empty", {**PAGES, "empty": ("Empty", " \n")}), ())
        assert Evaluation(services, dataset).ingest().pages == 4

    def test_page_that_can_not_be_ingested_is_an_error(self, tmp_path: Path) -> None:
        dataset = Dataset(write_dataset(tmp_path / "large", {"large": ("Large", "Too large for it.")}), ())
        small = bootstrap(Settings(home=str(tmp_path / "small-home"), max_document_bytes=4), embedder=WordsEmbedder())
        with small, pytest.raises(OpxError, match=r"large\.md"):
            Evaluation(small, dataset).ingest()

    def test_progress_is_reported_for_both_phases(self, services: System, dataset: Dataset) -> None:
        steps: list[tuple[str, int, int]] = []
        evaluation = Evaluation(services, dataset, lambda *step: steps.append(step))
        evaluation.ingest()
        evaluation.measure()
        assert [step for step in steps if step[0] == "ingest"] == [("ingest", n, 4) for n in range(1, 5)]
        assert [step for step in steps if step[0] == "ask"] == [("ask", n, 3) for n in range(1, 4)]


class CountingIndex:
    """Counts the searches of the index that it stands before."""

    def __init__(self, index: SearchIndex) -> None:
        self._index = index
        self.searches: list[SearchRequest] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def search(self, request: SearchRequest) -> SearchResponse:
        self.searches.append(request)
        return self._index.search(request)


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> EvaluationRun:
    folder = tmp_path_factory.mktemp("asking")
    dataset = load_dataset(write_dataset(folder / "small"))
    texts = {"none": "zebra", "gone": "alert QueueHighCritical"}
    nothing = replace(
        dataset, unanswerable=tuple(LabelledQuestion(name, text, "unanswerable", {}) for name, text in texts.items())
    )
    with bootstrap(Settings(home=str(folder / "home")), embedder=CountingEmbedder()) as services:
        evaluation = Evaluation(services, nothing)
        evaluation.ingest()
        return run_queries(evaluation)


class TestQuerying:
    def test_every_mode_answers_every_question(self, finished_run: EvaluationRun) -> None:
        assert finished_run.modes == tuple(mode.value for mode in MODES)
        assert {len(replies) for replies in finished_run.replies.values()} == {5}
        assert [finished_run.replies[mode][0].pages[0] for mode in finished_run.modes] == ["storage/disk"] * len(MODES)

    def test_answers_have_confidences_and_times(self, finished_run: EvaluationRun) -> None:
        for mode in finished_run.modes:
            for reply in finished_run.replies[mode]:
                assert len(reply.confidences) == len(reply.pages)
                assert all(0 <= confidence <= 1 for confidence in reply.confidences)
                assert reply.milliseconds > 0
                assert reply.milliseconds >= reply.timings_ms["search"] > 0

    def test_reported_absence_is_kept(self, finished_run: EvaluationRun) -> None:
        for mode in finished_run.modes:
            assert [reply.absent for reply in finished_run.replies[mode]] == [(), (), (), (), ("QueueHighCritical",)]

    def test_legs_and_fusions_are_ranked_beside_the_modes(self, finished_run: EvaluationRun) -> None:
        assert set(finished_run.replies) == {
            *finished_run.modes,
            "lexical",
            "vector",
            "hybrid",
            "hybrid (rrf)",
            "hybrid (weighted_rrf)",
        }

    def test_same_search_is_done_once_a_question(self, services: System, dataset: Dataset) -> None:
        evaluation = Evaluation(services, dataset)
        evaluation.ingest()
        counting = CountingIndex(services.index)
        services.indexing.index = counting
        run_queries(evaluation, [SearchMode.BALANCED, SearchMode.BALANCED], compared_at=None)
        queries = [(one.filter, one.text, one.depth) for one in counting.searches if one.text != WARM_UP]
        assert len(queries) == len(set(queries))
        assert services.index is counting


class TestCommand:
    @pytest.fixture
    def run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
        monkeypatch.chdir(tmp_path)
        return CliRunner()

    def test_prints_a_block_a_measure_with_a_row_a_system(self, run: CliRunner, folder: Path) -> None:
        result = run.invoke(cli, ["--home", "home", "eval", str(folder)], obj=LAUNCH)
        assert result.exit_code == 0
        blocks = result.stdout.split("\n\n")
        assert blocks[0].startswith('ingest: {"pages": 4,')
        heads = [block.split()[0] for block in blocks[1:] if block.strip()]
        assert heads == [*MEASURES, "confidence,", "bands", "milliseconds"]
        bands = next(block for block in blocks if block.startswith("bands")).splitlines()
        assert [line.split()[0] for line in bands[1:]] == [mode.value for mode in MODES for _ in ROWS]
        assert "all (3)" in blocks[1]
        assert "words (2)" in blocks[1]
        systems = [line.split()[0] for line in blocks[1].splitlines()[1:]]
        assert systems == [*(mode.value for mode in MODES), "lexical", "vector", *["hybrid"] * 3]
        assert "ask: 3/3" in result.stderr

    def test_prints_json_on_request(self, run: CliRunner, folder: Path) -> None:
        result = run.invoke(cli, ["--home", "home", "eval", str(folder), "--json", "--mode", "fast"], obj=LAUNCH)
        data = json.loads(result.stdout)
        assert (list(data["confidence"]), data["ingest"]["pages"]) == (["fast"], 4)
        assert data["figures"]["lexical"]["words"]["questions"] == 2

    def test_questions_without_an_answer_alone_are_refused_by_kind_or_not(
        self, run: CliRunner, folder: Path, tmp_path: Path
    ) -> None:
        questions = [
            ("n1", "rotated logs disk", "near-miss"),
            ("n2", "zebra", "foreign"),
            ("n3", "xylophone", "foreign"),
        ]
        (folder / "questions.jsonl").write_text(
            lines([{"_id": n, "text": t, "metadata": {"kind": k, "answerable": False}} for n, t, k in questions])
        )
        options = ["--questions", str(folder / "questions.jsonl"), "--mode", "fast", "--floor", "0.5", "--losers", "1"]
        saved = run.invoke(cli, ["--home", "home", "eval", str(folder), *options, "--save", "run.json"], obj=LAUNCH)
        assert saved.exit_code == 0, saved.output
        table = saved.stdout.split("refused, floor 0.5")[1].splitlines()[:2]
        assert [table[0].split(), table[1].split()] == [
            ["near-miss", "(1)", "foreign", "(2)"],
            ["fast", "0.0000", "1.0000"],
        ]
        options += ["--against", "run.json", "--html", "run.html"]
        again = run.invoke(cli, ["--home", "home", "eval", str(folder), *options], obj=LAUNCH)
        assert again.exit_code == 0, again.output
        compared = again.stdout.split("second - first")[1].splitlines()[1:3]
        assert [line.split()[:3] for line in compared] == [
            ["fast", "refused@0.5", "near-miss"],
            ["fast", "refused@0.5", "foreign"],
        ]
        assert "0 questions with an answer, 3 without" in (tmp_path / "run.html").read_text()

    def test_reuses_the_index_of_the_same_corpus(self, run: CliRunner, folder: Path) -> None:
        found = [
            json.loads(run.invoke(cli, ["--home", "home", "eval", str(folder), "--json"], obj=LAUNCH).stdout)
            for _ in range(2)
        ]
        assert [data["ingest"]["pages"] for data in found] == [4, 0]
        assert found[0]["figures"] == found[1]["figures"]

    def test_changed_corpus_gets_an_index_of_its_own(self, run: CliRunner, folder: Path, tmp_path: Path) -> None:
        run.invoke(cli, ["--home", "home", "eval", str(folder)], obj=LAUNCH)
        with (folder / "corpus.jsonl").open("a") as corpus:
            corpus.write(lines([{"_id": "new", "text": "New page."}]))
        result = run.invoke(cli, ["--home", "home", "eval", str(folder), "--json"], obj=LAUNCH)
        assert json.loads(result.stdout)["ingest"]["pages"] == 5
        assert len(list((tmp_path / "home" / "eval").iterdir())) == 2

    def test_run_over_other_questions_is_refused_before_the_first_query(
        self, run: CliRunner, folder: Path, tmp_path: Path
    ) -> None:
        save_run(
            EvaluationRun("other", "", (LabelledQuestion("q9", "x", "words", {"pods": 1}),), {}, ()),
            tmp_path / "run.json",
        )
        result = run.invoke(cli, ["--home", "home", "eval", str(folder), "--against", "run.json"], obj=LAUNCH)
        assert result.exit_code == 2
        assert not (tmp_path / "home").exists()

    def test_help_is_that_of_a_run(self, run: CliRunner) -> None:
        assert "compares two saved runs" in run.invoke(eval_command, ["--help"]).stdout


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("kept")
    dataset, saved = write_dataset(folder / "small"), folder / "run.json"
    settings = Settings(home=str(folder / "home"))
    CliRunner().invoke(cli, ["--home", settings.home, "eval", str(dataset), "--save", str(saved)], obj=LAUNCH)
    options = ["--against", str(saved), "--losers", "3", "--html", str(folder / "report.html")]
    return (
        folder,
        CliRunner().invoke(cli, ["--home", settings.home, "eval", str(dataset), *options], obj=LAUNCH).stdout,
    )


class TestKeptRun:
    """Two runs of the command; the second compares itself with what the first has saved."""

    def test_later_run_is_compared_with_it(self, kept: tuple[Path, str]) -> None:
        _, printed = kept
        assert "second - first" in printed
        assert "questions that balanced lost at" in printed

    def test_report_is_written(self, kept: tuple[Path, str]) -> None:
        folder, _ = kept
        assert (folder / "report.html").read_text().startswith("<!doctype html>")

    def test_with_itself_it_has_no_differences(self, kept: tuple[Path, str]) -> None:
        folder, _ = kept
        saved = str(folder / "run.json")
        rows = json.loads(CliRunner().invoke(eval_command, ["compare", saved, saved, "--json"]).stdout)
        assert {row["firstSystem"] for row in rows} == {mode.value for mode in MODES}
        assert all(row["difference"] == 0 and row["p"] == 1 for row in rows)

    def test_two_systems_of_it_can_be_compared(self, kept: tuple[Path, str]) -> None:
        folder, _ = kept
        saved = str(folder / "run.json")
        arguments = ["compare", saved, saved, "--system", "lexical:vector", "--losers", "2"]
        printed = CliRunner().invoke(eval_command, arguments).stdout
        assert "lexical:vector MRR" in printed
