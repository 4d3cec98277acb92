"""Bulk ingestion by the interpreted state machine."""

from __future__ import annotations

import time

from tests.bulk.bulk_cloud import BulkCloud


def page(number: int) -> str:
    return (
        f"# Page {number}\n\nThe service number {number} restarts when queue q{number % 97} is full.\n\n"
        f"## Steps\n\n1. Drain node n{number}.\n2. Restart unit u{number}.\n"
    )


def test_documents_whose_events_are_lost_are_ingested(bulk: BulkCloud) -> None:
    for number in range(200):
        bulk.put(f"documents/runbooks/area{number % 7}/page-{number}.md", page(number))
    job = bulk.begin()
    t, c = time.time(), time.process_time()
    ended = bulk.run(job)
    print(time.time() - t, time.process_time() - c, bulk.functions.calls, bulk.clock.elapsed)
    assert ended["status"] == "SUCCEEDED", (ended, bulk.system.bulk.jobs.get(job.job_id))
    print(bulk.keys(f"bulk/{job.job_id}"), bulk.system.bulk.jobs.get(job.job_id))
    from opx.lifecycle.bulk.finishing import read_report
    print(read_report(bulk.system.bulk.stages.files(job.job_id)))
    print(bulk.cloud.bedrock.requests and len(bulk.cloud.bedrock.requests), len(bulk.batches.embedded), bulk.ask('Drain node n17'))
