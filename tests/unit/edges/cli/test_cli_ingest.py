from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_support import Opx
from tests.support.remote_support import KINDS, opx_at

RUNBOOK = "# Disk full\n\nDelete old logs, then restart the service.\n"


@pytest.fixture(params=KINDS)
def opx(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opx]:
    with opx_at(request.param, tmp_path, monkeypatch) as opx:
        yield opx


@pytest.fixture
def folder(tmp_path: Path) -> Opx:
    return Opx(tmp_path)


def documents(opx: Opx, *options: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(opx("list", "--json", *options).stdout)
    return found


def test_ingest_prints_a_summary(opx: Opx) -> None:
    opx.write("runbooks/disk.md", RUNBOOK)
    result = opx("ingest", opx.folder / "docs")
    assert result.exit_code == 0
    assert result.stdout.startswith("1 ingested, 0 unchanged, 0 deleted, 0 failed; 1 chunk in")
    assert "chunks/s" in result.stdout


def test_progress_goes_to_stderr(opx: Opx) -> None:
    opx.write("disk.md", RUNBOOK)
    result = opx("ingest", opx.folder / "docs")
    assert "ingested   documents/docs/disk.md (1 chunk)" in result.stderr
    assert "documents/docs/disk.md" not in result.stdout


def test_a_second_ingest_reports_that_nothing_changed(opx: Opx) -> None:
    opx.write("disk.md", RUNBOOK)
    opx("ingest", opx.folder / "docs")
    result = opx("ingest", opx.folder / "docs")
    assert result.stdout == "nothing changed, nothing ingested (1 unchanged)\n"
    assert result.exit_code == 0


def test_a_changed_file_becomes_the_new_version(opx: Opx) -> None:
    path = opx.write("disk.md", RUNBOOK)
    opx("ingest", path)
    opx.write("disk.md", RUNBOOK + "More.\n")
    opx("ingest", path)
    assert [d["version"] for d in documents(opx)] == [2]


def test_an_empty_folder_has_no_documents(opx: Opx) -> None:
    (opx.folder / "docs").mkdir()
    result = opx("ingest", opx.folder / "docs")
    assert (result.exit_code, result.stdout) == (0, "no documents found\n")


def test_missing_path_fails_and_the_rest_is_ingested(opx: Opx) -> None:
    path = opx.write("disk.md", RUNBOOK)
    result = opx("ingest", opx.folder / "nowhere", path)
    assert result.exit_code == 1
    assert "no such file or folder" in result.stderr
    assert "1 ingested" in result.stdout


@pytest.mark.parametrize(
    ("data", "reason"), [(b"", "the file is empty"), (b"\x00\x01\x02binary", "NUL"), (b"caf\xe9 \xff", "UTF-8")]
)
def test_an_unusable_file_fails_with_its_reason(opx: Opx, data: bytes, reason: str) -> None:
    result = opx("ingest", opx.write("bad.md", data))
    assert result.exit_code == 1
    progress, failure = result.stderr.splitlines()
    assert progress == "ingesting 1 new or changed"
    assert failure.startswith("opx: failed: ")
    assert reason in failure
    assert "1 failed" in result.stdout


def test_an_unknown_category_is_refused_before_anything_is_stored(opx: Opx) -> None:
    result = opx("ingest", opx.write("disk.md", RUNBOOK), "--category", "gossip")
    assert result.exit_code == 2
    assert result.stderr.startswith("opx: unknown category 'gossip'; allowed: ")
    assert not opx.home.exists()


def test_category_and_tags_of_the_command_line_are_kept(opx: Opx) -> None:
    path = opx.write("runbooks/x.md", RUNBOOK)
    opx("ingest", path, "--category", "postmortem", "--tag", "disk", "--tag", "sev2")
    assert [(d["category"], d["tags"]) for d in documents(opx)] == [("postmortems", ["disk", "sev2"])]


def test_a_document_with_a_sidecar_counts_once(opx: Opx) -> None:
    opx.write("x.md", RUNBOOK)
    opx.write("x.md.metadata.json", '{"metadataAttributes": {"tags": ["disk"]}}')
    result = opx("ingest", opx.folder / "docs")
    assert result.stdout.startswith("1 ingested, 0 unchanged")
    assert documents(opx)[0]["tags"] == ["disk"]


def test_a_vanished_document_with_a_sidecar_counts_once(opx: Opx) -> None:
    ten_files(opx)
    files = [opx.write("x.md", RUNBOOK), opx.write("x.md.metadata.json", '{"metadataAttributes": {"tags": ["disk"]}}')]
    opx("ingest", opx.folder / "docs")
    for file in files:
        file.unlink()
    result = opx("ingest", opx.folder / "docs", "--mirror")
    assert result.stdout.startswith("0 ingested, 10 unchanged, 1 deleted, 0 failed")


def test_the_source_name_does_not_depend_on_how_the_path_is_written(opx: Opx) -> None:
    path = opx.write("a/x.md", RUNBOOK)
    opx("ingest", path)
    result = opx("ingest", path.parent / ".." / "a" / "x.md")
    assert "nothing changed" in result.stdout
    assert documents(opx)[0]["source"] == "docs/a/x.md"


def test_home_folder_inside_the_ingested_folder_is_skipped(opx: Opx) -> None:
    opx.write("x.md", RUNBOOK)
    visible = Opx(opx.folder / "docs")
    home = opx.folder / "docs" / "knowledge"
    first = visible("--home", home, "ingest", opx.folder / "docs")
    again = visible("--home", home, "ingest", opx.folder / "docs")
    assert first.stdout.startswith("1 ingested")
    assert "nothing changed" in again.stdout


def ten_files(opx: Opx) -> list[Path]:
    paths = [opx.write(f"{number}.md", f"# Runbook {number}\n\ntext\n") for number in range(10)]
    opx("ingest", opx.folder / "docs")
    return paths


def test_a_vanished_file_keeps_its_document_by_default(opx: Opx) -> None:
    ten_files(opx)[0].unlink()
    result = opx("ingest", opx.folder / "docs")
    assert "nothing changed" in result.stdout
    assert len(documents(opx)) == 10


def test_mirror_removes_documents_of_vanished_files(opx: Opx) -> None:
    ten_files(opx)[0].unlink()
    result = opx("ingest", opx.folder / "docs", "--mirror")
    assert result.stdout.startswith("0 ingested, 9 unchanged, 1 deleted, 0 failed")
    assert len(documents(opx)) == 9


def test_documents_whose_files_are_gone_are_named_with_the_way_to_remove_them(opx: Opx) -> None:
    ten_files(opx)[0].unlink()
    result = opx("ingest", opx.folder / "docs")
    assert result.exit_code == 0
    assert f"opx: 1 document of {opx.folder / 'docs'} is still stored, and its file is gone: " in result.stderr
    assert f"to remove them: opx ingest {opx.folder / 'docs'} --mirror" in result.stderr
    assert "gone" not in opx("ingest", opx.folder / "docs", "--mirror").stderr
    assert "gone" not in opx("ingest", opx.folder / "docs").stderr


def test_the_old_name_of_mirror_still_works(opx: Opx) -> None:
    ten_files(opx)[0].unlink()
    assert "1 deleted" in opx("ingest", opx.folder / "docs", "--mirror").stdout


def test_mirror_leaves_other_folders_alone(opx: Opx) -> None:
    ten_files(opx)
    other = opx.write("../elsewhere/y.md", RUNBOOK)
    opx("ingest", other)
    other.unlink()
    result = opx("ingest", opx.folder / "docs", "--mirror")
    assert "nothing changed" in result.stdout
    assert len(documents(opx)) == 11


def test_mirror_refuses_when_more_than_a_fifth_is_gone(opx: Opx) -> None:
    for path in ten_files(opx)[:3]:
        path.unlink()
    result = opx("ingest", opx.folder / "docs", "--mirror")
    assert result.exit_code == 2
    assert "has lost 3 of 10 documents" in result.stderr
    assert len(documents(opx)) == 10


def test_force_removes_however_many_are_gone(opx: Opx) -> None:
    for path in ten_files(opx)[:3]:
        path.unlink()
    result = opx("ingest", opx.folder / "docs", "--mirror", "--force")
    assert "3 deleted" in result.stdout
    assert len(documents(opx)) == 7


def test_mirror_of_the_folder_that_names_begin_at_is_refused(opx: Opx) -> None:
    ten_files(opx)[0].unlink()
    result = opx("ingest", opx.folder, "--mirror")
    assert result.exit_code == 2
    assert "name the folders in it" in result.stderr
    assert len(documents(opx)) == 10


def test_removing_a_file_that_failed_takes_it_off_the_list_of_failures(opx: Opx) -> None:
    ten_files(opx)
    bad = opx.write("bad.md", b"\x00")
    assert opx("ingest", opx.folder / "docs").exit_code == 1
    bad.unlink()
    assert opx("ingest", opx.folder / "docs", "--mirror").exit_code == 0
    assert opx("failed").stdout == "nothing failed\n"


def test_documents_belong_to_the_given_client(folder: Opx) -> None:
    folder("--client", "acme", "ingest", folder.write("x.md", RUNBOOK))
    assert documents(folder) == []
    assert len(json.loads(folder("--client", "acme", "list", "--json").stdout)) == 1


def test_ingest_without_a_path_is_wrong_usage(opx: Opx) -> None:
    result = opx("ingest")
    assert result.exit_code == 2
    assert "Missing argument" in result.stderr


def test_files_that_are_not_read_are_listed_with_the_reason_and_sent_nowhere(opx: Opx) -> None:
    opx.write("disk.md", RUNBOOK)
    (opx.folder / "secret.txt").write_text("root:x:0:0")
    for number in range(12):
        (opx.folder / "docs" / f"link-{number:02}.md").symlink_to("../secret.txt")
    result = opx("ingest", opx.folder / "docs")
    assert (result.exit_code, "1 ingested" in result.stdout, "12 left out" in result.stdout) == (0, True, True)
    listed = [line for line in result.stderr.splitlines() if line.startswith("opx: left out:")]
    assert len(listed) == 11
    assert listed[0].endswith("link-00.md: a link that leads out of the folder")
    assert listed[-1] == "opx: left out: 2 more like these"
    assert len(documents(opx)) == 1


def titles(opx: Opx, project: str) -> str:
    return opx("--client", "acme", "--project", project, "list").stdout


class TestGroups:
    """`--group`: documents that all projects of a group see."""

    @pytest.fixture
    def opx(self, folder: Opx) -> Opx:
        folder.write("pool.md", "# Kestrel pool\n\nRestart the kestrel pool.\n")
        return folder

    def test_documents_of_a_group_are_seen_by_its_projects_alone(self, opx: Opx) -> None:
        opx("project", "assign", "acme", "shop", "web")
        found = opx("--client", "acme", "ingest", opx.folder / "docs", "--group", "web")
        assert found.exit_code == 0, found.output
        assert "1 ingested" in found.stdout
        assert "Kestrel pool" in titles(opx, "shop")
        assert "Kestrel pool" not in titles(opx, "billing")

    def test_a_group_without_projects_is_named(self, opx: Opx) -> None:
        found = opx("--client", "acme", "ingest", opx.folder / "docs", "--group", "web")
        assert "no project is in group web yet" in found.stderr
        assert "opx project assign acme PROJECT web" in found.stderr

    @pytest.mark.parametrize("arguments", [(), ("--client", "acme", "--project", "shop")])
    def test_a_group_needs_its_client_and_no_project(self, opx: Opx, arguments: tuple[str, ...]) -> None:
        found = opx(*arguments, "ingest", opx.folder / "docs", "--group", "web")
        assert found.exit_code == 2
        assert "--group needs --client, and no --project" in found.output

    def test_missing_files_of_a_group_are_removed(self, opx: Opx) -> None:
        opx("project", "assign", "acme", "shop", "web")
        gone = opx.write("gone.md", "# Gone heron\n\nIt goes.\n")
        opx("--client", "acme", "ingest", opx.folder / "docs", "--group", "web")
        gone.unlink()
        found = opx("--client", "acme", "ingest", opx.folder / "docs", "--group", "web", "--mirror")
        assert found.exit_code == 0, found.output
        assert "Gone heron" not in titles(opx, "shop")
