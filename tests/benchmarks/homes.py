"""Writes made-up corpora into homes of the product, as ingestion would, and keeps them in a folder.

`python -m tests.benchmarks.homes CACHE --chunks N` makes one, and prints its path and the figures of its making as JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import opx
from opx.domain.documents import ChunkMetadata, DocumentChunk, KnowledgeDocument, Revision, contextual_text
from opx.domain.ids import chunk_id, content_hash, document_id
from opx.domain.knowledge import Tier
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity, Scope
from opx.ingestion.corpus.catalog import document_item
from opx.ingestion.corpus.chunk_files import outline_data, outline_file
from opx.ingestion.prepared import as_indexed
from opx.operations.system import System
from opx.ports import DocumentChange, IndexEntry
from opx.ports.tables import DOCUMENTS
from opx.retrieval.judging import expired_since
from opx.settings import Settings
from opx.system import bootstrap
from opx.text.procedures.outline import outline_of
from tests.benchmarks.corpora import (
    CLIENT,
    EVERYBODY,
    PROJECTS,
    Corpus,
    Passages,
    Questions,
    SyntheticDocument,
    load_passages,
)

DOCUMENTS_A_BATCH = 250
TRUST = {"internal": 1.0, "specialized": 0.9, "internet": 0.6}
INDEX, CORPUS, UNUSED, BUILD_FILE = "index", "corpus", "unused", "build.json"
"""The index, the documents' outlines, a copy of everything else as it was made, and the figures of its making, in a home."""
_KEPT = (INDEX, CORPUS, UNUSED)

WITH_DOCUMENTS = 10_000
"""Chunks up to which a home has all its documents, too, from which answers over HTTP are assembled: an outline takes 8 ms.
Larger homes get those that the questions find (`keep_found`): of another one, each passage would be parsed again."""

READERS = {"no filter": {"client_id": CLIENT, "project_id": PROJECTS[0]}, "5 % tenant": {"client_id": CLIENT}}
"""Readers that see everything, and 5 % of it."""


def scope_of(document: SyntheticDocument) -> Scope:
    if document.owner == EVERYBODY:
        return Scope()
    return Scope(CLIENT) if document.owner == CLIENT else Scope(CLIENT, project_id=document.owner)


def change_of(document: SyntheticDocument) -> DocumentChange:
    """The change that ingestion of the document makes to the index."""
    stored = _stored(document)
    entries = []
    for position, one in enumerate(document.chunks):
        text = contextual_text(document.title, (one.section,), one.text)
        chunk = DocumentChunk(
            chunk_id=chunk_id(stored.document_id, position, text),
            document_id=stored.document_id,
            chunk_index=position,
            content=one.text,
            token_count=len(one.text) // 4,
            section=(one.section,),
            start=position * 2000,
            end=position * 2000 + len(one.text),
            metadata=ChunkMetadata.of(stored),
        )
        entries.append(IndexEntry(as_indexed(chunk, stored, ()), list(one.vectors)))
    return DocumentChange(stored.key.id, stored.document_id, entries)


def _stored(document: SyntheticDocument) -> KnowledgeDocument:
    text = "\n".join(one.text for one in document.chunks)
    identity = document_id(document.title, document.category, content_hash(f"{document.number} {text}"))
    return KnowledgeDocument(
        document_id=identity,
        title=document.title,
        category=document.category,
        tier=Tier(document.tier),
        location=document.source,
        source_uri=document.source,
        services=(document.title.lower()[:12],),
        metadata=Revision(last_updated=document.updated),
        created_at=document.updated,
        scope=scope_of(document),
        source=document.source,
        trust=TRUST[document.tier],
    )


def batches(documents: Iterator[SyntheticDocument]) -> Iterator[list[SyntheticDocument]]:
    while batch := list(islice(documents, DOCUMENTS_A_BATCH)):
        yield batch


def passages_of(folder: Path, collection: Path | None = None) -> Passages:
    """The passages, with vectors of the product's model."""
    with bootstrap(Settings(home=str(folder / "model-home"))) as system:
        embedder = system.indexing.embedder
        return load_passages(folder, embedder.embed_documents, embedder.model_id, collection)


def source_hash() -> str:
    """Identifies the product's code: a home of other code is made anew."""
    folder = Path(opx.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def home_of(folder: Path, chunks: int, corpus: Corpus) -> Path:
    """A home with so many chunks, made unless the folder has it; `build.json` in it has the figures of its making.

    Of a home that was used before, everything but index and documents is put back: it has cached the vectors of questions.
    """
    home = folder / f"home-{chunks}-{corpus.name}-{source_hash()}"
    if not (home / UNUSED / BUILD_FILE).exists():
        shutil.rmtree(home, ignore_errors=True)  # a run that was cut off
        _make_room(folder, f"home-{chunks}-*")
        figures = _fill(home, chunks, corpus)
        (home / BUILD_FILE).write_text(json.dumps(figures), encoding="utf-8")
        shutil.copytree(home, home / UNUSED, ignore=shutil.ignore_patterns(INDEX, CORPUS))
    _put_back(home)
    return home


def _put_back(home: Path) -> None:
    for path in home.iterdir():
        if path.is_file():
            path.unlink()
        elif path.name not in _KEPT:
            shutil.rmtree(path)
    shutil.copytree(home / UNUSED, home, dirs_exist_ok=True)


def _make_room(folder: Path, pattern: str) -> None:
    """Removes homes of the same size but the newest: with the new one there are two, to compare two codes."""
    for outdated in sorted(folder.glob(pattern), key=lambda one: one.stat().st_mtime)[:-1]:
        shutil.rmtree(outdated)


def _fill(home: Path, chunks: int, corpus: Corpus) -> dict[str, float]:
    wall = cpu = 0.0
    count = vectors = 0
    with bootstrap(Settings(home=str(home))) as system:
        _group_projects(system)
        for batch in batches(corpus.documents(chunks)):
            changes = [change_of(document) for document in batch]
            started, before = time.perf_counter(), time.process_time()
            system.indexing.index.apply(changes)
            wall, cpu = wall + time.perf_counter() - started, cpu + time.process_time() - before
            if chunks <= WITH_DOCUMENTS:
                _keep(system, batch)
            count += sum(len(document.chunks) for document in batch)
            vectors += sum(len(one.vectors) for document in batch for one in document.chunks)
    index = home / INDEX
    return {"chunks": count, "vectors": vectors, "build_s": wall, "build_cpu_s": cpu, "disk_mb": megabytes(index)}


def keep_found(
    home: Path, chunks: int, corpus: Corpus, seeds: Iterable[int], each: int, collection: Path | None = None
) -> None:
    """Stores the documents that the first questions of these seeds find in a home that has not all documents."""
    if chunks <= WITH_DOCUMENTS:
        return
    with bootstrap(Settings(home=str(home))) as system:
        search = system.questions.for_reader(Identity(**READERS["no filter"]), recorded=False)
        texts = (one.text for seed in seeds for one in islice(Questions(chunks, collection, seed).all(), each))
        found = (one for text in texts for one in search.search(text, QueryConfig(min_confidence=0)).results)
        _keep(system, [corpus.document(number) for number in sorted({int(Path(one.source).stem) for one in found})])


def _keep(system: System, documents: Sequence[SyntheticDocument]) -> None:
    """Stores the documents in the catalog, with their outlines, but for expired ones, which pruning would delete."""
    today = datetime.now(UTC).date().isoformat()
    for document in documents:
        stored = _stored(document)
        if not expired_since(stored, system.installation.knowledge, today):
            text = "\n\n".join(one.text for one in document.chunks)
            outline = outline_of(stored.document_id, stored.title, text)
            effects = system.ingestion.effects_of(outline.steps)
            system.corpus.store.put(outline_file(stored.key, stored.document_id), outline_data(outline, effects))
            system.tables.table(DOCUMENTS).put(document_item(stored))


def _group_projects(system: System) -> None:
    for project in PROJECTS:
        system.corpus.projects.assign(CLIENT, project, "platform")


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def build_figures(home: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((home / BUILD_FILE).read_text(encoding="utf-8"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--chunks", type=int, required=True)
    args = parser.parse_args()
    home = home_of(args.cache, args.chunks, Corpus(passages_of(args.cache)))
    print(json.dumps({"home": str(home), **build_figures(home)}))


if __name__ == "__main__":
    main()
