"""A bulk job over generated documents through the interpreted state machine, on doubles of AWS:
`python -m tests.benchmarks.bulk_on_aws --documents 200000`.

One child in a hundred is killed in its work, the execution is stopped once in each stage and continued, and batch inference
returns some records with errors, some twice and some not at all. In the end each document must be in the catalog and in the
index once, or named as failed, and `opx reconcile` must find nothing.

A bucket in memory and the tables of the embedded engine are S3 and DynamoDB (`tests/bulk/light_cloud.py`); with `--moto`,
those of moto, whose requests take 97 % of the time.
"""

from __future__ import annotations

import argparse
import logging
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import moto
import pytest
from botocore.client import BaseClient

from opx.adapters.embedded.table import SqliteTable
from opx.ingestion.corpus.claims import current_id
from opx.ports.tables import KEYS
from opx_assurance.capability import assurance
from opx_bulk import kinds
from opx_bulk.capability import Bulk
from opx_bulk.job import BulkJob
from tests.bulk.bulk_cloud import BulkCloud, a_bulk_cloud, deployed_text
from tests.bulk.light_cloud import a_light_cloud
from tests.doubles.memory_bucket import MemoryObjects
from tests.doubles.step_functions import INTERPRETED, Killed
from tests.infra.templates import synthesise

STAGES = ("list", "prepare", "embed", "apply", "finish")


class Trouble:
    """Kills a `share` of the calls, each at one of its first `latest` requests; stops the execution once in each stage."""

    def __init__(self, share: float, latest: int, stop: Any) -> None:
        self._latest = latest
        self._random = random.Random(25)
        self._share = share
        self._stop = stop
        self._left = threading.local()
        self.killed: Counter[str] = Counter()
        self.stopped: list[str] = []

    def begin(self, event: dict[str, Any]) -> None:
        stage = str(event["stage"])
        if self._random.random() < self._share:
            self._left.stage, self._left.requests = stage, self._random.randrange(1, self._latest)
        if stage in STAGES and stage not in self.stopped:
            self.stopped.append(stage)
            self._stop()

    def end(self) -> None:
        self._left.requests = None

    def count(self) -> None:
        left = getattr(self._left, "requests", None)
        if left is None:
            return
        self._left.requests = left - 1
        if left <= 0:
            if left == 0:
                self.killed[self._left.stage] += 1
            raise Killed


def definition() -> str:
    with tempfile.TemporaryDirectory() as folder:
        assembly = synthesise({"environment": "prod", "bulk": "true"}, Path(folder))
        return deployed_text(str(assembly.only("bulk", "StepFunctions::StateMachine")["DefinitionString"]))


def run(bulk: BulkCloud, job: BulkJob, trouble: Trouble) -> list[str]:
    """The states in which executions ended, the last one after all trouble."""
    ends: list[str] = []
    while (not ends or ends[-1] != "SUCCEEDED") and len(ends) < 20:
        execution = bulk.runner.start(job.job_id)
        found = bulk.machine.ended(execution, seconds=36_000, every=5.0)
        ends.append(found["status"])
        problem = bulk.system.part(Bulk.of).jobs.get(job.job_id).problem
        print(f"  execution {len(ends)}: {found['status']} after {trouble.stopped} {problem}", flush=True)
    return ends


def report(bulk: BulkCloud, job: BulkJob, trouble: Trouble, ends: list[str], seconds: tuple[float, float]) -> None:
    found, batches = bulk.report(job), bulk.batches
    catalog = Counter(str(item["documentKey"]) for item in bulk.system.tables.every_item(KEYS) if current_id(item))
    indexed = Counter(bulk.indexed())
    print(
        f"documents {found.documents:,}: ingested {found.ingested:,}, unchanged {found.unchanged:,}, failed {found.failed:,}"
    )
    print(f"unsettled {found.unsettled:,}; in the catalog {len(catalog):,}, in the index {len(indexed):,}")
    print(f"executions {ends}; killed calls {dict(trouble.killed)}; calls {sum(bulk.functions.calls.values()):,}")
    print(f"batch jobs {len(batches.jobs)}, texts of them {len(batches.embedded):,}, on demand {found.embedded:,}")
    print(
        f"{seconds[0]:,.0f} s, of processor time {seconds[1]:,.0f} s; on the job's clock {bulk.clock.elapsed / 3600:.1f} h"
    )
    named = set(bulk.failed_items())
    assert ends[-1] == "SUCCEEDED"
    assert found.unsettled == 0
    assert found.ingested + found.unchanged + found.failed == found.documents
    assert len(named) == found.failed
    assert max(catalog.values()) == max(indexed.values()) == 1
    assert len(catalog) == len(indexed) == found.documents - found.failed
    assert len(batches.embedded) + found.embedded >= found.documents - found.failed
    print("each document once, in catalog and index, or named; comparing the stores", flush=True)


def reconcile(bulk: BulkCloud) -> None:
    """Compares the stores when the claims of killed calls have ended."""
    bulk.clock.sleep(3600)
    began = time.process_time()
    found = bulk.system.part(assurance).reconciler(progress=lambda _kind, _count: None).run()
    print(
        f"reconcile: {found.objects:,} objects, {found.documents:,} documents, {found.index_documents:,} in the index, in"
        f" {time.process_time() - began:,.0f} s of processor time; {found.total} differences"
    )
    assert not found.total, found.differences[:5]
    assert found.documents == found.index_documents == len(set(bulk.indexed()))


@contextmanager
def counted(account: str, count: Callable[[], None]) -> Iterator[None]:
    """Calls `count` before each request to S3 and DynamoDB, of moto's account or the light one."""
    kinds: dict[str, Sequence[tuple[Any, Sequence[str]]]] = {
        "moto": [(BaseClient, ["_make_api_call"])],
        "light": [
            (MemoryObjects, ["put", "put_if", "open", "head", "delete", "list"]),
            (SqliteTable, ["get", "get_many", "put", "put_many", "delete", "query", "page", "count"]),
        ],
    }
    with pytest.MonkeyPatch.context() as patch:
        for kind, names in kinds[account]:
            for name in names:
                patch.setattr(kind, name, _counting(getattr(kind, name), count))
        yield


def _counting(method: Callable[..., Any], count: Callable[[], None]) -> Callable[..., Any]:
    def called(*args: Any, **options: Any) -> Any:
        count()
        return method(*args, **options)

    return called


@contextmanager
def an_account(kind: str) -> Iterator[BulkCloud]:
    session = boto3.Session("testing", "testing", region_name="eu-central-1")
    with moto.mock_aws(config=INTERPRETED), tempfile.TemporaryDirectory() as folder:
        if kind == "moto":
            with a_bulk_cloud(session, definition(), children=4) as bulk:
                yield bulk
        else:
            with a_light_cloud(session, definition(), Path(folder), children=4) as bulk:
                yield bulk


def watch(bulk: BulkCloud, job: BulkJob, ended: threading.Event) -> None:
    """Prints progress every minute."""
    while not ended.wait(60):
        progress = bulk.system.part(Bulk.of).progress(bulk.system.part(Bulk.of).jobs.get(job.job_id))
        done = (
            f"shards prepared {progress.prepared}, applied {progress.applied}; documents settled {progress.settled:,}"
        )
        print(f"  {time.strftime('%H:%M:%S')} {done}; processor {time.process_time():,.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=2_000)
    parser.add_argument("--shard", type=int, default=200, help="documents of a shard")
    parser.add_argument("--killed", type=float, default=0.01, help="share of calls that are killed")
    parser.add_argument("--moto", action="store_true", help="S3 and DynamoDB of moto")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    kinds.SHARD_DOCUMENTS = chosen.shard  # type: ignore[attr-defined]
    kind = "moto" if chosen.moto else "light"
    with an_account(kind) as bulk:
        bulk.put_pages(chosen.documents)
        wrong = bulk.batches.misbehaviour
        wrong.errors, wrong.missing, wrong.twice = 0.005, 0.005, 0.01
        job, ended = bulk.begin(), threading.Event()
        trouble = Trouble(chosen.killed, chosen.shard * 4, lambda: bulk.runner.cancel(bulk.runner.start(job.job_id)))
        bulk.functions.before, bulk.functions.after = trouble.begin, trouble.end
        threading.Thread(target=watch, args=(bulk, job, ended), daemon=True).start()
        began = time.time(), time.process_time()
        with counted(kind, trouble.count):
            ends = run(bulk, job, trouble)
        ended.set()
        seconds = time.time() - began[0], time.process_time() - began[1]
        report(bulk, job, trouble, ends, seconds)
        reconcile(bulk)


if __name__ == "__main__":
    main()
