"""Speed of the daily count of documents on DynamoDB: `python -m tests.benchmarks.holdings [--pages 30]`.

Repeats a page of a query as DynamoDB sends it, a megabyte of catalog items, once whole and once with the fields of the
count alone. What is measured is the CPU time of this process for each item, without TLS: reading the catalog's documents,
and counting their sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

from opx.domain.documents import DocumentKey
from opx.domain.scopes import Scope
from opx.ingestion.corpus.catalog import Catalog, document_item
from opx.lifecycle.holdings import DocumentSizes, Holdings
from opx.lifecycle.usage import UsageTally
from opx.ports import Item
from opx.ports.tables import DOCUMENTS
from opx_aws.clients import client
from opx_aws.table import DynamoTable, to_attributes
from tests.benchmarks.graph_cpu import VCPUS, a_session, repeating
from tests.support.builders import a_document

PAGE_BYTES = 1_000_000
SLICE_SECONDS = 720
"""Of the function's 900, without the time that it spares."""

SLICES = 24


def an_item(number: int) -> Item:
    """A current version of a client's runbook."""
    source = f"documents/runbooks/team-{number % 50}/restart-service-{number}-after-it-ran-out-of-memory.md"
    scope = Scope(f"client-{number % 20}", project_id=f"project-{number % 7}")
    document = a_document(
        source,
        f"Restart service {number} after it ran out of memory",
        document_id=f"{number:032x}",
        key=DocumentKey(scope, source),
        location=f"s3://opx-knowledge-corpus-123456789012-eu-central-1/{scope.prefix}{source}",
        source_uri=f"https://git.example.com/runbooks/{source}",
        created_at="2026-11-01T00:00:00Z",
        current_since="2026-11-01T00:00:00Z",
        last_updated="2026-11-01T00:00:00Z",
        author="payments",
        tags=("restart", "memory", "kubernetes"),
        chunk_count=8,
        token_count=3200,
    )
    return document_item(document)


def a_reply(fields: frozenset[str], count: int) -> bytes:
    items = [to_attributes(an_item(number)) for number in range(count)]
    sent = [{name: value for name, value in item.items() if not fields or name in fields} for item in items]
    return json.dumps({"Items": sent, "Count": count, "ScannedCount": count}, separators=(",", ":")).encode()


class OneReply(dict[str, bytes]):
    """Replies to each request alike: whole items, or those fields that it names."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._whole = a_reply(frozenset(), count)
        self._named: dict[frozenset[str], bytes] = {}
        self._count = count

    def get(self, key: str, default: Any = None) -> Any:
        request = json.loads(key[key.index("{") :])
        if "ProjectionExpression" not in request:
            return self._whole
        marks = request["ProjectionExpression"].split(", ")
        fields = frozenset(request["ExpressionAttributeNames"][mark] for mark in marks)
        if fields not in self._named:
            self._named[fields] = a_reply(fields, self._count)
        return self._named[fields]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=30)
    given = parser.parse_args()
    count = PAGE_BYTES // len(a_reply(frozenset(), 1))
    print(f"{count:,} items a page")
    with repeating(OneReply(count)) as address:
        os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = address
        table: Any = DynamoTable(DOCUMENTS, client("dynamodb", session=a_session()))
        catalog = Catalog(table, table, table, clock=time.time, lease_seconds=0, calendar=None)  # type: ignore[arg-type]
        found = Holdings("2026-11-20T00:00:00Z", UsageTally("2026-11-19"))
        ways: dict[str, Callable[[], Any]] = {
            "documents of the catalog": lambda: sum(
                one.chunk_count for one in catalog.in_category("runbooks/procedures")
            ),
            "sizes alone": lambda: found.add(
                "runbooks/procedures", DocumentSizes(table).page("runbooks/procedures").sizes
            ),
        }
        for name, read in ways.items():
            seconds = cpu_seconds(read, given.pages) / count
            a_slice = SLICE_SECONDS * VCPUS / seconds
            print(
                f"{name:26} {1e6 * seconds:6.1f} µs an item, {VCPUS / seconds:9,.0f} items a second at {VCPUS:.2f} vCPU, "
                f"{a_slice / 1e6:5.1f} million in a run, {SLICES * a_slice / 1e6:6.0f} million in a day"
            )


def cpu_seconds(read: Callable[[], Any], pages: int) -> float:
    """CPU time of a page, the least of some."""
    read()
    taken = []
    for _ in range(pages):
        begin = time.process_time()
        read()
        taken.append(time.process_time() - begin)
    return sorted(taken)[len(taken) // 2]


if __name__ == "__main__":
    main()
