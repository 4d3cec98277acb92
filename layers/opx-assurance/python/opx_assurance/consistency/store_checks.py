"""Compares the stores' states of documents, a batch at a time; changes nothing.

The catalog's heads are read last and consistently, and leased documents are skipped: a difference that a running writer is
about to resolve is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument, RemarkKind, is_kept_out
from opx.domain.ids import entry_id, iso_time
from opx.domain.scopes import Scope, scope_of_key, scope_of_object
from opx.errors import DamagedStoreError, InvalidScopeError, StoreUnavailableError, UnknownCategoryError
from opx.graph import manifest
from opx.ingestion.capability import Ingestion
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.corpus.chunk_files import OUTLINE_SUFFIX, VERSION_FILE, chunk_file, read_chunks
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.corpus.failures import failure_id
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.ingestion.indexing.capability import Indexing
from opx.ports import HeldDocument, Item, ObjectInfo, Storage, Table, Tables
from opx.ports.files import StoreFile, StoreFiles
from opx.ports.tables import FAILURES, GRAPH, KEYS
from opx.runtime.knowledge_file import Installation
from opx.runtime.threads import Each
from opx_assurance.consistency.catalog_rows import ROW_ERRORS, KeyRows, check_head, is_listed
from opx_assurance.consistency.differences import Problem, StoreFinding
from opx_assurance.consistency.version_files import VersionFileChecks

CONTENT = "its content, metadata or sidecar"
"""Detail of a changed object."""

YOUNG_SECONDS = 120.0
"""Age up to which an item may not be visible everywhere: a search service shows writes after a minute at most."""


@dataclass(frozen=True, slots=True)
class ComparedStores:
    """The stores that must agree about documents: corpus, catalog, index and graph."""

    tables: Tables
    storage: Storage
    corpus: Corpus
    indexing: Indexing
    files: StoreFiles | None = None


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A document key with its item in the catalog, if there is one, and its entries in the index."""

    key_id: str
    head: Item | None
    held: tuple[HeldDocument, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedKeys:
    """The keys of a part of a listing: behind the first one and up to the last one, there are no others."""

    first: str
    last: str
    keys: Set[str]

    def lacks(self, key: str) -> bool:
        return self.first <= key <= self.last and key not in self.keys


@dataclass(slots=True)
class CheckedDocuments:
    """Findings of a batch: differences, numbers of compared items by their name in the report, number in flight, and number
    listed as failed."""

    found: list[StoreFinding] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    failed: int = 0

    def add(self, other: CheckedDocuments) -> None:
        self.found.extend(other.found)
        self.compared.update(other.compared)
        self.in_flight += other.in_flight
        self.failed += other.failed


class StoreChecks:
    """Checks stores. With `thorough`, index entries are compared one by one instead of counted, and every file is read and
    compared with its checksum."""

    def __init__(
        self, stores: ComparedStores, installation: Installation, ingestion: Ingestion, *, thorough: bool = False
    ) -> None:
        self._tables = stores.tables
        self._corpus = stores.corpus
        self._indexing = stores.indexing
        self._stores_files = stores.files
        self._installation = installation
        self._ingestion = ingestion
        self._thorough = thorough
        self._files = VersionFileChecks(stores.corpus, stores.storage.integrity)
        self._each = Each(stores.storage.read_threads)

    @cached_property
    def _rows(self) -> KeyRows:
        """Opened on first use: a damaged database is found by the first check that reads it."""
        return KeyRows(self._tables)

    # -- corpus

    def objects(self, infos: Sequence[ObjectInfo], listed: ListedKeys) -> CheckedDocuments:
        """Checks that these objects, all documents, were ingested in their present state. Sidecars that aren't `listed` are
        not looked up: most documents have none."""
        checked = CheckedDocuments()
        keys: dict[str, DocumentKey] = {}
        for info in infos:
            try:
                keys[info.key] = DocumentKey(*scope_of_object(info.key))
            except InvalidScopeError as exc:
                checked.found.append(StoreFinding(Problem.MALFORMED_OWNER, info.key, detail=str(exc)))
        heads = self._heads([key.id for key in keys.values()])
        failed = self._failed(list(keys))

        def check(info: ObjectInfo) -> CheckedDocuments:
            key = keys[info.key]
            sidecar = "" if listed.lacks(info.key + SIDECAR_SUFFIX) else info.key + SIDECAR_SUFFIX
            return self._object_or_damage((info, sidecar), key, heads.get(key.id), failed=info.key in failed)

        for one in self._each(check, [info for info in infos if info.key in keys]):
            checked.add(one)
        return checked

    def _object_or_damage(
        self, listed: tuple[ObjectInfo, str], key: DocumentKey, head: Item | None, *, failed: bool
    ) -> CheckedDocuments:
        to = CheckedDocuments()
        if head is not None and not is_listed(head):
            to.found.extend(self._rows.damaged(key.id, head))
        elif not (head or {}).get("writing"):  # interrupted ones are reported by `documents`
            try:
                self._object(listed, key, head, to, failed=failed)
            except ROW_ERRORS:
                if not self._rows.damaged(key.id, head):  # else it is reported by `documents`
                    raise
        return to

    def _object(
        self, listed: tuple[ObjectInfo, str], key: DocumentKey, head: Item | None, to: CheckedDocuments, *, failed: bool
    ) -> None:
        info, sidecar = listed
        current = current_id(head or {})
        problem = _Findings(key)
        if self._is_busy(head) or (not current and self._is_young(info.modified)):
            to.in_flight += 1
            return
        try:
            state = self._part_of(info.key, info.key), self._part_of(info.key, sidecar) if sidecar else None
        except _DamagedObjectError as damage:
            to.found.append(problem(damage.problem, current, damage.detail))
            return
        if current and self._fingerprint(state) in ("", (head or {}).get("fingerprint")):
            return
        if failed:
            to.failed += 1
        else:
            kind = Problem.CHANGED if current else Problem.NOT_TAKEN_IN
            to.found.append(problem(kind, current, self._what_changed(state, head) if current else ""))

    def _what_changed(self, state: _ObjectState, head: Item | None) -> str:
        """Distinguishes a change of the object from one of the rules, for which it is ""."""
        info, pipeline = state[0], self._ingestion.pipeline
        same = info is None or pipeline.is_of(str((head or {}).get("fingerprint", "")), info)
        return "" if same else CONTENT

    def _part_of(self, object_key: str, name: str) -> ObjectInfo | None:
        """The present state of an object, or of its sidecar. Metadata are read in any case, bytes only if it is thorough.
        Raises `_DamagedObjectError`."""
        detail = name if name != object_key else ""
        try:
            info = self._corpus.store.head(name)
        except DamagedStoreError as exc:
            raise _DamagedObjectError(Problem.METADATA_DAMAGED, detail) from exc
        if self._thorough and (damage := self._files.of_object(name)):
            raise _DamagedObjectError(Problem.OBJECT_DAMAGED, f"{detail}: {damage}" if detail else damage)
        return info

    def _fingerprint(self, state: _ObjectState) -> str:
        """Fingerprint of an object's present state; "" if it is gone."""
        info, sidecar = state
        return self._ingestion.pipeline.fingerprint(info, sidecar) if info else ""

    def _failed(self, object_keys: Sequence[str]) -> set[str]:
        keys = [{"failureId": failure_id(key)} for key in object_keys]
        return {str(item["objectKey"]) for item in self._tables.table(FAILURES).get_many(keys)}

    def version_files(self, infos: Sequence[ObjectInfo]) -> CheckedDocuments:
        """Checks that these objects, chunk files and outlines, belong to versions."""
        checked = CheckedDocuments()
        versions = {info.key: version_of(info.key) for info in infos}
        known = list(dict.fromkeys(filter(None, versions.values())))  # a version's files share what is read of it
        unknown = dict(zip(known, self._each(self._is_unknown, known), strict=True))
        for info in infos:
            version = versions[info.key]
            if version is None or not unknown[version]:
                continue
            if info.modified >= self._corpus.catalog.abandoned_before:
                checked.in_flight += 1
            else:
                is_outline = info.key.endswith(OUTLINE_SUFFIX)
                problem = Problem.OUTLINE_UNKNOWN if is_outline else Problem.CHUNK_FILE_UNKNOWN
                checked.found.append(StoreFinding(problem, info.key))
        return checked

    def _is_unknown(self, version: tuple[Scope, str]) -> bool:
        scope, document_id = version
        try:
            return not any(document.key.scope == scope for document in self._corpus.catalog.find(document_id))
        except ROW_ERRORS:  # a damaged row, reported by `documents`, may be the file's version
            return False

    # -- catalog and index

    def documents(self, known: Sequence[KnownKey]) -> CheckedDocuments:
        """Checks that the other stores agree with the catalog about these keys."""
        checked = CheckedDocuments()
        heads = self._heads([one.key_id for one in known])
        for found, in_flight in self._each(lambda one: self._document(one, heads.get(one.key_id)), known):
            checked.found.extend(found)
            checked.in_flight += in_flight
        return checked

    def _document(self, known: KnownKey, head: Item | None) -> tuple[list[StoreFinding], bool]:
        in_flight = False

        def compared() -> list[StoreFinding]:
            nonlocal in_flight
            found, in_flight = self._compared(known, head)
            return found

        return self._or_damaged(known, head, compared), in_flight

    def _or_damaged(
        self, known: KnownKey, head: Item | None, check: Callable[[], list[StoreFinding]]
    ) -> list[StoreFinding]:
        """The findings of the check, or the rows that kept it from reading. Raises what it raised if there are none."""
        try:
            return check()
        except ROW_ERRORS:
            damaged = self._rows.damaged(known.key_id, head)
            if not damaged:
                raise
            return damaged

    def _compared(self, known: KnownKey, head: Item | None) -> tuple[list[StoreFinding], bool]:
        if head is None:
            return list(self._unknown(known)), False
        check_head(head)
        if self._is_busy(head):
            return [], True
        key = DocumentKey(scope_of_key(head["scope"]), head["source"])
        difference = _Findings(key)
        if head.get("writing"):
            others = ", ".join(sorted(head["writing"]))
            return [difference(Problem.INTERRUPTED, current_id(head), others)], False
        current = current_id(head)
        versions = self._versions_of(key)
        own = next((one for one in versions or () if one.document_id == current), None)
        found = list(
            self._current(difference, current, own, known.held) if current else self._withdrawn(difference, known)
        )
        if current and own and found:  # the index may lag behind
            found = list(self._current(difference, current, None, known.held))
        if current and found and self._is_young(self._current_since(key, current)):
            return [], True
        older = self._or_damaged(known, head, lambda: list(self._versions(difference, current, versions)))
        return [*found, *older], False

    def _versions_of(self, key: DocumentKey) -> list[KnowledgeDocument] | None:
        """The versions of a key by the index; None if one of them can't be read."""
        try:
            return list(self._corpus.catalog.versions(key))
        except ROW_ERRORS:
            return None

    def _current_since(self, key: DocumentKey, document_id: str) -> str:
        document = self._corpus.catalog.version(key, document_id)
        return document.current_since if document else ""

    def _unknown(self, known: KnownKey) -> Iterator[StoreFinding]:
        """Entries of a key that the catalog doesn't know; queried again, as the listing may be stale."""
        if known.held and self._indexing.index.references(known.key_id):
            count, scope = sum(one.entries for one in known.held), known.held[0].scope_key
            detail = f"{count} entries of {known.held[0].document_id}"
            yield StoreFinding(Problem.INDEX_UNKNOWN, "", known.held[0].document_id, detail, None, known.key_id, scope)

    def _current(
        self, difference: _Findings, current: str, own: KnowledgeDocument | None, held: Sequence[HeldDocument]
    ) -> Iterator[StoreFinding]:
        """`own` is the current version by the index, which may lag behind."""
        corpus, key = self._corpus, difference.key
        if corpus.store.head(difference.object_key) is None:
            yield difference(Problem.OBJECT_MISSING, current)
            return
        is_own = own is not None and own.state is DocumentState.CURRENT
        document = own if is_own else corpus.catalog.version(key, current)
        if document is None or document.state is not DocumentState.CURRENT:
            yield difference(Problem.VERSION_MISSING, current)
            return
        if self._lacks_chunks(document):
            yield difference(Problem.CHUNKS_MISSING, current)
            return
        if self._thorough and (damage := self._files.of_chunks(document)):
            yield difference(Problem.CHUNKS_DAMAGED, current, damage)
            return
        entries = self._expected(document)
        if entries is not None:
            yield from self._in_index(difference, document, entries, held)
        yield from self._in_graph(difference, document, stated=bool(entries))

    def _expected(self, document: KnowledgeDocument) -> int | None:
        """Expected number of index entries; None for a category that was removed from the configuration."""
        try:
            category = self._installation.knowledge.category(document.category)
        except UnknownCategoryError:
            return None
        return document.chunk_count if category.embed and not is_kept_out(document) else 0

    def _in_index(
        self, difference: _Findings, document: KnowledgeDocument, entries: int, held: Sequence[HeldDocument]
    ) -> Iterator[StoreFinding]:
        own = sum(one.entries for one in held if one.document_id == document.document_id)
        if own != entries:
            yield difference(Problem.INDEX_DIFFERS, document.document_id, f"{own} of {entries}")
        elif self._thorough and entries and self._indexing.index.derives_ids:
            chunks = read_chunks(self._corpus.store, document.key, document.document_id)
            expected = {entry_id(document.key.id, chunk.chunk_id) for chunk in chunks}
            if missing := expected - set(self._indexing.index.references(document.key.id)):
                yield difference(Problem.INDEX_DIFFERS, document.document_id, f"{len(missing)} are others")
        yield from _others(difference, held, document.document_id)

    def _in_graph(self, difference: _Findings, document: KnowledgeDocument, *, stated: bool) -> Iterator[StoreFinding]:
        versions = self._stated(document.key)
        left_out = any(remark.kind is RemarkKind.LEFT_OUT_OF_GRAPH for remark in document.remarks)
        if stated and not versions and not left_out:  # every document states its own node
            yield difference(Problem.GRAPH_MISSING, document.document_id)
        for other in sorted(versions - {document.document_id}):
            yield difference(Problem.GRAPH_HAS_OTHERS, other)

    def _withdrawn(self, difference: _Findings, known: KnownKey) -> Iterator[StoreFinding]:
        """Leftovers of a document without a current version."""
        yield from _others(difference, known.held, "")
        for other in sorted(self._stated(difference.key)):
            yield difference(Problem.GRAPH_HAS_OTHERS, other)

    def _stated(self, key: DocumentKey) -> set[str]:
        return {str(page["documentId"]) for page in manifest.read(self._graph, key.id).pages}

    def _versions(
        self, difference: _Findings, current: str, versions: Iterable[KnowledgeDocument] | None
    ) -> Iterator[StoreFinding]:
        """Differences of calendar and chunk files, for all versions."""
        for document in self._corpus.catalog.versions(difference.key) if versions is None else versions:
            if self._corpus.calendar.lacks(document):
                yield difference(Problem.CALENDAR_MISSING, document.document_id, f"version {document.version}")
            yield from self._version_files(difference, document, is_old=document.document_id != current)

    def _version_files(
        self, difference: _Findings, document: KnowledgeDocument, *, is_old: bool
    ) -> Iterator[StoreFinding]:
        number = f"version {document.version}"
        if is_old and self._lacks_chunks(document):
            yield difference(Problem.OLD_CHUNKS_MISSING, document.document_id, number)
            return
        if not self._thorough:
            return
        if is_old and (damage := self._files.of_chunks(document)):
            yield difference(Problem.OLD_CHUNKS_DAMAGED, document.document_id, f"{number}: {damage}")
        elif damage := self._files.of_outline(document, may_be_missing=is_old):
            problem = Problem.OLD_OUTLINE_DAMAGED if is_old else Problem.OUTLINE_DAMAGED
            yield difference(problem, document.document_id, f"{number}: {damage}")

    def _lacks_chunks(self, document: KnowledgeDocument) -> bool:
        try:
            return self._corpus.store.head(chunk_file(document.key, document.document_id)) is None
        except StoreUnavailableError:  # such as a folder of its name: found by the thorough check
            return not self._thorough

    # -- files

    def damaged_files(self) -> Iterator[StoreFinding]:
        """Damage of databases and indexes on this machine, for a thorough check."""
        found = list(self._stores_files.damaged()) if self._thorough and self._stores_files else []
        files = [one for one in found if one.kind is not StoreFile.ENTRIES]
        if files:  # the tables may be in one of them
            yield from (StoreFinding(Problem.STORE_DAMAGED, one.file, detail=one.problem) for one in files)
            return
        heads = self._heads(list({one.key_id for one in found}))
        for damage in found:
            head = heads.get(damage.key_id)
            if head:  # entries of no document are found by their key
                difference = _Findings(DocumentKey(scope_of_key(head["scope"]), head["source"]))
                yield difference(Problem.INDEX_DAMAGED, current_id(head), damage.problem)

    # -- work in flight

    def _heads(self, key_ids: Sequence[str]) -> Mapping[str, Item]:
        items = self._tables.table(KEYS).get_many([{"documentKey": key_id} for key_id in key_ids])
        return {str(item["documentKey"]): item for item in items}

    def _is_busy(self, head: Item | None) -> bool:
        return bool(head) and float((head or {}).get("leaseUntil", 0)) > self._installation.clock()

    def _is_young(self, since: str) -> bool:
        """True for items that may not be visible everywhere yet; never on one machine, where writes are visible at once."""
        seconds = YOUNG_SECONDS if self._indexing.settling_seconds else 0.0
        return bool(since and seconds) and since > iso_time(self._installation.clock() - seconds)

    @cached_property
    def _graph(self) -> Table:
        return self._tables.table(GRAPH)


_ObjectState = tuple[ObjectInfo | None, ObjectInfo | None]
"""An object and its sidecar."""


class _DamagedObjectError(Exception):
    """An object or its sidecar is damaged."""

    def __init__(self, problem: Problem, detail: str) -> None:
        super().__init__(problem, detail)
        self.problem = problem
        self.detail = detail


def version_of(object_key: str) -> tuple[Scope, str] | None:
    """Scope and document id of a version's file."""
    try:
        scope, rest = scope_of_object(object_key)
    except InvalidScopeError:
        return None
    match = VERSION_FILE.match(rest)
    return (scope, match[1]) if match else None


@dataclass(frozen=True, slots=True)
class _Findings:
    """Creates the findings of one document key."""

    key: DocumentKey

    @property
    def object_key(self) -> str:
        return self.key.scope.prefix + self.key.source

    def __call__(self, problem: Problem, document_id: str, detail: str = "") -> StoreFinding:
        return StoreFinding(problem, self.object_key, document_id, detail, self.key, self.key.id, self.key.scope.key)


def _others(difference: _Findings, held: Sequence[HeldDocument], current: str) -> Iterator[StoreFinding]:
    for one in held:
        if one.document_id != current:
            yield difference(Problem.INDEX_HAS_OTHERS, one.document_id, f"{one.entries} entries")


def scope_of(difference: StoreFinding) -> Scope:
    """The scope of the document."""
    return scope_of_key(difference.scope_key)
