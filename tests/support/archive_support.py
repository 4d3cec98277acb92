"""Archives of a small system, helpers that tamper with them, its tags, and segments of its objects."""

from __future__ import annotations

import hashlib
import json
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.domain.documents import DocumentState, KnowledgeDocument
from opx.domain.scopes import Scope
from opx.errors import ArchiveError
from opx.ingestion.corpus.catalog import Catalog, document_from_item
from opx.operations.system import System
from opx.ports import KeyRange
from opx.ports.tables import ALL_TABLES
from opx.settings import Settings
from opx.system import bootstrap
from opx_assurance.archive.file import ENTRIES, MANIFEST, digest_of
from opx_assurance.capability import assurance
from opx_assurance.consistency.comparing import SegmentKind, StoreSegment
from opx_telemetry.capability import baselines
from opx_testing.fake_time import FakeTime
from tests.support.cli_support import WordEmbedder

PROCEDURES = "runbooks/procedures"
Entries = dict[str, bytes]


def services_at(home: Path, time: FakeTime | None = None) -> System:
    return bootstrap(Settings(home=str(home)), clock=(time or FakeTime()).clock, embedder=WordEmbedder())


def put(services: System, source: str, text: str, scope: Scope = Scope(), **metadata: Any) -> str:  # noqa: B008
    facts = {"source": source, **metadata}
    return services.ingestion.manager_of(scope).ingest_document("internal", PROCEDURES, f"# {source}\n\n{text}", facts)


def an_archive(folder: Path) -> Path:
    """Of two documents, one of a client and in two versions, with another name of a thing and a value."""
    with services_at(folder / "from") as services:
        put(services, "one", "The heron.")
        put(services, "two", "The egret.", Scope("acme"))
        put(services, "two", "The zebrafish.", Scope("acme"))
        services.graph.aliases.register(Scope("acme"), "service:payments", "service:pay", by="ann")
        services.part(baselines).add([{"node": "n", "metric": "cpu", "value": 1.0}], scope=Scope("acme"))
        services.part(assurance).exporter().write(folder / "good.opx")
    return folder / "good.opx"


def entries_of(path: Path) -> Entries:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, entries: Entries, *, change_info: Callable[[zipfile.ZipInfo], None] = lambda _: None) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFREG | 0o600) << 16
            change_info(info)
            archive.writestr(info, data)
    return path


def resealed(entries: Entries, **manifest: Any) -> Entries:
    """The entries with recomputed checksums, as an attacker would forge them."""
    kept = {name: data for name, data in entries.items() if name not in (ENTRIES, MANIFEST)}
    lines = [
        json.dumps({"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()})
        for name, data in kept.items()
    ]
    listing = "".join(line + "\n" for line in lines).encode()
    facts = {**json.loads(entries[MANIFEST]), **manifest}
    facts["entries"] = {"count": len(kept), "sha256": hashlib.sha256(listing).hexdigest()}
    facts["sha256"] = digest_of({name: value for name, value in facts.items() if name != "sha256"})
    return {**kept, ENTRIES: listing, MANIFEST: json.dumps(facts).encode()}


def changed_line(data: bytes, change: Callable[[dict[str, Any]], object], at: int = 0) -> bytes:
    """The lines, one of them changed."""
    lines = data.splitlines()
    line = json.loads(lines[at])
    change(line)
    lines[at] = json.dumps(line).encode()
    return b"".join(one + b"\n" for one in lines)


def everything_in(services: System) -> tuple[list[str], list[str]]:
    """All objects and items of a system."""
    items = (f"{spec.name} {sorted(item.items())}" for spec in ALL_TABLES for item in services.tables.every_item(spec))
    return [f"{info.key} {info.etag} {info.metadata}" for info in services.store.list()], sorted(items)


def refused(services: System, path: Path, **options: Any) -> str:
    """Message of the refused import, which must have changed nothing."""
    before = everything_in(services)
    with pytest.raises(ArchiveError) as caught:
        services.part(assurance).importer().run(path, **options)
    assert everything_in(services) == before
    return str(caught.value)


def unknown_objects(folder: Path) -> Settings:
    """A home with twelve objects and no documents."""
    settings = Settings(home=str(folder / "home"))
    with bootstrap(settings) as system:
        for number in range(12):
            system.storage.objects.put(f"documents/runbooks/{number:02}.md", b"# Unknown\n\nText.\n")
    return settings


def objects(*bounds: str) -> list[StoreSegment]:
    """Segments of objects, cut at these keys."""
    pairs = zip(["", *bounds], [*bounds, ""], strict=True)
    return [StoreSegment(SegmentKind.OBJECTS, low, high) for low, high in pairs]


def tagged(catalog: Catalog, tag: str) -> Iterator[KnowledgeDocument]:
    """Current documents with a tag, the last updated first."""
    for item in catalog.documents.query(tag, index="tags-index", reverse=True):
        prefix = KeyRange(begins_with=f"document#{item['keyId']}#")
        found = next(catalog.documents.query(item["documentId"], where=prefix, reverse=True, limit=1), None)
        if found and found["state"] == DocumentState.CURRENT and tag in found["tags"]:
            yield document_from_item(found)
