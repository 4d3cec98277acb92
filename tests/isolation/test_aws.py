"""Tenant isolation on AWS (test doubles): no reply contains data of other tenants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
from moto import mock_aws

from tests.isolation.making import any_world
from tests.isolation.running import cases


def test_nothing_of_others_shows_in_anything_that_a_reader_gets(tmp_path: Path, aws_session: boto3.Session) -> None:
    @contextmanager
    def account() -> Iterator[boto3.Session]:
        with mock_aws():
            yield aws_session

    world = any_world(3, pieces=3)
    found = list(cases(world, world.identities[4:5], 20, backend="nextgen", home=tmp_path, account=account))
    assert len(found) == 20
    assert [leak for case in found for leak in case.leaks] == []
