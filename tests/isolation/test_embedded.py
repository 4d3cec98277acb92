"""On one machine: no reader is told anything of what is not his."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path

import boto3

from tests.isolation.running import cases
from tests.isolation.worlds import any_world


def test_nothing_of_others_shows_in_anything_that_a_reader_gets(tmp_path: Path, aws_session: boto3.Session) -> None:
    world = any_world(1, pieces=12)
    readers = world.identities[3:5]
    account = partial(nullcontext, aws_session)
    found = list(cases(world, readers, 100, backend="embedded", home=tmp_path, account=account))
    assert len(found) == 200
    assert [leak for case in found for leak in case.leaks] == []
