"""Everything that reads inputs of others: parsers, front matter, sidecars, questions, relation lines, deliveries, archives
and requests of operations."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opx.domain.knowledge import Tier
from opx.domain.queries import QueryConfig
from opx.errors import ArchiveError, InvalidInputError, UnknownCategoryError, UnparsableDocumentError
from opx.formats.metadata import parse_sidecar
from opx.operations import load
from opx.retrieval.query_language import parse_query
from tests.attack.fuzzing import Target
from tests.attack.mutations import mutated, mutated_json
from tests.contract.operation_edges import World, copied, local
from tests.contract.operation_examples import EXAMPLES, build
from tests.support.extraction_support import Extraction, knowledge
from tests.support.parsing_support import a_category, outcome
from tests.support.webhook_support import Webhooks, an_issue, generic, github, jira, pagerduty, prometheus, statuspage

CORPUS = Path(__file__).parents[2] / "corpus" / "documents"

FRONT_MATTER = b"""---
title: Disk full
category: runbooks/procedures
tags: [disk, linux]
services: [checkout]
owner: ana@example.org
expires: 2026-10-01
updated: 2026-01-02T10:00:00Z
severity: high
relations:
  - service:web|DEPENDS_ON|service:db
---
# Disk full

Rotate the logs.
"""
RELATIONS = b"""# Shop

service:shop|DEPENDS_ON|service:db
service:shop|RUNS_ON|host:web-01
- runbook:disk | documents | service:shop
`alert:HighLatency|CAUSED_BY|change:4711`
"""
TEXTS: Mapping[str, tuple[bytes, ...]] = {
    ".md": (FRONT_MATTER, RELATIONS),
    ".txt": (b"2026-01-02 10:00:00 ERROR disk full on web-01\n\nTitle\n=====\n\n1. Rotate the logs\n",),
    ".html": (
        b"<!doctype html><html><head><title>T</title></head><body><h1>Disk</h1><p>Rotate &amp; delete</p></body></html>",
        b"<html><body><table><tr><th>a<td>b</table><ul><li>x<li>y</ul><pre>df -h</pre></body></html>",
    ),
    ".json": (b'{"title": "Disk", "steps": ["a", {"b": [1, 2.5, null, true]}], "id": "CVE-2024-1", "text": "x\\ny"}',),
    ".jsonl": (b'{"a": 1}\n{"a": 2, "b": "text"}\n',),
    ".yaml": (
        b"a: &x {b: 1}\nc: *x\nlist:\n  - one\n  - two: |\n      text\n      more\n---\nkind: Secret\ndata: {p: eA==}\n",
    ),
    ".csv": (b'host,cpu,note\nweb-01,41,"a, b"\nweb-02,42,"line\nbreak"\n',),
    ".rst": (
        b"Disk\n====\n\n.. note:: Rotate\n\n   the logs\n\n+---+---+\n| a | b |\n+---+---+\n\n:ref:`x` and ``df``\n",
    ),
    ".adoc": (b"= Disk\n\n== Fix\n\n. Rotate\n. Delete\n\n[source,bash]\n----\ndf -h\n----\n\n|===\n|a |b\n|===\n",),
    ".toml": (b'[a]\nb = "c"\npassword = "x"\n[[d]]\ne = 1\n',),
    ".py": (b'import os\n\n\nclass A:\n    """Text."""\n\n    def b(self) -> int:\n        return os.getpid()\n',),
    ".tf": (b'resource "aws_instance" "a" {\n  ami = var.ami\n  tags = { Name = "x" }\n}\n',),
    ".xml": (b'<?xml version="1.0"?><a b="c"><d>text</d><password>x</password></a>',),
}
QUESTIONS = tuple(
    text.encode()
    for text in (
        "disk full on web-01 category:runbooks after:2026-01-01",
        '"exact phrase" -redis tier:internal tag:linux service:checkout limit:5',
        'Which services run CVE-2024-1234 before:"last week" as-of:2026-01-02',
        '{"status": "firing", "alerts": [{"labels": {"alertname": "DiskFull", "instance": "web-01"}}]}',
        "title:(disk OR logs) AND NOT windows ~2 owner:ana",
    )
)
ALERTS = {
    "version": "4",
    "status": "firing",
    "groupKey": "{}",
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "DiskFull", "instance": "web-01"},
            "annotations": {"summary": "Disk", "runbook_url": "https://example.org/disk"},
            "startsAt": "2026-01-02T10:00:00Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "fingerprint": "abc",
        }
    ],
}
INCIDENT = {
    "event": {
        "id": "01",
        "event_type": "incident.resolved",
        "occurred_at": "2026-01-02T10:00:00Z",
        "data": {"id": "PX", "number": 7, "title": "Disk", "status": "resolved", "service": {"summary": "shop"}},
    }
}
TICKET = {
    "webhookEvent": "jira:issue_updated",
    "issue": {
        "key": "OPS-7",
        "fields": {"summary": "Disk", "description": "Full", "labels": ["x"], "updated": "2026-01-02"},
    },
}
RECORD = {
    "id": 7,
    "name": "Deploy",
    "text": "It went well",
    "steps": ["a"],
    "at": "2026-01-02T10:00:00Z",
    "labels": ["x"],
}
PAGE = {
    "page": {"id": "p"},
    "incident": {"id": "i", "name": "Disk", "status": "resolved", "incident_updates": [{"body": "b"}]},
}

SIGNED: tuple[tuple[Callable[[Any], Any], Any], ...] = (
    (github, an_issue()),
    (pagerduty, INCIDENT),
    (jira, TICKET),
    (generic, RECORD),
    (prometheus, ALERTS),
    (statuspage, PAGE),
)


def document_targets(folder: Path) -> Iterator[Target]:
    pages = [path.read_bytes() for path in sorted(CORPUS.rglob("*.md"))[:8]]
    for suffix, seeds in TEXTS.items():
        yield Target(f"parser {suffix}", _bytes((*seeds, *(pages if suffix == ".md" else ()))), _parser(suffix), 0.03)
    yield Target("front matter", _bytes((FRONT_MATTER,)), _reader(folder), 0.12)
    yield Target(
        "sidecar",
        _bytes((b'{"metadataAttributes": {"title": "T", "tags": ["x"], "expires": "2026-10-01"}}',)),
        _sidecar,
        0.06,
    )
    yield Target("query language", _bytes(QUESTIONS), _question, 0.2)
    yield Target("relation lines", _bytes((RELATIONS,)), _extraction(folder), 0.08)


def _bytes(seeds: Sequence[bytes]) -> Callable[[random.Random], bytes]:
    return lambda chance: mutated(seeds, chance)


def _parser(suffix: str) -> Callable[[bytes], str]:
    name, category = f"a{suffix}", a_category()

    def attack(data: bytes) -> str:
        outcome(data, name, category)
        return ""

    return attack


def _reader(folder: Path) -> Callable[[bytes], str]:
    """Reads a document of a folder with little trust, whose content must not raise it."""
    extraction = Extraction(folder / "front")

    def attack(data: bytes) -> str:
        try:
            found = extraction.extract(data, "web/blogs/page.md").document
        except (UnparsableDocumentError, UnknownCategoryError):
            return ""
        trusted = found.tier is not Tier.INTERNET or not found.category.startswith("web/")
        return f"content claimed {found.category} of tier {found.tier}" if trusted else ""

    return attack


def _sidecar(data: bytes) -> str:
    try:
        parse_sidecar(data, "a.md.metadata.json")
    except UnparsableDocumentError:
        return ""
    return ""


def _question(data: bytes) -> str:
    try:
        parse_query(data.decode("utf-8", "replace"), QueryConfig(), knowledge())
    except InvalidInputError:
        return ""
    return ""


def _extraction(folder: Path) -> Callable[[bytes], str]:
    extraction = Extraction(folder / "relations")

    def attack(data: bytes) -> str:
        try:
            extraction.extract(data)
        except (UnparsableDocumentError, UnknownCategoryError):
            return ""
        return ""

    return attack


# -- deliveries, archives, operations


def webhook_target(webhooks: Webhooks) -> Target:
    def make(chance: random.Random) -> Any:
        sign, body = chance.choice(SIGNED)
        changed = mutated_json(body, chance)
        delivery = sign(changed)
        if chance.random() < 0.3:
            delivery = replace_body(delivery, mutated([delivery.body], chance))
        return delivery

    def attack(delivery: Any) -> str:
        reply = webhooks.answer(delivery)
        return f"status {reply.status}: {reply.payload}" if reply.status >= 500 and reply.status != 503 else ""

    return Target("webhook", make, attack, 0.08)


def replace_body(delivery: Any, body: bytes) -> Any:
    return dataclasses.replace(delivery, body=body)


def archive_target(archive: Path, folder: Path, run: Callable[[Path], object]) -> Target:
    """An archive with some of its bytes changed: refused, whatever it is, and nothing else."""
    original = archive.read_bytes()
    changed = folder / "changed.zip"

    def make(chance: random.Random) -> bytes:
        data = bytearray(original)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            data[at : at + chance.randint(0, 8)] = chance.randbytes(chance.randint(0, 8))
        return bytes(data)

    def attack(data: bytes) -> str:
        changed.write_bytes(data)
        try:
            run(changed)
        except ArchiveError:
            return ""
        return ""

    return Target("archive", make, attack, 0.01)


def operation_target(world: World) -> Target:
    """Requests of all operations that only read, with any values in their fields."""
    registry = load()
    names = [
        name for name in EXAMPLES if name.startswith(("get_", "list_", "find_", "query", "read_", "search", "diff_"))
    ]

    def make(chance: random.Random) -> tuple[str, Any]:
        name = chance.choice(names)
        return name, mutated_json(EXAMPLES[name](world) or {"limit": 5}, chance)

    def attack(given: tuple[str, Any]) -> str:
        name, fields = given
        operation = registry.get(name)
        assert operation is not None
        reply = local(world, operation, fields if isinstance(fields, dict) else {"query": fields})
        return f"{name}: {reply.code} {reply.message}" if reply.code == "internal" else ""

    return Target("operation", make, attack, 0.06)


@contextmanager
def a_world(folder: Path) -> Iterator[World]:
    ids = build(folder / "template")
    with copied(folder / "template", folder / "home", ids) as world:
        yield world
