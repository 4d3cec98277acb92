"""A home that is built once and copied for each case."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.damage.homes import build


@pytest.fixture(scope="session")
def undamaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("undamaged") / "home"
    build(home)
    return home
