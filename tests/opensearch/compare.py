"""`python -m tests.opensearch.compare SET`: compares the retrieval quality of the embedded engine and of a real node.

SET is a folder in BEIR form. Its corpus goes through the same pipeline twice; the systems differ in their index alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import fmean

from opx.adapters.embedded.embedders import MiniLmEmbedder
from opx.domain.queries import SearchMode
from opx.operations.system import System
from opx.ports import SearchResponse
from opx.retrieval.hybrid import DEPTH
from opx.settings import Settings
from opx_quality.evaluation.datasets import Dataset, load_dataset
from opx_quality.evaluation.runner import Evaluation
from tests.opensearch.engines import LEGS, Overlap, RememberingEmbedder, both_engines, overlaps, summary
from tests.opensearch.indices import node_client
from tests.opensearch.jars import NodeUnavailableError
from tests.opensearch.node import running_node

NEEDED = 0.8
"""Mean overlap of the lexical legs' first ten that two engines with the same formula must reach."""

WORST_SHOWN = 5
Answers = dict[str, tuple[SearchResponse, SearchResponse]]


def compare(folder: Path) -> bool:
    """Print the figures; true if the lexical legs agree. Raises `NodeUnavailableError` and `NodeError`."""
    dataset = load_dataset(folder)
    embedder = RememberingEmbedder(MiniLmEmbedder(Settings(), threads=2))
    with (
        tempfile.TemporaryDirectory() as home,
        running_node(heap="1g") as node,
        node_client(node.endpoint, timeout=60.0) as client,
        both_engines(Path(home), client, "compared", embedder) as engines,
    ):
        evaluations = {name: _ingested(name, services, dataset) for name, services in engines.items()}
        _print_quality(dataset, evaluations)
        return _print_overlap(_answers(dataset, evaluations))


def _ingested(name: str, services: System, dataset: Dataset) -> Evaluation:
    evaluation = Evaluation(services, dataset)
    figures = evaluation.ingest()
    print(f"{name}: {figures.pages} pages, {figures.chunks} chunks in {figures.seconds:.0f} s")
    return evaluation


def _print_quality(dataset: Dataset, evaluations: dict[str, Evaluation]) -> None:
    print(f"\nnDCG@10 over {len(dataset.questions)} questions")
    for name, evaluation in evaluations.items():
        figures = evaluation.measure(SearchMode.BALANCED)
        systems = ", ".join(f"{system} {figures[system]['all']['nDCG@10']:.4f}" for system in (*LEGS, "hybrid"))
        print(f"  {name:<10}{systems}")


def _answers(dataset: Dataset, evaluations: dict[str, Evaluation]) -> Answers:
    one, other = evaluations.values()
    depth = DEPTH[SearchMode.BALANCED]
    return {
        question.text: (one.respond(question.text, depth), other.respond(question.text, depth))
        for question in dataset.questions
    }


def _print_overlap(answers: Answers) -> bool:
    print("\nfirst ten chunks that both engines have")
    found = {leg: overlaps(answers, leg) for leg in LEGS}
    for leg, each in found.items():
        print(f"  {leg:<10}{summary(each)}")
    _print_worst(found["lexical"])
    return fmean(each.same for each in found["lexical"]) >= NEEDED


def _print_worst(found: list[Overlap]) -> None:
    worst = sorted((each for each in found if each.same < 1), key=lambda each: each.but_for_ties)[:WORST_SHOWN]
    for each in worst:
        print(f"    {each.same:.2f} ({each.but_for_ties:.2f} but for ties)  {each.question[:90]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", type=Path, metavar="SET", help="folder with corpus.jsonl, queries.jsonl, qrels/test.tsv")
    folder = parser.parse_args().set
    try:
        agree = compare(folder)
    except NodeUnavailableError as exc:
        print(f"skipped, there is no OpenSearch node: {exc}")
        return 0
    if not agree:
        print(f"the lexical legs share less than {NEEDED} of their first ten", file=sys.stderr)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
