"""The index of the example plugin keeps the contract of its port, and the plugin imports `opx.sdk` alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from opx.errors import IncompatibleIndexError, IndexUnavailableError, InvalidInputError
from opx.ports import SearchIndex
from opx_testing.entries import EVERYONE, an_entry
from opx_testing.search_index import SearchIndexContract
from opx_testing.searches import fill, ids_of, lexical_ids
from tests.support.plugin_folders import on_the_path

if TYPE_CHECKING:
    from opx_example.index import JsonIndex

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugin"


@pytest.fixture
def module() -> Iterator[Any]:
    with on_the_path(EXAMPLE):
        import opx_example.index

        yield opx_example.index


class TestJsonIndex(SearchIndexContract):
    @pytest.fixture
    def index(self, module: Any, tmp_path: Path) -> SearchIndex:
        made: JsonIndex = module.JsonIndex(tmp_path, model_id="test-model")
        return made

    def test_another_process_finds_what_was_written(self, index: SearchIndex, module: Any, tmp_path: Path) -> None:
        entry = an_entry("disk full")
        fill(index, entry)
        assert lexical_ids(module.JsonIndex(tmp_path, model_id="test-model"), "disk") == ids_of(entry)

    def test_an_index_of_another_model_is_refused(self, index: SearchIndex, module: Any, tmp_path: Path) -> None:
        fill(index, an_entry("disk full"))
        with pytest.raises(IncompatibleIndexError, match="opx reindex"):
            module.JsonIndex(tmp_path, model_id="another").count(EVERYONE)

    @pytest.mark.parametrize("damaged", ["", "{", "[]", '{"model": "test-model"}'])
    def test_a_damaged_file_is_named(self, index: SearchIndex, tmp_path: Path, damaged: str) -> None:
        (tmp_path / "entries.json").write_text(damaged)
        with pytest.raises(IndexUnavailableError, match="opx rebuild"):
            index.count(EVERYONE)


@pytest.mark.parametrize("address", ["jsonfolder://", "jsonfolder:///", "jsonfolder://host/x", "jsonfolder:"])
def test_a_malformed_address_is_refused(module: Any, address: str) -> None:
    with pytest.raises(InvalidInputError, match="absolute path"):
        module.open_indexes(address, None)


def test_the_plugin_imports_nothing_of_the_library_but_its_interface() -> None:
    files = list((EXAMPLE / "opx_example").glob("*.py"))
    imports = re.compile(r"^\s*(?:from|import) (opx\b[\w.]*)", re.MULTILINE)
    assert {name for file in files for name in imports.findall(file.read_text())} == {"opx.sdk"}
    assert len(files) > 4
