from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.documents import KnowledgeDocument
from opx.errors import DocumentNotFoundError
from opx.operations.context import Context
from tests.support.cli_support import Opx
from tests.support.remote_support import KINDS, opx_at

LONG = "# Long runbook\n\n" + "".join(
    f"## Step {step}\n\n" + f"Überprüfe the *queue* number {step} and wait for it. " * 60 + "\n\n" for step in range(4)
)


@pytest.fixture(params=KINDS)
def opx(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opx]:
    with opx_at(request.param, tmp_path, monkeypatch) as opx:
        yield opx


@pytest.fixture
def folder(tmp_path: Path) -> Opx:
    return Opx(tmp_path)


def ingest_file(opx: Opx, name: str, text: str) -> str:
    """The document's id."""
    path = opx.write(name, text)
    assert opx("ingest", path).exit_code == 0
    found = json.loads(opx("list", "--json").stdout)
    return str(next(d["documentId"] for d in found if d["source"].endswith(name)))


def test_show_prints_the_text_exactly_as_ingested(opx: Opx) -> None:
    document_id = ingest_file(opx, "long.md", LONG)
    result = opx("show", document_id)
    assert result.exit_code == 0
    assert result.stdout.split("\n\n", 1)[1] == LONG
    assert json.loads(opx("show", document_id, "--json").stdout)["text"] == LONG


def test_show_has_title_category_and_source(opx: Opx) -> None:
    lines = opx("show", ingest_file(opx, "runbooks/x.md", "# X\n\ntext\n")).stdout.splitlines()
    assert lines[0] == "X"
    assert "  category     runbooks/procedures (internal, trust 1)" in lines
    assert "  source       docs/runbooks/x.md" in lines


def test_the_beginning_of_an_id_is_enough(opx: Opx) -> None:
    document_id = ingest_file(opx, "x.md", "# X\n\ntext\n")
    assert opx("show", document_id[:6].upper()).stdout.startswith("X\n")


def test_a_beginning_that_several_ids_share_is_refused_with_a_list(opx: Opx) -> None:
    for number in range(17):
        opx.write(f"{number}.md", f"# {number}\n\ntext\n")
    opx("ingest", opx.folder / "docs")
    ids = [d["documentId"] for d in json.loads(opx("list", "--json").stdout)]
    shared = next(i[0] for i in ids if sum(j[0] == i[0] for j in ids) > 1)
    result = opx("show", shared)
    assert result.exit_code == 2
    assert f"{shared} is the beginning of" in result.stderr
    assert sum(line.strip()[:32] in ids for line in result.stderr.splitlines()) >= 2


@pytest.mark.parametrize("wanted", ["0" * 32, "0123456", "no-such-id", "", "a" * 33])
@pytest.mark.parametrize("command", [("show",), ("delete", "--yes")])
def test_an_unknown_id_is_an_error(opx: Opx, wanted: str, command: tuple[str, ...]) -> None:
    ingest_file(opx, "x.md", "# X\n\ntext\n")
    result = opx(*command, wanted)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("opx: ")


def test_an_old_version_is_still_readable_and_in_the_chain(opx: Opx) -> None:
    old = ingest_file(opx, "x.md", "# X\n\nold text\n")
    new = ingest_file(opx, "x.md", "# X\n\nnew text\n")
    found = json.loads(opx("show", old, "--json").stdout)
    assert found["text"] == "# X\n\nold text\n"
    assert [(v["documentId"], v["state"]) for v in found["versions"]] == [(new, "current"), (old, "superseded")]
    assert f"version 1  {old}" in opx("show", new).stdout


def test_chunks_cover_the_text(opx: Opx) -> None:
    found = json.loads(opx("show", ingest_file(opx, "long.md", LONG), "--chunks", "--json").stdout)
    assert len(found["chunks"]) > 4
    assert all(LONG[c["start"] : c["end"]] == c["content"] for c in found["chunks"])
    assert "--- chunk 1, characters" in opx("show", found["documentId"], "--chunks").stdout


def test_documents_of_other_clients_are_not_shown(folder: Opx) -> None:
    folder("--client", "acme", "ingest", folder.write("x.md", "# X\n\ntext\n"))
    document_id = json.loads(folder("--client", "acme", "list", "--json").stdout)[0]["documentId"]
    assert folder("show", document_id).exit_code == 2
    assert folder("--client", "acme", "show", document_id).exit_code == 0


def test_list_is_a_table_with_short_ids(opx: Opx) -> None:
    document_id = ingest_file(opx, "x.md", "# X\n\ntext\n")
    head, row = opx("list").stdout.splitlines()
    assert head.split() == ["DOCUMENT", "ID", "CATEGORY", "VERSION", "STATE", "CHUNKS", "UPDATED", "TITLE"]
    assert row.split()[0] == document_id[:12]
    assert row.split()[-1] == "X"


def test_list_can_be_narrowed(opx: Opx) -> None:
    opx("ingest", opx.write("runbooks/a.md", "# A\n\ntext\n"), "--tag", "disk")
    opx("ingest", opx.write("postmortems/b.md", "# B\n\ntext\n"))
    assert [d["title"] for d in json.loads(opx("list", "--tag", "disk", "--json").stdout)] == ["A"]
    assert [d["title"] for d in json.loads(opx("list", "--category", "postmortem", "--json").stdout)] == ["B"]


def test_list_shows_old_versions_only_on_request(opx: Opx) -> None:
    ingest_file(opx, "x.md", "# X\n\nold\n")
    ingest_file(opx, "x.md", "# X\n\nnew\n")
    assert len(json.loads(opx("list", "--json").stdout)) == 1
    assert len(json.loads(opx("list", "--all-versions", "--json").stdout)) == 2


def test_a_deleted_document_is_not_found_and_stays_readable(opx: Opx) -> None:
    document_id = ingest_file(opx, "x.md", "# X\n\ntext\n")
    result = opx("delete", document_id[:8], "--yes")
    assert (result.exit_code, result.stdout) == (0, f"deleted {document_id}  X\n")
    assert opx("search", "text", "--min-confidence", "0").exit_code == 1
    assert "text" in opx("show", document_id).stdout
    assert json.loads(opx("list", "--json").stdout) == []


def test_deleting_again_is_no_error(opx: Opx) -> None:
    ids = [ingest_file(opx, name, f"# {name}\n\ntext\n") for name in ("x.md", "y.md")]
    assert opx("delete", ids[0], "--yes").exit_code == 0
    result = opx("delete", *ids, "--yes")
    assert (result.exit_code, result.stdout) == (0, f"deleted {ids[1]}  y.md\n")
    assert result.stderr == f"opx: document {ids[0]} was deleted before\n"


def test_an_old_version_is_not_deleted_nor_any_with_it(opx: Opx) -> None:
    other = ingest_file(opx, "y.md", "# Y\n\ntext\n")
    old = ingest_file(opx, "x.md", "# X\n\nold\n")
    ingest_file(opx, "x.md", "# X\n\nnew\n")
    result = opx("delete", other, old, "--yes")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"opx: document {old} is superseded: nothing is deleted\n"
    assert len(json.loads(opx("list", "--json").stdout)) == 2


def test_a_document_of_another_scope_is_seen_and_not_deleted_nor_any_with_it(folder: Opx) -> None:
    foreign = ingest_file(folder, "x.md", "# X\n\ntext\n")
    folder("--client", "acme", "ingest", folder.write("y.md", "# Y\n\ntext\n"))
    found = json.loads(folder("--client", "acme", "list", "--json").stdout)
    own = next(d["documentId"] for d in found if d["documentId"] != foreign)
    result = folder("--client", "acme", "delete", own, foreign)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (f"opx: {foreign} belongs to global, you may delete only client:acme: nothing is deleted\n")
    assert len(json.loads(folder("--client", "acme", "list", "--json").stdout)) == 2


def test_delete_in_a_pipe_is_refused_without_a_prompt(opx: Opx) -> None:
    document_id = ingest_file(opx, "x.md", "# X\n\ntext\n")
    result = opx("delete", document_id, stdin="y\n")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert len(json.loads(opx("list", "--json").stdout)) == 1


class TestNames:
    @pytest.mark.parametrize(
        "name", ["docs/runbooks/full.md", "full.md", "./full.md", "Disk full", "disk FULL", "full"]
    )
    def test_show_takes_a_path_and_a_title(self, opx: Opx, name: str) -> None:
        ingest_file(opx, "runbooks/full.md", "# Disk full\n\ntext\n")
        ingest_file(opx, "runbooks/other.md", "# Other\n\nthing\n")
        assert opx("show", *name.split()).stdout.startswith("Disk full\n")

    def test_a_name_of_several_documents_is_refused_with_a_list(self, opx: Opx) -> None:
        first, second = (ingest_file(opx, f"{name}/x.md", f"# Disk {name}\n\n{name}\n") for name in ("one", "two"))
        result = opx("show", "disk")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("opx: 'disk' is the name of 2 documents; give the id of one:\n")
        assert all(one[:12] in result.stderr for one in (first, second))

    def test_similar_titles_are_listed_if_no_document_has_the_name(self, opx: Opx) -> None:
        document_id = ingest_file(opx, "full.md", "# Disk full\n\ntext\n")
        result = opx("show", "dsk fulll")
        assert result.exit_code == 2
        assert result.stderr == (
            f"opx: no document has this id, path, address or title: dsk fulll; the nearest are:\n  {document_id}  Disk full\n"
        )

    @pytest.mark.parametrize("title", ["Cafe", "x" * 32])
    def test_a_title_that_looks_like_an_id_is_found(self, opx: Opx, title: str) -> None:
        ingest_file(opx, "page.md", f"# {title}\n\ntext\n")
        assert opx("show", title).stdout.startswith(f"{title}\n")

    def test_a_name_that_no_search_finds_is_found_among_all(self, opx: Opx) -> None:
        for number in range(25):
            opx.write(f"crowd/{number}.md", f"# Rotate xyzzy {number}\n\nxyzzy xyzzy rotate\n")
        opx.write("crowd/xyzzy-rotate.md", "# Plugh\n\nnothing alike\n")
        assert opx("ingest", opx.folder / "docs").exit_code == 0
        assert opx("show", "xyzzy-rotate.md").stdout.startswith("Plugh\n")


def test_last_is_read_on_this_machine_alone(opx: Opx) -> None:
    ingest_file(opx, "gate.md", "# Zorblax gate\n\nOpen the zorblax gate.\n")
    opx("search", "zorblax gate")
    shown = opx("show", "last")
    if type(opx) is Opx:
        assert shown.stdout.startswith("Zorblax gate\n")
    else:
        assert shown.stderr.startswith("opx: `last` is read from the audit log of this machine")


class TestLastAnswer:
    @pytest.fixture
    def opx(self, tmp_path: Path) -> Opx:
        return Opx(tmp_path)

    @pytest.fixture
    def found(self, opx: Opx) -> tuple[str, str]:
        """The ids of both documents of the last answer."""
        for at in (1, 2):
            ingest_file(opx, f"gate{at}.md", f"# Zorblax gate {at}\n\nOpen the zorblax gate {'slowly ' * at}.\n")
        answer = json.loads(opx("search", "zorblax gate", "--json", "--min-confidence", "0").stdout)
        first, second = (one["documentId"] for one in answer["documents"])
        return first, second

    @pytest.mark.parametrize("command", ["show", "why", "history"])
    def test_last_names_a_document_by_its_rank(self, opx: Opx, found: tuple[str, str], command: str) -> None:
        for rank, document_id in (((), found[0]), (("1",), found[0]), (("2",), found[1])):
            shown = opx(command, "last", *rank, "--json")
            assert shown.stdout == opx(command, document_id, "--json").stdout
            assert shown.exit_code == 0

    def test_a_rank_that_it_does_not_have_is_refused_with_the_titles(self, opx: Opx, found: tuple[str, str]) -> None:
        titles = [json.loads(opx("show", one, "--json").stdout)["title"] for one in found]
        expected = f"opx: the answer has 2 documents, and none at rank 9:\n  1  {titles[0]}\n  2  {titles[1]}\n"
        for line in (("show", "last", "9"), ("why", "last", "9"), ("outcome", "record", "last", "9", "resolved")):
            refused = opx(*line)
            assert (refused.exit_code, refused.stderr) == (2, expected)

    def test_a_document_that_was_removed_is_listed_by_its_id(
        self, opx: Opx, found: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def removed(context: Context, document_id: str) -> KnowledgeDocument:
            raise DocumentNotFoundError(document_id)

        monkeypatch.setattr("opx.operations.documents.find_document", removed)
        assert f"\n  2  {found[1][:12]}, which is gone\n" in opx("show", "last", "0").stderr

    def test_without_an_answer_there_is_none(self, opx: Opx) -> None:
        ingest_file(opx, "gate.md", "# Gate\n\nOpen it.\n")
        assert opx("show", "last").exit_code == 2
        assert "receipt 'last'" in opx("show", "last").stderr


STEPS = """# Disk full

## Steps

1. Look at it.

   ```sh
   df -h   # exact
   ```

2. Remove the logs.
"""
DESTRUCTIVE = STEPS + "\n3. Start anew.\n\n   ```sh\n   rm -rf /var/lib/postgresql\n   ```\n"


class TestParts:
    def test_one_step_is_shown_as_written(self, opx: Opx) -> None:
        document_id = ingest_file(opx, "disk.md", STEPS)
        shown = opx("show", document_id, "--step", "1").stdout
        assert shown == (
            "Disk full, step 1\nread: changes nothing\n\n## Steps\n\n1. Look at it.\n\n"
            "   ```sh\n   df -h   # exact\n   ```\n"
        )

    def test_a_destructive_step_has_its_warning_before_it(self, opx: Opx) -> None:
        document_id = ingest_file(opx, "disk.md", DESTRUCTIVE)
        for more in ((), ("--raw",)):
            shown = opx("show", document_id, "--step", "3", *more).stdout
            assert shown.startswith(
                "Disk full, step 3\n"
                "This step destroys something that can't be restored.\n"
                "Destructive: step 3 `rm -rf /var/lib/postgresql`\n"
                "destructive: loses data, state, history or work in flight\n\n"
            )

    def test_several_steps_have_the_warnings_of_those_that_destroy_before_them(self, opx: Opx) -> None:
        shown = opx("show", ingest_file(opx, "disk.md", DESTRUCTIVE), "--step", "steps").stdout
        assert shown.startswith(
            "Disk full, steps\n"
            "Some of these steps destroy something that can't be restored.\n"
            "Destructive: step 3 `rm -rf /var/lib/postgresql`\n\n"
        )

    def test_step_takes_a_heading_and_a_role(self, opx: Opx) -> None:
        document_id = ingest_file(opx, "disk.md", STEPS + "\n## Who to call\n\nThe storage team.\n")
        for name in ("who to call", "escalation"):
            shown = opx("show", document_id, "--step", name).stdout
            assert shown == f"Disk full, {name}\n\n## Who to call\n\nThe storage team.\n"

    def test_a_missing_step_is_an_error_that_names_the_parts(self, opx: Opx) -> None:
        result = opx("show", ingest_file(opx, "disk.md", STEPS), "--step", "9")
        assert (result.exit_code, result.stderr) == (
            2,
            "opx: the document has no part '9'; it has: outline, all, steps, step 1 to step 2, Steps\n",
        )

    def test_a_number_of_two_steps_shows_the_first_and_names_the_other(self, opx: Opx) -> None:
        document_id = ingest_file(opx, "disk.md", STEPS + "\n## Rollback\n\n1. Put the logs back.\n")
        result = opx("show", document_id, "--step", "1")
        assert "1. Look at it." in result.stdout
        assert result.stderr == (
            "opx: '1' may mean 2 steps: this is step #1 (Steps: Look at it.); there is also "
            "step #3 (Rollback: Put the logs back.)\n"
        )
        other = opx("show", document_id, "--step", "#3")
        assert ("1. Put the logs back." in other.stdout, other.stderr) == (True, "")

    def test_the_outline_is_shown_alone_with_effects(self, opx: Opx) -> None:
        shown = opx("show", ingest_file(opx, "disk.md", STEPS), "--outline").stdout
        assert shown == "Disk full\n  Steps\n    step 1: Look at it.  [read]\n    step 2: Remove the logs.\n"

    def test_a_part_is_json_too(self, opx: Opx) -> None:
        found = json.loads(opx("show", ingest_file(opx, "disk.md", STEPS), "--outline", "--json").stdout)
        assert [step["title"] for step in found["steps"]] == ["Look at it.", "Remove the logs."]

    def test_of_a_version_that_was_replaced_the_current_step_is_shown_with_a_note(self, opx: Opx) -> None:
        old = ingest_file(opx, "disk.md", STEPS)
        ingest_file(opx, "disk.md", STEPS.replace("Look at it", "Look at it now"))
        result = opx("show", old, "--step", "1")
        assert "1. Look at it now." in result.stdout
        assert "version 1 was replaced" in result.stderr

    def test_of_a_version_that_was_replaced_a_step_that_is_gone_is_refused(self, opx: Opx) -> None:
        old = ingest_file(opx, "gone.md", STEPS)
        ingest_file(opx, "gone.md", STEPS.replace("Look at it", "Wipe the volume"))
        result = opx("show", old, "--step", "1")
        assert result.exit_code == 2
        assert "'1' was a step of version 1; the current one has no such step: Look at it" in result.stderr
