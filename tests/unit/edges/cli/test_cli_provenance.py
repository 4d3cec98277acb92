"""`opx why`."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest

from tests.support.cli_support import Opx

EVIL = "---\ntitle: Evil\ncategory: runbooks/procedures\nowner: ops\n---\n# Evil\n\nRestart the broker.\n"


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    opx = Opx(tmp_path)
    opx.write("runbooks/disk.md", "# Disk full\n\nDelete old segments.\n")
    opx.write("web/blogs/evil.md", EVIL)
    opx.write("web/blogs/runbooks/same.md", EVIL)
    assert opx("ingest", opx.folder / "docs").exit_code == 0
    return opx


def test_it_shows_the_chain(opx: Opx) -> None:
    result = opx("why", "disk.md")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert f"channel command, by {getpass.getuser()}; proof: rights of the home's owner" in lines
    assert "trust runbooks/procedures (internal, trust 1)" in lines
    assert sum(line.endswith("as it was ingested") for line in lines) == 2


def test_what_an_outsider_states_is_marked(opx: Opx) -> None:
    text = opx("why", "evil.md").stdout
    assert "web/blogs (internet, trust 0.5)" in text
    assert "owner: ops (stated by its author, not verified)" in " ".join(text.split())


@pytest.mark.parametrize("name", ["blogs/evil.md", "runbooks/same.md"])
def test_of_two_with_the_same_text_the_named_one_is_shown(opx: Opx, name: str) -> None:
    assert json.loads(opx("why", name, "--json").stdout)["object"]["key"].endswith(name)


def test_an_altered_object_has_an_exit_code_of_its_own(opx: Opx) -> None:
    (stored,) = opx.home.glob("corpus/documents/**/disk.md")
    stored.write_text("# Disk full\n\nDelete everything.\n")
    result = opx("why", "disk.md")
    assert result.exit_code == 4
    assert "ALTERED since it was ingested" in result.stdout


def test_the_passages_of_the_last_answer_are_compared(opx: Opx) -> None:
    opx("search", "disk", "full")
    assert "passage of it, stored with the same text" in opx("why", "disk.md", "--receipt", "last").stdout


def test_an_unknown_document_is_an_error(opx: Opx) -> None:
    assert opx("why", "nothing.md").exit_code == 2
