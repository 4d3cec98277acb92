"""Evaluates questions whose answer is one or two edges away from the hits of search, with and without the graph.

`python -m tests.quality.graph_questions` prints hit@5, recall@10 and MRR by kind of question and by split: rules and weights
were chosen on `dev` alone. `--show` lists each question that the graph improves or worsens. The corpus is of a made-up ferry
company; `graph/documents` are its pages.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from opx.domain.queries import QueryConfig
from opx.domain.results import Answer
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_quality.evaluation.datasets import Dataset, LabelledQuestion, load_dataset
from opx_quality.evaluation.figures import hit_rate, recall, reciprocal_rank
from opx_quality.evaluation.runner import CorpusIntake

FOLDER = Path(__file__).with_name("graph")
NOW = 1_936_342_800.0
"""2031-05-12T09:00:00Z, the time of the questions."""

PATIENCE = 60.0
CONFIG = QueryConfig(min_confidence=0.0, max_results=10)
RELATED = QueryConfig(min_confidence=0.0, max_results=10, expand_graph=True)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A question with the pages of the plain and the expanded search, best first."""

    question: LabelledQuestion
    text: tuple[str, ...]
    graph: tuple[str, ...]
    answer: Answer


class GraphQuestions:
    """The company's pages in a system of their own, and its questions."""

    def __init__(self, services: System, dataset: Dataset) -> None:
        self.services = services
        self._questions = dataset.questions
        intake = CorpusIntake(services, dataset, lambda *_: None)
        self.figures = intake.run()
        self._page_of_key = intake.page_of_key

    def run_queries(self, *, split: str = "") -> list[Comparison]:
        return [self.ask(one) for one in self._questions if split in ("", one.split)]

    def ask(self, question: LabelledQuestion) -> Comparison:
        query = self.services.questions.for_reader(recorded=False)
        plain, related = query.search(question.text, CONFIG), query.search(question.text, RELATED)
        assert related.evidence is not None
        found = self.pages(item.document_id for item in related.evidence.items)
        return Comparison(question, self.pages(result.document_id for result in plain.results), found, related)

    def pages(self, documents: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(page for document in documents if document for page in self._pages_of(document)))

    def _pages_of(self, document_id: str) -> Iterator[str]:
        for document in self.services.corpus.catalog.find(document_id):
            yield self._page_of_key[document.key.id]


@contextmanager
def graph_questions(home: Path, **parts: Any) -> Iterator[GraphQuestions]:
    """The questions at the time that they are about, with a generous time limit."""
    settings = Settings(home=str(home), graph_seconds=PATIENCE)
    with bootstrap(settings, clock=lambda: NOW, **parts) as services:
        yield GraphQuestions(services, load_dataset(FOLDER))


def table(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Measures by kind, without and with the graph."""
    yield f"{'':10} {'n':>3}  {'hit@5':>13}  {'recall@10':>13}  {'MRR':>13}"
    kinds = dict.fromkeys(one.question.kind for one in comparisons)
    for kind in ("all", *kinds):
        some = [one for one in comparisons if kind in ("all", one.question.kind)]
        pairs = (_means(some, graph=False), _means(some, graph=True))
        columns = (f"{before:.3f} > {after:.3f}" for before, after in zip(*pairs, strict=True))
        yield f"{kind:10} {len(some):3}  " + "  ".join(columns)


def _means(comparisons: Sequence[Comparison], *, graph: bool) -> tuple[float, float, float]:
    ranked = [(one.graph if graph else one.text, one.question.relevant) for one in comparisons]
    return (
        fmean(hit_rate(pages, relevant, 5) for pages, relevant in ranked),
        fmean(recall(pages, relevant, 10) for pages, relevant in ranked),
        fmean(reciprocal_rank(pages, relevant) for pages, relevant in ranked),
    )


def _differing(comparisons: Iterable[Comparison]) -> Iterator[str]:
    for one in comparisons:
        relevant = one.question.relevant
        before, after = recall(one.text, relevant, 10), recall(one.graph, relevant, 10)
        mark = "+" if after > before else "-" if after < before else "="
        missing = [page for page in relevant if page not in one.graph[:10]]
        if mark != "=" or missing:
            yield f"{mark} {one.question.id} {one.question.text!r}: {before:.2f} > {after:.2f}, missing {missing}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="show questions that differ or lack something")
    parser.add_argument("--split", default="", choices=("", "dev", "test"))
    given = parser.parse_args()
    with TemporaryDirectory() as home, graph_questions(Path(home)) as questions:
        comparisons = questions.run_queries(split=given.split)
        for split in ("dev", "test"):
            some = [one for one in comparisons if one.question.split == split]
            if some:
                print(split, *table(some), sep="\n")
        print("both", *table(comparisons), sep="\n")
        if given.show:
            print(*_differing(comparisons), sep="\n")


if __name__ == "__main__":
    main()
