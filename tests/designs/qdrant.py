"""Doubles of the services that the learning design calls: a collection of Qdrant, and OpenAI's embeddings, here made by a
model of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any


class Collection:
    """Points with vectors and payloads, compared by the cosine."""

    def __init__(self) -> None:
        self.points: dict[str, dict[str, Any]] = {}

    async def upsert(self, collection_name: str, points: Sequence[dict[str, Any]]) -> None:
        self.points.update({point["id"]: point for point in points})

    async def search(
        self,
        collection_name: str,
        query_vector: Sequence[float],
        query_filter: Mapping[str, str],
        limit: int,
        score_threshold: float,
    ) -> list[SimpleNamespace]:
        found = [
            SimpleNamespace(id=point["id"], payload=point["payload"], score=_cosine(query_vector, point["vector"]))
            for point in self.points.values()
            if all(point["payload"].get(name) == value for name, value in query_filter.items())
        ]
        good = [one for one in found if one.score >= score_threshold]
        return sorted(good, key=lambda one: -one.score)[:limit]

    async def scroll(self, collection_name: str, limit: int) -> tuple[list[SimpleNamespace], None]:
        return [SimpleNamespace(id=one["id"], payload=one["payload"]) for one in self.points.values()][:limit], None

    async def delete(self, collection_name: str, points_selector: Mapping[str, Sequence[str]]) -> None:
        for one in points_selector["points"]:
            del self.points[one]


class Client:
    """Notes what is created."""

    def __init__(self) -> None:
        self.collections: dict[str, Any] = {}
        self.indexes: list[tuple[str, str, str]] = []

    def create_collection(self, collection_name: str, vectors_config: Any) -> None:
        self.collections[collection_name] = vectors_config

    def create_payload_index(self, collection_name: str, field: str, kind: str) -> None:
        self.indexes.append((collection_name, field, kind))


class Embeddings:
    """`client.embeddings.create` on an embedder."""

    def __init__(self, embed: Callable[[str], Sequence[float]]) -> None:
        self._embed = embed
        self.embeddings = self

    async def create(self, model: str, input: str) -> SimpleNamespace:  # noqa: A002 - OpenAI's name
        return SimpleNamespace(data=[SimpleNamespace(embedding=list(self._embed(input)))])


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = [sum(value * value for value in vector) ** 0.5 for vector in (one, other)]
    return float(sum(left * right for left, right in zip(one, other, strict=True)) / (lengths[0] * lengths[1] or 1.0))
