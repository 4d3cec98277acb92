"""Ranks the lexical leg of the embedded index: BM25 by tantivy over terms of our own analyzer."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tantivy

from opx.adapters.embedded.durable_files import digest_of_file, make_folders, sync_folder
from opx.domain.ids import day_number
from opx.domain.results import IndexedChunk
from opx.errors import IndexUnavailableError
from opx.ports import SearchFilter
from opx.text.fields import LEXICAL_FIELDS, TITLE_FIELD, VALUE_WEIGHT, WHOLE_FIELD, Words, analysed_fields

# -- document frequencies within the reader's scopes
#
# tantivy counts all entries of an index, of every tenant. Its scores would reveal to a reader, by the scores of
# their own documents, how many documents of other tenants hold a term. So terms are counted again within the scopes,
# wherever the index holds more than these.

_TOTAL = "N, total number of docs"
"""tantivy's name in an explanation for the number of all entries; deleted ones count until a merge."""


_COUNTED_BELOW = 1_000
"""Entries below which those with a term are counted one by one: in a small set, dead entries would make every word of
an often replaced page look common."""


class Rarity:
    """Document frequencies of one committed state for some scopes, each counted once. Threads may share it."""

    def __init__(self, searcher: tantivy.Searcher, schema: tantivy.Schema, scopes: Sequence[str]) -> None:
        self._searcher = searcher
        self._schema = schema
        query = tantivy.Query.term_set_query(schema, "scope", list(scopes))
        self._within = tantivy.Query.const_score_query(query, 0.0)
        self._entries = self._count(self._within)
        self._all = self._entries == searcher.num_docs
        self._found: dict[tuple[str, str], int] = {}
        self._total = 0

    @property
    def entries(self) -> int:
        """The number of entries of the scopes, dead ones included."""
        return self._entries

    @property
    def corrects(self) -> bool:
        """True if the index holds more than the entries of the scopes."""
        return not self._all

    def frequency(self, name: str, term: str) -> int:
        """The number of entries with the term in this field; in a large set including dead ones."""
        if self._all and self._entries >= _COUNTED_BELOW:
            return self._searcher.doc_freq(name, term)
        found = self._found.get((name, term))
        if found is None:
            found = self._found[name, term] = self._within_scopes(name, term)
        return found

    def correction(self, name: str, term: str) -> float:
        """The factor for the term's scores that removes the effect of entries in other scopes."""
        if self._all:
            return 1.0
        here = self.frequency(name, term)
        if not here:
            return 1.0  # irrelevant: nothing that it scores passes the filter
        there = self._searcher.doc_freq(name, term)
        return _idf(self._entries, here) / _idf(self._number_of_all(name, term), there)

    def _within_scopes(self, name: str, term: str) -> int:
        if not self._searcher.doc_freq(name, term):
            return 0
        query = tantivy.Query.term_query(self._schema, name, term, index_option="basic")
        parts = [(tantivy.Occur.Must, query), (tantivy.Occur.Must, self._within)]
        return self._count(tantivy.Query.boolean_query(parts))

    def _count(self, query: tantivy.Query) -> int:
        found: Any = self._searcher.search(query, 1, count=True)
        return int(found.count)

    def _number_of_all(self, name: str, term: str) -> int:
        """The number of all entries that tantivy uses, which it exposes only in explanations."""
        if not self._total:
            query = tantivy.Query.term_query(self._schema, name, term, index_option="freq")
            _, address = self._searcher.search(query, 1, count=False).hits[0]
            self._total = _explained(json.loads(query.explain(self._searcher, address).to_json()))
        return self._total


def _explained(part: dict[str, Any]) -> int:
    """The number of all entries in an explanation; 0 if it isn't there."""
    if part["description"] == _TOTAL:
        return int(part["value"])
    return max((_explained(each) for each in part.get("details") or ()), default=0)


def _idf(total: int, found: int) -> float:
    """Lucene's idf, which tantivy computes, too."""
    return math.log(1 + (max(total - found, 0) + 0.5) / (found + 0.5))


# -- reader and writer

WRITER_HEAP_BYTES, SMALL_HEAP_BYTES = 64_000_000, 15_000_000
"""Memory of a writer, of which it fills a part with tables at each commit: 5 ms of processor time less with the small one,
tantivy's least. What doesn't fit becomes several segments."""

MAX_QUERY_TERMS = 256
"""Distinct terms that are searched, the first ones of a longer query: more cost time and no longer change the best hits."""

_FACETS = ("scope", "category", "tier", "tag", "service", "document_id", "language")
_SCOPES_KEPT = 256
"""Scope sets whose term counts are cached, as long as nothing is written."""

_TANTIVY_FACTOR = 2.2
"""tantivy multiplies by k1 + 1, which Lucene dropped in version 8; without it scores of both engines are comparable."""


Location = tuple[int, int]
"""Segment and position within it."""


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in LEXICAL_FIELDS:
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
    for name in _FACETS:
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("batch", tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("segment", indexed=True, fast=True)
    builder.add_unsigned_field("position", fast=True)
    builder.add_integer_field("updated_day", indexed=True, fast=True)
    return builder.build()


@contextmanager
def _tantivy_errors(folder: Path) -> Iterator[None]:
    """Translates tantivy's failures: `ValueError`s, and panics of its code on damaged files."""
    try:
        yield
    except BaseException as exc:
        if not isinstance(exc, ValueError) and type(exc).__name__ != "PanicException":
            raise
        raise IndexUnavailableError(
            f"the lexical index in {folder} can't be used: {exc}. If it is damaged, `opx repair` makes it again"
        ) from exc


TERMS = "terms"
"""Name of the folder of the lexical index."""

_CHANGING = ".managed.json"
"""A list of files that tantivy changes whenever it likes, and that no reader needs."""


def term_files(folder: Path, known: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """SHA-256 of the files of the lexical index below the folder of an index, by their names in it. Those in `known` are not
    read again: tantivy never changes a file, but for the list of its segments."""
    found = {}
    for path in sorted((folder / TERMS).iterdir()):
        name = f"{TERMS}/{path.name}"
        if path.is_file() and path.name != _CHANGING and path.suffix != ".lock":
            changes = path.suffix == ".json"
            found[name] = known[name] if name in known and not changes else digest_of_file(path)
    return found


class _Links:
    """A temporary folder with links to the files of one that may not be written to: tantivy locks a file in its folder,
    also to read."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._temporary = tempfile.TemporaryDirectory(prefix="opx-terms-")
        self.folder = Path(self._temporary.name)
        self.complete()

    def complete(self) -> None:
        """Adds links to new files."""
        for path in self._source.iterdir():
            if path.suffix != ".lock":
                with suppress(FileExistsError):
                    (self.folder / path.name).symlink_to(path.absolute())


class LexicalReader:
    """Opens the last committed state."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        make_folders(folder)
        self._links = None if os.access(folder, os.W_OK) else _Links(folder)
        with _tantivy_errors(folder):
            self._index = tantivy.Index(_schema(), path=str(self._links.folder if self._links else folder))
            self._index.config_reader("Manual")

    def latest(self) -> LexicalSearcher:
        """A searcher of the last committed state, unaffected by later commits. Safe to share."""
        if self._links:
            self._links.complete()
        with _tantivy_errors(self._folder):
            self._index.reload()
            return LexicalSearcher(self._folder, self._index.searcher())


class LexicalSearcher:
    """Searches one committed state."""

    def __init__(self, folder: Path, searcher: tantivy.Searcher) -> None:
        self._folder = folder
        self._schema = _schema()
        self._searcher = searcher
        self._rarities: dict[tuple[str, ...], Rarity] = {}
        self._latest: tuple[tuple[Any, ...], int, list[tuple[Location, float]]] | None = None

    def rarity(self, scopes: tuple[str, ...]) -> Rarity:
        """Document frequencies among the entries of these scopes."""
        found = self._rarities.get(scopes)
        if found is None:
            if len(self._rarities) >= _SCOPES_KEPT:
                self._rarities.clear()
            with _tantivy_errors(self._folder):
                found = self._rarities[scopes] = Rarity(self._searcher, self._schema, scopes)
        return found

    def search(
        self,
        words: Words,
        where: SearchFilter | None,
        limit: int,
        rarity: Rarity,
        values: Set[str] = frozenset(),
    ) -> list[tuple[Location, float]]:
        """The best `limit` entries with any of the words, with their scores; those that pass the filter, if there is one.
        Scores of `values` count `VALUE_WEIGHT`.

        Without a filter tantivy skips most entries of frequent terms: several times as fast. And a question searches one
        tier after the other: the hits of the latest one are kept for the next tier.
        """
        if where is not None:
            return self._found(words, where, limit, rarity, values)
        question, latest = (tuple(words.items()), rarity, values), self._latest
        if latest is None or latest[0] != question or len(latest[2]) == latest[1] < limit:
            latest = self._latest = question, limit, self._found(words, None, limit, rarity, values)
        return latest[2][:limit]

    def _found(
        self, words: Words, where: SearchFilter | None, limit: int, rarity: Rarity, values: Set[str]
    ) -> list[tuple[Location, float]]:
        with _tantivy_errors(self._folder):
            query = self._scored(words, rarity, values)
        if where is not None:
            query = tantivy.Query.boolean_query([(tantivy.Occur.Must, query), *self._filters(where)])
        with _tantivy_errors(self._folder):
            hits = self._searcher.search(query, limit, count=False).hits
            locations = self._locations([address for _, address in hits])
        return list(zip(locations, (score for score, _ in hits), strict=True))

    def count_in(self, segment: int) -> int:
        """Counts the entries of a segment."""
        query = tantivy.Query.term_set_query(self._schema, "segment", [segment])
        with _tantivy_errors(self._folder):
            found: Any = self._searcher.search(query, 1, count=True)
            return int(found.count)

    def count(self, where: SearchFilter) -> int:
        """Counts entries that pass the filter, dead ones included."""
        query = tantivy.Query.boolean_query(self._filters(where))
        with _tantivy_errors(self._folder):
            found: Any = self._searcher.search(query, 1, count=True)
            return int(found.count)

    def locations(self, where: SearchFilter, segments: Iterable[int] | None = None) -> list[Location]:
        """Locations of entries that pass the filter, dead ones included; only of the given segments, if any."""
        parts = self._filters(where)
        if segments is not None:
            parts.append((tantivy.Occur.Must, tantivy.Query.term_set_query(self._schema, "segment", list(segments))))
        query = tantivy.Query.boolean_query(parts)
        with _tantivy_errors(self._folder):
            limit = max(1, self._searcher.num_docs)
            hits = self._searcher.search(query, limit, count=False, order_by_field="segment").hits
            return self._locations([address for _, address in hits])

    def _locations(self, addresses: list[tantivy.DocAddress]) -> list[Location]:
        segments: Any = self._searcher.fast_field_values("segment", addresses)
        positions: Any = self._searcher.fast_field_values("position", addresses)
        return list(zip(segments, positions, strict=True))

    def frequencies(self, words: Words, rarity: Rarity) -> dict[str, int]:
        """Counts entries with each word, by its most frequent term, in one of the fields that hold all of a chunk's text."""
        with _tantivy_errors(self._folder):
            return {
                first: max(rarity.frequency(name, term) for name in LEXICAL_FIELDS for term in terms)
                for first, terms in words.items()
            }

    def entries_with(self, terms: Iterable[str], rarity: Rarity) -> dict[str, int]:
        """Counts the entries with each of the terms in title or text; terms without entries are left out. Most terms
        are in no dictionary: these are not cached."""
        with _tantivy_errors(self._folder):
            existing = (term for term in dict.fromkeys(terms) if self._searcher.doc_freq(WHOLE_FIELD, term))
            counts = {term: rarity.frequency(WHOLE_FIELD, term) for term in existing}
        return {term: count for term, count in counts.items() if count}

    def _scored(self, words: Words, rarity: Rarity, values: Set[str]) -> tantivy.Query:
        parts = []
        for name, boost in LEXICAL_FIELDS.items():
            for first, terms in words.items():
                query = self._best_of(name, terms, rarity)
                weight = boost * (VALUE_WEIGHT if first in values else 1.0) / _TANTIVY_FACTOR
                parts.append((tantivy.Occur.Should, tantivy.Query.boost_query(query, weight)))
        return tantivy.Query.boolean_query(parts)

    def _best_of(self, name: str, terms: Sequence[str], rarity: Rarity) -> tantivy.Query:
        """The score of the best of a word's terms: stems of two languages must not count twice."""
        queries = []
        for term in terms:
            query = tantivy.Query.term_query(self._schema, name, term, index_option="freq")
            correction = rarity.correction(name, term)
            queries.append(query if correction == 1 else tantivy.Query.boost_query(query, correction))
        return queries[0] if len(queries) == 1 else tantivy.Query.disjunction_max_query(queries)

    def _filters(self, where: SearchFilter) -> list[tuple[Any, tantivy.Query]]:
        wanted = (
            ("scope", where.scopes),
            ("category", where.categories),
            ("tier", where.tiers),
            ("tag", where.tags),
            ("document_id", where.document_ids),
            ("language", where.languages),
            ("service", where.resources),
            ("tag", where.also_tags),
            ("service", where.also_resources),
        )
        queries = [self._any_of(name, values) for name, values in wanted if values or name == "scope"]
        queries += self._days(where.updated_from, where.updated_before)
        queries += [self._any_of(TITLE_FIELD, terms) for terms in where.title_terms]
        queries += [self._any_of(WHOLE_FIELD, terms) for terms in where.required_terms]
        filters = [(tantivy.Occur.Must, tantivy.Query.const_score_query(query, 0.0)) for query in queries]
        if where.excluded_terms:
            filters.append((tantivy.Occur.MustNot, self._any_of(WHOLE_FIELD, where.excluded_terms)))
        return filters

    def _days(self, first: int | None, end: int | None) -> Iterator[tantivy.Query]:
        if first is not None or end is not None:
            last = None if end is None else end - 1
            yield tantivy.Query.range_query(self._schema, "updated_day", tantivy.FieldType.Integer, first, last)

    def _any_of(self, name: str, values: Sequence[str]) -> tantivy.Query:
        return tantivy.Query.term_set_query(self._schema, name, list(values))


def _remove_strangers(folder: Path) -> None:
    """Removes files that tantivy doesn't know, as there are after a home was copied over another: it would make one of the
    same name, and fail as it is there."""
    try:
        managed = set(json.loads((folder / _CHANGING).read_bytes()))
        segments = json.loads((folder / "meta.json").read_bytes())["segments"]
        used = {segment["segment_id"].replace("-", "") for segment in segments}
    except (OSError, ValueError, KeyError, TypeError):  # a new index, or a damaged one, which tantivy reports
        return
    for path in folder.iterdir():
        is_of_segment = path.name.partition(".")[0] in used and path.suffix != ".del"
        if path.name not in managed and not path.name.startswith(".") and path.suffix != ".json" and not is_of_segment:
            path.unlink(missing_ok=True)


class LexicalWriter:
    """Adds entries in batches; leftovers of a crashed batch are removed by its name."""

    def __init__(self, folder: Path, heap_bytes: int = WRITER_HEAP_BYTES) -> None:
        self._folder = folder
        make_folders(folder)
        _remove_strangers(folder)
        with _tantivy_errors(folder):
            self._writer = tantivy.Index(_schema(), path=str(folder)).writer(heap_bytes, 1)

    def add(self, segment: int, position: int, batch: str, indexed: IndexedChunk) -> None:
        document = tantivy.Document()
        document.add_unsigned("segment", segment)
        document.add_unsigned("position", position)
        document.add_text("batch", batch)
        for name, terms in analysed_fields(indexed.chunk, indexed.language).items():
            document.add_text(name, " ".join(terms))
        for name, value in _facets_of(indexed):
            document.add_text(name, value)
        day = day_number(indexed.last_updated)
        if day is not None:
            document.add_integer("updated_day", day)
        with _tantivy_errors(self._folder):
            self._writer.add_document(document)

    def remove_segments(self, segments: Sequence[int]) -> None:
        self._remove("segment", segments)

    def remove_batch(self, batch: str) -> None:
        self._remove("batch", [batch])

    def _remove(self, field: str, values: Sequence[int | str]) -> None:
        """Deletes by query: `delete_documents_by_term` treats an int as signed, which matches no unsigned field."""
        if values:
            query = tantivy.Query.term_set_query(_schema(), field, list(values))
            with _tantivy_errors(self._folder):
                self._writer.delete_documents_by_query(query)

    def commit(self) -> None:
        """Makes everything since the last commit durable. Tantivy syncs its files, but not the name of the list of them."""
        with _tantivy_errors(self._folder):
            self._writer.commit()
        sync_folder(self._folder)

    def close(self) -> None:
        """Drops uncommitted entries, and waits for merges."""
        with _tantivy_errors(self._folder):
            self._writer.wait_merging_threads()
        sync_folder(self._folder)


def _facets_of(indexed: IndexedChunk) -> Iterable[tuple[str, str]]:
    chunk = indexed.chunk
    yield "scope", indexed.scope_key
    yield "category", chunk.category
    yield "tier", indexed.tier.value
    yield "document_id", chunk.document_id
    yield "language", indexed.language
    for tag in chunk.tags:
        yield "tag", tag
    for service in indexed.resources:
        yield "service", service
