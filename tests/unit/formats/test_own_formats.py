"""Text formats whose module has the name of their extension."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import opx.formats.markup
from opx.domain.knowledge import Category, Tier
from opx.formats import registry

NOTE = """
from opx.formats.source import ParsedSource, text_lines

def parse(source):
    return ParsedSource("Note", {}, (line.replace("* ", "# ") for line in text_lines(source)), ())
"""


@pytest.fixture
def note_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "opxnote.py").write_text(NOTE)
    monkeypatch.setattr(opx.formats.markup, "__path__", [*opx.formats.markup.__path__, str(tmp_path)])
    registry._own_parser.cache_clear()
    yield
    registry._own_parser.cache_clear()
    sys.modules.pop("opx.formats.markup.opxnote", None)


def any_category() -> Category:
    return Category("notes", Tier.INTERNAL, 1.0, "2y")


@pytest.mark.usefixtures("note_format")
def test_a_module_with_the_name_of_an_extension_parses_its_files() -> None:
    parsed = registry.parse(io.BytesIO(b"* Disk full\n\nUse du.\n"), name="notes/disk.OPXNOTE", category=any_category())
    assert "".join(parsed.lines) == "# Disk full\n\nUse du.\n"
    assert registry.is_known(".opxnote")
    assert not registry.is_binary(".opxnote")


@pytest.mark.parametrize("extension", [".plain", ".cpe", ".__init__", ".no-name", "", ".opxnote"])
def test_other_modules_are_no_formats(extension: str) -> None:
    registry._own_parser.cache_clear()
    assert not registry.is_known(extension)
