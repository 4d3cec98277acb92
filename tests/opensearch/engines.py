"""Runs the same documents in the embedded engine and on a node, and measures the overlap of their hits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from opensearchpy import OpenSearch

from opx.operations.system import System
from opx.ports import Embedder, Leg, SearchResponse, Vector, Vectors
from opx.settings import Settings
from opx.system import bootstrap
from tests.opensearch.indices import RefreshedIndex, create_node_index

EMBEDDED, NODE = "embedded", "node"
LEGS = ("lexical", "vector")
TOP = 10
TIE = 1e-5
"""Relative difference below which two scores are the same: both engines add 32-bit floats, in another order."""


class RememberingEmbedder:
    """An `Embedder` that computes each vector once, for two systems that embed the same texts."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._documents: dict[str, Vectors] = {}
        self._questions: dict[str, Vector] = {}

    @property
    def model_id(self) -> str:
        return self._embedder.model_id

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        new = [text for text in dict.fromkeys(texts) if text not in self._documents]
        self._documents.update(zip(new, self._embedder.embed_documents(new), strict=True))
        return [self._documents[text] for text in texts]

    def embed_query(self, text: str) -> Vector:
        if text not in self._questions:
            self._questions[text] = self._embedder.embed_query(text)
        return self._questions[text]


@contextmanager
def both_engines(home: Path, client: OpenSearch, index_name: str, embedder: Embedder) -> Iterator[dict[str, System]]:
    """Two empty systems that differ in their index alone: that of `home`, and a new one on the node."""
    create_node_index(client, index_name, model_id=embedder.model_id, dimension=embedder.dimension)
    index = RefreshedIndex(client, index_name, vectors_of=embedder, timeout=30.0)
    with (
        bootstrap(Settings(home=str(home / EMBEDDED)), embedder=embedder) as embedded,
        bootstrap(Settings(home=str(home / NODE)), embedder=embedder, index=index) as node,
    ):
        yield {EMBEDDED: embedded, NODE: node}


@dataclass(frozen=True, slots=True)
class Overlap:
    """Share of the first hits that two engines have in common for one question, in [0, 1].

    `same` is the share of hits that both have among their first; `but_for_ties` also counts a hit that one engine has
    and that scores like the last one of the other, which could as well have been it.
    """

    question: str
    same: float
    but_for_ties: float
    ordered: bool


def overlap(question: str, one: Leg, other: Leg, top: int = TOP) -> Overlap:
    """Legs may be deeper than `top`: lower hits identify ties."""
    first, second = one.hits[:top], other.hits[:top]
    ids, others = [entry for entry, _ in first], [entry for entry, _ in second]
    size = max(len(ids), len(others))
    if not size:
        return Overlap(question, 1.0, 1.0, ordered=True)
    shared = set(ids) & set(others)
    tied = _tied(first, other.hits, second) - shared
    return Overlap(question, len(shared) / size, min(1.0, (len(shared) + len(tied)) / size), ids == others)


def _tied(
    first: Iterable[tuple[str, float]], all_other: Iterable[tuple[str, float]], second: Sequence[tuple[str, float]]
) -> set[str]:
    """Hits among the first whose score in the other engine is that of its last one."""
    if not second:
        return set()
    scores, last = dict(all_other), second[-1][1]
    return {entry for entry, _ in first if entry in scores and abs(scores[entry] - last) <= TIE * abs(last)}


def overlaps(answers: Mapping[str, tuple[SearchResponse, SearchResponse]], leg: str, top: int = TOP) -> list[Overlap]:
    """By question, in order."""
    return [
        overlap(question, getattr(one, leg), getattr(other, leg), top) for question, (one, other) in answers.items()
    ]


def summary(found: Sequence[Overlap]) -> str:
    share = fmean(each.same for each in found)
    ties = fmean(each.but_for_ties for each in found)
    ordered = fmean(each.ordered for each in found)
    lowest = min(each.same for each in found)
    return f"mean {share:.4f}, {ties:.4f} but for ties, lowest {lowest:.2f}, same order {ordered:.4f}"
