"""Files of a folder: nothing outside of it is read, whatever is linked, and what is left out has a reason."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from opx.errors import InvalidInputError
from opx.ingestion import files
from opx.ingestion.events import EventOutcome, Result
from opx.ingestion.files import FileToIngest, plan_files, sidecar_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a document, beside a file that is none of it."""
    (tmp_path / "secret.txt").write_text("root:x:0:0")
    (tmp_path / "runbooks" / "db").mkdir(parents=True)
    (tmp_path / "runbooks" / "db" / "disk.md").write_text("# Disk full")
    return tmp_path / "runbooks"


def planned(*paths: Path) -> tuple[list[str], dict[str, tuple[Result, str]]]:
    """Sources of the files to ingest; outcome and reason of the others by name."""
    steps = list(plan_files(paths, paths[0].parent))
    taken = [step.source for step in steps if isinstance(step, FileToIngest)]
    left = {Path(step.object_key).name: (step.result, step.reason) for step in steps if isinstance(step, EventOutcome)}
    return taken, left


def test_files_come_in_a_stable_order_without_hidden_ones_and_sidecars(folder: Path) -> None:
    for name in ("b.md", "a.md", ".hidden.md", "a.md.metadata.json"):
        (folder / name).write_text("x")
    (folder / ".git").mkdir()
    (folder / ".git" / "config.md").write_text("x")
    assert planned(folder) == (["runbooks/a.md", "runbooks/b.md", "runbooks/db/disk.md"], {})


@pytest.mark.parametrize("target", ["../secret.txt", "/etc/passwd", "db/../../secret.txt"])
def test_a_link_out_of_the_folder_is_not_followed(folder: Path, target: str) -> None:
    (folder / "notes.md").symlink_to(target)
    taken, left = planned(folder)
    assert taken == ["runbooks/db/disk.md"]
    assert left == {"notes.md": (Result.SKIPPED, "a link that leads out of the folder")}


def test_a_link_that_leaves_through_another_link_is_not_followed(folder: Path) -> None:
    (folder / "up").symlink_to("..")
    (folder / "notes.md").symlink_to("up/secret.txt")
    taken, left = planned(folder)
    assert taken == ["runbooks/db/disk.md"]
    assert left["notes.md"] == (Result.SKIPPED, "a link that leads out of the folder")
    assert left["up"] == (Result.SKIPPED, "links to folders are not followed")


def test_a_link_within_the_folder_is_followed(folder: Path) -> None:
    (folder / "copy.md").symlink_to("db/disk.md")
    assert planned(folder) == (["runbooks/copy.md", "runbooks/db/disk.md"], {})


def test_a_link_named_on_the_command_line_is_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "named.txt").symlink_to("secret.txt")
    (tmp_path / "current").symlink_to("runbooks")
    taken, left = planned(tmp_path / "named.txt", tmp_path / "current")
    assert (taken, left) == (["named.txt", "current/db/disk.md"], {})


def test_pipes_sockets_and_links_to_nothing_are_left_out_with_a_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(folder / "pipe.md")
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "gone.md").symlink_to("gone-for-good.md")
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(folder)  # the address of a socket has at most 108 bytes
        listening.bind("socket.md")
        taken, left = planned(folder)
    assert taken == ["runbooks/db/disk.md"]
    assert {name: reason for name, (_, reason) in left.items()} == dict.fromkeys(
        ("pipe.md", "loop.md", "gone.md", "socket.md"), "no regular file, or a link to none"
    )


def test_a_pipe_named_on_the_command_line_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    ((result, reason),) = planned(tmp_path / "pipe")[1].values()
    assert (result, reason) == (Result.FAILED, f"neither a file nor a folder: {tmp_path / 'pipe'}")


def test_folders_beyond_the_deepest_level_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_DEPTH", 1)
    (folder / "db" / "deep").mkdir()
    (folder / "db" / "deep" / "x.md").write_text("x")
    taken, left = planned(folder)
    assert taken == ["runbooks/db/disk.md"]
    assert left == {"db": (Result.SKIPPED, files.TOO_DEEP)}


def test_too_many_files_are_refused_with_what_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_FILES", 1)
    (folder / "b.md").write_text("x")
    with pytest.raises(InvalidInputError, match="has more than 1 files: name the folders in it to read"):
        planned(folder)


def test_a_sidecar_that_links_elsewhere_is_none(folder: Path) -> None:
    document = folder / "db" / "disk.md"
    sidecar = folder / "db" / "disk.md.metadata.json"
    sidecar.symlink_to("../../secret.txt")
    assert sidecar_of(document) is None
    sidecar.unlink()
    sidecar.write_text("{}")
    assert sidecar_of(document) == sidecar
