"""Documents that are past their retention when they come, as the command shows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_support import HANGING, Opx
from tests.support.remote_support import KINDS, opx_at

OLD = "---\nlast_updated: 2020-01-01\n---\n# Moved DNS\n\nDNS was moved.\n"


@pytest.fixture(params=KINDS)
def opx(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opx]:
    with opx_at(request.param, tmp_path, monkeypatch) as made:
        yield made


def ingested(opx: Opx) -> str:
    for name in ("dns", "mail"):
        opx.write(f"operations/changes/{name}.md", OLD.replace("DNS", name.upper()))
    opx.write("runbooks/nginx.md", "# Restart nginx\n\nRestart it.\n")
    found = opx("ingest", opx.folder / "docs")
    assert found.exit_code == 0, found.output
    return found.output


def test_ingest_counts_what_retention_keeps_out(opx: Opx) -> None:
    assert "2 kept out by retention" in ingested(opx)


def test_list_shows_what_the_hint_promises(opx: Opx) -> None:
    ingested(opx)
    assert "MOVED" not in opx("list").stdout.upper()
    shown = opx("list", "--remarks", "any").stdout
    assert shown.count("operations/changes  1        expired") == 2
    assert shown.count("older than 1 year (operations/changes)") == 2


def test_status_counts_them_apart(opx: Opx) -> None:
    ingested(opx)
    shown = opx("status").stdout
    assert "2 of operations/changes: hidden by its retention" in shown


def test_nothing_of_them_is_embedded(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    opx.write("operations/changes/dns.md", OLD)
    process = opx.start("ingest", opx.folder / "docs", hang_at=1)  # hangs at the first passage that is embedded
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, HANGING in errors) == (0, False)


def test_they_come_in_once_the_category_keeps_them(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    opx.write("operations/changes/dns.md", OLD)
    opx("ingest", opx.folder / "docs")
    file = tmp_path / "knowledge.yaml"
    shipped = Path("corpus/knowledge.yaml").read_text()
    file.write_text(shipped.replace("retention: 1y", "retention: permanent"))
    found = opx("ingest", opx.folder / "docs", OPX_KNOWLEDGE_FILE=str(file))
    assert "1 ingested" in found.output, found.output
    assert "Moved DNS" in opx("list", OPX_KNOWLEDGE_FILE=str(file)).stdout


def test_categories_show_the_start_of_retention(tmp_path: Path) -> None:
    shown = Opx(tmp_path)("categories").stdout
    assert "2y by use" in shown
