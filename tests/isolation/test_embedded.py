"""Tenant isolation on one machine: no reply contains data of other tenants."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import boto3

from tests.isolation.making import any_world
from tests.isolation.running import cases


def test_nothing_of_others_shows_in_anything_that_a_reader_gets(tmp_path: Path, aws_session: boto3.Session) -> None:
    world = any_world(1, pieces=10)
    readers = world.identities[3:5]
    found = list(cases(world, readers, 90, backend="embedded", home=tmp_path, account=lambda: nullcontext(aws_session)))
    assert len(found) == 180
    assert [leak for case in found for leak in case.leaks] == []
