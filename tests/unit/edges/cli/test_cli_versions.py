"""Versions of documents on the command line, of a folder and of a deployed system."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from opx.settings import Settings
from opx.system import bootstrap
from tests.support.cli_support import Opx, WordEmbedder
from tests.support.remote_support import KINDS, opx_at

FIRST = "---\ntags: [linux]\nowner: storage\n---\n# Disk full\n\nFind the biggest directories.\n\nRotate the logs.\n"
SECOND = FIRST.replace("Rotate the logs.", "Call the storage team.").replace("linux", "linux, storage")
SOURCE = "documents/docs/disk.md"


def versions(opx: Opx, document_id: str) -> list[dict[str, Any]]:
    """The newest first."""
    found: list[dict[str, Any]] = json.loads(opx("history", document_id, "--json").stdout)["versions"]
    return found


def current(opx: Opx) -> str:
    listed = json.loads(opx("list", "--json").stdout)
    return str(next(each["documentId"] for each in listed if each["title"] == "Disk full"))


def with_two_versions(opx: Opx) -> str:
    """The id of the first one."""
    opx.write("disk.md", FIRST)
    assert opx("ingest", opx.folder / "docs").exit_code == 0
    document_id = current(opx)
    opx.write("disk.md", SECOND)
    assert opx("ingest", opx.folder / "docs").exit_code == 0
    return document_id


@pytest.fixture(params=KINDS)
def opx(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opx]:
    with opx_at(request.param, tmp_path, monkeypatch) as opx:
        yield opx


@pytest.fixture(scope="module", params=KINDS)
def changed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Opx, str]]:
    """A document with two versions, which tests only read; the id of the first one."""
    with pytest.MonkeyPatch.context() as patch, opx_at(request.param, tmp_path_factory.mktemp("opx"), patch) as opx:
        yield opx, with_two_versions(opx)


class TestReading:
    def test_history_shows_the_period_of_each_version(self, changed: tuple[Opx, str]) -> None:
        opx, first = changed
        new, old = versions(opx, current(opx)[:8])
        assert [(each["version"], each["state"]) for each in (new, old)] == [(2, "current"), (1, "superseded")]
        assert old["documentId"] == first
        assert old["currentSince"] <= old["supersededAt"] == new["currentSince"]
        assert new["supersededAt"] == ""
        assert (new["owner"], old["tags"]) == ("storage", ["linux"])

    def test_history_is_readable(self, changed: tuple[Opx, str]) -> None:
        opx, first = changed
        title, heads, new, old = opx("history", first).stdout.splitlines()
        assert title == f"Disk full  {SOURCE}"
        assert heads.split()[:3] == ["version", "document", "id"]
        assert new.split()[:3] == ["2", current(opx)[:12], "current"]
        assert old.split()[:3] == ["1", first[:12], "superseded"]

    def test_diff_compares_with_the_version_before(self, changed: tuple[Opx, str]) -> None:
        lines = changed[0]("diff", current(changed[0])).stdout.splitlines()
        assert lines[0].startswith(f"{SOURCE}: version 1 (")
        assert "  tags: linux -> linux, storage" in lines
        assert lines[-2:] == ["-Rotate the logs.", "+Call the storage team."]

    def test_diff_names_the_steps_that_differ(self, changed: tuple[Opx, str]) -> None:
        lines = changed[0]("diff", current(changed[0])).stdout.splitlines()
        assert [line for line in lines if " step " in line] == [
            "  - step #2 removed: Rotate the logs.",
            "  + step #2 added: Call the storage team.",
        ]

    @pytest.mark.parametrize("name", ["Disk full", "disk FULL", "disk.md", "docs/disk.md", f"./{SOURCE}"])
    def test_document_is_named_by_title_and_path(self, changed: tuple[Opx, str], name: str) -> None:
        opx, first = changed
        assert [each["documentId"] for each in versions(opx, name)] == [current(opx), first]
        assert opx("diff", *name.split(), "--from", "1").stdout.startswith(f"{SOURCE}: version 1 (")
        result = opx("restore", *name.split())
        assert (result.exit_code, "version 2 is the current one" in result.stderr) == (2, True)

    def test_old_version_is_named_by_the_beginning_of_its_id(self, changed: tuple[Opx, str]) -> None:
        opx, first = changed
        assert len(versions(opx, first[:8].upper())) == 2
        result = opx("diff", first[:8])
        assert "version 1 is the first one that is kept" in result.stderr

    @pytest.mark.parametrize("command", ["history", "diff", "restore"])
    def test_unknown_name_gets_the_nearest_titles(self, changed: tuple[Opx, str], command: str) -> None:
        result = changed[0](command, "Disks full")
        assert result.exit_code == 2
        assert result.stderr.rstrip().endswith("Disk full"), result.stderr

    def test_diff_goes_the_other_way_too(self, changed: tuple[Opx, str]) -> None:
        found = json.loads(changed[0]("diff", changed[1], "--from", "2", "--to", "1", "--json").stdout)
        assert found["diff"].endswith("-Call the storage team.\n+Rotate the logs.\n")
        assert (found["before"]["version"], found["after"]["documentId"]) == (2, changed[1])
        assert (found["added"], found["removed"], found["cut"]) == (1, 1, False)

    def test_diff_of_a_version_with_itself_is_empty(self, changed: tuple[Opx, str]) -> None:
        assert "the texts are equal" in changed[0]("diff", changed[1], "--from", "1").stdout

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "version 1 is the first one that is kept: there is none to compare with"),
            (("--from", "7"), "the document has no version 7; its versions: 1, 2"),
        ],
    )
    def test_diff_without_a_version_to_compare_with_is_refused(
        self, changed: tuple[Opx, str], arguments: tuple[str, ...], message: str
    ) -> None:
        result = changed[0]("diff", changed[1], *arguments)
        assert (result.exit_code, result.stderr) == (2, f"opx: {message}\n")

    def test_search_as_of_is_of_then(self, changed: tuple[Opx, str]) -> None:
        opx = changed[0]
        began = versions(opx, changed[1])[0]["currentSince"]
        now = json.loads(opx("search", "storage team", "--as-of", began, "--min-confidence", "0", "--json").stdout)
        assert [result["metadata"]["documentId"] for result in now["results"]] == [current(opx)]
        then = opx("search", "storage team", "--as-of", "2020-05-01", "--min-confidence", "0")
        assert (then.exit_code, "as of 2020-05-01T00:00:00Z" in then.stderr) == (1, True)

    def test_an_invalid_time_is_refused(self, changed: tuple[Opx, str]) -> None:
        result = changed[0]("search", "x", "--as-of", "yesterday")
        assert result.exit_code == 2
        assert "must be a time such as 2026-03-31T14:05Z, not 'yesterday'" in result.stderr


def test_diff_shows_a_changed_command_before_and_after(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    page = "# Disk full\n\n## Steps\n\n1. Rotate:\n\n   ```sh\n   logrotate {} /etc/logrotate.conf\n   ```\n"
    for flag in ("--debug", "--force"):
        opx.write("disk.md", page.format(flag))
        opx("ingest", opx.folder / "docs")
    lines = opx("diff", current(opx)).stdout.splitlines()
    at = lines.index("  ~ step 1 command changed: Rotate")
    assert lines[at + 1 : at + 3] == [
        "      - logrotate --debug /etc/logrotate.conf",
        "      + logrotate --force /etc/logrotate.conf",
    ]


def test_diff_begins_with_warnings_that_are_gone(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    page = (
        "# Failover\n\n## Steps\n\n{}1. Stop writes.{}\n1. Promote the replica.\n1. Tell {}.\n"
        "\n## Verification\n\nIt takes writes.\n{}"
    )
    rollback = "\n## Rollback\n\nSwitch over again.\n"
    for parts in (("", " Do not do this on the primary.", "all", rollback), ("1. Wait.\n", "", "both", "")):
        opx.write("failover.md", page.format(*parts))
        opx("ingest", opx.folder / "docs")
    (listed,) = json.loads(opx("list", "--json").stdout)
    heading, *lines = opx("diff", listed["documentId"]).stdout.splitlines()
    changes = [line for line in lines if not line.startswith("  last_updated")]  # the second may have turned
    assert heading
    assert changes[:8] == [
        "  - warning REMOVED (step 1, Steps): Do not do this on the primary.",
        "  - rollback section REMOVED (Rollback): Switch over again.",
        "  + step 1 added: Wait.",
        "  ~ step 2 (was 1) text changed: Stop writes.",
        "  ~ step 4 (was 3) text changed: Tell both.",
        "      before: Tell all.",
        "  - step #4 removed: Switch over again.",
        "  Steps: steps 1 to 3 are now 2 to 4",
    ]
    found = json.loads(opx("diff", listed["documentId"], "--json").stdout)
    assert found["safeguards"][0] == {
        "kind": "removed",
        "safeguard": "warning",
        "before": "Do not do this on the primary.",
        "sectionBefore": "Steps",
        "stepBefore": "1",
    }
    back = opx("diff", listed["documentId"], "--from", "2", "--to", "1").stdout.splitlines()
    assert "  + warning added (step 1, Steps): Do not do this on the primary." in back


class TestRestoring:
    def test_an_old_version_becomes_a_new_one(self, opx: Opx) -> None:
        first = with_two_versions(opx)
        result = opx("restore", current(opx), "--version", "1")
        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines()[0].startswith(f"version 1 of {SOURCE} is restored")
        found = versions(opx, first)
        assert [(each["version"], each["documentId"] == first) for each in found] == [(3, True), (2, False), (1, True)]
        assert (found[0]["tags"], found[0]["owner"], found[0]["source"]) == (["linux"], "storage", "docs/disk.md")

    def test_a_deleted_document_comes_back(self, tmp_path: Path) -> None:
        opx = Opx(tmp_path)
        first = with_two_versions(opx)
        deleted = current(opx)
        assert opx("delete", "--yes", deleted).exit_code == 0
        assert opx("restore", deleted).exit_code == 0
        assert current(opx) == deleted != first

    @pytest.mark.parametrize("name", ["Disk full", "docs/disk.md"])
    def test_a_deleted_document_is_named_by_title_and_path(self, tmp_path: Path, name: str) -> None:
        opx = Opx(tmp_path)
        with_two_versions(opx)
        opx.write("other.md", "# Certificates\n\nRenew them.\n")
        opx("ingest", opx.folder / "docs")
        deleted = current(opx)
        opx("delete", "--yes", deleted)
        assert [(each["version"], each["state"]) for each in versions(opx, name)] == [(2, "deleted"), (1, "superseded")]
        assert "+Call the storage team." in opx("diff", name).stdout
        assert opx("restore", name).exit_code == 0
        assert current(opx) == deleted

    def test_of_two_deleted_documents_with_one_title_the_candidates_are_named(self, tmp_path: Path) -> None:
        opx = Opx(tmp_path)
        for name in ("a/disk.md", "b/disk.md"):
            opx.write(name, FIRST + name)
        opx("ingest", opx.folder / "docs")
        ids = [each["documentId"] for each in json.loads(opx("list", "--json").stdout)]
        opx("delete", "--yes", *ids)
        result = opx("restore", "Disk full")
        assert (result.exit_code, "is the name of 2 documents" in result.stderr) == (2, True)
        assert all(each in result.stderr for each in ids)

    def test_the_current_version_is_not_restored(self, tmp_path: Path) -> None:
        opx = Opx(tmp_path)
        with_two_versions(opx)
        result = opx("restore", current(opx))
        assert result.exit_code == 2
        assert "version 2 is the current one: there is nothing to restore" in result.stderr
        assert len(versions(opx, current(opx))) == 2


def test_documents_of_others_are_not_restored(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    with_two_versions(opx)
    result = opx("--client", "acme", "restore", current(opx), "--version", "1")
    assert result.exit_code == 2
    assert "belongs to global, you may restore only client:acme" in result.stderr


def test_documents_of_another_client_are_not_named(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    opx.write("disk.md", FIRST)
    assert opx("--client", "acme", "ingest", opx.folder / "docs").exit_code == 0
    (listed,) = json.loads(opx("--client", "acme", "list", "--json").stdout)
    for name in ("Disk full", "docs/disk.md", listed["documentId"], listed["documentId"][:8]):
        for command in ("history", "diff", "restore"):
            result = opx("--client", "other", command, name)
            assert result.exit_code == 2, result.output
            assert listed["documentId"] not in result.output.replace(name, "")
            assert "storage" not in result.output


def test_a_binary_file_is_restored_as_its_extracted_text(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    page = "<html><head><title>Disk full</title></head><body><h1>Disk full</h1><p>{}</p></body></html>"
    opx.write("disk.html", page.format("Rotate the logs."))
    opx("ingest", opx.folder / "docs")
    first = current(opx)
    opx.write("disk.html", page.format("Call somebody."))
    opx("ingest", opx.folder / "docs")
    result = opx("restore", first)
    assert result.exit_code == 0
    assert "the original file is gone: disk.html now has its extracted text as Markdown" in result.stderr
    assert f"document {first} is current again" in result.stdout


def test_restored_title_is_the_one_that_was_completed(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    for text in ("Rotate the logs.", "Call somebody."):
        opx.write("kafka/index.html", f"<html><body><h1>Overview</h1><p>{text}</p></body></html>")
        opx("ingest", opx.folder / "docs")
    (listed,) = json.loads(opx("list", "--json").stdout)
    assert listed["title"] == "Overview (kafka)"
    first = versions(opx, listed["documentId"])[1]["documentId"]
    assert f"document {first} is current again" in opx("restore", first).stdout
    assert json.loads(opx("list", "--json").stdout)[0]["title"] == "Overview (kafka)"


def test_a_version_without_stored_text_is_not_restored(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    first = with_two_versions(opx)
    (opx.home / "corpus" / "chunks" / f"{first}.jsonl").unlink()
    result = opx("restore", first)
    assert (result.exit_code, "nothing is left of version 1" in result.stderr) == (2, True)
    assert len(versions(opx, current(opx))) == 2


def test_an_expired_version_is_neither_shown_nor_restored(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    opx.write("disk.md", FIRST.replace("owner: storage", "expires: 2020-01-01"))
    opx("ingest", opx.folder / "docs")
    opx.write("disk.md", SECOND)
    opx("ingest", opx.folder / "docs")
    for command in ("restore", "diff"):
        result = opx(command, current(opx), "--version" if command == "restore" else "--from", "1")
        assert result.exit_code == 2
        assert f"version 1 of {SOURCE} expired on 2020-01-01, and is being removed" in result.stderr


def test_a_receipt_can_be_replayed_as_of_its_issue(tmp_path: Path) -> None:
    opx, receipt = Opx(tmp_path), tmp_path / "receipt.json"
    opx.write("disk.md", FIRST)
    opx("ingest", opx.folder / "docs")
    question = ("search", "disk full biggest directories", "--min-confidence", "0")
    assert opx(*question, "--receipt", receipt).exit_code == 0
    opx.write("disk.md", SECOND)
    opx.write("more.md", "# Disk full again\n\nFind the biggest directories, and their owners.\n")
    issued_at = datetime.fromisoformat(json.loads(receipt.read_text())["askedAt"]).timestamp()
    with bootstrap(Settings(home=str(opx.home)), embedder=WordEmbedder(), clock=lambda: issued_at + 60) as services:
        for name in ("disk.md", "more.md"):
            services.store.put(f"documents/docs/{name}", (opx.folder / "docs" / name).read_bytes())
        assert services.ingestion.drain
        assert len(list(services.ingestion.drain.run())) == 2
    assert opx("receipt", "replay", receipt).exit_code == 1
    then = opx("receipt", "replay", receipt, "--then")
    assert (then.exit_code, then.stdout.startswith("the same answer as on")) == (0, True), then.output
