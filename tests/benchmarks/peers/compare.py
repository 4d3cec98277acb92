"""Compares the product with other engines in one run: `python -m tests.benchmarks.peers.compare [--quality SET]`.

Each engine runs in a process of its own over the same chunks and vectors. They answer in turn, some questions each (A B C
D A B C D), so that a busy minute of the machine hits all of them. With a labelled set in BEIR form the order of its pages is
judged, too. Prints tables, and writes the figures for docs/measured.md.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from opx.domain.record import replace
from opx.ports import SearchRequest
from opx.settings import Settings
from opx.system import bootstrap
from opx_quality.cli.evaluate import evaluation_settings
from opx_quality.evaluation.comparison import compare_runs
from opx_quality.evaluation.datasets import load_dataset
from opx_quality.evaluation.figures import quality
from opx_quality.evaluation.querying import run_queries
from opx_quality.evaluation.runner import Evaluation
from opx_quality.evaluation.runs import PAGES_KEPT, EvaluationRun, JudgedReply
from tests.benchmarks.answering import percentile
from tests.benchmarks.bench import CACHE, about
from tests.benchmarks.calibration import calibration
from tests.benchmarks.corpora import FEW, Corpus, Questions
from tests.benchmarks.figures import CLIENTS, Figures, conditions, peers_tables
from tests.benchmarks.homes import build_figures, home_of, keep_found, passages_of
from tests.benchmarks.peers.engines import CANDIDATES, LEFT_OUT, NAMES, PEERS, Piece
from tests.benchmarks.peers.worker import Worker
from tests.benchmarks.served import ANSWERS_A_SECOND, Load, Server, free_address, loaded, opx_serve, started

ROUNDS, IN_A_ROUND = 6, 10
READERS = {"no filter": None, "5 % tenant": FEW}
MODES = {"fast": "opx_fast", "balanced": "opx", "thorough": "opx_thorough"}


class Comparison:
    """A run over the engines with these names."""

    def __init__(self, cache: Path, chunks: int, names: Sequence[str], *, quick: bool = False) -> None:
        self.figures = Figures()
        self.remarks = [f"{name} is left out: {reason}." for name, reason in LEFT_OUT.items()]
        self._cache, self._chunks = cache, chunks
        self._rounds, self._in_a_round, self._changes = (1, 2, 1) if quick else (ROUNDS, IN_A_ROUND, 5)
        self._seconds = 0.5 if quick else 6.0
        self._names = list(names)
        self._corpus = Corpus(passages_of(cache))
        self._home = home_of(cache, chunks, self._corpus)

    def run(self) -> None:
        """Builds all engines, then measures answers in turn, changes, and servers."""
        with contextlib.ExitStack() as stack:
            workers = {name: worker for name in self._names if (worker := self._started(name, stack))}
            self._build(workers)
            self._ask(workers)
            for name, worker in workers.items():
                self.figures.add(f"engine/{name}", worker.call("measure"))
                self.figures.add(f"engine/{name}", worker.call("change", self._changes))
        if {"opx", "lancedb"} <= workers.keys():
            self._serve()

    def _started(self, name: str, stack: contextlib.ExitStack) -> Worker | None:
        """The process of an engine; None, and a remark, if it isn't installed."""
        worker = stack.enter_context(contextlib.closing(Worker(name, self._cache, self._home)))
        problem = worker.call("open")
        if problem:
            self.remarks.append(f"{name} is left out: {problem}.")
        return None if problem else worker

    def _build(self, workers: dict[str, Worker]) -> None:
        for name, worker in workers.items():
            _print_step(f"building {name}")
            if name == "opx":
                worker.call("know", self._chunks)
                built = build_figures(self._home)
                figures = {
                    "build_s": built["build_s"],
                    "build_cpu_s": built["build_cpu_s"],
                    "disk_mb": built["disk_mb"],
                }
            else:
                figures = worker.call("build", self._chunks)
            self.figures.add(f"engine/{name}", figures)

    def _ask(self, workers: dict[str, Worker]) -> None:
        portions = iter(Questions(self._chunks, seed=31).portions(1 + 2 * self._rounds, self._in_a_round))
        warm_up = next(portions)
        for worker in workers.values():
            worker.call("ask", warm_up, None)
        taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
        wrong = dict.fromkeys(workers, 0)
        for reader, owners in [*READERS.items()] * self._rounds:
            _print_step(f"asking all, {reader}")
            portion = next(portions)
            for name, worker in workers.items():
                times, seen = worker.call("ask", portion, owners)
                taken.setdefault((name, reader), []).extend(times)
                wrong[name] += seen
        for (name, reader), times in taken.items():
            walls = [wall for wall, _ in times]
            found = {f"p{at}_ms": percentile(walls, at) for at in (50, 95)}
            self.figures.add(f"answer/{name}/{reader}", {**found, "cpu_ms": sum(cpu for _, cpu in times) / len(times)})
        for name, count in wrong.items():
            self.figures.values[f"engine/{name}/wrong"] = float(count)

    def _serve(self) -> None:
        """`opx serve`, with documents' parts and with passages alone, and 25 lines around LanceDB, in turn."""
        known = [_seed(clients, number, at) for clients in (0, *CLIENTS) for number in range(2) for at in range(2)]
        keep_found(self._home, self._chunks, self._corpus, known, int(ANSWERS_A_SECOND * self._seconds))
        with opx_serve(self._home) as ours, lance_server(self._cache) as theirs:
            servers = {"http/opx": (ours, None), "passages/opx": (ours, 0), "http/lancedb": (theirs, None)}
            for number, (name, (server, budget)) in enumerate(servers.items()):
                _print_step(f"warming the server of {name}")
                loaded(server, Load(max(CLIENTS), self._seconds, self._chunks, _seed(0, 0, number), budget=budget))
            for clients in CLIENTS:
                rounds: dict[str, list[dict[str, float]]] = {name: [] for name in servers}
                for number in range(2):
                    for at, (name, (server, budget)) in enumerate(servers.items()):
                        _print_step(f"{clients} clients of {name}")
                        load = Load(clients, self._seconds, self._chunks, _seed(clients, number, at), budget=budget)
                        rounds[name].append(loaded(server, load))
                for name, found in rounds.items():
                    means = {one: sum(each[one] for each in found) / len(found) for one in found[0]}
                    self.figures.add(f"{name}/{clients}", means)
                # An answer with passages alone is compared with LanceDB's, which has no documents to read.
                self.figures.add(f"passages/lancedb/{clients}", self.figures.of(f"http/lancedb/{clients}"))

    # -- quality

    def judge(self, collection: Path) -> Iterator[str]:
        """Judges the order of pages of a labelled set; yields lines with the differences to the product's modes."""
        dataset = load_dataset(collection)
        with bootstrap(evaluation_settings(Settings(home=str(self._cache / "quality")), dataset)) as system:
            evaluation = Evaluation(system, dataset)
            _print_step("ingesting the labelled set")
            evaluation.ingest()
            pieces, page_of = exported(evaluation)
            run = run_queries(evaluation, compared_at=None)
        for name in self._names:
            if name in PEERS:
                run = self._with_peer(run, name, pieces, page_of)
        for system_name, kinds in quality(run).items():
            for kind, means in kinds.items():
                self.figures.values[f"quality/{MODES.get(system_name, system_name)}/{kind}"] = means["nDCG@10"]
        yield from differences(run)

    def _with_peer(self, run: EvaluationRun, name: str, pieces: list[Piece], page_of: dict[str, str]) -> EvaluationRun:
        _print_step(f"judging {name}")
        with contextlib.closing(Worker(name, self._cache, self._home)) as worker:
            if worker.call("open"):
                return run
            worker.call("fill", pieces)
            ranked = worker.call("rank", [one.text for one in run.questions], CANDIDATES)
        pages = (tuple(dict.fromkeys(page_of[one] for one in found))[:PAGES_KEPT] for found in ranked)
        replies = tuple(JudgedReply(one) for one in pages)
        return replace(run, replies={name: replies, **run.replies})


def _seed(clients: int, number: int, at: int) -> int:
    """That of a load's questions, so that none comes twice; without clients of those that warm a server."""
    return 1000 + 100 * clients + 10 * number + at


def exported(evaluation: Evaluation) -> tuple[list[Piece], dict[str, str]]:
    """All chunks of an evaluation with the vectors of ingestion, and the page of each."""
    index, embedder = evaluation.services.indexing.index, evaluation.services.indexing.document_embedder
    everything = evaluation.everything
    some = evaluation.services.indexing.embedder.embed_query("every chunk of the index")
    found = index.search(SearchRequest(everything, None, some, index.count(everything))).chunks.values()
    vectors = embedder.embed_documents([one.chunk.text for one in found])
    pieces, page_of = [], {}
    for one, rows in zip(found, vectors, strict=True):
        pieces.append(Piece.of(one.entry_id, one.chunk.title, one.chunk.text, "everybody", rows))
        page_of[one.entry_id] = evaluation.page(one)
    return pieces, page_of


def differences(run: EvaluationRun) -> Iterator[str]:
    """Each mode against the best two of the others, by a paired randomisation test."""
    yield "nDCG@10, mode minus engine, its 95 % interval, p of the paired randomisation test"
    for name in [name for name in run.replies if name in PEERS]:
        for row in compare_runs(run, run, [(name, mode) for mode in run.modes]):
            if row.measure == "nDCG@10" and row.kind in ("all", "semantic"):
                one = row.difference
                yield (
                    f"{row.second:<9} - {name:<15} {row.kind:<9} {one.difference:+.4f} "
                    f"[{one.low:+.4f}, {one.high:+.4f}]  p {one.p:.4f}"
                )


@contextlib.contextmanager
def lance_server(cache: Path) -> Iterator[Server]:
    address = free_address()
    module = "tests.benchmarks.peers.lance_server"
    command = [sys.executable, "-m", module, str(cache / "peer-lancedb"), str(cache / "model-home"), address]
    with started(command, {}, address, "/") as server:
        yield server


def _print_step(text: str) -> None:
    print(f"{text} ...", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--quality", type=Path, help="a labelled set in BEIR form")
    parser.add_argument("--engines", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for the corpora")
    parser.add_argument("--json", type=Path, default=CACHE / "peers.json")
    parser.add_argument("--quick", action="store_true", help="few repetitions, to try it")
    args = parser.parse_args()
    before: Any = calibration()
    comparison = Comparison(args.cache, args.chunks, args.engines, quick=args.quick)
    comparison.run()
    lines = list(comparison.judge(args.quality)) if args.quality else []
    figures = comparison.figures
    figures.about = {**about(before), "chunks": args.chunks, "remarks": comparison.remarks}
    kept = Figures.read(args.json)
    Figures(kept.values | figures.values, figures.about).write(args.json)
    print(
        *comparison.remarks,
        f"{conditions(figures)}; {args.chunks:,} chunks.\n",
        peers_tables(figures),
        "",
        *lines,
        sep="\n",
    )


if __name__ == "__main__":
    main()
