"""The seal as it is stored: its record, the pages of its leaves, and the progress of one that isn't finished."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from opx import __version__
from opx.domain.record import Record
from opx.errors import AlteredSealError, SealNotFoundError
from opx.ports import Clock, Item, KeyRange, Table
from opx_assurance.seal.contents import Leaf, Position
from opx_assurance.seal.merkle import leaf_hash, tree_hash

SUBJECT = "seal"
"""Partition key of the last seal in the lifecycle table."""

_LAST, _PAGES = "last", "leaves#"
_LEAVES_A_PAGE = 2000
"""140 bytes each, below the 400 KB of an item of DynamoDB."""

_CONTEXT = b"opx seal 1\n"
"""Beginning of what is signed, so that a signature of a seal is one of nothing else."""

_POSITION = {"subject": "sealing", "entry": "position"}
_KEPT_SECONDS = 7 * 86_400
"""A seal that no run continued for so long begins anew."""

Hashes = Mapping[str, Mapping[str, str]]
"""Hashes of leaves in hex by their ids, by part."""


class SealedPart(Record, frozen=True):
    part: str
    root: str
    count: int


class Seal(Record, frozen=True):
    """Root of the contents at a time, with the roots of its parts. `at` is when reading began. `public_key` and `signature`
    are empty if there was no key. `is_recorded`: checksums of the catalog stood for bytes that were not read."""

    at: str
    root: str
    parts: tuple[SealedPart, ...]
    program: str
    public_key: str = ""
    signature: str = ""
    is_recorded: bool = False

    @property
    def message(self) -> bytes:
        """The signed bytes."""
        content = {name: value for name, value in self.to_json().items() if name != "signature"}
        if not content["isRecorded"]:  # seals of before have no such field
            del content["isRecorded"]
        return _CONTEXT + json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def parts_of(hashes: Hashes) -> tuple[SealedPart, ...]:
    found = []
    for part, leaves in sorted(hashes.items()):
        root = tree_hash([bytes.fromhex(leaves[leaf]) for leaf in sorted(leaves)])
        found.append(SealedPart(part, root.hex(), len(leaves)))
    return tuple(found)


def root_of(parts: tuple[SealedPart, ...]) -> str:
    return tree_hash([leaf_hash(f"{one.part}\0{one.count}\0{one.root}".encode()) for one in parts]).hex()


@dataclass
class SealProgress:
    """A seal in the making. `before` is the root of the seal that it is compared with, if any, and `doubts` are leaves
    that differ from it without an ingestion: part, id and name of the first ones, and the number of all. `read` are part and
    id of the leaves since `pages` pages were stored, `count` is the number of all."""

    at: str
    before: str
    program: str = __version__
    position: Position | None = None
    pages: int = 0
    hashes: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    read: list[tuple[str, str]] = field(default_factory=list)
    count: int = 0
    doubts: list[list[str]] = field(default_factory=list)
    doubted: int = 0

    def add(self, leaves: Iterable[Leaf], position: Position) -> None:
        for leaf in leaves:
            self.hashes[leaf.part][leaf.id] = leaf.hash.hex()
            self.read.append((sys.intern(leaf.part), leaf.id))
            self.count += 1
        self.position = position


class SealStore:
    """Stores the last seal with its leaves, and the progress of the next one. Methods raise `StoreUnavailableError`."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def last(self) -> Seal:
        """The last seal. Raises `SealNotFoundError`, and `AlteredSealError` for one that can't be read."""
        item = self._table.get({"subject": SUBJECT, "entry": _LAST})
        if item is None:
            raise SealNotFoundError("nothing was sealed yet: `opx seal` does it")
        return _seal_of(item)

    def put(self, sealed: Seal, hashes: Hashes) -> None:
        """Writes the pages of leaves, then the seal that names them, and then removes the pages of the seal before."""
        prefix = f"{_PAGES}{sealed.root[:16]}#"
        for number, page in enumerate(_paged(_lines(hashes))):
            self._table.put({"subject": SUBJECT, "entry": f"{prefix}{number:05d}", "leaves": page})
        self._table.put({"subject": SUBJECT, "entry": _LAST, "seal": json.dumps(sealed.to_json())})
        pages = [str(item["entry"]) for item in self._table.query(SUBJECT, where=KeyRange(begins_with=_PAGES))]
        for entry in pages:
            if not entry.startswith(prefix):
                self._table.delete({"subject": SUBJECT, "entry": entry})

    def leaves(self, sealed: Seal) -> Hashes:
        """The hashes of a seal. Raises `AlteredSealError`."""
        pages = self._table.query(SUBJECT, where=KeyRange(begins_with=f"{_PAGES}{sealed.root[:16]}#"))
        found = _hashes(pages)
        if root_of(parts_of(found)) != sealed.root:
            raise AlteredSealError(f"the seal of {sealed.at} was altered: its hashes don't lead to its root")
        return found

    # -- progress

    def progress(self) -> SealProgress | None:
        """The seal that a run of this program began and didn't finish."""
        item = self._table.get(_POSITION)
        if item is None or item["program"] != __version__:
            return None
        hashes = _hashes(self._table.query(_subject(item["at"]), where=KeyRange(high=_page(item["pages"] - 1))))
        return SealProgress(
            item["at"],
            item["before"],
            position=Position(item["step"], item["after"]),
            pages=item["pages"],
            hashes=hashes,
            count=sum(map(len, hashes.values())),
            doubts=item["doubts"],
            doubted=item["doubted"],
        )

    def keep(self, progress: SealProgress) -> None:
        """Stores new leaves, and then the position that counts their pages: a run that ends in between is repeated."""
        expires = int(self._clock()) + _KEPT_SECONDS
        lines = (f"{part}\t{leaf}\t{progress.hashes[part][leaf]}" for part, leaf in progress.read)
        subject = _subject(progress.at)
        for page in _paged(lines):
            self._table.put({"subject": subject, "entry": _page(progress.pages), "leaves": page, "expiresAt": expires})
            progress.pages += 1
        progress.read.clear()
        if position := progress.position:
            facts = {"at": progress.at, "before": progress.before, "program": progress.program, "expiresAt": expires}
            doubts = {"doubts": progress.doubts, "doubted": progress.doubted}
            where = {"step": position.step, "after": position.after, "pages": progress.pages}
            self._table.put({**_POSITION, **facts, **doubts, **where})

    def forget(self) -> None:
        """Deletes the progress. Its pages expire."""
        self._table.delete(_POSITION)


def _subject(at: str) -> str:
    return f"sealing#{at}"


def _page(number: int) -> str:
    return f"{number:05d}"


def _lines(hashes: Hashes) -> Iterator[str]:
    return (f"{part}\t{leaf}\t{value}" for part, leaves in hashes.items() for leaf, value in leaves.items())


def _paged(lines: Iterable[str]) -> Iterator[list[str]]:
    page: list[str] = []
    for line in lines:
        page.append(line)
        if len(page) == _LEAVES_A_PAGE:
            yield page
            page = []
    if page:
        yield page


def _hashes(pages: Iterable[Item]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for item in pages:
        for line in item["leaves"]:
            part, leaf, value = str(line).split("\t")
            found[part][leaf] = value
    return found


def _seal_of(item: Item) -> Seal:
    try:
        content: Any = json.loads(item["seal"])
        return Seal.from_json(content)
    except (KeyError, TypeError, ValueError) as exc:
        raise AlteredSealError("the last seal can't be read: it was altered") from exc
