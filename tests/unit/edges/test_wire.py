"""Records survive serialization and transfer."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import pytest

from opx.domain.documents import DocumentChunk, DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.knowledge import Tier
from opx.domain.queries import Expand, Fusion, QueryConfig, SearchMode
from opx.domain.record import Record, replace
from opx.domain.requests import read_request
from opx.domain.results import Absent, Answer, RetrievalResult, ScoreParts, TierStep
from opx.domain.scopes import Scope
from opx.edges.calling import decoded, given_of, json_bytes
from opx.errors import InvalidInputError
from opx.ingestion.corpus.failures import Failure
from opx.ingestion.states import ObjectPhase, ObjectState
from opx.operations.corpus import Status
from opx.operations.documents import Categories
from opx.operations.projects import Project
from opx.operations.search import Query
from opx.runtime.knowledge_file import load_knowledge
from opx_testing.entries import a_piece
from tests.support.builders import a_version

R = TypeVar("R", bound=Record)

DOCUMENT = a_version(
    document_id="0f" * 16,
    key=DocumentKey(Scope("acme", project_id="shop"), "documents/docs/ä.md"),
    title="Größe",
    category="runbooks/procedures",
    tier=Tier.INTERNAL,
    trust=0.9,
    location="s3://corpus/x",
    source_uri="docs/ä.md",
    created_at="2025-01-01T00:00:00Z",
    last_updated="2025-01-02",
    tags=("a", "b"),
    language="de",
    author="me",
    severity="high",
    services=("db",),
    declared_version="1.2",
    version=3,
    state=DocumentState.SUPERSEDED,
    superseded_at="2025-01-03T00:00:00Z",
    chunk_count=4,
    token_count=50,
    content_hash="ab",
    current_since="2025-01-02T00:00:00Z",
    expires="2026-01-01",
    review_by="2025-07-01",
    owner="storage",
)
PARTS = ScoreParts(1, 2.5, None, None, 0.5, 0.75, 1.0, 0.75)
HIT = RetrievalResult(
    "text", 0.75, "internal", "runbooks", "docs/a.md", "2025-01-02", 1.0, {"title": "A", "section": ["B"]}, PARTS
)
CONFIG = QueryConfig(
    tiers=("internal",),
    categories=("runbooks",),
    min_confidence=0,
    max_results=3,
    include_internet=True,
    require_provenance=False,
    tags=("a",),
    document_id="0f",
    language="de",
    mode=SearchMode.FAST,
    fusion=Fusion.RRF,
    max_chunks_per_document=1,
    services=("db",),
    updated_from="2025-01-01",
    updated_before="2025-02-01",
    expand=Expand.SECTION,
    plain=True,
    as_of="2026-11-03T02:14Z",
)


def sent(record: R) -> R:
    """The record as it arrives."""
    found: R = decoded(json_bytes(record), type(record))
    assert type(record).from_json(json.loads(json_bytes(record))) == found
    return found


def received(request: Query) -> Query:
    """The request that the API reads from a client's body."""
    return read_request(Query, json.loads(json.dumps(given_of(request))))


def test_documents_survive() -> None:
    assert type(DOCUMENT) is KnowledgeDocument
    assert sent(DOCUMENT) == DOCUMENT


def test_chunks_survive() -> None:
    chunk = a_piece("c", "d", 2, "ä\ud800", 3, "A", ("B", "C"), 4, 9, "runbooks", ("t",))
    assert type(chunk) is DocumentChunk
    assert sent(chunk) == chunk


@pytest.mark.parametrize("config", [CONFIG, QueryConfig(), replace(CONFIG, categories=None, fusion=None)])
def test_configurations_survive(config: QueryConfig) -> None:
    assert received(Query(query="disk", config=config)).config == config


def test_empty_values_of_a_configuration_are_omitted() -> None:
    left_out = {"categories", "tags", "documentId", "language", "fusion", "expandGraph"}
    assert not left_out & given_of(Query(query="disk", config=QueryConfig(max_results=3)))["config"].keys()
    assert "config" not in given_of(Query(query="disk"))


def test_an_unknown_field_of_a_configuration_is_refused_by_name() -> None:
    expected = "unknown field config.minConfidense; there are: tiers, categories, minConfidence"
    with pytest.raises(InvalidInputError, match=expected):
        read_request(Query, {"query": "disk", "config": {"minConfidense": 1}})


@pytest.mark.parametrize("nearest", [None, HIT])
def test_answers_survive(nearest: RetrievalResult | None) -> None:
    steps = (
        TierStep("internal", searched=True, reason="always", good=1, best=0.75),
        TierStep("internet", False, "off"),
    )
    answer = Answer(
        "q",
        () if nearest else (HIT,),
        partial=True,
        notes=("note",),
        unconfirmed=(nearest,) if nearest else (),
        absent=(Absent("DiskFull", "alert", "DiskFullSoon", "d1"),),
        timings_ms={"search": 1.5},
        routing=steps,
        ranked_by="local",
        understood={"text": "q"},
        receipt_id="r1",
    )
    assert sent(answer) == answer
    assert sent(answer).best_rejected == nearest


def test_categories_survive() -> None:
    model = load_knowledge(None)
    categories = Categories(tuple(model.categories[path] for path in sorted(model.categories)), model.default_category)
    assert sent(categories).model() == model


def test_flat_things_survive() -> None:
    failure = Failure(
        failure_id="f",
        object_key="documents/a.md",
        reason="bad",
        error="E",
        attempts=2,
        failed_at="2025-01-01T00:00:00Z",
        mark="m",
    )
    state = ObjectState("documents/a.md", ObjectPhase.INGESTED, "d", "A", 3)
    status = Status(
        scope="global",
        documents=1,
        waiting=2,
        failed=3,
        index="ok",
        chunks=None,
        embedding_model="m/1",
        categories={"runbooks": 1},
    )
    project = Project("g", ("global",))
    assert (sent(failure), sent(state), sent(status), sent(project)) == (failure, state, status, project)


def test_fields_of_a_newer_version_are_ignored() -> None:
    state = ObjectState("documents/a.md", ObjectPhase.WAITING)
    assert ObjectState.from_json({**state.to_json(), "colour": "red"}) == state
    assert decoded(json.dumps({**state.to_json(), "colour": "red"}).encode(), ObjectState) == state


@pytest.mark.parametrize("data", [{}, {"objectKey": "a"}, {"objectKey": "a", "state": "asleep"}, None, []])
def test_another_shape_is_one_kind_of_error(data: Any) -> None:
    with pytest.raises(InvalidInputError, match="this is no ObjectState as it should be"):
        ObjectState.from_json(data)
