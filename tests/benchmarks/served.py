"""Measures answers a second of a server over HTTP: `python -m tests.benchmarks.served HOME`.

`opx serve` runs as it is shipped, in processes of its own; the clients are threads of another process, each with one
connection, and no question comes twice under load. Afterwards some come again, alone: another result is an error.
Prints one JSON object by number of clients.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import psutil

from tests.benchmarks.answering import percentile
from tests.benchmarks.corpora import Questions
from tests.benchmarks.homes import READERS

CLIENTS = (1, 8, 50)
ASKED_AGAIN = 20
ANSWERS_A_SECOND = 25
"""Questions of a load whose documents a large home gets (`homes.keep_found`)."""
START_SECONDS = 120
OPX = Path(sys.executable).with_name("opx")
TOKEN = "token-of-the-benchmarks"
HEADERS = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}


@dataclass(frozen=True, slots=True)
class Server:
    """A process that answers questions at an address."""

    process: subprocess.Popen[bytes]
    address: str

    def cpu_seconds(self) -> float:
        """Processor time of the server and its processes so far."""
        return float(sum(sum(times[:2]) for times in self._of_each(lambda one: one.cpu_times())))

    def megabytes(self) -> float:
        """Memory of all of them, what they share once."""
        return float(sum(one.uss for one in self._of_each(lambda one: one.memory_full_info()))) / 1e6

    def _of_each(self, read: Callable[[psutil.Process], Any]) -> list[Any]:
        found, own = [], psutil.Process(self.process.pid)
        for one in (own, *own.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                found.append(read(one))
        return found


@contextlib.contextmanager
def started(command: Sequence[str], environment: Mapping[str, str], address: str, healthy: str) -> Iterator[Server]:
    """The server of a command, once it answers; ended with the block."""
    with subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL) as process:
        try:
            _wait_for(address, healthy, process)
            yield Server(process, address)
        finally:
            process.terminate()


def _wait_for(address: str, path: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(START_SECONDS * 10):
        connection = http.client.HTTPConnection(address, timeout=5)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"the server at {address} doesn't answer (exit code {process.poll()})")


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextlib.contextmanager
def opx_serve(home: Path, *options: str) -> Iterator[Server]:
    """`opx serve` over a home, for the reader that sees everything."""
    reader = {f"OPX_{name.upper()}": value for name, value in READERS["no filter"].items()}
    address = free_address()
    command = [str(OPX), "serve", "--listen", address, "--token-secret", "BENCHMARK_TOKEN", *options]
    environment = {"OPX_HOME": str(home), "OPX_LOG_LEVEL": "ERROR", "BENCHMARK_TOKEN": TOKEN, **reader}
    with started(command, environment, address, "/healthz") as server:
        yield server


# -- the clients


class _Place(msgspec.Struct, rename="camel"):
    chunk_id: str


class _Found(msgspec.Struct):
    metadata: _Place


class _Reply(msgspec.Struct):
    results: list[_Found]


_ANSWER = msgspec.json.Decoder(_Reply)
"""Reads of a reply only what is compared: clients have the same cores as the server."""


class Client:
    """A client with one connection."""

    def __init__(self, address: str, budget: int | None = None) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=300)
        self._budget = {} if budget is None else {"budget": budget}

    def close(self) -> None:
        self._connection.close()

    def found(self, text: str) -> tuple[str, ...]:
        """Ids of the results, in order. Raises `RuntimeError` for a refusal."""
        body = json.dumps({"query": text, "config": {"minConfidence": 0}, **self._budget})
        self._connection.request("POST", "/knowledge/default/query", body, HEADERS)
        reply = self._connection.getresponse()
        read = reply.read()
        if reply.status != 200:
            raise RuntimeError(read.decode())
        return tuple(one.metadata.chunk_id for one in _ANSWER.decode(read).results)


@dataclass(frozen=True, slots=True)
class Load:
    """Questions of so many clients for so many seconds; `seed` makes them others than those of another load. `budget` is that
    of each question: None for the default, 0 for passages without the documents' parts."""

    clients: int
    seconds: float
    chunks: int
    seed: int
    collection: Path | None = None
    budget: int | None = None


def _ask(address: str, load: Load, results: Any) -> None:
    """Runs in a process of its own. Puts milliseconds of all answers, seconds, and errors."""
    texts = [one.text for one in islice(Questions(load.chunks, load.collection, load.seed).all(), 6000)]
    left, lock = iter(texts), threading.Lock()
    together = threading.Barrier(load.clients + 1)
    answers: list[tuple[str, tuple[str, ...]]] = []

    def client() -> list[float]:
        times = []
        with contextlib.closing(Client(address, load.budget)) as own:
            together.wait()
            while time.perf_counter() < ends[0]:
                with lock:
                    text = next(left)
                started = time.perf_counter()
                found = own.found(text)
                times.append(1000 * (time.perf_counter() - started))
                answers.append((text, found))
        return times

    ends = [float("inf")]
    with ThreadPoolExecutor(load.clients) as pool:
        running = [pool.submit(client) for _ in range(load.clients)]
        begun = time.perf_counter()
        ends[0] = begun + load.seconds
        together.wait()
        times = [one for each in running for one in each.result()]
        seconds = time.perf_counter() - begun
    results.put((times, seconds))
    again = answers[:: max(1, len(answers) // ASKED_AGAIN)]
    with contextlib.closing(Client(address, load.budget)) as alone:
        results.put(sum(alone.found(text) != found for text, found in again))


def loaded(server: Server, load: Load) -> dict[str, float]:
    """Figures of a server under a load."""
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    process = spawn.Process(target=_ask, args=(server.address, load, results))
    process.start()
    before = server.cpu_seconds()
    times, seconds = results.get(timeout=600)
    cpu = server.cpu_seconds() - before
    errors = results.get(timeout=600)
    process.join()
    return {
        "answers_per_s": len(times) / seconds,
        **{f"p{at}_ms": percentile(times, at) for at in (50, 95, 99)},
        "cpu_ms": 1000 * cpu / len(times),
        "errors": float(errors),
    }


def seeds(clients: Sequence[int] = CLIENTS, seed: int = 0) -> list[int]:
    """Those of the loads of `measure`: the first one has every process started."""
    return [1000 * seed + 100, *(1000 * seed + 101 + count for count in clients)]


def measure(
    server: Server,
    chunks: int,
    seconds: float,
    clients: Sequence[int] = CLIENTS,
    collection: Path | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """Figures by `clients/measure`, after a load that has every process started."""
    first, *others = seeds(clients, seed)
    loaded(server, Load(max(clients), seconds, chunks, first, collection))
    figures: dict[str, float] = {}
    for count, other in zip(clients, others, strict=True):
        found = loaded(server, Load(count, seconds, chunks, other, collection))
        figures |= {f"{count}/{name}": value for name, value in found.items()}
    figures["memory_mb"] = server.megabytes()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--chunks", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    parser.add_argument("--set", type=Path, help="a BEIR folder, for its questions")
    parser.add_argument("--workers", type=int, help="as of `opx serve`; as shipped without it")
    parser.add_argument("--seed", type=int, default=0, help="another one for other questions")
    args = parser.parse_args()
    options = () if args.workers is None else ("--workers", str(args.workers))
    with opx_serve(args.home, *options) as server:
        print(json.dumps(measure(server, args.chunks, args.seconds, args.clients, args.set, args.seed)))


if __name__ == "__main__":
    main()
