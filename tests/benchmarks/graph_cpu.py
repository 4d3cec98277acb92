"""CPU time of graph expansion on DynamoDB: `python -m tests.benchmarks.graph_cpu [--questions 71] [--times 3]`.

The company of `tests/quality/graph`, with its tables on the double of DynamoDB. Each question is searched once, so that all
replies are recorded. Then a process of its own repeats them over HTTP, and the questions are searched again: what is measured
is the CPU time of this process, as a function of Lambda spends it, without the double's. TLS is not included.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import TemporaryDirectory
from typing import Any

import boto3
import numpy as np
from moto import mock_aws
from moto.core.models import botocore_stubber

from opx.domain.queries import QueryConfig
from opx.operations.system import System
from opx.ports.tables import ALL_TABLES
from opx.settings import Settings
from opx.system import bootstrap
from opx_aws.clients import client
from opx_quality.evaluation.datasets import load_dataset
from tests.quality.graph_questions import CONFIG, FOLDER, NOW, PATIENCE, RELATED, GraphQuestions
from tests.support.dynamo_tables import create_table

VCPUS = 1024 / 1769
"""Of a function with 1,024 MB: Lambda gives one to 1,769 MB."""

Recorded = dict[str, bytes]


def request_key(target: str, body: bytes) -> str:
    """The same for the same keys in another order."""
    request = json.loads(body)
    for wanted in request.get("RequestItems", {}).values():
        wanted["Keys"].sort(key=json.dumps)
    return target + json.dumps(request, sort_keys=True)


class Switched:
    """A client that can be exchanged for another one."""

    def __init__(self, made: Any) -> None:
        self.made = made
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        if name in ("query", "batch_get_item", "get_item"):
            self.calls[name] += 1
        return getattr(self.made, name)


def record(made: Any) -> Recorded:
    """Has the client record the reply to each request."""
    recorded: Recorded = {}
    sent = threading.local()
    vars(made).pop("query", None)  # the quick one has no hook for replies

    def before_send(request: Any, **_: Any) -> None:
        target = request.headers["X-Amz-Target"]
        sent.key = request_key(target.decode() if isinstance(target, bytes) else target, request.body)

    def before_parse(response_dict: Any, **_: Any) -> None:
        recorded[sent.key] = bytes(response_dict["body"])

    made.meta.events.register_first("before-send.dynamodb", before_send)
    for read in ("BatchGetItem", "GetItem", "Query"):  # the client's own handlers are as specific, and change the reply
        made.meta.events.register_first(f"before-parse.dynamodb.{read}", before_parse)
    return recorded


def serve(recorded: Recorded, port: Any) -> None:
    class Repeated(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            reply = recorded.get(request_key(self.headers["X-Amz-Target"], body))
            if not reply:
                print("not recorded:", body.decode())
            self.send_response(200 if reply else 500)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(reply or b"")))
            self.end_headers()
            self.wfile.write(reply or b"")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Repeated)
    port.send(server.server_port)
    server.serve_forever()


@contextmanager
def repeating(recorded: Recorded) -> Iterator[str]:
    """The address of a process that repeats recorded replies."""
    mine, its = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(recorded, its), daemon=True)
    process.start()
    yield f"http://127.0.0.1:{mine.recv()}"
    process.terminate()


def cpu(act: Callable[[], Any]) -> float:
    """Milliseconds of CPU time."""
    begin = time.process_time()
    act()
    return 1000 * (time.process_time() - begin)


def measure(services: System, switched: Switched, texts: list[str], times: int) -> None:
    plain, related, calls = [], [], []
    for text in texts:
        switched.calls.clear()
        search(services, text, CONFIG)
        without = sum(switched.calls.values())
        search(services, text, RELATED)
        calls.append(sum(switched.calls.values()) - 2 * without)
        plain.append(min(cpu(partial(search, services, text, CONFIG)) for _ in range(times)))
        related.append(min(cpu(partial(search, services, text, RELATED)) for _ in range(times)))
    graph = np.array(related) - np.array(plain)
    for name, values in {
        "calls of DynamoDB": np.array(calls),
        "CPU ms, text": np.array(plain),
        "CPU ms, graph": graph,
        "CPU ms a call": graph / np.maximum(calls, 1),
        f"seconds at {VCPUS:.2f} vCPU": graph / VCPUS / 1000,
    }.items():
        p50, p95 = np.percentile(values, 50), np.percentile(values, 95)
        print(f"{name:24} p50 {p50:7.2f}  p95 {p95:7.2f}  max {values.max():7.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=71)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    with TemporaryDirectory() as home, mock_aws():
        switched = Switched(client("dynamodb", session=a_session()))
        for spec in ALL_TABLES:
            create_table(switched, spec, "bench-")
        settings = Settings(home=home, tables="dynamodb:bench-", graph_seconds=PATIENCE)
        with bootstrap(settings, clock=lambda: NOW, aws=lambda _service, **_: switched) as services:
            dataset = load_dataset(FOLDER)
            GraphQuestions(services, dataset)
            texts = [one.text for one in dataset.questions][: given.questions]
            recorded = record(switched.made)
            for text in texts:
                search(services, text, CONFIG)
                search(services, text, RELATED)
            with repeating(recorded) as address:
                os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = address
                botocore_stubber.enabled = False
                switched.made = client("dynamodb", session=a_session())
                measure(services, switched, texts, given.times)


def a_session() -> boto3.Session:
    return boto3.Session("testing", "testing", region_name="eu-central-1")


def search(services: System, text: str, config: QueryConfig) -> None:
    services.questions.for_reader(recorded=False).search(text, config)


if __name__ == "__main__":
    main()
