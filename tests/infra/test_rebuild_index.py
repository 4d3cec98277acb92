"""Reindexing: its queue, and the rights of its function."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from infra.constructs.rebuild_index import REBUILD_INDEX
from opx.lifecycle.capability import REINDEX_LEASE_SECONDS, WRITERS_DONE_SECONDS
from opx.lifecycle.warm_words import WARM_WORDS
from tests.infra.templates import Assembly


def queue(assembly: Assembly, name: str) -> dict[str, object]:
    found = assembly.resources("lifecycle", "SQS::Queue").values()
    (properties,) = (one for one in found if str(one.get("QueueName", "")).endswith(name))
    return dict(properties)


def test_message_becomes_visible_again_only_after_the_reindex_lease_expired(default: Assembly) -> None:
    assert queue(default, "-rebuilds")["VisibilityTimeout"] == 2 * REBUILD_INDEX.timeout + 60 > REINDEX_LEASE_SECONDS


def test_a_hold_lasts_longer_than_a_function() -> None:
    assert REBUILD_INDEX.timeout < REINDEX_LEASE_SECONDS


def test_building_waits_for_those_who_take_documents_in(default: Assembly) -> None:
    functions = default.resources("ingestion", "Lambda::Function").values()
    (timeout,) = {one["Timeout"] for one in functions if "ingest" in str(one["FunctionName"])}
    assert timeout < WRITERS_DONE_SECONDS


def test_a_calibration_is_requested_every_day_and_failed_requests_are_kept(default: Assembly) -> None:
    schedules = default.resources("lifecycle", "Scheduler::Schedule").values()
    (found,) = (one for one in schedules if one["Name"] == "calibrate-confidence")
    assert (found["ScheduleExpression"], found["State"]) == ("cron(0 6 * * ? *)", "ENABLED")
    assert json.loads(found["Target"]["Input"]) == {"do": "calibrate", "ifDue": True}
    assert found["Target"]["Arn"] == f"<{name_of(default, '-rebuilds')}.Arn>"
    assert found["Target"]["DeadLetterConfig"]["Arn"] == f"<{name_of(default, '-rebuilds-failed')}.Arn>"


def schedule_of_words(assembly: Assembly) -> list[dict[str, object]]:
    schedules = assembly.resources("lifecycle", "Scheduler::Schedule").values()
    return [dict(one) for one in schedules if one["Name"] == "make-warm-words"]


def test_words_for_a_sleeping_collection_are_made_every_hour_and_read_by_the_function_that_answers(
    default: Assembly,
) -> None:
    (found,) = schedule_of_words(default)
    assert found["ScheduleExpression"] == "cron(20 * * * ? *)"
    target: Any = found["Target"]
    assert json.loads(target["Input"]) == json.loads(WARM_WORDS)
    for stack, name in (("lifecycle", "rebuild-index"), ("retrieval", "retrieve-knowledge")):
        functions = default.resources(stack, "Lambda::Function").values()
        (function,) = (one for one in functions if str(one["FunctionName"]).endswith(name))
        assert function["Environment"]["Variables"]["OPX_WARM_WORDS"] == "on"


@pytest.mark.parametrize("chosen", ["none", "without_snapstart", "ephemeral"])
def test_without_the_choice_or_a_collection_that_sleeps_there_are_none(
    request: pytest.FixtureRequest, make: Callable[..., Assembly], chosen: str
) -> None:
    assembly = make(warm_words="false") if chosen == "none" else request.getfixturevalue(chosen)
    assert schedule_of_words(assembly) == []
    assert "words/*" not in json.dumps(assembly.resources("retrieval", "IAM::Policy"))


def name_of(assembly: Assembly, queue: str) -> str:
    """The logical id of a queue."""
    queues = assembly.resources("lifecycle", "SQS::Queue").items()
    (found,) = (name for name, one in queues if str(one.get("QueueName", "")).endswith(queue))
    return found
