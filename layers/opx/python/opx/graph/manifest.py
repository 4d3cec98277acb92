"""What a document says, chunk by chunk, as it states it: by this its chunks lead to things, and its rows are found again.

The place `refs#<key id>` has an entry for each chunk with statements, and further ones, `<chunk id>#<n>`, where there are
many. Merging names doesn't touch them. A document's entries are written before the rows that they list and removed after
them; entries `~<hash>` list what the document doesn't say any more and of which there may still be rows. So whatever an
interruption leaves is known to the next who writes or removes the document.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from opx.domain.graph import Origin
from opx.domain.ids import stable_hash
from opx.domain.scopes import Scope
from opx.graph.rows import EdgeMark, Mark, NodeMark
from opx.ports import Item, Table

LEAVING = "~"
MARKS_A_PAGE = 200
"""At most 1,200 bytes each, so that an item stays below 240 KB of the 400 that it may have."""

ChunkName = tuple[str, str]
"""The key id of a document, and the id of a chunk of it."""


@dataclass(slots=True)
class Held:
    """What is listed: entries of chunks with what each states, and those of what is leaving."""

    pages: list[Item] = field(default_factory=list)
    leaving: list[Item] = field(default_factory=list)

    @property
    def scopes(self) -> set[str]:
        return {str(item["scope"]) for item in (*self.pages, *self.leaving)}

    def evidence(self) -> dict[Mark, list[str]]:
        """The chunks by which each thing is stated."""
        found: dict[Mark, list[str]] = {}
        for page in self.pages:
            for mark in marks_in(page):
                found.setdefault(mark, []).append(str(page["chunk"]))
        return found

    @property
    def own(self) -> str:
        return next((str(page["own"]) for page in self.pages), "")

    def of(self, document_ids: Collection[str] | None) -> list[Item]:
        """The entries of these versions of the document, or of all."""
        return [item for item in self.pages if document_ids is None or item["documentId"] in document_ids]


@dataclass(slots=True)
class Stated:
    """What a chunk states, and the scope of its document."""

    scope_key: str
    marks: set[Mark] = field(default_factory=set)


def read(table: Table, key_id: str) -> Held:
    held = Held()
    for item in table.query(place_of(key_id)):
        (held.leaving if str(item["entry"]).startswith(LEAVING) else held.pages).append(item)
    return held


def read_chunks(table: Table, chunks: Sequence[ChunkName]) -> dict[ChunkName, Stated]:
    """Those of these chunks that state something."""
    first = table.get_many([entry_key(key_id, chunk) for key_id, chunk in chunks if key_id and chunk])
    further = [
        entry_key(str(item["keyId"]), _page_name(str(item["chunk"]), number))
        for item in first
        for number in range(1, int(item["pages"]))
    ]
    found: dict[ChunkName, Stated] = {}
    for item in (*first, *table.get_many(further)):
        name = (str(item["keyId"]), str(item["chunk"]))
        found.setdefault(name, Stated(str(item["scope"]))).marks.update(marks_in(item))
    return found


def pages(origin: Origin, evidence: Mapping[Mark, Sequence[str]], own: str) -> Iterator[Item]:
    """The entries of all chunks that are evidence of what a document version states. `own` is what it is about."""
    by_chunk: dict[str, list[Mark]] = {}
    for mark, chunk_ids in evidence.items():
        for chunk in dict.fromkeys(chunk_ids):
            by_chunk.setdefault(chunk, []).append(mark)
    for chunk, stated in by_chunk.items():
        parts = list(_parts(_sorted(stated)))
        for number, part in enumerate(parts):
            item = _item(origin.key_id, origin.scope, _page_name(chunk, number), part)
            yield {**item, "chunk": chunk, "pages": len(parts), "documentId": origin.document_id, "own": own}


def leaving(key_id: str, scope: Scope, marks: Iterable[Mark]) -> list[Item]:
    """Entries for what is not stated any more. Their names follow from what they list: none overwrites another."""
    return [
        _item(key_id, scope, LEAVING + stable_hash(*(list(mark) for mark in part)), part)
        for part in _parts(_sorted(marks))
    ]


def marks_in(*items: Item) -> set[Mark]:
    found: set[Mark] = set()
    for item in items:
        found.update(NodeMark(*map(str, one)) for one in item["nodes"])
        found.update(EdgeMark(*map(str, one)) for one in item["edges"])
    return found


def entry_key(key_id: str, entry: str) -> dict[str, str]:
    return {"place": place_of(key_id), "entry": entry}


def _item(key_id: str, scope: Scope, entry: str, marks: Sequence[Mark]) -> Item:
    return {
        **entry_key(key_id, entry),
        "keyId": key_id,
        "scope": scope.key,
        "nodes": [list(mark) for mark in marks if isinstance(mark, NodeMark)],
        "edges": [list(mark) for mark in marks if isinstance(mark, EdgeMark)],
    }


def _sorted(marks: Iterable[Mark]) -> list[Mark]:
    return sorted(marks, key=lambda mark: (len(mark), *mark))


def _parts(marks: Sequence[Mark]) -> Iterator[Sequence[Mark]]:
    return (marks[start : start + MARKS_A_PAGE] for start in range(0, len(marks), MARKS_A_PAGE))


def _page_name(chunk: str, number: int) -> str:
    return f"{chunk}#{number}" if number else chunk


def place_of(key_id: str) -> str:
    return f"refs#{key_id}"
