"""Embedding models on Bedrock: what each takes, in which form, and where the vectors are in its answer.

Request and answer bodies: Amazon Bedrock user guide, "Amazon Titan Embeddings G1 - Text" (with V2), "Cohere Embed v3" and
"Cohere Embed v4". All numbers here are limits from there, unless noted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opx.errors import InvalidInputError

Body = dict[str, Any]
DOCUMENT, QUERY = "search_document", "search_query"


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """`dimensions` that can be asked for, the default first. `request` makes a body of texts, purpose and dimension.

    `max_characters` bounds one text, `max_call_characters` those of a call together.
    """

    name: str
    dimensions: tuple[int, ...]
    texts_a_call: int
    max_characters: int
    max_call_characters: int
    request: Callable[[Sequence[str], str, int], Body]
    vectors: Callable[[Mapping[str, Any]], Sequence[Sequence[float]]]

    def checked_dimension(self, dimension: int | None) -> int:
        """The dimension to use. Raises `InvalidInputError` for one that the model doesn't make."""
        wanted = dimension or self.dimensions[0]
        if wanted not in self.dimensions:
            raise InvalidInputError(f"{self.name} makes vectors of dimension {self.dimensions}, not {wanted}")
        return wanted


def _titan_v2_request(texts: Sequence[str], _purpose: str, dimension: int) -> Body:
    return {"inputText": texts[0], "dimensions": dimension, "normalize": True, "embeddingTypes": ["float"]}


def _titan_v1_request(texts: Sequence[str], _purpose: str, _dimension: int) -> Body:
    return {"inputText": texts[0]}


def _titan_vectors(answer: Mapping[str, Any]) -> Sequence[Sequence[float]]:
    return [answer["embedding"]]


def _cohere_request(texts: Sequence[str], purpose: str, dimension: int) -> Body:
    return {
        "texts": list(texts),
        "input_type": purpose,
        "embedding_types": ["float"],
        "output_dimension": dimension,
        "truncate": "RIGHT",
    }


def _cohere_v3_request(texts: Sequence[str], purpose: str, _dimension: int) -> Body:
    return {"texts": list(texts), "input_type": purpose, "embedding_types": ["float"], "truncate": "END"}


def _cohere_vectors(answer: Mapping[str, Any]) -> Sequence[Sequence[float]]:
    vectors: Sequence[Sequence[float]] = answer["embeddings"]["float"]
    return vectors


_TITAN_CHARACTERS = 50_000
_COHERE_V3_CHARACTERS = 2048
_COHERE_TEXTS = 96
_COHERE_CHARACTERS = 400_000
"""About 100,000 tokens, where the model reads 128,000 and cuts what is longer."""

MODELS: dict[str, EmbeddingModel] = {
    model.name: model
    for model in (
        EmbeddingModel(
            "amazon.titan-embed-text-v2:0",
            dimensions=(1024, 512, 256),
            texts_a_call=1,
            max_characters=_TITAN_CHARACTERS,
            max_call_characters=_TITAN_CHARACTERS,
            request=_titan_v2_request,
            vectors=_titan_vectors,
        ),
        EmbeddingModel(
            "amazon.titan-embed-text-v1",
            dimensions=(1536,),
            texts_a_call=1,
            max_characters=_TITAN_CHARACTERS,
            max_call_characters=_TITAN_CHARACTERS,
            request=_titan_v1_request,
            vectors=_titan_vectors,
        ),
        EmbeddingModel(
            "cohere.embed-v4:0",
            dimensions=(1536, 1024, 512, 256),
            texts_a_call=_COHERE_TEXTS,
            max_characters=_COHERE_CHARACTERS,
            max_call_characters=_COHERE_CHARACTERS,
            request=_cohere_request,
            vectors=_cohere_vectors,
        ),
        EmbeddingModel(
            "cohere.embed-multilingual-v3",
            dimensions=(1024,),
            texts_a_call=_COHERE_TEXTS,
            max_characters=_COHERE_V3_CHARACTERS,
            max_call_characters=_COHERE_V3_CHARACTERS * _COHERE_TEXTS,
            request=_cohere_v3_request,
            vectors=_cohere_vectors,
        ),
    )
}


def embedding_model(model: str) -> EmbeddingModel:
    """The model with this id, or the one that an inference profile such as `eu.cohere.embed-v4:0` calls.

    Raises `InvalidInputError` that lists the known ones.
    """
    for name, known in MODELS.items():
        if model == name or model.endswith("." + name):
            return known
    raise InvalidInputError(f"unknown embedding model {model!r}; known: {', '.join(MODELS)}, or an inference profile")
