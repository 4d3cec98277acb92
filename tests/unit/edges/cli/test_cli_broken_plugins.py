"""Plugins that raise what no contract allows: the source or document that needs them fails with a reason, others go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_support import Opx
from tests.support.plugin_folders import on_the_path, write_distribution

ENTRIES = """
    [opx.connectors]
    odd_pages = opx_broken:OddPages
    breaks_in_pull = opx_broken:BreaksInPull
    breaks_at_start = opx_broken:BreaksAtStart

    [opx.formats]
    opxbroken = opx_broken:FORMAT
    opxlate = opx_broken:LATE
"""
BROKEN = """
    from pathlib import Path

    from opx.sdk import Connector, Format, Options, ParsedSource

    class BreaksInPull(Connector[Options]):
        def pull(self, request):
            raise ZeroDivisionError("the pager is broken")
        def probe(self):
            raise KeyError("team")

    class BreaksAtStart(BreaksInPull):
        def __init__(self, definition, options, tools):
            if Path(__file__).with_name("no-pager").exists():
                raise ZeroDivisionError("no pager")
            super().__init__(definition, options, tools)

    class OddPages(BreaksInPull):
        def pull(self, request):
            yield {"documents": []}

    FORMAT = Format(".opxbroken", parse="opx_broken:parse")
    LATE = Format(".opxlate", parse="opx_broken:parse_late")

    def parse(source):
        raise ZeroDivisionError("no lines")

    def parse_late(source):
        return ParsedSource("Late", {}, (1 / 0 for _ in "x"), [])
"""
REASONS = {
    "odd_pages": "the connector odd_pages failed: TypeError: pull yielded {'documents': []}, which is no Page",
    "breaks_in_pull": "the connector breaks_in_pull failed: ZeroDivisionError: the pager is broken",
    "breaks_at_start": "the connector breaks_at_start failed: ZeroDivisionError: no pager",
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Opx]:
    write_distribution(tmp_path / "site", "opx-broken", ENTRIES, {"opx_broken": BROKEN})
    opx = Opx(tmp_path)
    opx.write("disk.md", "# Disk full\n\nRun du.\n")
    with on_the_path(tmp_path / "site"):
        yield opx


def add(opx: Opx, name: str, kind: str, *more: str) -> None:
    added = opx("source", "add", name, "--kind", kind, "--category", "runbooks/procedures", *more)
    assert added.exit_code == 0, added.output


def add_folder(opx: Opx) -> None:
    add(opx, "files", "directory", "--option", f"path={opx.folder / 'docs'}")


@pytest.mark.parametrize("kind", REASONS)
def test_a_pull_names_source_and_error_and_others_are_pulled(home: Opx, kind: str) -> None:
    add_folder(home)
    add(home, "bad", kind)
    (home.folder / "site" / "no-pager").touch()
    pulled = home("source", "pull", "bad", "files")
    assert pulled.exit_code == 1, pulled.output
    assert REASONS[kind] in pulled.output
    assert "bad" in pulled.output
    assert "source files: done: 1 put" in pulled.output
    assert "Traceback" not in pulled.output


def test_an_error_of_a_pull_is_kept_with_the_source(home: Opx) -> None:
    add(home, "bad", "breaks_in_pull")
    home("source", "pull", "bad")
    assert f"source bad: {REASONS['breaks_in_pull']}" in home("source", "show", "bad", "--json").output


def test_a_health_check_reports_an_unexpected_error(home: Opx) -> None:
    add(home, "bad", "breaks_in_pull")
    checked = home("source", "health", "bad")
    assert checked.exit_code == 1, checked.output
    assert "the connector breaks_in_pull failed: KeyError: 'team'" in checked.output


def test_documents_of_a_broken_format_fail_with_a_reason_and_others_are_ingested(home: Opx) -> None:
    home.write("a.opxbroken", "text")
    home.write("b.opxlate", "text")
    ingested = home("ingest", home.folder / "docs")
    assert ingested.exit_code == 1, ingested.output
    for name in ("a.opxbroken", "b.opxlate"):
        assert f"{name}: it can't be read because of a bug" in " ".join(ingested.output.split())
    assert "Disk full" in home("search", "disk", "full").output


@pytest.mark.parametrize("kind", REASONS)
def test_scheduled_pulls_go_on_after_a_broken_one(home: Opx, kind: str) -> None:
    add(home, "bad", kind, "--schedule", "* * * * *")
    add_folder(home)
    (home.folder / "site" / "no-pager").touch()
    ran = home("run", "--once")
    assert REASONS[kind] in ran.output
    assert "source files: done: 1 put" in ran.output


def test_scheduled_pulls_go_on_without_a_plugin_that_cannot_be_imported_any_more(home: Opx) -> None:
    add(home, "bad", "breaks_in_pull", "--schedule", "* * * * *")
    add_folder(home)
    entries = "[opx.connectors]\nbreaks_in_pull = opx_later:Pager\n"
    write_distribution(home.folder / "later", "opx-broken", entries, {"opx_later": "raise ValueError('no licence')"})
    with on_the_path(home.folder / "later"):
        ran = home("run", "--once")
    assert "source bad: the plugin opx-broken 1.0 (opx.connectors: breaks_in_pull) can't be imported" in ran.output
    assert "source files: done: 1 put" in ran.output
