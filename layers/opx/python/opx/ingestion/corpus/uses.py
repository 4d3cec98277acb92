"""Records the day on which documents were last used, in categories whose retention counts from it (`ages_by: use`).

Cheap by construction: other categories are left alone, a process notes a document once a day, the rows of a day are read
before they are written, and what is written is one batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from opx.domain.documents import KnowledgeDocument, ages_by_use
from opx.domain.ids import iso_time
from opx.domain.knowledge import KnowledgeModel
from opx.domain.scopes import Reader
from opx.errors import OpxError
from opx.ports import Clock, Item, Table

if TYPE_CHECKING:
    from opx.ingestion.corpus.catalog import Catalog

log = logging.getLogger(__name__)

SLACK_DAYS = 60
"""Days that a row is kept beyond the retention it extends."""

_DAY = len("2026-03-31")
_DAY_SECONDS = 86_400
_NOTED_AT_MOST = 20_000


def in_background(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="uses", daemon=True).start()


@dataclass(eq=False)
class UseLog:
    """Stores the last use of documents that age by use; all others are ignored. `run` runs what writes; None writes at
    once. A failure is logged: no caller fails because its use was not noted."""

    table: Table
    catalog: Callable[[], Catalog]
    knowledge: KnowledgeModel
    clock: Clock
    _: KW_ONLY
    run: Callable[[Callable[[], None]], None] | None = None

    def __post_init__(self) -> None:
        self._run = self.run or (lambda work: work())
        self._lock = threading.Lock()
        self._day = ""
        self._noted: set[tuple[str, ...]] = set()

    @property
    def is_needed(self) -> bool:
        """True if a category ages by use."""
        return any(category.ages_by_use for category in self.knowledge.categories.values())

    def note(self, reader: Reader, found: Iterable[tuple[str, str]]) -> None:
        """Notes the use of documents, given as pairs of id and category, by a reader who may see them."""
        fresh = self._not_noted((id_, *reader.visible) for id_, category in found if self._ages(category))
        if fresh:
            self._run(lambda: self._write_all(reader, [name[0] for name in fresh]))

    def note_document(self, document: KnowledgeDocument) -> None:
        """Notes the use of one document."""
        if self._ages(document.category) and self._not_noted([(document.key.id,)]):
            self._run(lambda: self._guarded(lambda: self._write([document])))

    def last_used(self, documents: Sequence[KnowledgeDocument]) -> dict[str, str]:
        """The day of the last use by key id, of those documents that age by use and were used."""
        keys = [_key(one) for one in documents if self._ages(one.category)]
        return {item["documentKey"]: str(item["day"]) for item in self.table.get_many(keys)} if keys else {}

    def _ages(self, category: str) -> bool:
        return ages_by_use(category, self.knowledge)

    def _not_noted(self, names: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Those of the names that this process has not noted today; from now on it has."""
        with self._lock:
            if self._day != self._today or len(self._noted) > _NOTED_AT_MOST:
                self._day, self._noted = self._today, set()
            fresh = [name for name in dict.fromkeys(names) if name not in self._noted]
            self._noted.update(fresh)
        return fresh

    def _write_all(self, reader: Reader, document_ids: Sequence[str]) -> None:
        def write() -> None:
            found = (one for id_ in document_ids for one in self.catalog().find(id_))
            self._write([one for one in found if reader.may_see(one.scope)])

        self._guarded(write)

    def _write(self, documents: Sequence[KnowledgeDocument]) -> None:
        """Writes the documents that no process has noted today."""
        known = self.last_used(documents)
        due = {one.key.id: one for one in documents if known.get(one.key.id, "") < self._today}
        if due:
            self.table.put_many(self._row(one) for one in due.values())

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OpxError as exc:
            log.warning("the use of documents is not noted: %s", exc)

    def _row(self, document: KnowledgeDocument) -> Item:
        days = (self.knowledge.category(document.category).retention_days or 0) + SLACK_DAYS
        return {**_key(document), "day": self._today, "expiresAt": int(self.clock()) + days * _DAY_SECONDS}

    @property
    def _today(self) -> str:
        return iso_time(self.clock())[:_DAY]


def _key(document: KnowledgeDocument) -> dict[str, str]:
    return {"scopeKey": document.scope.key, "documentKey": document.key.id}
