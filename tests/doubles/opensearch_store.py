"""Indexes of the OpenSearch double: what may be created and stored, and when it becomes visible."""

from __future__ import annotations

import struct
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tests.doubles.http_double import Response, ServiceFailure

MAX_TOKEN_LENGTH = 255
"""Characters after which Lucene's whitespace tokenizer splits a word."""

_FIELD_PARAMETERS = {
    "keyword": {"type"},
    "text": {"type", "analyzer", "index"},
    "integer": {"type", "index"},
    "double": {"type", "index"},
    "knn_vector": {"type", "dimension", "space_type"},
}
_SPACES = ("innerproduct", "cosinesimil", "l2")


def failure(status: int, kind: str, reason: str, *, caused_by: str = "") -> ServiceFailure:
    """An error in the shape of OpenSearch."""
    error: dict[str, Any] = {"type": kind, "reason": reason}
    if caused_by:
        error["caused_by"] = {"type": "illegal_argument_exception", "reason": caused_by}
    root = {"type": kind, "reason": reason}
    return ServiceFailure(Response(status, {"error": {"root_cause": [root], **error}, "status": status}))


def error_of(refusal: ServiceFailure) -> dict[str, Any]:
    """The body of an error that `failure` made."""
    return cast("dict[str, Any]", refusal.response.body)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    id: str
    source: dict[str, Any]
    terms: dict[str, Counter[str]]
    vectors: dict[str, Sequence[float]]


class StoredIndex:
    """One index. Writes become visible `delay` seconds after they were made, or at `refresh` if `delay` is None. The default
    engine of a classic collection is NMSLIB."""

    def __init__(
        self,
        body: dict[str, Any],
        *,
        generation: str,
        clock: Callable[[], float],
        delay: float | None,
        compresses: bool = False,
    ) -> None:
        self.mappings = body["mappings"]
        self.fields: dict[str, dict[str, Any]] = self.mappings["properties"]
        self.default_engine = "nmslib" if generation == "classic" else "faiss"
        self._compresses = compresses
        _check_body(body, generation)
        self._generation = generation
        self._clock = clock
        self._delay = delay
        self._stored: dict[str, StoredDocument] = {}
        self._visible: dict[str, StoredDocument] = {}
        self._pending: deque[tuple[float, str]] = deque()

    def __contains__(self, document_id: str) -> bool:
        return document_id in self._stored

    def add_fields(self, fields: dict[str, dict[str, Any]]) -> None:
        """Adds fields to the mapping. A field that is there can't be changed."""
        for name, field in fields.items():
            _check_field(name, field, self._generation)
            if self.fields.setdefault(name, field) != field:
                raise failure(400, "illegal_argument_exception", f"Mapper for [{name}] conflicts with existing mapper")

    def put(self, document_id: str, source: dict[str, Any]) -> None:
        self._stored[document_id] = self._parse(document_id, source)
        self._mark(document_id)

    def remove(self, document_id: str) -> None:
        del self._stored[document_id]
        self._mark(document_id)

    def refresh(self) -> None:
        self._pending.clear()
        self._visible = dict(self._stored)

    def documents(self) -> Iterable[StoredDocument]:
        """The documents that searches see now."""
        while self._pending and self._pending[0][0] <= self._clock():
            _, document_id = self._pending.popleft()
            if document_id in self._stored:
                self._visible[document_id] = self._stored[document_id]
            else:
                self._visible.pop(document_id, None)
        return self._visible.values()

    def _mark(self, document_id: str) -> None:
        due = float("inf") if self._delay is None else self._clock() + self._delay
        self._pending.append((due, document_id))

    def _parse(self, document_id: str, source: dict[str, Any]) -> StoredDocument:
        unknown = sorted(source.keys() - self.fields.keys())
        if unknown:
            raise failure(
                400,
                "strict_dynamic_mapping_exception",
                f"mapping set to strict, dynamic introduction of [{unknown[0]}] within [_doc] is not allowed",
            )
        terms = {
            name: Counter(_tokens(source[name]))
            for name, field in self.fields.items()
            if name in source and field["type"] == "text" and field.get("index", True)
        }
        vectors = {
            name: _vector(name, field, source[name], compresses=self._compresses)
            for name, field in self.fields.items()
            if name in source and field["type"] == "knn_vector"
        }
        kept = {name: array("d", source[name]) if name in vectors else value for name, value in source.items()}
        return StoredDocument(document_id, kept, terms, vectors)


def as_float32(value: float) -> float:
    """Rounds a number to a 32-bit float."""
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    return float(rounded)


def _tokens(text: str) -> list[str]:
    return [
        word[start : start + MAX_TOKEN_LENGTH]
        for word in text.split()
        for start in range(0, len(word), MAX_TOKEN_LENGTH)
    ]


def _vector(name: str, field: dict[str, Any], values: list[float], *, compresses: bool) -> Sequence[float]:
    if len(values) != field["dimension"]:
        mismatch = f"Vector dimension mismatch. Expected: {field['dimension']}, Given: {len(values)}"
        reason = f"failed to parse field [{name}] of type [knn_vector]"
        raise failure(400, "mapper_parsing_exception", reason, caused_by=mismatch)
    if compresses:
        step = max(map(abs, values)) / 127 or 1.0
        values = [round(value / step) * step for value in values]
    return array("f", values)


def _check_body(body: dict[str, Any], generation: str) -> None:
    if body.keys() - {"settings", "mappings"} or body["mappings"].keys() - {"dynamic", "_meta", "properties"}:
        raise failure(400, "parse_exception", "unknown key in create index request")
    if body.get("settings") != {"index": {"knn": True}}:
        raise failure(400, "illegal_argument_exception", "only the setting [index.knn] is supported")
    for name, field in body["mappings"]["properties"].items():
        _check_field(name, field, generation)


def _check_field(name: str, field: dict[str, Any], generation: str) -> None:
    kind = field.get("type")
    if kind not in _FIELD_PARAMETERS:
        raise failure(400, "mapper_parsing_exception", f"No handler for type [{kind}] declared on field [{name}]")
    if kind == "knn_vector":
        _check_vector_field(field, generation)
    allowed = _FIELD_PARAMETERS[kind] | ({"method"} if kind == "knn_vector" else set())
    for parameter in field.keys() - allowed:
        raise failure(
            400, "mapper_parsing_exception", f"unknown parameter [{parameter}] on mapper [{name}] of type [{kind}]"
        )
    if field.get("analyzer", "whitespace") != "whitespace":
        raise failure(400, "illegal_argument_exception", f"the double has no analyzer [{field['analyzer']}]")


def _check_vector_field(field: dict[str, Any], generation: str) -> None:
    if generation == "nextgen":
        for parameter in ("engine", "mode"):
            if parameter in field or parameter in field.get("method", {}):
                raise failure(400, "illegal_argument_exception", f"Field parameter '{parameter}' is not supported")
    space = field.get("space_type") or field.get("method", {}).get("space_type", "l2")
    if space not in _SPACES or not 1 <= field.get("dimension", 0) <= 16_000:
        raise failure(400, "mapper_parsing_exception", "bad space_type or dimension of a knn_vector")
