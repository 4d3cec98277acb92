"""Ranks pages by SQLite FTS5 and cosine, as an afternoon of work would, and compares the order with the product's modes.

`python -m tests.benchmarks.peers.afternoon_plus SET [--questions FILE] [--split SPLIT] [--home DIR] [--save FILE]` prints
nDCG@10 and hit rate@5 by kind of question, and a paired randomisation test of each mode against `AfternoonPlus`. Chunks
and vectors are the product's own, from the index of an evaluation of SET.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from opx.domain.record import replace
from opx.ports import SearchRequest, SearchResponse
from opx.settings import Settings
from opx.system import bootstrap
from opx_quality.cli.evaluate import evaluation_settings
from opx_quality.evaluation.comparison import compare_runs
from opx_quality.evaluation.datasets import load_dataset
from opx_quality.evaluation.figures import quality
from opx_quality.evaluation.querying import run_queries
from opx_quality.evaluation.runner import Evaluation
from opx_quality.evaluation.runs import PAGES_KEPT, EvaluationRun, JudgedReply, save_run
from tests.benchmarks.peers.engines import CANDIDATES, fused_by_scale, with_parts

NAME = "afternoon_plus"
MEASURES = ("nDCG@10", "hit_rate@5")


class AfternoonPlus:
    """FTS5 over (title, text) with camelCase parts split, plus cosine; each leg scaled to [0, 1], both weigh the same. A page
    is as good as its best chunk."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._embedder = evaluation.services.indexing.embedder
        index, everything = evaluation.services.indexing.index, evaluation.everything
        self._all = SearchRequest(everything, depth=index.count(everything))
        chunks = self._cosines("every chunk of the index").chunks
        self._pages = {entry: evaluation.page(indexed) for entry, indexed in chunks.items()}
        self._database = sqlite3.connect(":memory:")
        self._database.execute("CREATE VIRTUAL TABLE found USING fts5(id UNINDEXED, title, text, tokenize='porter')")
        rows = ((entry, with_parts(one.chunk.title), with_parts(one.chunk.text)) for entry, one in chunks.items())
        self._database.executemany("INSERT INTO found VALUES (?, ?, ?)", rows)

    def pages(self, question: str) -> list[str]:
        """The pages, best first."""
        lexical, vector = self._lexical(question), self._cosines(question).vector.hits[:CANDIDATES]
        best = fused_by_scale(dict(lexical), dict(vector))
        return list(dict.fromkeys(self._pages[entry] for entry in best))

    def _lexical(self, question: str) -> Sequence[tuple[str, float]]:
        words = dict.fromkeys("".join(c if c.isalnum() else " " for c in with_parts(question)).split())
        query = " OR ".join(f'"{word}"' for word in words)
        found = self._database.execute(
            "SELECT id, -bm25(found) FROM found WHERE found MATCH ? ORDER BY rank LIMIT ?", (query, CANDIDATES)
        )
        return found.fetchall() if words else []

    def _cosines(self, question: str) -> SearchResponse:
        return self._evaluation.services.indexing.index.search(
            replace(self._all, vector=self._embedder.embed_query(question))
        )


def run_with_peer(evaluation: Evaluation) -> EvaluationRun:
    """The answers of every mode to an ingested dataset, and the ranking of `AfternoonPlus`."""
    peer, run = AfternoonPlus(evaluation), run_queries(evaluation, compared_at=None)
    ranked = tuple(JudgedReply(tuple(peer.pages(one.text)[:PAGES_KEPT])) for one in run.questions)
    return replace(run, replies={NAME: ranked, **run.replies})


def report(run: EvaluationRun) -> Iterator[str]:
    """Lines with the means by kind of question, and what each mode gains over the peer."""
    figures = quality(run)
    for measure in MEASURES:
        yield f"{measure:<18}" + "".join(f"{kind:>16}" for kind in figures[NAME])
        for system, kinds in figures.items():
            yield f"{system:<18}" + "".join(f"{kind[measure]:>16.4f}" for kind in kinds.values())
    yield "\nmode minus peer, its 95 % interval, p of the paired randomisation test"
    for row in compare_runs(run, run, [(NAME, mode) for mode in run.modes]):
        if row.measure in MEASURES:
            one = row.difference
            yield (
                f"{row.second:<10}{row.kind:<14}{row.measure:<12}n {one.count:<5}{one.difference:+.4f} "
                f"[{one.low:+.4f}, {one.high:+.4f}]  p {one.p:.5f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", type=Path)
    parser.add_argument("--questions", type=Path, help="a file of questions whose spans label the pages of the set")
    parser.add_argument("--split", default="", help="only these questions")
    parser.add_argument("--home", type=Path, default=Path(".opx"))
    parser.add_argument("--save", type=Path, help="save the run, for `opx eval compare`")
    args = parser.parse_args()
    dataset = load_dataset(args.set, args.questions)
    chosen = dataset.of_split(args.split) if args.split else dataset
    with bootstrap(evaluation_settings(Settings(home=str(args.home)), dataset)) as services:
        evaluation = Evaluation(services, chosen)
        evaluation.ingest()
        run = run_with_peer(evaluation)
    if args.save:
        save_run(run, args.save)
    print(*report(run), sep="\n")


if __name__ == "__main__":
    main()
