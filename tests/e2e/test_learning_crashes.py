"""A crash at any write of a capture or a checkpoint: a retry gives the same result as without the crash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.ports.tables import OUTCOMES, PATTERNS, PROJECTS, STAGING
from opx_aws.table import DynamoTable
from opx_testing.fake_time import FakeTime
from tests.support.captures import capture_gate_approval
from tests.support.dynamo_tables import create_table
from tests.support.lessons import OTHER_STEPS, OTHER_WORDS, Died, School, a_school, sqlite_tables

MOST_WRITES = 80


@pytest.fixture
def school(tmp_path: Path, time: FakeTime) -> Iterator[School]:
    found = a_school(tmp_path, sqlite_tables(tmp_path, time), time)
    yield found
    found.services.index.close()  # type: ignore[attr-defined]


def captured(school: School, client: str) -> None:
    """Two successes of one pattern in different words, a failure of it that made it worse, and a decision."""
    school.failure(client=client)
    school.failure(client=client, failure_description=OTHER_WORDS, solution_steps=OTHER_STEPS)
    failed = school.failure(client=client, success_verified=False, occurrence="later")
    school.capture(client=client).verify(failed, False, "made_worse", "INC-7")
    capture_gate_approval(school.capture(client=client), "one", "review", "One table a tenant")


def state(school: School, client: str) -> dict[str, Any]:
    """All that was learned, without ids and times."""
    entries = school.capture(client=client).entries()
    documents = school.documents(f"clients/{client}/")
    return {
        "patterns": school.counts(f"client:{client}"),
        "entries": sorted((one.entry_type, one.state, bool(one.pattern_id), one.effect) for one in entries),
        "documents": sorted(key.split("/")[0] for key in documents),
        "steps": sorted(one.step for one in school.services.learning.warnings.tried(f"client:{client}")),
    }


def dies(school: School, client: str, at: int, *, work: Any) -> bool:
    """Runs the work; True if the process died before the write of this number."""
    school.writes.left = at
    try:
        work(school, client)
    except Died:
        return True
    finally:
        school.writes.left = -1
    return False


def checkpoint(school: School, client: str) -> None:
    school.checkpoint(client=client)


def all_of_it(school: School, client: str) -> None:
    captured(school, client)
    checkpoint(school, client)


def assert_immortal(school: School, steps: range) -> None:
    all_of_it(school, "undisturbed")
    expected = state(school, "undisturbed")
    assert expected["patterns"] == [(1, 0, 1), (2, 1, 3)]
    for step in steps:
        client = f"c{step}"
        died = dies(school, client, step, work=all_of_it)
        all_of_it(school, client)
        assert state(school, client) == expected, f"died before write {step}"
        assert not school.checkpoint(client=client).taken_in
        if not died:
            assert step > 15
            return
    pytest.fail("there are more writes than were tried")


def test_death_before_any_write_leaves_no_trace_when_it_is_done_again(school: School) -> None:
    assert_immortal(school, range(0, MOST_WRITES, 2))


def test_checkpoint_of_another_process_completes_the_interrupted_one(school: School) -> None:
    captured(school, "undisturbed")
    checkpoint(school, "undisturbed")
    expected = state(school, "undisturbed")
    for step in range(1, MOST_WRITES, 4):
        client = f"c{step}"
        captured(school, client)
        died = dies(school, client, step, work=checkpoint)
        school.time.now += 10
        school.failure(client=client, occurrence="meanwhile")
        checkpoint(school, client)
        found = state(school, client)
        assert found["patterns"] == [(1, 0, 1), (3, 1, 4)], f"died before write {step}"
        assert (found["documents"], found["steps"]) == (expected["documents"], expected["steps"])
        if not died:
            assert step > 10
            return
    pytest.fail("there are more writes than were tried")


def test_death_between_calls_of_dynamodb_leaves_no_trace(tmp_path: Path, time: FakeTime, aws: boto3.Session) -> None:
    client = aws.client("dynamodb")
    for spec in (STAGING, PATTERNS, PROJECTS, OUTCOMES):
        create_table(client, spec)
    on_disk = sqlite_tables(tmp_path, time)
    deployed = {spec: DynamoTable(spec, client, clock=time.clock) for spec in (STAGING, PATTERNS, PROJECTS, OUTCOMES)}
    school = a_school(tmp_path, lambda spec: deployed.get(spec) or on_disk(spec), time)
    assert_immortal(school, range(3, MOST_WRITES, 23))
    school.services.index.close()  # type: ignore[attr-defined]
