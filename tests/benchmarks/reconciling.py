"""Speed of a comparison of all stores: `python -m tests.benchmarks.reconciling FOLDER [--documents 1000000]`.

The catalog, the graph and the calendar are real tables in SQLite, with rows as ingestion writes them. Objects and the index
are computed from the numbers of the documents: millions of files would measure the file system. So what is measured is the
comparison itself. The rows are made on the first run, and kept.

`--processes 1` compares everything in one process.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from opx.domain.documents import DocumentKey, KnowledgeDocument
from opx.domain.ids import stable_hash
from opx.domain.scopes import Scope
from opx.ingestion.corpus.catalog import document_item, version_entry
from opx.ingestion.corpus.chunk_files import OUTLINE_SUFFIX
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.operations.system import System
from opx.ports import HeldDocument, Item, KeyRange, ObjectInfo, Table
from opx.ports.tables import DOCUMENTS, GRAPH, KEYS
from opx.runtime.threads import cores
from opx.settings import Settings
from opx.system import bootstrap
from opx_assurance.capability import assurance
from opx_assurance.consistency.catalog_rows import head_of
from tests.support.builders import a_document
from tests.support.fakes import WordsEmbedder

CATEGORIES = ("incidents/postmortems", "runbooks/procedures")
AT = "2026-11-01T00:00:00Z"
BATCH = 2_000
COUNT_FILE = "documents.txt"
IDENTITY = "computed"
"""Of the index, which is never made."""


def source_of(number: int) -> str:
    return f"documents/{CATEGORIES[number % 2]}/{number:08}.md"


def document_id_of(number: int) -> str:
    return f"{number:08x}{'0' * 24}"


class ComputedStore:
    """Objects, chunk files and outlines of so many documents. Read only."""

    def __init__(self, count: int) -> None:
        self._count = count

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        files = (
            f"chunks/{document_id_of(number)}{suffix}"
            for number in self._from(after, "chunks/", 16)
            for suffix in (".jsonl", OUTLINE_SUFFIX)
        )
        documents = (
            f"documents/{category}/{number:08}.md"
            for first, category in enumerate(CATEGORIES)
            for number in self._from(after, f"documents/{category}/", 10)
            if number % 2 == first
        )
        keys = (key for key in chain(files, documents) if key > after and key.startswith(prefix))
        return (self._info(key) for key in keys)

    def _from(self, after: str, folder: str, base: int) -> range:
        """Numbers of a folder's files that may be behind a key."""
        if after > folder + "~":
            return range(0)
        first = after.removeprefix(folder)[:8] if after.startswith(folder) else ""
        return range(int(first, base) if first else 0, self._count)

    def head(self, key: str) -> ObjectInfo | None:
        return None if key.endswith(SIDECAR_SUFFIX) else self._info(key)

    def _info(self, key: str) -> ObjectInfo:
        return ObjectInfo(key, 1000, f"etag of {key}", f"file:///{key}", {})


class ListedIndex:
    """An index that has an entry of each document of the catalog, and reads them there."""

    derives_ids = True

    def __init__(self, keys: Table) -> None:
        self._keys = keys

    def held(self, *, after: HeldDocument | None = None, limit: int = 1000) -> list[HeldDocument]:
        where = KeyRange(low=after.key_id + "\0") if after else None
        found = islice(self._keys.query("global", index="scope-index", where=where), limit)
        return [HeldDocument("global", str(one["documentKey"]), str(one["documentId"]), "", 1) for one in found]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a comparison without differences doesn't need {name}")


class Hollow(SimpleNamespace):
    """The capability `indexing` of the computed index."""

    settling_seconds = 0.0


def start(settings: Settings) -> System:
    """The system of a folder with rows, its objects and its index computed. Can be pickled."""
    system = bootstrap(settings, embedder=WordsEmbedder())
    count = int((Path(settings.home) / COUNT_FILE).read_text())
    system.ingestion.pipeline.index_identity = IDENTITY
    vars(system.corpus)["store"] = ComputedStore(count)
    vars(system.indexing)["index"] = ListedIndex(system.tables.table(KEYS))
    return system


# -- rows


def a_version(number: int) -> KnowledgeDocument:
    source = source_of(number)
    return a_document(
        source,
        f"Restart service {number} after it ran out of memory",
        document_id=document_id_of(number),
        key=DocumentKey(Scope(), source),
        category=CATEGORIES[number % 2],
        location=f"file:///home/corpus/{source}",
        created_at=AT,
        current_since=AT,
        last_updated=AT,
        chunk_count=1,
        token_count=400,
    )


def write_rows(system: System, count: int) -> None:
    """Writes the rows of all documents, as ingestion would. Rows alike are made from one, and not checked one by one."""
    store, layout = ComputedStore(count), system.ingestion.pipeline._layout()
    templates = [(a_version(number), document_item(a_version(number))) for number in range(2)]
    for first in range(0, count, BATCH):
        numbers = range(first, min(count, first + BATCH))
        rows = [_rows(*templates[number % 2], number, store, layout) for number in numbers]
        with system.tables.unit_of_work():
            for spec, items in zip((DOCUMENTS, KEYS, GRAPH), zip(*rows, strict=True), strict=True):
                table: Any = system.tables.table(spec)
                with table._writing() as connection:
                    table._write(connection, items)


def _rows(
    version: KnowledgeDocument, template: Item, number: int, store: ComputedStore, layout: str
) -> tuple[Item, Item, Item]:
    """A document's rows in the tables of versions, keys and the graph."""
    source, document_id = source_of(number), document_id_of(number)
    key = DocumentKey(Scope(), source)
    info = store.head(source)
    assert info is not None
    document = {
        **template,
        "documentId": document_id,
        "entry": version_entry(key.id, version.version),
        "documentKey": key.id,
        "source": source,
        "title": f"{version.title} {number}",
    }
    fingerprint = f"{layout}-{stable_hash('fingerprint', info.etag, '', dict(info.metadata))}"
    head = {**head_of(document), "fingerprint": fingerprint, "sequencer": "0" * 20, "leaseUntil": 0, "revision": 4}
    return document, head, _manifest(key, document_id)


def _manifest(key: DocumentKey, document_id: str) -> Item:
    own = f"document:{key.source}"
    return {
        "place": f"refs#{key.id}",
        "entry": "0" * 32,
        "keyId": key.id,
        "scope": key.scope.key,
        "chunk": "0" * 32,
        "pages": 1,
        "documentId": document_id,
        "own": own,
        "nodes": [[own, own]],
        "edges": [],
    }


# -- measuring


def compared(settings: Settings, processes: int) -> dict[str, float]:
    began = time.perf_counter()
    with start(settings) as system:
        compared = system.part(assurance)
        compared.restart = start if processes > 1 else None
        report = compared.reconciler().run()
    seconds = time.perf_counter() - began
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    assert not report.total, report.differences[:3]
    return {
        "documents": report.documents,
        "objects": report.objects,
        "seconds": seconds,
        "processor": sum(one.ru_utime + one.ru_stime for one in used),
        "memory_mb": max(one.ru_maxrss for one in used) / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=cores())
    chosen = parser.parse_args()
    settings = Settings(home=str(chosen.folder))
    noted = chosen.folder / COUNT_FILE
    if not noted.exists():
        began = time.perf_counter()
        with bootstrap(settings, embedder=WordsEmbedder()) as system:
            system.ingestion.pipeline.index_identity = IDENTITY
            write_rows(system, chosen.documents)
        noted.write_text(str(chosen.documents))
        print(f"rows of {chosen.documents:,} documents made in {time.perf_counter() - began:.0f} s", flush=True)
    found = compared(settings, chosen.processes)
    rate, cost = found["documents"] / found["seconds"], 1000 * found["processor"] / found["documents"]
    print(
        f"{found['documents']:,.0f} documents, {found['objects']:,.0f} objects: {found['seconds']:.0f} s, {rate:,.0f}/s; "
        f"{cost:.2f} ms of a processor each; {found['memory_mb']:,.0f} MB"
    )


if __name__ == "__main__":
    main()
