from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import opx as library
from opx.edges.cli.output import aligned, readable_size
from tests.support.cli_support import Opx
from tests.support.remote_support import KINDS, opx_at

COMMANDS = ("ingest", "search", "show", "list", "delete", "failed", "status", "watch")
MORE_COMMANDS = ("categories", "project", "eval", "demo")


@pytest.fixture(params=KINDS)
def opx(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opx]:
    with opx_at(request.param, tmp_path, monkeypatch) as opx:
        yield opx


@pytest.fixture
def folder(tmp_path: Path) -> Opx:
    return Opx(tmp_path)


def with_a_failure(opx: Opx) -> str:
    """A file that failed; the id of the failure."""
    opx.write("good.md", "# Good\n\ntext\n")
    opx.write("bad.md", b"\x00")
    assert opx("ingest", opx.folder / "docs").exit_code == 1
    return str(json.loads(opx("failed", "--json").stdout)[0]["failureId"])


def test_failed_lists_object_and_reason(opx: Opx) -> None:
    failure = with_a_failure(opx)
    for command in (("failed",), ("failed", "list")):
        lines = opx(*command).stdout.splitlines()
        assert len(lines) == 2
        assert lines[1].startswith(failure[:12])
        assert "documents/docs/bad.md" in lines[1]
        assert "NUL" in lines[1]


def test_retry_keeps_items_that_fail_again(opx: Opx) -> None:
    failure = with_a_failure(opx)
    result = opx("failed", "retry", failure[:8])
    assert result.exit_code == 1
    assert result.stderr.startswith("opx: failed again: documents/docs/bad.md: ")
    assert len(json.loads(opx("failed", "--json").stdout)) == 1


def test_retry_removes_items_that_succeed(opx: Opx) -> None:
    with_a_failure(opx)
    with opx.services() as services:
        services.store.put("documents/docs/bad.md", b"# Mended\n\ntext\n")
    result = opx("failed", "retry", "--all")
    assert result.exit_code == 0
    assert "ingested  documents/docs/bad.md" in result.stdout
    assert opx("failed").stdout == "nothing failed\n"


def test_retry_removes_items_of_deleted_objects(opx: Opx) -> None:
    with_a_failure(opx)
    (opx.home / "corpus" / "documents" / "docs" / "bad.md").unlink()
    assert opx("failed", "retry", "--all").exit_code == 0
    assert opx("failed").stdout == "nothing failed\n"


def test_retry_can_print_json(opx: Opx) -> None:
    with_a_failure(opx)
    outcomes = json.loads(opx("failed", "retry", "--all", "--json").stdout)
    assert [(o["objectKey"], o["result"]) for o in outcomes] == [("documents/docs/bad.md", "failed")]


@pytest.mark.parametrize("arguments", [(), ("0000",), ("0000", "--all")])
def test_retry_wants_to_know_what(opx: Opx, arguments: tuple[str, ...]) -> None:
    with_a_failure(opx)
    assert opx("failed", "retry", *arguments).exit_code == 2


def test_status_counts_documents_and_chunks(folder: Opx) -> None:
    with_a_failure(folder)
    facts = json.loads(folder("status", "--json").stdout)
    assert facts["home"] == str(folder.home)
    assert facts["bytes"] > 0
    counted = {name: facts[name] for name in ("documents", "chunks", "waiting", "failed", "categories")}
    assert counted == {
        "documents": 1,
        "chunks": 1,
        "waiting": 0,
        "failed": 1,
        "categories": {"runbooks/procedures": 1},
    }
    assert (facts["embeddingModel"], facts["index"]) == ("words/1", "ok")
    assert facts["backlog"] == {"changes": 0, "more": False, "oldest": ""}


def test_status_is_readable(opx: Opx) -> None:
    with_a_failure(opx)
    lines = opx("status").stdout.splitlines()
    assert any(line.startswith("  runbooks/procedures") for line in lines)
    assert any(line.split() == ["failed", "1", "(see", "`opx", "failed`)"] for line in lines)


def test_status_without_knowledge_is_no_error_and_makes_no_folder(folder: Opx) -> None:
    result = folder("status")
    assert result.exit_code == 0
    assert "run `opx ingest PATH...`" in result.stdout
    assert not folder.home.exists()


def test_status_reports_an_index_of_another_model(folder: Opx) -> None:
    with_a_failure(folder)
    with folder.services() as services:
        services.indexing.editions.current().index._database.set_meta("identity", "another/1")  # type: ignore[attr-defined]
    facts = json.loads(folder("status", "--json").stdout)
    assert "was built for another/1" in facts["index"]
    assert facts["documents"] == 1


def test_categories_lists_each_with_trust_and_retention(opx: Opx) -> None:
    rows = {line.split()[0]: line.split()[1:4] for line in opx("categories").stdout.splitlines()[1:] if line}
    assert rows["postmortems"][:2] == ["internal", "1"]
    assert {"runbooks/procedures", "security/cve"} <= rows.keys()
    assert {c["path"] for c in json.loads(opx("categories", "--json").stdout)} <= rows.keys()


def test_a_project_joins_and_leaves_a_group(opx: Opx) -> None:
    opx("project", "assign", "acme", "shop", "retail")
    assert "client:acme/group:retail" in opx("project", "show", "acme", "shop").stdout
    opx("project", "assign", "acme", "shop", "")
    assert opx("project", "show", "acme", "shop").stdout.startswith("group  -\n")


def test_projects_of_a_group_find_each_others_documents(folder: Opx) -> None:
    folder("--client", "acme", "--project", "shop", "ingest", folder.write("x.md", "# X\n\nfrobnicator\n"))
    ask = ("--client", "acme", "--project", "depot", "search", "frobnicator", "--min-confidence", "0")
    assert folder(*ask).exit_code == 1
    folder("project", "assign", "acme", "shop", "retail")
    folder("project", "assign", "acme", "depot", "retail")
    assert folder(*ask).exit_code == 0


def test_a_malformed_client_is_refused(opx: Opx) -> None:
    result = opx("project", "assign", "ac*me", "shop", "retail")
    assert result.exit_code == 2
    assert "'ac*me'" in result.stderr


def test_version(folder: Opx) -> None:
    assert folder("--version").stdout == f"opx, version {library.__version__}\n"


def test_help_lists_every_command_with_a_line(folder: Opx) -> None:
    text = folder("help", "all").stdout
    assert all(f"\n  {name} " in text for name in COMMANDS + MORE_COMMANDS)


@pytest.mark.parametrize("name", COMMANDS + MORE_COMMANDS)
def test_every_command_has_help(folder: Opx, name: str) -> None:
    result = folder(name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: opx {name}")


def test_a_wrong_setting_is_one_line(folder: Opx) -> None:
    result = folder("status", OPX_CHUNK_TOKENS="many")
    assert (result.exit_code, result.stderr) == (2, "opx: OPX_CHUNK_TOKENS must be of type int, not 'many'\n")


def test_columns_are_aligned_and_lines_stay_lines() -> None:
    assert list(aligned([("a", "b"), ("long", "two\nlines")])) == ["a     b", "long  two lines"]


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (2_500_000, "2.5 MB"), (3 * 10**12, "3000.0 GB")]
)
def test_sizes_are_readable(size: int, text: str) -> None:
    assert readable_size(size) == text
