"""Counts and removes a client's documents, and data derived from them: index entries, graph, cached vectors and contexts,
catalog, objects, messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.domain.ids import batched, entry_id
from opx.domain.record import replace
from opx.domain.scopes import Scope, scope_of_object
from opx.domain.titles import chosen, of_name
from opx.errors import InvalidInputError, InvalidScopeError, StoreUnavailableError
from opx.graph.capability import Graph
from opx.graph.manifest import manifest_partition
from opx.graph.store import GraphStore
from opx.ingestion.capability import Ingestion
from opx.ingestion.corpus.failures import failure_id
from opx.ingestion.events import parse_event
from opx.ingestion.indexing.capability import Indexing
from opx.ingestion.indexing.words import FOLDER as WORDS
from opx.ingestion.reading import title_path
from opx.lifecycle.clients.finding import ClientStores, chunks_in
from opx.ports import CopyChange, DocumentChange, Item, SearchFilter, SearchIndex, Storage, Tables, WorkQueue
from opx.ports.holdings import ClientDocument, CountedHolding, HeldItems, Holding, delete, in_table
from opx.ports.tables import DOCUMENTS, ENTRIES, FAILURES, GRAPH, KEYS, TableSpec
from opx.runtime.threads import Each

DOCUMENTS_AT_ONCE = 50
"""Documents that are removed from the index together."""


def document_holdings(stores: ClientStores, graph: Graph, ingestion: Ingestion) -> list[Holding]:
    """Holdings in the order of removal: items that are found through others are removed before those."""
    each = Each(stores.storage.read_threads)
    rows, cached = CatalogRows(stores.tables), CachedTexts(stores, ingestion)
    return [
        IndexEntries(stores),
        GraphRows(stores.tables, graph.store, each),
        in_table(stores.tables, "new names", GRAPH, lambda held: graph.relink_queue.items_of(held.scopes)),
        CountedHolding("cached contexts", cached.contexts, cached.forget_contexts),
        CountedHolding("cached vectors", cached.vectors, cached.forget_vectors),
        _of_documents(stores.tables, each, "document versions and tags", DOCUMENTS, rows.versions),
        _of_documents(stores.tables, each, "references into the index", ENTRIES, rows.references),
        in_table(stores.tables, "failed items", FAILURES, rows.failed),
        in_table(stores.tables, "document keys", KEYS, rows.keys),
    ]


def _of_documents(
    tables: Tables, each: Each, name: str, spec: TableSpec, items: Callable[[ClientDocument], list[Item]]
) -> Holding:
    """A holding of the items of a table that belong to the client's documents."""

    def remove(held: HeldItems) -> None:
        with tables.unit_of_work():
            each(lambda one: delete(tables.table(spec), spec, items(one)), held.documents)

    return CountedHolding(name, lambda held: sum(map(len, each(items, held.documents))), remove)


class IndexEntries:
    """Index entries in every edition, and their copies for a managed service."""

    name = "index entries"

    def __init__(self, stores: ClientStores) -> None:
        self._stores = stores

    def count(self, held: HeldItems) -> int:
        return sum(index.count(SearchFilter(held.scopes)) for index in self._stores.indexing.every_index())

    def remove(self, held: HeldItems) -> None:
        for batch in batched(held.documents, DOCUMENTS_AT_ONCE):
            for index in self._stores.indexing.every_index():
                found = Each(self._stores.storage.read_threads)(partial(self._references, index), batch)
                index.apply(
                    DocumentChange(document.key.id, "", superseded=references)
                    for document, references in zip(batch, found, strict=True)
                )
            self._stores.indexing.written_index.apply([])
            if copies := self._stores.copies():
                copies.apply(CopyChange(one.key, "", superseded=one.document_ids) for one in batch)

    def _references(self, index: SearchIndex, document: ClientDocument) -> list[str]:
        """References from the catalog, as the index may not show recent writes yet, and from the index."""
        key = document.key
        corpus = self._stores.corpus
        found = corpus.catalog.all_references(key.id)
        if index.derives_ids:
            chunks = (chunk for one in document.document_ids for chunk in chunks_in(corpus.store, (key.scope, one)))
            found += [entry_id(key.id, chunk.chunk_id) for chunk in chunks]
        return list(dict.fromkeys([*found, *index.references(key.id)]))


class GraphRows:
    """Graph statements of the documents, counted by the manifest of each document, which is removed last."""

    name = "graph statements"

    def __init__(self, tables: Tables, store: GraphStore, each: Each) -> None:
        self._tables = tables
        self._store = store
        self._table = tables.table(GRAPH)
        self._each = each

    def count(self, held: HeldItems) -> int:
        return sum(self._each(self._rows, held.documents))

    def remove(self, held: HeldItems) -> None:
        with self._tables.unit_of_work():
            self._each(self._remove, held.documents)

    def _rows(self, document: ClientDocument) -> int:
        return sum(1 for _ in self._table.query(manifest_partition(document.key.id)))

    def _remove(self, document: ClientDocument) -> None:
        self._store.remove(document.key.id, document.key.scope)


class CachedTexts:
    """Cached vectors and contexts of chunks. Their keys are hashes of text, so that only the chunk files find them; that
    none is left is therefore verified at once, while those files exist."""

    def __init__(self, stores: ClientStores, ingestion: Ingestion) -> None:
        self._stores = stores
        self._ingestion = ingestion

    def vectors(self, held: HeldItems) -> int:
        embedder = self._stores.indexing.document_embedder
        return sum(Each(self._stores.storage.read_threads)(lambda file: embedder.known(self._texts(file)), held.files))

    def forget_vectors(self, held: HeldItems) -> None:
        with self._stores.tables.unit_of_work():
            Each(self._stores.storage.read_threads)(self._forget_vectors, held.files)

    def contexts(self, held: HeldItems) -> int:
        return sum(len(self._contexts(chunks, file)) for file in held.files for chunks in self._variants(file))

    def forget_contexts(self, held: HeldItems) -> None:
        """Remove contexts together with the vectors of texts that include them."""
        with self._stores.tables.unit_of_work():
            for file in held.files:
                for chunks in self._variants(file):
                    if self._contexts(chunks, file):
                        self._forget_vectors(file)
                        self._forget_contexts(chunks, file)

    def _forget_vectors(self, file: tuple[Scope, str]) -> None:
        embedder, texts = self._stores.indexing.document_embedder, self._texts(file)
        embedder.forget(texts)
        if embedder.known(texts):
            raise StoreUnavailableError(
                "vectors of removed texts are in the cache again: another process is ingesting them"
            )

    def _texts(self, file: tuple[Scope, str]) -> list[str]:
        """Embedded texts of a version: that of each chunk, with and without its context."""
        texts: list[str] = []
        for chunks in self._variants(file):
            contexts = self._contexts(chunks, file)
            texts += [chunk.text for chunk in chunks]
            texts += [_with_context(one, contexts[one.chunk_id]) for one in chunks if one.chunk_id in contexts]
        return texts

    def _variants(self, file: tuple[Scope, str]) -> Iterator[list[DocumentChunk]]:
        """The chunks of a version under each title that they were embedded with: documents with the same text share a chunk
        file, and a title may have been completed since."""
        chunks = list(chunks_in(self._stores.corpus.store, file))
        titles = [chunk.title for chunk in chunks[:1]]
        for one in self._versions(file):
            titles += [one.title, chosen(one.title, title_path(one.source, one.category)), of_name(one.source)]
        for title in dict.fromkeys(titles):
            yield [replace(one, metadata=replace(one.metadata, document_title=title)) for one in chunks]

    def _contexts(self, chunks: Sequence[DocumentChunk], file: tuple[Scope, str]) -> dict[str, str]:
        writer = self._ingestion.context_writer
        document = next(self._versions(file), None) if writer else None
        return writer.kept(document, chunks) if writer and document else {}

    def _forget_contexts(self, chunks: Sequence[DocumentChunk], file: tuple[Scope, str]) -> None:
        writer = self._ingestion.context_writer
        document = next(self._versions(file), None) if writer else None
        if writer and document:
            writer.forget(document, chunks)

    def _versions(self, file: tuple[Scope, str]) -> Iterator[KnowledgeDocument]:
        scope, document_id = file
        return (document for document in self._stores.corpus.catalog.find(document_id) if document.key.scope == scope)


def _with_context(chunk: DocumentChunk, context: str) -> str:
    return replace(chunk, context=context).text


class CatalogRows:
    """Items of tables that are keyed by document key, version or object key."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def versions(self, document: ClientDocument) -> list[Item]:
        """The item of each version and those of its tags; equal versions of other keys have their own."""
        table, key = self._tables.table(DOCUMENTS), document.key.id
        indexed = table.query(key, index="documentKey-version-index")
        ids = dict.fromkeys((*document.document_ids, *(str(item["documentId"]) for item in indexed)))
        items = (item for document_id in ids for item in table.query(document_id))
        return [item for item in items if key in (item.get("documentKey"), item.get("keyId"))]

    def references(self, document: ClientDocument) -> list[Item]:
        return list(self._tables.table(ENTRIES).query(document.key.id))

    # -- items by object key

    def failed(self, held: HeldItems) -> list[Item]:
        table = self._tables.table(FAILURES)
        found = {item["failureId"]: item for scope in held.scopes for item in table.query(scope, index="scope-index")}
        ids = [{"failureId": failure_id(document.object_key)} for document in held.documents]
        return list((found | {item["failureId"]: item for item in table.get_many(ids)}).values())

    # -- keys

    def keys(self, held: HeldItems) -> list[Item]:
        """Queried by scope, which also finds keys of unknown documents, and by key, as the secondary index may lag."""
        table = self._tables.table(KEYS)
        found = {item["documentKey"]: item for scope in held.scopes for item in table.query(scope, index="scope-index")}
        keys = [{"documentKey": key} for key in {*found, *(document.key.id for document in held.documents)}]
        return table.get_many(keys)


# -- objects, messages and segments of words


def corpus_holdings(storage: Storage, work: WorkQueue) -> list[Holding]:
    def messages(held: HeldItems, *, dry: bool) -> int:
        found = work.discard(partial(_is_about, held.client_id), dry=dry)
        return found or 0

    waiting = CountedHolding("waiting messages", partial(messages, dry=True), partial(messages, dry=False))
    copies = _folder(storage, "copies for a managed service, with versions", 1)
    return [waiting, copies, _folder(storage, "objects of the corpus, with versions", 0)]


def words_holdings(storage: Storage, indexing: Indexing) -> list[Holding]:
    """Segments of words with documents of the client; none where the index never sleeps. All are removed, with their earlier
    versions: the next one is made without the client."""
    if not indexing.indexes.may_sleep:
        return []
    shelf = indexing.words_shelf(storage.objects)

    def count(held: HeldItems) -> int:
        return sum(held.client_id in clients for clients in shelf.clients())

    def remove(_: HeldItems) -> None:
        storage.history.erase(WORDS)

    return [CountedHolding("segments of words", count, remove)]


def _folder(storage: Storage, name: str, at: int) -> Holding:
    history = storage.history
    return CountedHolding(
        name,
        lambda held: sum(1 for _ in history.held(held.folders[at])),
        lambda held: history.erase(held.folders[at]),
    )


def _is_about(client_id: str, body: str) -> bool:
    try:
        return scope_of_object(parse_event(body).key)[0].client_id == client_id
    except (InvalidInputError, InvalidScopeError):
        return False
