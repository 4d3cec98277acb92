"""A disk that fails, and a home to use it on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.disks import Disk, failing_disk, library
from tests.faults.homes import Template, a_template


@pytest.fixture(scope="session")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    with failing_disk(library(tmp_path_factory.mktemp("disk"))) as made:
        yield made


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory, disk: Disk) -> Template:
    return a_template(tmp_path_factory.mktemp("template"), disk)
