"""A bulk job over generated documents through the interpreted state machine, on doubles of AWS:
`python -m tests.benchmarks.bulk_on_aws --documents 200000`.

One child in a hundred is killed in its work, the execution is stopped once in each stage and continued, and batch inference
returns some records with errors, some twice and some not at all. In the end each document must be in the catalog once.
"""

from __future__ import annotations

import argparse
import logging
import random
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import boto3
import moto
from botocore.client import BaseClient

from opx.lifecycle.bulk import stages
from opx.lifecycle.bulk.job import BulkJob
from tests.bulk.bulk_cloud import BulkCloud, a_bulk_cloud, deployed_text
from tests.doubles.step_functions import INTERPRETED, Killed
from tests.infra.templates import synthesise

STAGES = ("list", "prepare", "embed", "apply", "finish")


class Trouble:
    """Kills one call in a hundred (`share`) at one of its first requests, and stops the execution in each stage once."""

    def __init__(self, share: float, stop: Any) -> None:
        self._random = random.Random(25)
        self._share = share
        self._stop = stop
        self._left = threading.local()
        self.killed: Counter[str] = Counter()
        self.stopped: list[str] = []

    def begin(self, event: dict[str, Any]) -> None:
        stage = str(event["stage"])
        if self._random.random() < self._share:
            self._left.stage, self._left.requests = stage, self._random.randrange(1, 200)
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
        found = bulk.machine.ended(execution, seconds=36_000)
        ends.append(found["status"])
        problem = bulk.system.bulk.jobs.get(job.job_id).problem
        print(f"  execution {len(ends)}: {found['status']} after {trouble.stopped} {problem}", flush=True)
    return ends


def report(bulk: BulkCloud, job: BulkJob, trouble: Trouble, ends: list[str], seconds: tuple[float, float]) -> None:
    found = bulk.report(job)
    catalog = Counter(item["documentKey"]["S"] for item in every_item(bulk, "opx-knowledge-keys"))
    print(
        f"documents {found.documents:,}: ingested {found.ingested:,}, unchanged {found.unchanged:,}, failed {found.failed:,}"
    )
    print(f"unsettled {found.unsettled:,}; in the catalog {len(catalog):,}, in the index {len(set(bulk.indexed())):,}")
    print(f"executions {ends}; killed calls {dict(trouble.killed)}; calls {sum(bulk.functions.calls.values()):,}")
    print(
        f"batch jobs {len(bulk.batches.jobs)}, texts of them {len(bulk.batches.embedded):,}, on demand {found.embedded:,}"
    )
    print(
        f"{seconds[0]:,.0f} s, of processor time {seconds[1]:,.0f} s; on the job's clock {bulk.clock.elapsed / 3600:.1f} h"
    )
    assert found.unsettled == 0
    assert found.ingested + found.unchanged + found.failed == found.documents


def every_item(bulk: BulkCloud, table: str) -> list[dict[str, Any]]:
    pages = bulk.cloud.dynamodb.get_paginator("scan").paginate(TableName=f"test-{table}")
    return [item for page in pages for item in page["Items"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=2_000)
    parser.add_argument("--shard", type=int, default=50, help="documents of a shard")
    parser.add_argument("--killed", type=float, default=0.01, help="share of calls that are killed")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    stages.SHARD_DOCUMENTS = chosen.shard  # type: ignore[attr-defined]
    boto: Any = BaseClient
    call = boto._make_api_call
    session = boto3.Session("testing", "testing", region_name="eu-central-1")
    with moto.mock_aws(config=INTERPRETED), a_bulk_cloud(session, definition(), children=4) as bulk:
        bulk.put_pages(chosen.documents)
        wrong = bulk.batches.misbehaviour
        wrong.errors, wrong.missing, wrong.twice = 0.005, 0.005, 0.01
        job = bulk.begin()
        trouble = Trouble(chosen.killed, lambda: bulk.runner.cancel(bulk.runner.start(job.job_id)))

        def counted(client: Any, *args: Any) -> Any:
            trouble.count()
            return call(client, *args)

        boto._make_api_call = counted
        bulk.functions.before, bulk.functions.after = trouble.begin, trouble.end
        began = time.time(), time.process_time()
        ends = run(bulk, job, trouble)
        report(bulk, job, trouble, ends, (time.time() - began[0], time.process_time() - began[1]))


if __name__ == "__main__":
    main()
