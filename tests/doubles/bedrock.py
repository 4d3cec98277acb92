"""A double of Bedrock's InvokeModel for three embedding models: strict about bodies, vectors from the words.

Texts that share words get near vectors: each word adds one to a few coordinates that its hash picks.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any

from tests.doubles.http_double import HttpDouble, Request, Response, ServiceFailure

MAX_TITAN_TOKENS = 8192
MAX_TITAN_CHARACTERS = 50_000
MAX_COHERE_TEXTS = 96
MAX_COHERE_V3_CHARACTERS = 2048
_PATH = re.compile(r"/model/(?:(?:eu|us|apac|global)\.)?(?P<model>[^/]+)/invoke\Z")
_TOKEN = re.compile(r"\w+|[^\w\s]")


def refused(message: str) -> ServiceFailure:
    return ServiceFailure(a_failure(400, "ValidationException", message))


def a_failure(status: int, code: str, message: str = "") -> Response:
    return Response(status, {"message": message or code}, (("x-amzn-ErrorType", code),))


THROTTLED = a_failure(429, "ThrottlingException", "Too many requests, please wait before trying again.")


class BedrockDouble(HttpDouble):
    """Answers for `amazon.titan-embed-text-v2:0`, `amazon.titan-embed-text-v1`, `cohere.embed-v4:0` and
    `cohere.embed-multilingual-v3`."""

    def __init__(self) -> None:
        super().__init__("bedrock")

    def throttle(self, times: int) -> None:
        self.inject(THROTTLED, times=times)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The body of each call, in the order they came."""
        return [request.json() for request in self.requests]

    def answer(self, request: Request) -> Response:
        match = _PATH.match(request.path)
        if request.method != "POST" or not match:
            raise ServiceFailure(a_failure(404, "ResourceNotFoundException"))
        if request.headers.get("content-type") != "application/json":
            raise refused("The provided content type is invalid.")
        models = {
            "amazon.titan-embed-text-v2:0": titan_v2,
            "amazon.titan-embed-text-v1": titan_v1,
            "cohere.embed-v4:0": cohere_v4,
            "cohere.embed-multilingual-v3": cohere_v3,
        }
        if match["model"] not in models:
            raise refused("The provided model identifier is invalid.")
        try:
            body = request.json()
        except json.JSONDecodeError:
            raise refused("Malformed input request, please reformat your input and try again.") from None
        return Response(200, models[match["model"]](body))


def titan_v2(body: dict[str, Any]) -> dict[str, Any]:
    only(body, {"inputText", "dimensions", "normalize", "embeddingTypes"})
    tokens = check_titan_text(body)
    dimension = body.get("dimensions", 1024)
    if dimension not in (256, 512, 1024) or body.get("embeddingTypes", ["float"]) != ["float"]:
        raise refused("Malformed input request: #/dimensions: not a valid enum value")
    vector = bag_of_words(body["inputText"], dimension)
    if body.get("normalize", True):
        length = math.hypot(*vector)
        vector = [value / length for value in vector]
    return {"embedding": vector, "embeddingsByType": {"float": vector}, "inputTextTokenCount": tokens}


def titan_v1(body: dict[str, Any]) -> dict[str, Any]:
    only(body, {"inputText"})
    tokens = check_titan_text(body)
    return {"embedding": bag_of_words(body["inputText"], 1536), "inputTextTokenCount": tokens}


def cohere_v4(body: dict[str, Any]) -> dict[str, Any]:
    only(body, {"texts", "input_type", "embedding_types", "output_dimension", "truncate", "max_tokens"})
    texts = body.get("texts")
    if not isinstance(texts, list) or not 1 <= len(texts) <= MAX_COHERE_TEXTS:
        raise refused(f"texts must have 1 to {MAX_COHERE_TEXTS} elements")
    if body.get("input_type") not in ("search_document", "search_query", "classification", "clustering"):
        raise refused("input_type is required")
    if body.get("truncate", "NONE") not in ("NONE", "LEFT", "RIGHT"):
        raise refused("truncate is not a valid enum value")
    dimension = body.get("output_dimension", 1536)
    if dimension not in (256, 512, 1024, 1536) or not all(isinstance(text, str) and text for text in texts):
        raise refused("output_dimension or texts are invalid")
    vectors = [bag_of_words(text, dimension) for text in texts]
    answer = {"id": "double", "texts": texts}
    if body.get("embedding_types") == ["float"]:
        return answer | {"embeddings": {"float": vectors}, "response_type": "embeddings_by_type"}
    return answer | {"embeddings": vectors, "response_type": "embeddings_floats"}


def cohere_v3(body: dict[str, Any]) -> dict[str, Any]:
    only(body, {"texts", "input_type", "embedding_types", "truncate"})
    if body.get("truncate", "NONE") not in ("NONE", "START", "END"):
        raise refused("truncate is not a valid enum value")
    if any(len(text) > MAX_COHERE_V3_CHARACTERS for text in body.get("texts", [])):
        raise refused(f"Malformed input request: expected maxLength: {MAX_COHERE_V3_CHARACTERS}")
    return cohere_v4(body | {"truncate": "NONE", "output_dimension": 1024})


def only(body: dict[str, Any], allowed: set[str]) -> None:
    for name in sorted(body.keys() - allowed):
        raise refused(f"Malformed input request: #: extraneous key [{name}] is not permitted")


def check_titan_text(body: dict[str, Any]) -> int:
    """The number of tokens of the text."""
    text = body.get("inputText")
    if not isinstance(text, str) or not 1 <= len(text) <= MAX_TITAN_CHARACTERS:
        raise refused("Malformed input request: expected minLength: 1, expected maxLength: 50000")
    tokens = len(_TOKEN.findall(text))
    if tokens > MAX_TITAN_TOKENS:
        limit = f"Max input tokens: {MAX_TITAN_TOKENS}, request input token count: {tokens}"
        raise refused(f"400 Bad Request: Too many input tokens. {limit}")
    return tokens


def bag_of_words(text: str, dimension: int) -> list[float]:
    """Not of unit length: longer texts give longer vectors."""
    vector = [0.0] * dimension
    for word in _TOKEN.findall(text.casefold()) or [""]:
        digest = hashlib.sha256(word.encode()).digest()
        for at in range(0, 12, 3):
            vector[int.from_bytes(digest[at : at + 2]) % dimension] += 1.0 if digest[at + 2] % 2 else -1.0
    vector[0] += 0.01  # words may cancel out; no text has a vector of length zero
    return vector
