"""Stores pages of a source in the corpus: puts new and changed documents, withdraws removed ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol

from opx.connectors.connector import Connector
from opx.connectors.repository import KEPT_OUT, SourceItem, SourceItems
from opx.connectors.states import PullState
from opx.domain.documents import expiry_of
from opx.domain.ids import iso_time, stable_hash
from opx.domain.knowledge import KnowledgeModel, Tier
from opx.domain.provenance import Channel, ChannelKind
from opx.domain.record import replace
from opx.domain.sources import Page, Refused, SourceDefinition, SourceDocument
from opx.errors import InvalidInputError
from opx.ingestion.corpus_writer import CorpusWriter, stored_bytes
from opx.ingestion.object_names import pulled_name
from opx.ports import Clock
from opx.runtime.metrics import Metric, Report, unreported

PUT_AT_ONCE = 100
MAX_KEY_BYTES = 500
_NEVER_SEEN = "the source reports it as unchanged, but it was never ingested: pull with --everything"


PastRetention = Callable[[str, SourceDocument], bool]
"""True if a document of a category is past its retention before it is ingested."""


def past_retention(knowledge: KnowledgeModel, clock: Clock) -> PastRetention:
    """Judges documents by the time of change that their source states, or the expiry that they state."""

    def is_past(path: str, document: SourceDocument) -> bool:
        metadata, today = document.metadata, iso_time(clock())
        expires = str(metadata.get("expires") or "")
        category = knowledge.category(str(metadata.get("category") or path))
        if not expires and not (category.tier is Tier.INTERNET or category.ages_by_use):
            expires = expiry_of(category.path, str(metadata.get("last_updated") or ""), knowledge)
        return bool(expires) and expires <= today

    return is_past


class Connected(Protocol):
    """A connector, with the steps that follow the storing of its pages."""

    @property
    def connector(self) -> Connector[Any]: ...

    @property
    def items(self) -> SourceItems: ...

    def commit(self) -> None:
        """Records that the replies so far need not be read again."""

    def close(self) -> None: ...


@dataclass(slots=True)
class PullRun:
    """A pull in progress. `put` and `withdrawn` are object keys of this process's part of it; `added` are those of `put`
    that the source didn't have before."""

    definition: SourceDefinition
    connected: Connected
    state: PullState
    put: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Stored:
    """Counts of a page's documents by result."""

    put: int
    added: int
    unchanged: int
    refused: tuple[Refused, ...]
    kept_out: int
    newly_kept_out: int
    """Change of the number of all documents of the source that are kept out."""


@dataclass(eq=False)
class PageStore:
    """Puts documents of sources: `threads` at a time where putting waits for a network, and many in one `unit_of_work`
    where it waits for a disk. Documents that are past their retention already are not put, and counted."""

    writer: CorpusWriter
    past_retention: PastRetention
    _: KW_ONLY
    threads: int = 1
    unit_of_work: Callable[[], AbstractContextManager[Any]] = nullcontext
    report: Report = unreported

    def store(self, run: PullRun, page: Page) -> Stored:
        """Puts new and changed documents, records them, and withdraws those that the source withdrew. Idempotent, but for
        `newly_kept_out`, which is 0 when it is repeated."""
        latest = {document.key: document for document in page.documents if _is_key(document.key)}
        refused = [*page.refused, *(_refused_key(d.key) for d in page.documents if not _is_key(d.key))]
        listed = [*page.unchanged, *page.withdrawn, *(one.key for one in page.refused)]
        known = run.connected.items.get_many([*latest, *filter(_is_key, listed)])
        before, added_before = len(run.put), len(run.added)
        remembered: dict[str, SourceItem] = {}
        for item in self._put_all(run, list(latest.values()), known):
            if isinstance(item, Refused):
                refused.append(item)
            else:
                remembered[item.key] = item
        refused += [Refused(key, _NEVER_SEEN) for key in page.unchanged if key not in known and key not in remembered]
        for key in (*page.unchanged, *(one.key for one in refused)):  # an unreadable document is still listed
            if key in known:
                remembered.setdefault(key, replace(known[key], run=run.state.run))
        run.connected.items.put_many(remembered.values())
        self.withdraw(run, [known[key] for key in dict.fromkeys(page.withdrawn) if key in known and key not in latest])
        put = len(run.put) - before
        kept_out = sum(item.is_kept_out for item in remembered.values())
        newly = kept_out - sum(known[key].is_kept_out for key in remembered if key in known)
        added = len(run.added) - added_before
        return Stored(put, added, len(remembered) - put - kept_out, tuple(refused), kept_out, newly)

    def withdraw(self, run: PullRun, items: Sequence[SourceItem]) -> None:
        """Removes documents from the corpus; their versions stay readable."""
        for item in items:
            run.connected.items.delete(item.key)
            if item.is_kept_out:
                run.state = replace(run.state, kept_out_in_all=run.state.kept_out_in_all - 1)
                continue
            self.writer.delete_object(item.object_key)
            run.withdrawn.append(item.object_key)
            self.report(Metric.DOCUMENTS_WITHDRAWN)
        withdrawn = sum(not item.is_kept_out for item in items)
        run.state = replace(run.state, withdrawn=run.state.withdrawn + withdrawn)

    def _put_all(
        self, run: PullRun, documents: Sequence[SourceDocument], known: Mapping[str, SourceItem]
    ) -> Iterator[SourceItem | Refused]:
        def put(document: SourceDocument) -> SourceItem | Refused:
            try:
                return self._put(run, document, known.get(document.key))
            except InvalidInputError as exc:
                return Refused(document.key, str(exc))

        for at in range(0, len(documents), PUT_AT_ONCE):
            some = documents[at : at + PUT_AT_ONCE]
            if self.threads > 1 and len(some) > 1:
                with ThreadPoolExecutor(self.threads) as pool:
                    yield from pool.map(put, some)
            else:
                with self.unit_of_work():
                    found = [put(document) for document in some]
                yield from found

    def _put(self, run: PullRun, document: SourceDocument, known: SourceItem | None) -> SourceItem:
        definition = run.definition
        metadata = {**document.metadata, "source": pulled_name(definition.source_id, document)}
        if definition.tags:
            metadata["tags"] = [*metadata.get("tags", ()), *definition.tags]
        content = hashlib.sha256(stored_bytes(document.content)).hexdigest()
        digest = stable_hash("source document", definition.category, content, metadata)
        stored = known and not known.is_kept_out
        if known and stored and known.digest == digest and not run.state.everything:
            return replace(known, run=run.state.run)
        if not stored and self.past_retention(definition.category, document):
            return SourceItem(document.key, digest, KEPT_OUT, run.state.run)
        channel = Channel(ChannelKind.SOURCE, definition.source_id, definition.kind, "read by the installation")
        key = self.writer.by(channel).put_document(definition.category, document.content, metadata)
        if known and stored and known.object_key != key:  # its category changed
            self.writer.delete_object(known.object_key)
        run.put.append(key)
        if not stored:
            run.added.append(key)
        self.report(Metric.DOCUMENTS_PULLED)
        return SourceItem(document.key, digest, key, run.state.run)


def _is_key(key: str) -> bool:
    return 0 < len(key.encode("utf-8", "surrogatepass")) <= MAX_KEY_BYTES


def _refused_key(key: str) -> Refused:
    shown = key[:80].encode("utf-8", "replace").decode()
    return Refused(shown, f"its key is empty or has over {MAX_KEY_BYTES} bytes, and can't be stored")
