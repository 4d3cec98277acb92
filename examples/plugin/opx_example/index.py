"""An index in one JSON file for each edition, for small corpora: a change writes the file anew, and a search reads all of it.

`OPX_INDEX=jsonfolder:///var/lib/opx` chooses it.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from filelock import FileLock

from opx.sdk import (
    LEXICAL_FIELDS,
    VALUE_WEIGHT,
    DocumentChange,
    Edition,
    Embedder,
    HeldDocument,
    IncompatibleIndexError,
    IndexedChunk,
    IndexUnavailableError,
    InvalidInputError,
    Leg,
    SearchFilter,
    SearchRequest,
    SearchResponse,
    analysed_fields,
    day_number,
    words,
)

K1, B = 1.2, 0.75
DIGITS = 6
"""Scores are rounded, so that equal ones are in the order of the ids."""

Stored = dict[str, dict[str, Any]]
"""Chunk and vectors of each entry, by its id."""


def open_indexes(address: str, settings: Any) -> JsonFolder:  # noqa: ARG001 - the address says all
    """The indexes in the folder of an address. Raises `InvalidInputError`."""
    parts = urlsplit(address)
    if parts.netloc or not parts.path.strip("/"):
        raise InvalidInputError(f"OPX_INDEX {address!r}: write jsonfolder:///PATH with an absolute path")
    return JsonFolder(Path(unquote(parts.path)))


class JsonFolder:
    """An `IndexService`: a folder with a folder for each edition."""

    cache_seconds = 0.0
    settling_seconds = 0.0
    counts_changes = False
    may_sleep = False
    collections: Sequence[str] = ()

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.subject = self.own_name = f"jsonfolder:{folder}"

    def open(self, edition: Edition, embedder: Callable[[], Embedder]) -> JsonIndex:
        model_id = edition.model_id or embedder().model_id
        return JsonIndex(self._of(edition), model_id=model_id)

    def make(self, edition: Edition) -> None:
        """No-op: the first change creates the file."""

    def remove(self, edition: Edition) -> None:
        with _unavailable(self._of(edition)):
            shutil.rmtree(self._of(edition), ignore_errors=not self._of(edition).exists())

    def check(self, edition: Edition) -> None:
        JsonIndex(self._of(edition), model_id=edition.model_id).count(SearchFilter(scopes=()))

    def _of(self, edition: Edition) -> Path:
        return self._folder / f"index-{edition.name or 'first'}"


@dataclass(frozen=True)
class Entry:
    """An entry as it was stored. `context` helps to find a chunk and is no part of it: searches don't return it."""

    stored: Mapping[str, Any]

    @cached_property
    def indexed(self) -> IndexedChunk:
        chunk = {name: value for name, value in self.stored["indexed"]["chunk"].items() if name != "context"}
        return IndexedChunk.from_json({**self.stored["indexed"], "chunk": chunk})

    @cached_property
    def vectors(self) -> Any:
        return np.asarray(self.stored["vectors"], dtype=np.float32)

    @cached_property
    def terms(self) -> dict[str, Counter[str]]:
        """Counts of the terms of each field."""
        found = IndexedChunk.from_json(self.stored["indexed"])
        return {field: Counter(terms) for field, terms in analysed_fields(found.chunk, found.language).items()}

    def has(self, term: str) -> bool:
        return any(term in terms for terms in self.terms.values())

    def passes(self, where: SearchFilter) -> bool:
        one, chunk = self.indexed, self.indexed.chunk
        parts = (
            (where.categories, (chunk.category,)),
            (where.tiers, (one.tier,)),
            (where.tags, chunk.tags),
            (where.also_tags, chunk.tags),
            (where.document_ids, (chunk.document_id,)),
            (where.languages, (one.language,)),
            (where.resources, one.resources),
            (where.also_resources, one.resources),
        )
        matches = all(not wanted or not set(wanted).isdisjoint(own) for wanted, own in parts)
        return one.scope_key in where.scopes and matches and self._is_of_days(where) and self._has_terms(where)

    def _is_of_days(self, where: SearchFilter) -> bool:
        if where.updated_from is None and where.updated_before is None:
            return True
        day = day_number(self.indexed.last_updated)
        if day is None:
            return False
        first, end = where.updated_from, where.updated_before
        return (first is None or day >= first) and (end is None or day < end)

    def _has_terms(self, where: SearchFilter) -> bool:
        title = self.terms["terms_title"]
        return (
            all(any(term in title for term in group) for group in where.title_terms)
            and all(any(map(self.has, group)) for group in where.required_terms)
            and not any(map(self.has, where.excluded_terms))
        )


class JsonIndex:
    """A `SearchIndex`. Processes may share the file: one writes at a time, and readers see it before or after."""

    derives_ids = True

    def __init__(self, folder: Path, *, model_id: str) -> None:
        self._folder = folder
        self._file = folder / "entries.json"
        self._model_id = model_id
        self._read: tuple[object, dict[str, Entry]] = (None, {})

    # -- writing

    def apply(self, changes: Iterable[DocumentChange]) -> list[list[str]]:
        references: list[list[str]] = []
        with _unavailable(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            with FileLock(self._folder / "lock"):
                kept = {name: dict(entry.stored) for name, entry in self._entries().items()}
                for change in changes:
                    new = {one.indexed.entry_id: _stored(one.indexed, one.vectors) for one in change.entries}
                    for gone in change.superseded:
                        kept.pop(gone, None)
                    kept |= new
                    references.append(list(new))
                if references:
                    self._write(kept)
        return references

    def _write(self, kept: Stored) -> None:
        new = self._file.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            json.dump({"model": self._model_id, "entries": kept}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._file)

    # -- reading

    def _entries(self) -> dict[str, Entry]:
        """All entries by id; the file is read again if it was replaced."""
        with _unavailable(self._folder):
            try:
                facts = self._file.stat()
            except FileNotFoundError:
                return {}
            version = facts.st_ino, facts.st_mtime_ns, facts.st_size
            if self._read[0] != version:
                found = json.loads(self._file.read_text(encoding="utf-8"))
                self._check_model(found["model"])
                self._read = version, {name: Entry(stored) for name, stored in found["entries"].items()}
            return self._read[1]

    def _check_model(self, built_for: str) -> None:
        if built_for != self._model_id:
            raise IncompatibleIndexError(
                f"the index in {self._folder} was built for {built_for}, this program uses {self._model_id}: "
                "run `opx reindex`"
            )

    def search(self, request: SearchRequest) -> SearchResponse:
        entries = self._entries()
        of_scopes = {name: one for name, one in entries.items() if one.indexed.scope_key in request.filter.scopes}
        allowed = {name: one for name, one in of_scopes.items() if one.passes(request.filter)}
        query = words(request.text or "", request.languages)
        scores = _bm25(of_scopes, query, request.values)
        lexical = _best({name: score for name, score in scores.items() if name in allowed}, request.depth)
        vector = _best(_cosines(allowed, request.vector), request.depth)
        return SearchResponse(
            Leg(lexical),
            Leg(vector),
            {name: entries[name].indexed for name, _ in (*lexical, *vector)},
            {word: sum(any(map(one.has, terms)) for one in of_scopes.values()) for word, terms in query.items()},
            len(of_scopes),
        )

    def entries_with(self, terms: Iterable[str], scopes: Sequence[str]) -> Mapping[str, int]:
        wanted, found = set(terms), Counter[str]()
        for one in self._entries().values():
            if one.indexed.scope_key in scopes:
                found.update(wanted.intersection(*[set().union(*one.terms.values())]))
        return found

    def count(self, where: SearchFilter) -> int:
        return sum(one.passes(where) for one in self._entries().values())

    def references(self, key_id: str) -> list[str]:
        return [name for name, one in self._entries().items() if one.indexed.key_id == key_id]

    def held(self, *, after: HeldDocument | None = None, limit: int = 1000) -> list[HeldDocument]:
        parts = [one.indexed for one in self._entries().values()]
        counts = Counter((one.scope_key, one.key_id, one.chunk.document_id, one.chunk.category) for one in parts)
        held = sorted(HeldDocument(*names, count) for names, count in counts.items())
        return [one for one in held if after is None or one > after][:limit]


def _stored(indexed: IndexedChunk, vectors: Iterable[Iterable[float]]) -> dict[str, Any]:
    return {"indexed": indexed.to_json(), "vectors": [[float(value) for value in vector] for vector in vectors]}


def _bm25(
    entries: Mapping[str, Entry], query: Mapping[str, Sequence[str]], values: frozenset[str]
) -> Mapping[str, float]:
    """Sums fields and words; of the terms of a word the best counts."""
    scores: defaultdict[str, float] = defaultdict(float)
    for field, boost in LEXICAL_FIELDS.items():
        lengths = {name: one.terms[field].total() for name, one in entries.items()}
        average = sum(lengths.values()) / max(len(lengths), 1)
        for word, terms in query.items():
            best: defaultdict[str, float] = defaultdict(float)
            for term in terms:
                times = {name: one.terms[field][term] for name, one in entries.items() if term in one.terms[field]}
                idf = math.log(1 + (len(entries) - len(times) + 0.5) / (len(times) + 0.5))
                for name, count in times.items():
                    score = idf * count / (count + K1 * (1 - B + B * lengths[name] / average))
                    best[name] = max(best[name], score)
            for name, score in best.items():
                scores[name] += boost * score * (VALUE_WEIGHT if word in values else 1.0)
    return scores


def _cosines(entries: Mapping[str, Entry], vector: Sequence[float] | None) -> dict[str, float]:
    if vector is None:
        return {}
    query = np.asarray(vector, dtype=np.float32)
    return {name: float((one.vectors @ query).max()) for name, one in entries.items()}


def _best(scores: Mapping[str, float], depth: int) -> tuple[tuple[str, float], ...]:
    rounded = [(name, round(score, DIGITS)) for name, score in scores.items()]
    return tuple(sorted(rounded, key=lambda hit: (-hit[1], hit[0]))[:depth])


@contextmanager
def _unavailable(folder: Path) -> Iterator[None]:
    """Raises `IndexUnavailableError` for a folder that can't be read or written, and for a damaged file."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError) as exc:
        problem = f"the index in {folder} can't be used: {type(exc).__name__}: {exc}"
        raise IndexUnavailableError(f"{problem}; remove it and run `opx rebuild`") from exc
