"""A site, and GitHub on it, that connectors pull from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from opx.adapters.web import HttpWeb
from tests.doubles.github_api import GitHubDouble
from tests.doubles.misbehaving_site import MisbehavingSite, a_web


@pytest.fixture
def github(site: MisbehavingSite) -> GitHubDouble:
    return GitHubDouble(site)


@pytest.fixture
def web(site: MisbehavingSite) -> Iterator[HttpWeb]:
    with closing(a_web(site)) as client:
        yield client
