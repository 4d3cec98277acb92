"""The common interface of the engines that are compared, and each of them behind it, as its documentation shows it.

All have the same chunks and the product's own vectors, and answer with ids of chunks, best first. `reader` is None for one
who sees everything, else the owners whose chunks may be found.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from opx.domain.queries import QueryConfig, SearchMode
from opx.domain.scopes import Identity
from opx.facade.knowledge import Knowledge
from opx.ports import DocumentChange, Embedder, SearchFilter, SearchRequest, Vectors
from opx.ports.search import mean_vector
from opx.settings import Settings
from opx.system import bootstrap
from opx.text.analyzer import split_identifiers
from tests.benchmarks.homes import READERS

Floats = npt.NDArray[np.float32]
Reader = Sequence[str] | None

CANDIDATES = 100
"""Of each leg, as in the product's balanced mode."""

RESULTS = 10


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk: `text` has its title and section above the content; `vectors` has a row for each window."""

    id: str
    title: str
    text: str
    owner: str
    vectors: Floats

    @classmethod
    def of(cls, identity: str, title: str, text: str, owner: str, vectors: Vectors) -> Piece:
        return cls(identity, title, text, owner, np.asarray(vectors, dtype=np.float32))

    @property
    def mean(self) -> Floats:
        return np.asarray(mean_vector(list(self.vectors)), dtype=np.float32)


class Engine(Protocol):
    """An engine in a folder. It is used by one thread of one process."""

    def build(self, pieces: Sequence[Piece]) -> None:
        """Indexes everything, until it can be searched as quickly as it ever can."""

    def search(self, question: str, reader: Reader, count: int) -> list[str]:
        """Ids of the best chunks, embedding the question included."""

    def change(self, pieces: Sequence[Piece]) -> None:
        """Replaces the chunks with these ids, or adds them; returns when the next search finds them."""


class Embedding:
    """Embeds questions with the product's model, its cache left out. `known` vectors are taken as they are."""

    def __init__(self, home: Path) -> None:
        self._system = bootstrap(Settings(home=str(home)))
        self._embedder: Embedder = self._system.indexing.embedder
        self.known: Mapping[str, Floats] = {}

    def __call__(self, question: str) -> Floats:
        if question in self.known:
            return self.known[question]
        return np.asarray(self._embedder.embed_query(question), dtype=np.float32)


def _words(text: str) -> list[str]:
    return list(dict.fromkeys("".join(c if c.isalnum() else " " for c in text).split()))


def fused_by_rank(*legs: Sequence[str]) -> list[str]:
    """Reciprocal rank fusion, k = 60."""
    scores: dict[str, float] = {}
    for leg in legs:
        for rank, one in enumerate(leg, 1):
            scores[one] = scores.get(one, 0.0) + 1 / (60 + rank)
    return sorted(scores, key=lambda one: (-scores[one], one))


# -- SQLite FTS5 and a matrix in memory


class Fts5:
    """FTS5 with Porter's stemmer, exact cosines with NumPy over all windows, reciprocal rank fusion."""

    def __init__(self, folder: Path, embed: Embedding) -> None:
        self._embed = embed
        self._database = sqlite3.connect(folder / "fts5.db")
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute(
            "CREATE VIRTUAL TABLE found USING fts5(id UNINDEXED, owner UNINDEXED, title, text, tokenize='porter')"
        )
        self._pieces: dict[str, Piece] = {}
        self._vectors: Floats = np.empty((0, 0), np.float32)

    def build(self, pieces: Sequence[Piece]) -> None:
        self.change(pieces)

    def change(self, pieces: Sequence[Piece]) -> None:
        rows = [(one.id, one.owner, self._prepared(one.title), self._prepared(one.text)) for one in pieces]
        with self._database:
            if self._pieces:
                ids = [(one.id,) for one in pieces if one.id in self._pieces]
                self._database.executemany("DELETE FROM found WHERE id = ?", ids)
            self._database.executemany("INSERT INTO found VALUES (?, ?, ?, ?)", rows)
        self._pieces.update((one.id, one) for one in pieces)
        every = list(self._pieces.values())
        self._ids = np.array([one.id for one in every])
        self._owners = np.array([one.owner for one in every])
        self._vectors = np.concatenate([one.vectors for one in every])
        self._starts = np.cumsum([0, *(len(one.vectors) for one in every[:-1])])

    def search(self, question: str, reader: Reader, count: int) -> list[str]:
        words, near = self._by_words(question, reader), self._by_meaning(question, reader)
        return self._fused(words, near)[:count]

    def _prepared(self, text: str) -> str:
        return text

    def _fused(self, words: Mapping[str, float], near: Mapping[str, float]) -> list[str]:
        return fused_by_rank(list(words), list(near))

    def _by_words(self, question: str, reader: Reader) -> dict[str, float]:
        query = " OR ".join(f'"{word}"' for word in _words(self._prepared(question)))
        owners = f"AND owner IN ({', '.join('?' * len(reader))})" if reader else ""
        found = self._database.execute(
            f"SELECT id, -bm25(found) FROM found WHERE found MATCH ? {owners} ORDER BY rank LIMIT ?",
            (query, *(reader or ()), CANDIDATES),
        )
        return dict(found.fetchall()) if query else {}

    def _by_meaning(self, question: str, reader: Reader) -> dict[str, float]:
        cosines = np.maximum.reduceat(self._vectors @ self._embed(question), self._starts)
        if reader:
            cosines[~np.isin(self._owners, reader)] = -np.inf
        best = np.argsort(-cosines)[:CANDIDATES]
        return {str(self._ids[at]): float(cosines[at]) for at in best if np.isfinite(cosines[at])}


def with_parts(text: str) -> str:
    """The text, followed by its words split where the case changes, if that makes a difference."""
    parts = split_identifiers(text)
    return text if parts == text else f"{text} {parts}"


def fused_by_scale(*legs: Mapping[str, float]) -> list[str]:
    """Ids by the sum of their scores, each leg scaled to [0, 1], both weigh the same; best first."""
    scores: dict[str, float] = {}
    for leg in legs:
        low, high = min(leg.values(), default=0.0), max(leg.values(), default=0.0)
        for one, score in leg.items():
            scores[one] = scores.get(one, 0.0) + (0.5 * (score - low) / (high - low) if high > low else 0.5)
    return sorted(scores, key=lambda one: (-scores[one], one))


class AfternoonPlus(Fts5):
    """FTS5 over text with identifiers split at capitals, each leg scaled to [0, 1], both weigh the same: the ranking of
    `afternoon_plus`."""

    def _prepared(self, text: str) -> str:
        return with_parts(text)

    def _fused(self, words: Mapping[str, float], near: Mapping[str, float]) -> list[str]:
        return fused_by_scale(words, near)


# -- vector databases


class LanceDb:
    """LanceDB: hybrid search, reciprocal rank fusion, filters before the search; an approximate index from 50,000 rows on."""

    def __init__(self, folder: Path, embed: Embedding) -> None:
        os.environ.setdefault("LANCE_LOG", "error")  # else each search that selects columns writes two warnings
        import lancedb

        self._embed = embed
        self._database = lancedb.connect(folder)
        self._table: Any = None

    @staticmethod
    def _rows(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
        return [{"id": one.id, "owner": one.owner, "text": one.text, "vector": one.mean} for one in pieces]

    def build(self, pieces: Sequence[Piece]) -> None:
        for start in range(0, len(pieces), 10_000):
            rows = self._rows(pieces[start : start + 10_000])
            if self._table is None:
                self._table = self._database.create_table("chunks", rows)
            else:
                self._table.add(rows)
        self._table.create_fts_index("text", use_tantivy=False)
        self._table.create_scalar_index("id")
        self._table.create_scalar_index("owner", index_type="BITMAP")
        if len(pieces) >= 50_000:
            self._table.create_index(metric="cosine", vector_column_name="vector")
        self._table.optimize()

    def open(self) -> None:
        """Opens what was built by another process."""
        self._table = self._database.open_table("chunks")

    def search(self, question: str, reader: Reader, count: int) -> list[str]:
        from lancedb.query import MatchQuery
        from lancedb.rerankers import RRFReranker

        words = MatchQuery(question, "text")  # the text alone would be parsed: quotation marks raise
        query = self._table.search(query_type="hybrid").vector(self._embed(question)).text(words)
        if reader:
            owners = ", ".join(f"'{owner}'" for owner in reader)
            query = query.where(f"owner IN ({owners})", prefilter=True)
        query = query.select(["id", "text"])  # what a reply needs; the vectors would take a quarter of the time
        found = query.distance_type("cosine").rerank(RRFReranker()).limit(CANDIDATES).to_arrow()
        return list(found["id"].to_pylist())[:count]

    def change(self, pieces: Sequence[Piece]) -> None:
        merge = self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(self._rows(pieces))


class Chroma:
    """Chroma: vectors alone, by its approximate index."""

    def __init__(self, folder: Path, embed: Embedding) -> None:
        import chromadb

        self._embed = embed
        settings = chromadb.config.Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(str(folder), settings)
        self._collection = client.create_collection(
            "chunks", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )

    def build(self, pieces: Sequence[Piece]) -> None:
        for start in range(0, len(pieces), 5_000):
            self.change(pieces[start : start + 5_000])

    def search(self, question: str, reader: Reader, count: int) -> list[str]:
        where: Any = {"owner": {"$in": list(reader)}} if reader else None
        found = self._collection.query(
            query_embeddings=[self._embed(question)], n_results=max(count, RESULTS), where=where, include=["documents"]
        )
        return list(found["ids"][0])[:count]

    def change(self, pieces: Sequence[Piece]) -> None:
        self._collection.upsert(
            ids=[one.id for one in pieces],
            embeddings=[one.mean for one in pieces],
            documents=[one.text for one in pieces],
            metadatas=[{"owner": one.owner} for one in pieces],
        )


# -- words alone


class Bm25s:
    """bm25s: words alone, English stems and stop words, in memory; a change builds everything anew."""

    def __init__(self, folder: Path, embed: Embedding) -> None:
        import Stemmer

        self._folder = folder
        self._stemmer = Stemmer.Stemmer("english")
        self._pieces: dict[str, Piece] = {}

    def build(self, pieces: Sequence[Piece]) -> None:
        self.change(pieces)

    def change(self, pieces: Sequence[Piece]) -> None:
        import bm25s

        self._pieces.update((one.id, one) for one in pieces)
        self._ids = list(self._pieces)
        self._owners = np.array([one.owner for one in self._pieces.values()])
        tokens = self._tokens([one.text for one in self._pieces.values()])
        self._index = bm25s.BM25()
        self._index.index(tokens, show_progress=False)
        self._index.save(str(self._folder / "bm25s"))

    def _tokens(self, texts: Iterable[str]) -> Any:
        import bm25s

        return bm25s.tokenize(list(texts), stopwords="en", stemmer=self._stemmer, show_progress=False)

    def search(self, question: str, reader: Reader, count: int) -> list[str]:
        weights = np.isin(self._owners, reader).astype(np.float32) if reader else None
        tokens = self._tokens([question])
        wanted = min(count, len(self._ids))
        found, scores = self._index.retrieve(tokens, k=wanted, show_progress=False, weight_mask=weights)
        return [self._ids[at] for at, score in zip(found[0].tolist(), scores[0].tolist(), strict=True) if score > 0]


# -- the product


class Opx:
    """The product over a home that has the chunks already: `Knowledge.answer` in one mode, recorded as shipped."""

    def __init__(self, home: Path, mode: str = "balanced") -> None:
        self._mode = SearchMode(mode)
        self._all = Knowledge.open(home, **READERS["no filter"])
        self._few = Knowledge.open(home, **READERS["5 % tenant"])
        self._system = bootstrap(Settings(home=str(home)))
        self._visible = self._system.corpus.projects.reader(Identity(**READERS["no filter"])).visible

    def search(self, question: str, reader: Reader, count: int) -> list[str]:
        knowledge = self._few if reader else self._all
        config = QueryConfig(mode=self._mode, max_results=count, min_confidence=0.0)
        return [str(one.metadata["chunkId"]) for one in knowledge.answer(question, config).results]

    def apply(self, change: DocumentChange) -> None:
        """Changes the index alone."""
        self._system.indexing.index.apply([change])

    def find(self, question: str, piece: Piece) -> list[str]:
        """Searches the index alone, both legs; ids of the chunks that either found."""
        where = SearchFilter(scopes=self._visible)
        request = SearchRequest(where, question, piece.vectors[0].tolist(), CANDIDATES)
        return [one.chunk.chunk_id for one in self._system.indexing.index.search(request).chunks.values()]


PEERS: Mapping[str, Callable[[Path, Embedding], Engine]] = {
    "afternoon_plus": AfternoonPlus,
    "fts5": Fts5,
    "lancedb": LanceDb,
    "chroma": Chroma,
    "bm25s": Bm25s,
}
NAMES = ("opx", *PEERS)
LEFT_OUT = {"txtai": "it needs torch, which is several gigabytes"}

_SAFE = re.compile(r"[a-z0-9_]+")


def fresh_folder(folder: Path, name: str) -> Path:
    """An empty folder for an engine."""
    if not _SAFE.fullmatch(name):
        raise ValueError(name)
    own = folder / f"peer-{name}"
    if own.exists():
        shutil.rmtree(own)
    own.mkdir(parents=True)
    return own
