"""What makes a new index: its queue, and what its function may."""

from __future__ import annotations

from infra.constructs.rebuild_index import REBUILD_INDEX
from opx.lifecycle.capability import REINDEX_LEASE_SECONDS, WRITERS_DONE_SECONDS
from tests.infra.templates import Assembly


def queue(assembly: Assembly, name: str) -> dict[str, object]:
    found = assembly.resources("lifecycle", "SQS::Queue").values()
    (properties,) = (one for one in found if str(one.get("QueueName", "")).endswith(name))
    return dict(properties)


def test_a_message_comes_again_after_whoever_had_it_lost_its_hold(default: Assembly) -> None:
    assert queue(default, "-rebuilds")["VisibilityTimeout"] == 2 * REBUILD_INDEX.timeout + 60 > REINDEX_LEASE_SECONDS


def test_a_hold_lasts_longer_than_a_function() -> None:
    assert REBUILD_INDEX.timeout < REINDEX_LEASE_SECONDS


def test_building_waits_for_those_who_take_documents_in(default: Assembly) -> None:
    functions = default.resources("ingestion", "Lambda::Function").values()
    (timeout,) = {one["Timeout"] for one in functions if "ingest" in str(one["FunctionName"])}
    assert timeout < WRITERS_DONE_SECONDS
