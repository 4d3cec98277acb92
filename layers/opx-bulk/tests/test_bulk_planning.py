"""The price and the hours of a bulk job on AWS, by hand."""

from __future__ import annotations

import pytest

from opx_bulk.job import BulkKind, BulkWork
from opx_bulk.planning import BulkPlan, PlanCount, estimate

TITAN = "amazon.titan-embed-text-v2:0"


def counted(documents: int, *, settled: int = 0) -> PlanCount:
    """Documents of 5 kB, of which 20 were read: ten chunks of 300 tokens each."""
    return PlanCount(
        documents=documents,
        bytes=documents * 5_000,
        sampled=20,
        settled=settled,
        sampled_bytes=100_000,
        chunks=200,
        tokens=60_000,
    )


def on_aws(count: PlanCount, kind: BulkKind = BulkKind.INGEST, model_id: str = TITAN) -> BulkPlan:
    return estimate(BulkWork(kind=kind), count, model_id=model_id, cores=0)


def test_five_million_documents_have_a_price_by_service_and_hours() -> None:
    plan = on_aws(counted(5_000_000))
    assert (plan.documents, plan.chunks, plan.tokens) == (5_000_000, 50_000_000, 15_000_000_000)
    assert plan.dollars["Bedrock"] == pytest.approx(15_000 * 0.01)
    assert plan.dollars["DynamoDB"] == pytest.approx(5 * 44 * 0.625 + 50 * 0.125)
    assert plan.dollars["Lambda"] == pytest.approx(5_000_000 * 3 * 0.0000133334, abs=0.01)
    listing, batches, preparing = 5_000_000 / 2_000 / 3600, 50 * 2.0, 5_000_000 * 0.15 / 100 / 3600
    applying = 50_000_000 / (8 * 250) / 3600  # by what the index takes
    assert plan.hours == pytest.approx(listing + batches + preparing + applying, abs=0.01)
    assert plan.total == pytest.approx(sum(plan.dollars.values()))


def test_what_is_in_order_already_is_not_paid_again() -> None:
    half = on_aws(counted(1_000, settled=10))
    assert half.dollars["Lambda"] == pytest.approx(on_aws(counted(1_000)).dollars["Lambda"] / 2, abs=0.01)
    assert "10 of them are in order already" in half.assumptions


def test_a_new_index_writes_no_catalog_and_a_dearer_model_costs_more() -> None:
    count = counted(100_000)
    plan, other = on_aws(count, BulkKind.REINDEX), on_aws(count, BulkKind.REINDEX, "cohere.embed-v4:0")
    assert plan.dollars["DynamoDB"] == pytest.approx(0.1 * 10 * 0.125, abs=0.01)
    assert other.dollars["Bedrock"] == pytest.approx(6 * plan.dollars["Bedrock"])


def test_an_empty_corpus_costs_nothing() -> None:
    plan = on_aws(PlanCount())
    assert (plan.documents, plan.chunks, plan.hours, plan.total) == (0, 0, 0.0, 0.0)
