"""`opx ingest --group`: documents that all projects of a group see."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli_support import Opx


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    opx = Opx(tmp_path)
    opx.write("pool.md", "# Kestrel pool\n\nRestart the kestrel pool.\n")
    return opx


def titles(opx: Opx, project: str) -> str:
    return opx("--client", "acme", "--project", project, "list").stdout


def test_documents_of_a_group_are_seen_by_its_projects_alone(opx: Opx) -> None:
    opx("project", "assign", "acme", "shop", "web")
    found = opx("--client", "acme", "ingest", opx.folder / "docs", "--group", "web")
    assert found.exit_code == 0, found.output
    assert "1 ingested" in found.stdout
    assert "Kestrel pool" in titles(opx, "shop")
    assert "Kestrel pool" not in titles(opx, "billing")


def test_a_group_without_projects_is_named(opx: Opx) -> None:
    found = opx("--client", "acme", "ingest", opx.folder / "docs", "--group", "web")
    assert "no project is in group web yet" in found.stderr
    assert "opx project assign acme PROJECT web" in found.stderr


@pytest.mark.parametrize("arguments", [(), ("--client", "acme", "--project", "shop")])
def test_a_group_needs_its_client_and_no_project(opx: Opx, arguments: tuple[str, ...]) -> None:
    found = opx(*arguments, "ingest", opx.folder / "docs", "--group", "web")
    assert found.exit_code == 2
    assert "--group needs --client, and no --project" in found.output


def test_missing_files_of_a_group_are_removed(opx: Opx) -> None:
    opx("project", "assign", "acme", "shop", "web")
    gone = opx.write("gone.md", "# Gone heron\n\nIt goes.\n")
    opx("--client", "acme", "ingest", opx.folder / "docs", "--group", "web")
    gone.unlink()
    found = opx("--client", "acme", "ingest", opx.folder / "docs", "--group", "web", "--mirror")
    assert found.exit_code == 0, found.output
    assert "Gone heron" not in titles(opx, "shop")
