"""Installed distributions add connectors, formats and adapters of strangers, good ones and broken ones."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from opx import plugins
from opx.connectors.registry import connector_type, source_kinds
from opx.domain.knowledge import Category, Tier
from opx.errors import InvalidInputError, PluginError
from opx.formats import registry
from opx.runtime.knowledge_file import load_knowledge
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.builders import ports_of
from tests.support.plugin_folders import on_the_path, write_distribution

NOTE = """
    from opx.formats.source import Format, ParsedSource, text_lines

    FORMAT = Format(".opxnote", "opx_note:parse")

    def parse(source):
        return ParsedSource("Note", {}, (line.replace("* ", "# ") for line in text_lines(source)), [])
"""
CONNECTOR = """
    from opx.connectors.connector import Connector, Options

    class PagerOptions(Options, frozen=True):
        team: str

    class Pager(Connector[PagerOptions]):
        about = "shifts of a pager"

        def pull(self, request):
            raise ZeroDivisionError("the pager is broken")

        def probe(self):
            pass
"""


def any_category() -> Category:
    return Category("notes", Tier.INTERNAL, 1.0, "2y")


def test_a_format_is_read_by_its_extension(tmp_path: Path) -> None:
    write_distribution(tmp_path, "opx-note", "[opx.formats]\nopxnote = opx_note:FORMAT\n", {"opx_note": NOTE})
    with on_the_path(tmp_path):
        parsed = registry.parse(
            io.BytesIO(b"* Disk full\n\nUse du.\n"), name="notes/a.OPXNOTE", category=any_category()
        )
        assert ("".join(parsed.lines), parsed.format) == ("# Disk full\n\nUse du.\n", "opxnote")
        assert registry.is_known(".opxnote")
        assert not registry.is_binary(".opxnote")
    assert not registry.is_known(".opxnote")


def test_a_plugin_never_replaces_a_built_in_format(tmp_path: Path) -> None:
    entries = "[opx.formats]\nmarkdown = opx_note:FORMAT\nother = opx_note:OTHER\n"
    source = NOTE + '\n    OTHER = Format(".md", "opx_note:parse")\n'
    write_distribution(tmp_path, "opx-note", entries, {"opx_note": source})
    with on_the_path(tmp_path):
        parsed = registry.parse(io.BytesIO(b"* Disk\n"), name="a.md", category=any_category())
        assert ("".join(parsed.lines), parsed.format) == ("* Disk\n", "markdown")


def test_a_connector_is_a_kind_of_source(tmp_path: Path) -> None:
    write_distribution(tmp_path, "opx-pager", "[opx.connectors]\npager = opx_pager:Pager\n", {"opx_pager": CONNECTOR})
    with on_the_path(tmp_path):
        assert connector_type("pager").about == "shifts of a pager"
        (kind,) = (one for one in source_kinds(load_knowledge()) if one.kind == "pager")
        assert [(option.name, option.required) for option in kind.options] == [("team", True)]
        assert not list(plugins.problems())


def test_an_index_adapter_is_chosen_by_the_scheme_of_its_address(tmp_path: Path) -> None:
    source = """
        def open_indexes(address, settings):
            return f"indexes at {address} of {settings.home}"
    """
    write_distribution(tmp_path, "opx-notes", "[opx.adapters]\nnotes = opx_notes:open_indexes\n", {"opx_notes": source})
    with on_the_path(tmp_path), bootstrap(Settings(home=str(tmp_path), index="notes://host/x")) as system:
        assert ports_of(system).indexes == f"indexes at notes://host/x of {tmp_path}"  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("scheme", ["notes", "no.such", "", "aws", "s3", "bedrock"])
def test_an_unknown_scheme_is_refused_with_the_choices(scheme: str) -> None:
    with pytest.raises(InvalidInputError, match="OPX_INDEX must be 'folder' or 'opensearch://HOST:PORT/NAME'"):
        Settings(index=f"{scheme}://host/x")


@pytest.mark.parametrize(
    ("entries", "source", "problem"),
    [
        ("x = opx_bad:X", "raise ValueError('no licence')", "can't be imported: ValueError: no licence"),
        ("x = opx_bad:X", "import no_such_module", "can't be imported: ModuleNotFoundError: No module named"),
        ("x = opx_bad:Y", "X = 1", "can't be imported: AttributeError: module 'opx_bad' has no attribute 'Y'"),
        ("x = opx_nowhere:X", "", "can't be imported: ModuleNotFoundError: No module named 'opx_nowhere'"),
        (
            "x = opx_bad:X\n[opx.sdk]\n7 = opx.sdk",
            "X = 1",
            "is written for version 7 of opx.sdk, and this is version 1",
        ),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named_and_stops_nothing_else(
    tmp_path: Path, entries: str, source: str, problem: str
) -> None:
    write_distribution(tmp_path, "opx-bad", f"[opx.connectors]\n{entries}\n", {"opx_bad": source}, version="2.1")
    with on_the_path(tmp_path):
        (found,) = plugins.problems()
        assert found.startswith("the plugin opx-bad 2.1 (opx.connectors: x) ")
        assert problem in found
        with pytest.raises(PluginError, match=r"opx-bad 2\.1"):
            connector_type("x")
        assert connector_type("directory")
        assert "x" not in {kind.kind for kind in source_kinds(load_knowledge())}


def test_what_is_no_connector_is_refused(tmp_path: Path) -> None:
    write_distribution(tmp_path, "opx-bad", "[opx.connectors]\nx = opx_bad:X\n", {"opx_bad": "X = 1"})
    with on_the_path(tmp_path), pytest.raises(PluginError, match="'x' is neither a Connector nor a Preset: 1"):
        connector_type("x")


def test_two_plugins_with_one_name_are_both_refused(tmp_path: Path) -> None:
    for name in ("opx-a", "opx-b"):
        module = name.replace("-", "_")
        entries = f"[opx.connectors]\npager = {module}:Pager\n"
        write_distribution(tmp_path / name, name, entries, {module: CONNECTOR})
    with on_the_path(tmp_path / "opx-a", tmp_path / "opx-b"):
        (found,) = plugins.problems()
        expected = "opx-a 1.0 and opx-b 1.0 have a plugin with the same name (opx.connectors: pager): uninstall one"
        assert found == expected
        with pytest.raises(PluginError, match="uninstall one"):
            connector_type("pager")


def test_a_slow_plugin_is_named_with_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "SLOW_SECONDS", 0.05)
    source = "import time\ntime.sleep(0.1)\nX = 1"
    write_distribution(tmp_path, "opx-slow", "[opx.stages]\nx = opx_slow:X\n", {"opx_slow": source})
    with on_the_path(tmp_path):
        slow = [line for line in plugins.problems() if "opx-slow" in line]
        assert re.fullmatch(
            r"the plugin opx-slow 1\.0 \(opx\.stages: x\) takes \d+\.\d seconds to import", "".join(slow)
        )
