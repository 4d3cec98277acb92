"""Speed of the nightly seal on AWS: `python -m tests.benchmarks.nightly_seal [--documents 4000] [--milliseconds 20]`.

A process of its own answers as S3 and DynamoDB do, each request after so many milliseconds, for documents with one version
each, whose checksums are recorded. The seal is made twice: the second one is compared with the first. What is measured is
this process, with its CPU time and memory, without TLS.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import time
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from opx.domain.provenance import Channel, ChannelKind, Provenance
from opx.ingestion.corpus.catalog import PROVENANCE, document_from_item
from opx.ports import Item
from opx.ports.tables import DOCUMENTS, KEYS, LIFECYCLE
from opx.settings import Settings
from opx.system import bootstrap
from opx_assurance.capability import assurance
from opx_aws.table import from_attributes, to_attributes
from tests.benchmarks.holdings import an_item

SLICE_SECONDS = 660
"""Of the function's 900, without the time that it spares."""

SLICES = 4
PAGE_OBJECTS, PAGE_ITEMS = 1000, 600
"""Of a reply of S3, and of a megabyte of versions."""

ETAG = "0" * 32


@cache
def a_version(number: int) -> Item:
    item = an_item(number) | {"chunksChecksum": f"{number:064x}", "outlineChecksum": f"{number:064x}"}
    origin = Provenance(
        channel=Channel(ChannelKind.UPLOAD), attested=False, object_checksum=f"{number:064x}", object_version="v1"
    )
    return item | {PROVENANCE: origin.to_json()}


class Account:
    """Replies for so many documents; what is written to the table of seals is kept."""

    def __init__(self, documents: int) -> None:
        versions = [a_version(number) for number in range(documents)]
        self.versions = {item["documentId"]: item for item in versions}
        self.heads = {
            item["documentKey"]: {
                "documentKey": item["documentKey"],
                "documentId": item["documentId"],
                "version": item["version"],
                "state": "current",
            }
            for item in versions
        }
        keys = map(document_from_item, versions)
        self.objects = sorted(f"{one.scope.prefix}{one.source}" for one in keys)
        self.seals: dict[str, Item] = {}

    def listing(self, after: str) -> bytes:
        found = [key for key in self.objects if key > after][:PAGE_OBJECTS]
        more = bool(found) and found[-1] != self.objects[-1]
        entries = "".join(
            f"<Contents><Key>{key}</Key><Size>9</Size><ETag>{ETAG}</ETag>"
            "<LastModified>2026-11-01T00:00:00Z</LastModified></Contents>"
            for key in found
        )
        token = f"<NextContinuationToken>{found[-1]}</NextContinuationToken>" if more else ""
        truncated = str(more).lower()
        return f"<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{token}{entries}</ListBucketResult>".encode()

    def table(self, action: str, request: dict[str, Any]) -> dict[str, Any]:
        answer = getattr(self, f"_{action}", None)
        found: dict[str, Any] = answer(request) if answer else {}
        return found

    def _Scan(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - DynamoDB's name
        if request["TableName"] != DOCUMENTS.name:
            return {"Items": []}
        names = sorted(self.versions)
        start = from_attributes(request.get("ExclusiveStartKey", {})).get("documentId", "")
        page = [name for name in names if name > start][:PAGE_ITEMS]
        items = [to_attributes(self.versions[name]) for name in page]
        last = {"LastEvaluatedKey": to_attributes(DOCUMENTS.key_of(self.versions[page[-1]]))} if page else {}
        return {"Items": items, **last}

    def _BatchGetItem(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        ((table, wanted),) = request["RequestItems"].items()
        keys = map(from_attributes, wanted["Keys"])
        known = self.heads if table == KEYS.name else self.versions
        name = KEYS.partition if table == KEYS.name else DOCUMENTS.partition
        return {"Responses": {table: [to_attributes(known[key[name]]) for key in keys if key[name] in known]}}

    def _PutItem(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        item = from_attributes(request["Item"])
        self.seals[f"{item['subject']}|{item['entry']}"] = item
        return {}

    def _GetItem(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        key = from_attributes(request["Key"])
        item = self.seals.get("|".join(key.values()))
        return {"Item": to_attributes(item)} if item else {}

    def _Query(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        if request["TableName"] != LIFECYCLE.name:
            return {"Items": []}
        return {"Items": [to_attributes(item) for item in self.seals.values() if "leaves" in item]}


def serve(documents: int, seconds: float, port: Any) -> None:
    account = Account(documents)

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            action = self.headers["X-Amz-Target"].partition(".")[2]
            reply = json.dumps(account.table(action, json.loads(body))).encode()
            self._reply(200, reply, {"Content-Type": "application/x-amz-json-1.0"})

        def do_HEAD(self) -> None:
            self._reply(200, b"", {"ETag": ETAG, "x-amz-version-id": "v1", "x-amz-meta-title": "Restart"})

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            if "list-type" not in query:
                self._reply(404, b"<Error><Code>NoSuchKey</Code></Error>", {})
                return
            after = query.get("continuation-token", query.get("start-after", [""]))[0]
            self._reply(200, account.listing(after), {})

        def _reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            time.sleep(seconds)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    port.send(server.server_port)
    server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=4000)
    parser.add_argument("--milliseconds", type=float, default=20.0)
    given = parser.parse_args()
    mine, its = multiprocessing.Pipe()
    arguments = (given.documents, given.milliseconds / 1000, its)
    server = multiprocessing.get_context("spawn").Process(target=serve, args=arguments, daemon=True)
    server.start()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{mine.recv()}",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }
    with bootstrap(Settings(backend="aws", corpus_bucket="corpus")) as services:
        for name in ("first seal", "compared with the one before"):
            measure(services.part(assurance).daily_sealing(), name, given.documents)
    server.terminate()


def measure(sealing: Any, name: str, documents: int) -> None:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin, cpu = time.perf_counter(), time.process_time()
    sealing._sealing.trusted_last = lambda: None if name == "first seal" else sealing._store.last()
    last = sealing._store.last() if name != "first seal" else None
    if last:  # of an earlier day
        sealing._sealing.trusted_last = lambda: type(last).from_json(last.to_json() | {"at": "2020-01-01T00:00:00Z"})
    found = sealing.run()
    taken, spent = time.perf_counter() - begin, time.process_time() - cpu
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    a_slice = SLICE_SECONDS * documents / taken
    print(
        f"{name}: {found.outcome}, {found.items:,} leaves; {documents / taken:,.0f} documents a second, "
        f"{1000 * spent / documents:.2f} ms of CPU and {1024 * grown / documents:,.0f} bytes a document; "
        f"{a_slice:,.0f} in a run, {SLICES * a_slice:,.0f} in a night"
    )


if __name__ == "__main__":
    main()
