"""Measures proximity in the graph as a third leg of fusion, beside the lexical and the vector leg.

`python -m tests.quality.graph_fusion` fuses the pages of an answer with those that edges lead to, by reciprocal ranks, at
several weights of the latter, and prints the effect on our own questions and on those of the graph.
docs/decisions/0038-graph-in-answers.md has the figures. `FOLDER ...` are further sets of questions in BEIR form.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from opx.domain.results import EvidencePack
from opx.retrieval.fusion import reciprocal_rank_fusion
from opx.settings import Settings
from opx.system import bootstrap
from opx_quality.evaluation.datasets import load_dataset
from opx_quality.evaluation.figures import hit_rate, ndcg
from tests.quality.expected import FOLDER as OWN
from tests.quality.graph_questions import FOLDER as GRAPH
from tests.quality.graph_questions import NOW, PATIENCE, Comparison, GraphQuestions

WEIGHTS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)


def fused(comparison: Comparison, near: Sequence[str], weight: float) -> list[str]:
    """Fuses the pages of the answer with those nearby."""
    lists = [[(page, 0.0) for page in pages] for pages in (comparison.text, near)]
    return [page for page, _ in reciprocal_rank_fusion(lists, (1.0, weight))] if weight else list(comparison.text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    for folder in (OWN, GRAPH, *parser.parse_args().folders):
        with TemporaryDirectory() as home:
            _measure(folder, Path(home))


def _measure(folder: Path, home: Path) -> None:
    with bootstrap(Settings(home=str(home), graph_seconds=PATIENCE), clock=lambda: NOW) as services:
        questions = GraphQuestions(services, load_dataset(folder))
        comparisons = questions.run_queries()
        near = [questions.pages(_near(one.answer.evidence)) for one in comparisons]
    print(f"{folder.name}: {len(comparisons)} questions, {fmean(map(len, near)):.1f} pages nearby")
    for weight in WEIGHTS:
        ranked = [
            (fused(one, pages, weight), one.question.relevant) for one, pages in zip(comparisons, near, strict=True)
        ]
        best = fmean(hit_rate(pages, relevant, 1) for pages, relevant in ranked)
        print(f"  weight {weight:4.2f}  nDCG@10 {fmean(ndcg(*one) for one in ranked):.4f}  hit@1 {best:.4f}")


def _near(pack: EvidencePack | None) -> Iterable[str]:
    """Documents that edges lead to, in the order of the pack, without rows of graph answers."""
    return [item.document_id for item in pack.items if item.node and not item.answers] if pack else []


if __name__ == "__main__":
    main()
