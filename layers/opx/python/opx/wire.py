"""What goes over the wire of the HTTP API, both ways: the JSON of what the library knows, in camelCase.

Readers ignore fields that they don't know, so that an older client understands a newer system; `config_from_json`
refuses them, as it reads what a caller typed. A reader raises `InvalidInputError` for JSON of another shape.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ParamSpec, TypeVar

from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.domain.knowledge import Category, KnowledgeModel
from opx.domain.queries import QueryConfig
from opx.domain.record import from_json, to_json
from opx.domain.research import ResearchReport
from opx.domain.results import Answer
from opx.errors import InvalidInputError
from opx.ingestion.failures import Failure
from opx.ingestion.states import ObjectState
from opx.knowledge_base import Status

Json = dict[str, Any]
P = ParamSpec("P")
R = TypeVar("R")

API_VERSION = 1
"""Raised when a client of the old version would misunderstand an answer. `GET /status` carries it, and a client refuses
that of a newer system."""


def _reader(read: Callable[P, R]) -> Callable[P, R]:
    """Turns what goes wrong with JSON of another shape into one error."""

    @functools.wraps(read)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return read(*args, **kwargs)
        except InvalidInputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            what = read.__name__.removesuffix("_from_json").replace("_", " ")
            raise InvalidInputError(f"this is no {what} as it should be: {type(exc).__name__} {exc}") from exc

    return guarded


# -- questions and answers


def config_to_json(config: QueryConfig) -> Json:
    """The fields that don't have their defaults."""
    found: Json = to_json(config)
    return found


def config_from_json(data: Mapping[str, Any]) -> QueryConfig:
    """Absent fields keep their defaults. Raises `InvalidInputError` that names an unknown field."""
    from opx.operations.requests import read_record

    return read_record(QueryConfig, data)


def answer_to_json(answer: Answer) -> Json:
    """`Answer.to_json`."""
    return answer.to_json()


def answer_from_json(data: Mapping[str, Any]) -> Answer:
    """Numbers are as exact as the JSON has them: six digits after the point."""
    return from_json(Answer, data)


def research_to_json(report: ResearchReport) -> Json:
    found: Json = to_json(report)
    return found


def research_from_json(data: Mapping[str, Any]) -> ResearchReport:
    return from_json(ResearchReport, data)


# -- documents


def document_to_json(document: KnowledgeDocument) -> Json:
    found: Json = to_json(document)
    return found


def document_from_json(data: Mapping[str, Any]) -> KnowledgeDocument:
    """The document that `document_to_json` was given."""
    return from_json(KnowledgeDocument, data)


def chunk_to_json(chunk: DocumentChunk) -> Json:
    """The fields of a line of the chunk file."""
    return chunk.to_json()


def chunk_from_json(data: Mapping[str, Any]) -> DocumentChunk:
    """The chunk that `chunk_to_json` was given."""
    return from_json(DocumentChunk, data)


# -- categories


def categories_to_json(model: KnowledgeModel) -> Json:
    """All categories by path, and which one is the default."""
    found = [model.categories[path] for path in sorted(model.categories)]
    return {"categories": to_json(found), "defaultCategory": model.default_category}


@_reader
def categories_from_json(data: Mapping[str, Any]) -> KnowledgeModel:
    """The model that `categories_to_json` was given."""
    found = from_json(list[Category], data["categories"])
    return KnowledgeModel({category.path: category for category in found}, data["defaultCategory"])


# -- what is flat


def failure_to_json(failure: Failure) -> Json:
    """All fields, `mark` included."""
    return failure.to_json()


@_reader
def failure_from_json(data: Mapping[str, Any]) -> Failure:
    """The failure that `failure_to_json` was given."""
    return Failure.from_json(data)


def state_to_json(state: ObjectState) -> Json:
    """All fields that say something."""
    return state.to_json()


@_reader
def state_from_json(data: Mapping[str, Any]) -> ObjectState:
    """The state that `state_to_json` was given."""
    return ObjectState.from_json(data)


def status_to_json(status: Status) -> Json:
    """All fields, and the version of the wire."""
    return {**_to_fields(status), "apiVersion": API_VERSION}


@_reader
def status_from_json(data: Mapping[str, Any]) -> Status:
    """The status that `status_to_json` was given."""
    return _from_fields(Status, data)


def camel(name: str) -> str:
    """`min_confidence` as `minConfidence`."""
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)


def _to_fields(thing: Any) -> Json:
    return {camel(field.name): getattr(thing, field.name) for field in fields(thing)}


def _from_fields(kind: type[R], data: Mapping[str, Any]) -> R:
    """Raises `TypeError` for a required field that is missing."""
    names = {camel(field.name): field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{names[name]: value for name, value in data.items() if name in names})
