"""What goes over the wire of the HTTP API, both ways: the JSON of what the library knows, in camelCase.

Readers ignore fields that they don't know, so that an older client understands a newer system; `config_from_json`
refuses them, as it reads what a caller typed. A reader raises `InvalidInputError` for JSON of another shape.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any, ParamSpec, TypeVar

from opx.domain.documents import DocumentChunk, DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.evidence_pack import EvidencePack
from opx.domain.knowledge import Category, KnowledgeModel, Retention, Tier
from opx.domain.queries import QueryConfig
from opx.domain.remarks import Remark
from opx.domain.research import Finding, ResearchReport, Step, StepKind, Stopped
from opx.domain.results import Answer, RetrievalResult, ScoreParts, TierStep
from opx.domain.scopes import Scope
from opx.errors import InvalidInputError
from opx.knowledge_base import Failure, ObjectPhase, ObjectState, ProjectView, Status

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
    """The fields that aren't empty: an empty one means the same as one that is left out. So does `expandGraph` of false,
    which older systems don't know."""
    found = {camel(name): list(value) if isinstance(value, tuple) else value for name, value in asdict(config).items()}
    if not config.expand_graph:
        del found["expandGraph"]
    return {name: value for name, value in found.items() if value not in (None, "", [])}


@_reader
def config_from_json(data: Mapping[str, Any]) -> QueryConfig:
    """Absent fields keep their defaults. Raises `InvalidInputError` that names an unknown field."""
    known = {camel(field.name): field.name for field in fields(QueryConfig)}
    for name in data:
        if name not in known:
            raise InvalidInputError(f"unknown field {name!r}; allowed: {', '.join(known)}")
    return QueryConfig(**{known[name]: value for name, value in data.items()})


def answer_to_json(answer: Answer) -> Json:
    """`Answer.to_json`."""
    return answer.to_json()


@_reader
def answer_from_json(data: Mapping[str, Any]) -> Answer:
    """Numbers are as exact as the JSON has them: six digits after the point."""
    nearest = data.get("nearest")
    return Answer(
        query=data["query"],
        results=tuple(_result(result) for result in data["results"]),
        partial=bool(data["partial"]),
        notes=tuple(data["notes"]),
        best_rejected=_result(nearest) if nearest else None,
        timings_ms=dict(data.get("timingsMs", {})),
        routing=tuple(_from_fields(TierStep, step) for step in data.get("routing", ())),
        ranked_by=data.get("rankedBy", "fused"),
        understood=dict(data.get("understood", {})),
        receipt_id=data.get("receiptId", ""),
        receipt=data.get("receipt"),
        evidence=EvidencePack.from_json(data["evidencePack"]) if data.get("evidencePack") else None,
    )


def research_to_json(report: ResearchReport) -> Json:
    """`ResearchReport.to_json`."""
    return report.to_json()


@_reader
def research_from_json(data: Mapping[str, Any]) -> ResearchReport:
    """The report that `research_to_json` was given, its numbers as exact as the JSON has them."""
    return ResearchReport(
        topic=data["topic"],
        searches_performed=int(data["searchesPerformed"]),
        findings=tuple(Finding(_result(finding), tuple(finding["foundBy"])) for finding in data["findings"]),
        trace=tuple(_from_fields(Step, {**step, "kind": StepKind(step["kind"])}) for step in data["trace"]),
        gaps=tuple(data["gaps"]),
        nearest=tuple(map(_result, data["nearest"])),
        notes=tuple(data["notes"]),
        partial=bool(data["partial"]),
        stopped_because=Stopped(data["stoppedBecause"]),
        planner=data["planner"],
    )


def _result(data: Mapping[str, Any]) -> RetrievalResult:
    return RetrievalResult(
        content=data["content"],
        score=data["score"],
        tier=data["tier"],
        category=data["category"],
        source=data["source"],
        timestamp=data["timestamp"],
        trust_score=data["trustScore"],
        metadata=dict(data["metadata"]),
        parts=_from_fields(ScoreParts, data["scores"]) if data.get("scores") else None,
    )


# -- documents


def document_to_json(document: KnowledgeDocument) -> Json:
    """`KnowledgeDocument.to_json` with all that it leaves out."""
    scope = document.key.scope
    return {
        **document.to_json(),
        "scope": {"clientId": scope.client_id, "groupId": scope.group_id, "projectId": scope.project_id},
        "key": document.key.source,
        "trust": document.trust,
        "tokenCount": document.token_count,
        "contentHash": document.content_hash,
    }


@_reader
def document_from_json(data: Mapping[str, Any]) -> KnowledgeDocument:
    """The document that `document_to_json` was given."""
    scope, metadata = data["scope"], data["metadata"]
    return KnowledgeDocument(
        document_id=data["documentId"],
        key=DocumentKey(Scope(scope["clientId"], scope["groupId"], scope["projectId"]), data["key"]),
        title=data["title"],
        category=data["category"],
        tier=Tier(data["tier"]),
        trust=float(data["trust"]),
        location=data["s3Location"],
        source_uri=data["source"],
        created_at=data["createdAt"],
        last_updated=metadata["lastUpdated"],
        tags=tuple(data["tags"]),
        language=data["language"],
        author=metadata["author"],
        severity=data["severity"],
        services=tuple(data["services"]),
        declared_version=metadata["version"],
        version=int(data["version"]),
        state=DocumentState(data["state"]),
        superseded_at=data["supersededAt"],
        chunk_count=int(data["chunkCount"]),
        token_count=int(data["tokenCount"]),
        content_hash=data["contentHash"],
        remarks=tuple(Remark.from_json(remark) for remark in data.get("remarks", ())),
        current_since=data.get("currentSince", ""),
        expires=data.get("expires", ""),
        review_by=data.get("reviewBy", ""),
        owner=data.get("owner", ""),
    )


def chunk_to_json(chunk: DocumentChunk) -> Json:
    """The fields of a line of the chunk file."""
    return chunk.to_json()


@_reader
def chunk_from_json(data: Mapping[str, Any]) -> DocumentChunk:
    """The chunk that `chunk_to_json` was given."""
    return DocumentChunk.from_json(data)


# -- categories


def categories_to_json(model: KnowledgeModel) -> Json:
    """All categories by path, and which one is the default."""
    found = [model.categories[path] for path in sorted(model.categories)]
    return {
        "categories": [_category_to_json(category) for category in found],
        "defaultCategory": model.default_category,
    }


def _category_to_json(category: Category) -> Json:
    return {
        "path": category.path,
        "tier": category.tier.value,
        "trust": category.trust,
        "retention": category.retention.text,
        "description": category.description,
        "schedule": category.schedule,
        "folders": list(category.folders),
        "schema": category.schema,
        "embed": list(category.embed),
        "jsonMapping": category.json_mapping,
    }


@_reader
def categories_from_json(data: Mapping[str, Any]) -> KnowledgeModel:
    """The model that `categories_to_json` was given."""
    found = [_category(category) for category in data["categories"]]
    return KnowledgeModel({category.path: category for category in found}, data["defaultCategory"])


def _category(data: Mapping[str, Any]) -> Category:
    return Category(
        path=data["path"],
        tier=Tier(data["tier"]),
        trust=data["trust"],
        retention=Retention.parse(data["retention"]),
        description=data["description"],
        schedule=data["schedule"],
        folders=tuple(data["folders"]),
        schema=dict(data["schema"]),
        embed=tuple(data["embed"]),
        json_mapping=dict(data["jsonMapping"]),
    )


# -- what is flat


def failure_to_json(failure: Failure) -> Json:
    """All fields, `mark` included."""
    return _to_fields(failure)


@_reader
def failure_from_json(data: Mapping[str, Any]) -> Failure:
    """The failure that `failure_to_json` was given."""
    return _from_fields(Failure, data)


def state_to_json(state: ObjectState) -> Json:
    """All fields that say something."""
    return {name: value for name, value in _to_fields(state).items() if value}


@_reader
def state_from_json(data: Mapping[str, Any]) -> ObjectState:
    """The state that `state_to_json` was given."""
    return _from_fields(ObjectState, {**data, "state": ObjectPhase(data["state"])})


def status_to_json(status: Status) -> Json:
    """All fields, and the version of the wire."""
    return {**_to_fields(status), "apiVersion": API_VERSION}


@_reader
def status_from_json(data: Mapping[str, Any]) -> Status:
    """The status that `status_to_json` was given."""
    return _from_fields(Status, data)


def project_to_json(project: ProjectView) -> Json:
    """Group and visible scopes."""
    return {"groupId": project.group_id, "visible": list(project.visible)}


@_reader
def project_from_json(data: Mapping[str, Any]) -> ProjectView:
    """The view that `project_to_json` was given."""
    return ProjectView(data["groupId"], tuple(data["visible"]))


def camel(name: str) -> str:
    """`min_confidence` as `minConfidence`."""
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)


def _to_fields(thing: Any) -> Json:
    return {camel(field.name): getattr(thing, field.name) for field in fields(thing)}


def _from_fields(kind: type[R], data: Mapping[str, Any]) -> R:
    """Raises `TypeError` for a required field that is missing."""
    names = {camel(field.name): field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{names[name]: value for name, value in data.items() if name in names})
