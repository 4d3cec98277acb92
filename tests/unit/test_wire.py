"""What the library knows survives the way over the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opx.knowledge_base import Status

from opx import wire
from opx.domain.documents import DocumentKey, DocumentState
from opx.domain.knowledge import Tier
from opx.domain.queries import Expand, Fusion, QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.results import Answer, RetrievalResult, ScoreParts, TierStep
from opx.domain.scopes import Scope
from opx.errors import InvalidInputError
from opx.ingestion.failures import Failure
from opx.ingestion.states import ObjectPhase, ObjectState
from opx.knowledge_file import load_knowledge
from tests.builders import a_piece, a_version

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


def sent(data: Any) -> Any:
    return json.loads(json.dumps(data))


def test_documents_survive() -> None:
    assert wire.document_from_json(sent(wire.document_to_json(DOCUMENT))) == DOCUMENT


def test_chunks_survive() -> None:
    chunk = a_piece("c", "d", 2, "ä\ud800", 3, "A", ("B", "C"), 4, 9, "runbooks", ("t",))
    assert wire.chunk_from_json(sent(wire.chunk_to_json(chunk))) == chunk


@pytest.mark.parametrize("config", [CONFIG, QueryConfig(), replace(CONFIG, categories=None, fusion=None)])
def test_configurations_survive(config: QueryConfig) -> None:
    assert wire.config_from_json(sent(wire.config_to_json(config))) == config


def test_what_is_empty_in_a_configuration_is_left_out() -> None:
    assert not {"categories", "tags", "documentId", "language", "fusion"} & wire.config_to_json(QueryConfig()).keys()


def test_an_unknown_field_of_a_configuration_is_refused_by_name() -> None:
    with pytest.raises(
        InvalidInputError, match="unknown field minConfidense; there are: tiers, categories, minConfidence"
    ):
        wire.config_from_json({"minConfidense": 1})


@pytest.mark.parametrize("nearest", [None, HIT])
def test_answers_survive(nearest: RetrievalResult | None) -> None:
    steps = (
        TierStep("internal", searched=True, reason="always", good=1, best=0.75),
        TierStep("internet", False, "off"),
    )
    answer = Answer(
        "q", () if nearest else (HIT,), True, ("note",), nearest, {"search": 1.5}, steps, "local", {"text": "q"}, "r1"
    )
    assert wire.answer_from_json(sent(wire.answer_to_json(answer))) == answer


def test_categories_survive() -> None:
    model = load_knowledge(None)
    assert wire.categories_from_json(sent(wire.categories_to_json(model))) == model


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
    status = Status("global", 1, 2, 3, "ok", None, "m/1", {"runbooks": 1})
    assert wire.failure_from_json(sent(wire.failure_to_json(failure))) == failure
    assert wire.state_from_json(sent(wire.state_to_json(state))) == state
    assert wire.status_from_json(sent(wire.status_to_json(status))) == status


def test_fields_of_a_newer_version_are_ignored() -> None:
    state = ObjectState("documents/a.md", ObjectPhase.WAITING)
    assert wire.state_from_json({**wire.state_to_json(state), "colour": "red"}) == state


@pytest.mark.parametrize("data", [{}, {"objectKey": "a"}, {"objectKey": "a", "state": "asleep"}, None, []])
def test_another_shape_is_one_kind_of_error(data: Any) -> None:
    with pytest.raises(InvalidInputError, match="this is no ObjectState as it should be"):
        wire.state_from_json(data)
