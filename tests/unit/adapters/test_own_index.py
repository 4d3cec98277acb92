"""Index adapters whose module has the name of their scheme."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import opx.adapters
from opx.errors import InvalidInputError
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.builders import ports_of

ADAPTER = """
def open_indexes(address, settings):
    return f"indexes at {address} of {settings.home}"
"""


@pytest.fixture
def notes_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "index_notes.py").write_text(ADAPTER)
    monkeypatch.setattr(opx.adapters, "__path__", [*opx.adapters.__path__, str(tmp_path)])
    yield
    sys.modules.pop("opx.adapters.index_notes", None)


@pytest.mark.usefixtures("notes_adapter")
def test_the_scheme_of_an_address_selects_the_adapter(tmp_path: Path) -> None:
    with bootstrap(Settings(home=str(tmp_path), index="notes://host/x")) as system:
        assert ports_of(system).indexes == f"indexes at notes://host/x of {tmp_path}"  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("scheme", ["notes", "no.such", ""])
def test_an_unknown_scheme_is_refused_with_the_choices(scheme: str) -> None:
    with pytest.raises(InvalidInputError, match="OPX_INDEX must be 'folder' or 'opensearch://HOST:PORT/NAME'"):
        Settings(index=f"{scheme}://host/x")
