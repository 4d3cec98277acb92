"""Tenant isolation on one machine and on AWS (test doubles): no reply contains data of other tenants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import boto3
from moto import mock_aws

from tests.isolation.making import any_world
from tests.isolation.running import cases


def test_nothing_of_others_shows_on_one_machine(tmp_path: Path, aws_session: boto3.Session) -> None:
    world = any_world(1, pieces=10)
    readers = world.identities[3:5]
    found = list(cases(world, readers, 90, backend="embedded", home=tmp_path, account=lambda: nullcontext(aws_session)))
    assert len(found) == 180
    assert [leak for case in found for leak in case.leaks] == []


def test_nothing_of_others_shows_on_aws(tmp_path: Path, aws_session: boto3.Session) -> None:
    @contextmanager
    def account() -> Iterator[boto3.Session]:
        with mock_aws():
            yield aws_session

    world = any_world(3, pieces=3)
    found = list(cases(world, world.identities[4:5], 20, backend="nextgen", home=tmp_path, account=account))
    assert len(found) == 20
    assert [leak for case in found for leak in case.leaks] == []
