"""Measures answers of `opx serve` over loopback: `python -m tests.benchmarks.serving`.

Clients are threads of another process, each with one connection that it keeps, and each sends one question after the other.
First every question is answered alone; an answer with other results counts as an error. Prints one JSON line per number of
clients, with the machine's load, and `cpu_ms`: the CPU time of the server's processes for an answer.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from opx.domain.scopes import Identity
from opx.operations.context import Caller
from opx.operations.system import System
from opx.system import bootstrap
from opx_serve.application import application
from opx_serve.composition import serve
from opx_serve.listening import HttpServer, listening_socket
from opx_serve.routes import LocalBase
from opx_serve.tokens import Callers
from opx_serve.workers import AnswerProcesses
from tests.benchmarks.load import QUESTIONS, filled_system
from tests.benchmarks.search_speed import Corpus, percentile

CLIENTS = (1, 8, 50)
TOKEN = "token-of-the-benchmarks"
HEADERS = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
SECONDS = 1800
"""Time for the answers to a number of clients, also on a busy machine."""


class Client:
    """A client with one connection."""

    def __init__(self, address: str, mode: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=300)
        self._mode = mode

    def found(self, text: str) -> tuple[str, ...]:
        """Ids of the chunks of an answer. Raises `RuntimeError` for a refusal."""
        body = json.dumps({"query": text, "config": {"mode": self._mode, "minConfidence": 0}})
        self._connection.request("POST", "/knowledge/default/query", body, HEADERS)
        reply = self._connection.getresponse()
        data = json.loads(reply.read())
        if reply.status != 200:
            raise RuntimeError(str(data))
        return tuple(str(one["metadata"]["chunkId"]) for one in data["results"])

    def timed(self, text: str, expected: tuple[str, ...]) -> tuple[float, bool]:
        """Milliseconds, and whether the answer is the one that is expected."""
        started = time.perf_counter()
        found = self.found(text)
        return 1000 * (time.perf_counter() - started), found == expected


def ask(address: str, mode: str, clients: int, answers: int, questions: int, results: Any) -> None:
    """Puts the figures of so many clients into a queue; runs in a process of its own."""
    corpus = Corpus()
    queries = [corpus.text(random.Random(n).randrange(4, 9)) for n in range(questions)]
    first = Client(address, mode)
    alone = [first.found(text) for text in queries]
    together = threading.Barrier(clients + 1)

    def client(number: int) -> list[tuple[float, bool]]:
        own = Client(address, mode)
        together.wait()
        order = [(number * answers + n) % questions for n in range(answers)]
        return [own.timed(queries[at], alone[at]) for at in order]

    with ThreadPoolExecutor(clients) as pool:
        running = [pool.submit(client, number) for number in range(clients)]
        results.put(None)  # the answers alone are done
        together.wait()
        started = time.perf_counter()
        replies = [reply for one in running for reply in one.result()]
    results.put((replies, time.perf_counter() - started))


def figures(replies: Sequence[tuple[float, bool]], seconds: float, cpu: float) -> dict[str, float]:
    times = [taken for taken, _ in replies]
    return {
        "answers": len(replies),
        "answers_per_s": round(len(replies) / seconds, 1),
        **{f"p{at}_ms": round(percentile(times, at), 1) for at in (50, 95, 99)},
        "errors": sum(not right for _, right in replies),
        "cpu_ms": round(1000 * cpu / len(replies), 1),
    }


def started(system: System, most: int) -> AnswerProcesses:
    """Processes for the system that have started; with 1, it answers in this process."""
    workers = AnswerProcesses(system, bootstrap, most)
    while workers.ready < most and most > 1:
        workers.start_another()
        time.sleep(0.1)
    return workers


def cpu_seconds() -> float:
    """CPU time of this process and of those that answer."""
    ticks = 0
    for process in multiprocessing.active_children():
        if process.name == "opx-answers":
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def measure(
    system: System, workers: AnswerProcesses, mode: str, clients: int, answers: int, questions: int
) -> dict[str, float]:
    """Serves the system, and has another process ask."""
    own = Caller(Identity())
    served = serve(system, Callers({TOKEN: own}, own), {"default": LocalBase(system)}, lambda: None, workers=workers)
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    with HttpServer(application(served), listening_socket("127.0.0.1:0")) as server:
        clients_process = spawn.Process(target=ask, args=(server.address, mode, clients, answers, questions, results))
        clients_process.start()
        results.get(timeout=SECONDS)
        before = cpu_seconds()
        replies, seconds = results.get(timeout=SECONDS)
        cpu = cpu_seconds() - before
        clients_process.join()
    return figures(replies, seconds, cpu)


def main() -> None:
    """Prints one JSON line per number of clients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--answers", type=int, default=400, help="of all clients together, at least one of each")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="different ones, each first asked alone")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    parser.add_argument("--mode", default="balanced")
    parser.add_argument(
        "--workers", type=int, nargs="+", default=(1, os.cpu_count() or 1), help="processes that answer"
    )
    args = parser.parse_args()
    with filled_system(args.chunks) as system:
        for most in args.workers:
            with closing(started(system, most)) as workers:
                for clients in args.clients:
                    each = max(1, args.answers // clients)
                    found = measure(system, workers, args.mode, clients, each, args.questions)
                    about = {"mode": args.mode, "clients": clients, "workers": most, "chunks": args.chunks}
                    print(json.dumps({**about, **found, "load": round(os.getloadavg()[0], 1)}), flush=True)


if __name__ == "__main__":
    main()
