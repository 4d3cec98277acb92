"""Finds a client's scopes and documents, and cross-checks a removal, without reading items of other clients."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from opx.domain.documents import DocumentChunk, DocumentKey
from opx.domain.record import replace
from opx.domain.scopes import Scope, scope_of_key, scope_of_object
from opx.errors import DamagedStoreError, InvalidScopeError, ObjectNotFoundError
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.corpus.chunk_files import VERSION_FILE, read_chunks
from opx.ingestion.corpus.claims import REMOVAL
from opx.ingestion.events import DOCUMENTS_FOLDER, SIDECAR_SUFFIX
from opx.ingestion.indexing.capability import Indexing
from opx.lifecycle.rows import all_rows
from opx.ports import ChunkCopies, ObjectStore, SearchFilter, SearchRequest, Storage, Tables, WorkQueue
from opx.ports.holdings import ClientDocument, HeldItems, is_of
from opx.ports.tables import DOCUMENTS, GRAPH, KEYS
from opx.runtime.threads import Each

MAX_WORDS = 5
_WORD = re.compile(r"[^\W\d_]{6,30}")


@dataclass(frozen=True, slots=True)
class ClientStores:
    """The stores that hold items of clients; `copies` returns the copies for a managed service, None without one."""

    tables: Tables
    storage: Storage
    work: WorkQueue
    corpus: Corpus
    indexing: Indexing
    copies: Callable[[], ChunkCopies | None]


class Finder:
    """Finds the scopes and documents of clients. A document is found by its key's item, its object and the chunk files of
    its versions, so that partly removed ones are not missed."""

    def __init__(self, tables: Tables, storage: Storage, corpus: Corpus) -> None:
        self._tables = tables
        self._storage = storage
        self._corpus = corpus

    def find(self, client_id: str, known: HeldItems | None = None) -> HeldItems:
        """Everything stored for a client now, merged with what was `known` before. Raises `InvalidScopeError` for a
        malformed id, and `StoreUnavailableError`."""
        objects = list(self._objects(client_id))
        owners = {scope.key for scope, _ in objects}
        scopes = sorted(
            {Scope(client_id).key, *owners, *self._recorded_scopes(client_id), *(known.scopes if known else ())}
        )
        files = tuple(dict.fromkeys(_files(objects)))
        documents = tuple(self._documents(client_id, scopes, objects, {document_id for _, document_id in files}))
        held = HeldItems(client_id, tuple(scopes), documents, files=files)
        held = known.with_more(held) if known else held
        return held if held.words else replace(held, words=self._words(files))

    def document_count(self, client_id: str) -> int:
        """Number of document keys in the recorded scopes of a client; quick, but blind to scopes that were never recorded."""
        return sum(
            1 for scope in self.scopes(client_id) for _ in self._tables.table(KEYS).query(scope, index="scope-index")
        )

    def recorded_clients(self) -> set[str]:
        """Clients with recorded scopes, including those that were never registered."""
        return {key.split("/")[0].removeprefix("client:") for key in self._recorded_keys("client:")}

    # -- scopes

    def scopes(self, client_id: str) -> set[str]:
        """The client's own scope, and those of its projects and groups that any table records."""
        return {Scope(client_id).key, *self._recorded_scopes(client_id)}

    def _recorded_scopes(self, client_id: str) -> set[str]:
        own = Scope(client_id).key
        found = {key for key in self._recorded_keys(own) if is_of(client_id, key)}
        for project in self._corpus.projects.projects(client_id):
            found.add(Scope(client_id, project_id=project.project_id).key)
            if project.group_id:
                found.add(Scope(client_id, group_id=project.group_id).key)
        return found

    def _recorded_keys(self, begins_with: str) -> Iterator[str]:
        """Keys of scopes with recorded questions or baseline values."""
        for rows in all_rows():
            if rows.scopes:
                yield from rows.scopes(self._tables.table(rows.table), begins_with)

    # -- documents

    def _objects(self, client_id: str) -> Iterator[tuple[Scope, str]]:
        """Scope and rest of every object key in the client's folder, earlier versions of objects included."""
        for key in self._storage.history.held(Scope(client_id).prefix):
            try:
                yield scope_of_object(key)
            except InvalidScopeError:  # written by another program: no document, and removed with the folder
                continue

    def _documents(
        self, client_id: str, scopes: Iterable[str], objects: Iterable[tuple[Scope, str]], versions: Set[str]
    ) -> Iterator[ClientDocument]:
        found = self._keyed(scopes)
        for scope, rest in objects:
            if rest.startswith(DOCUMENTS_FOLDER):
                found.setdefault(DocumentKey(scope, rest.removesuffix(SIDECAR_SUFFIX)), set())
        each = Each(self._storage.read_threads)
        for key, ids in zip(found, each(self._versions, list(found)), strict=True):
            found[key] |= ids
        missing = list(versions - set().union(*found.values()))
        for keys, document_id in zip(each(self._keys_of, missing), missing, strict=True):
            for key in keys:
                if key.scope.client_id == client_id:
                    found.setdefault(key, set()).add(document_id)
        return (ClientDocument(key, tuple(sorted(ids))) for key, ids in found.items())

    def _keyed(self, scopes: Iterable[str]) -> dict[DocumentKey, set[str]]:
        found: dict[DocumentKey, set[str]] = {}
        for scope_key in scopes:
            for item in self._tables.table(KEYS).query(scope_key, index="scope-index"):
                ids = {str(item.get("documentId", "")), *(item.get("writing") or {})} - {"", REMOVAL}
                found[DocumentKey(scope_of_key(scope_key), item["source"])] = ids
        return found

    def _versions(self, key: DocumentKey) -> set[str]:
        items = self._tables.table(DOCUMENTS).query(key.id, index="documentKey-version-index")
        return {str(item["documentId"]) for item in items}

    def _keys_of(self, document_id: str) -> list[DocumentKey]:
        return [document.key for document in self._corpus.catalog.find(document_id)]

    def _words(self, files: Iterable[tuple[Scope, str]]) -> tuple[str, ...]:
        """Sample words for the cross-check: the longest word of the first chunk of a few versions."""
        words: dict[str, None] = {}
        for file in files:
            chunk = next(chunks_in(self._corpus.store, file), None)
            found = _WORD.findall(chunk.content) if chunk else []
            words.update(dict.fromkeys(sorted(found, key=len)[-1:]))
            if len(words) >= MAX_WORDS:
                break
        return tuple(words)


def chunks_in(store: ObjectStore, file: tuple[Scope, str]) -> Iterator[DocumentChunk]:
    """The chunks of a version; none if its chunk file is gone, and those before the first damaged line of one that is
    damaged."""
    scope, document_id = file
    try:
        yield from read_chunks(store, DocumentKey(scope, ""), document_id)
    except (ObjectNotFoundError, DamagedStoreError):
        return


def _files(objects: Iterable[tuple[Scope, str]]) -> Iterator[tuple[Scope, str]]:
    return ((scope, match[1]) for scope, rest in objects if (match := VERSION_FILE.match(rest)))


# -- cross-checks


GRAPH_TYPES = (
    "alert", "alert_event", "branch", "change", "class", "commit", "confluence_page", "cve", "document", "email", "file",
    "function", "host", "incident", "jira_issue", "method", "mitigation", "module", "product", "runbook", "service", "team",
    "technique", "user",
)  # fmt: skip
"""Node types that this system's own extraction produces."""

_WORDS_FOUND = "passages found by its own words"


class Checks:
    """Counts by independent queries; all must be zero after a removal."""

    def __init__(self, stores: ClientStores) -> None:
        self._stores = stores

    def run(self, held: HeldItems) -> Mapping[str, int]:
        """Number of items found by each check. Raises `StoreUnavailableError`."""
        return {
            _WORDS_FOUND: sum(self._hits(held, word) for word in held.words),
            "entries of its documents in the index": self._references(held),
            "things in the graph by scope and type": self._nodes(held),
            "objects that the store lists": sum(
                1 for prefix in held.folders for _ in self._stores.corpus.store.list(prefix)
            ),
        }

    def _hits(self, held: HeldItems, word: str) -> int:
        """Lexical hits of a reader with exactly the client's scopes; global documents don't count."""
        response = self._stores.indexing.search_engine.search(SearchRequest(SearchFilter(held.scopes), text=word))
        fused = response.fused.hits if response.fused else ()
        return len(response.lexical.hits) + len(fused)

    def _references(self, held: HeldItems) -> int:
        """Counted by document, where the holding counts by scope."""
        return sum(Each(self._stores.storage.read_threads)(self._entries, held.documents))

    def _entries(self, document: ClientDocument) -> int:
        return sum(len(index.references(document.key.id)) for index in self._stores.indexing.every_index())

    def _nodes(self, held: HeldItems) -> int:
        """Nodes in the scopes that have documents: only documents state nodes."""
        scopes = {document.key.scope.key for document in held.documents}
        partition_keys = [f"{scope}|{kind}" for scope in sorted(scopes) for kind in GRAPH_TYPES]
        return sum(Each(self._stores.storage.read_threads)(self._count_in_partition, partition_keys))

    def _count_in_partition(self, partition_key: str) -> int:
        return sum(1 for _ in self._stores.tables.table(GRAPH).query(partition_key, index="type-index"))
