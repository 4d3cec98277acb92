from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.bootstrap import Services
from opx.cli.watch_command import Follower
from opx.errors import StoreUnavailableError
from opx.ingestion.manager import IngestionManager
from tests.unit.cli_support import Opx


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    return Opx(tmp_path)


@pytest.fixture
def services(opx: Opx) -> Iterator[Services]:
    with opx.services() as services:
        yield services


def following(opx: Opx, services: Services, *, delete: bool = True) -> Follower:
    follower = Follower(services, opx.folder / "docs", {}, delete=delete, sleep=lambda seconds: None)
    follower.folder.mkdir(exist_ok=True)
    follower.take_in()
    return follower


def titles(services: Services) -> dict[str, str]:
    """Source and title of each current document."""
    found = (d for path in services.knowledge.categories for d in services.catalog.in_category(path))
    return {document.source_uri: document.title for document in found}


def test_what_is_there_is_taken_in_first(opx: Opx, services: Services) -> None:
    opx.write("a.md", "# A\n\ntext\n")
    following(opx, services)
    assert titles(services) == {"docs/a.md": "A"}


def test_what_went_away_meanwhile_is_removed_at_the_start(opx: Opx, services: Services) -> None:
    for number in range(6):
        opx.write(f"{number}.md", f"# {number}\n\ntext\n")
    following(opx, services)
    (opx.folder / "docs" / "0.md").unlink()
    following(opx, services)
    assert "docs/0.md" not in titles(services)


def test_a_folder_that_lost_much_is_watched_without_deleting(
    opx: Opx, services: Services, capsys: pytest.CaptureFixture[str]
) -> None:
    path = opx.write("a.md", "# A\n\ntext\n")
    following(opx, services)
    path.unlink()
    following(opx, services)
    assert titles(services) == {"docs/a.md": "A"}
    assert "has lost 1 of 1 documents" in capsys.readouterr().err


def test_new_and_changed_files_are_taken_in(opx: Opx, services: Services, capsys: pytest.CaptureFixture[str]) -> None:
    changed = opx.write("a.md", "# A\n\ntext\n")
    follower = following(opx, services)
    opx.write("a.md", "# A2\n\ntext\n")
    capsys.readouterr()
    follower.react([changed, opx.write("b.md", "# B\n\ntext\n")])
    assert titles(services) == {"docs/a.md": "A2", "docs/b.md": "B"}
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[1:3] for line in lines) == [
        ["ingested", "documents/docs/a.md"],
        ["ingested", "documents/docs/b.md"],
    ]


def test_a_rename_moves_the_document(opx: Opx, services: Services) -> None:
    old = opx.write("a.md", "# A\n\ntext\n")
    follower = following(opx, services)
    new = old.rename(old.with_name("b.md"))
    follower.react([old, new])
    assert titles(services) == {"docs/b.md": "A"}


def test_a_renamed_folder_moves_its_documents(opx: Opx, services: Services) -> None:
    old = opx.write("runbooks/deep/a.md", "# A\n\ntext\n").parents[1]
    follower = following(opx, services)
    new = old.rename(old.with_name("postmortems"))
    follower.react([old, new])
    assert titles(services) == {"docs/postmortems/deep/a.md": "A"}


def test_deleting_can_be_left_out(opx: Opx, services: Services) -> None:
    path = opx.write("a.md", "# A\n\ntext\n")
    follower = following(opx, services, delete=False)
    path.unlink()
    follower.react([path])
    assert titles(services) == {"docs/a.md": "A"}


def test_a_file_that_an_editor_replaces_is_not_deleted(opx: Opx, services: Services) -> None:
    path = opx.write("a.md", "# A\n\ntext\n")
    following(opx, services)
    path.unlink()

    def the_editor_goes_on(seconds: float) -> None:
        opx.write("a.md", "# A2\n\ntext\n")

    Follower(services, opx.folder / "docs", {}, delete=True, sleep=the_editor_goes_on).react([path])
    assert titles(services) == {"docs/a.md": "A2"}
    assert len(list(services.catalog.versions(next(services.catalog.in_category("runbooks/procedures")).key))) == 2


def test_hidden_files_and_the_home_folder_are_ignored(opx: Opx, services: Services) -> None:
    follower = following(opx, services)
    follower.react([opx.write(".a.md.swp", "# A\n\ntext\n"), opx.home / "corpus" / "x.md", opx.folder / "outside.md"])
    assert titles(services) == {}


def test_a_changed_sidecar_changes_its_document(opx: Opx, services: Services) -> None:
    opx.write("a.md", "# A\n\ntext\n")
    follower = following(opx, services)
    follower.react([opx.write("a.md.metadata.json", '{"metadataAttributes": {"title": "Better"}}')])
    assert titles(services) == {"docs/a.md": "Better"}


def test_a_folder_that_is_gone_as_a_whole_takes_nothing_with_it(opx: Opx, services: Services) -> None:
    path = opx.write("a.md", "# A\n\ntext\n")
    follower = following(opx, services)
    shutil.rmtree(path.parent)
    follower.react([path, path.parent])
    assert titles(services) == {"docs/a.md": "A"}


def test_a_file_that_can_not_be_taken_in_does_not_end_the_watch(
    opx: Opx, services: Services, capsys: pytest.CaptureFixture[str]
) -> None:
    follower = following(opx, services)
    follower.react([opx.write("bad.md", b"\x00"), opx.write("good.md", "# Good\n\ntext\n")])
    assert titles(services) == {"docs/good.md": "Good"}
    assert "failed: bad.md" in capsys.readouterr().err


def test_changes_are_handled_later_if_the_store_does_not_answer(
    opx: Opx, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object) -> None:
        raise StoreUnavailableError("busy")

    follower = following(opx, services)
    path = opx.write("a.md", "# A\n\ntext\n")
    with monkeypatch.context() as patch:
        patch.setattr(IngestionManager, "put_file", down)
        follower.react([path])
    assert titles(services) == {}
    follower.react([])
    assert titles(services) == {"docs/a.md": "A"}


def wait_for(log: Path, text: str) -> None:
    end = time.monotonic() + 30
    while text not in log.read_text():
        assert time.monotonic() < end, f"no {text!r} in {log.read_text()!r}"
        time.sleep(0.05)


def test_a_running_watch_follows_the_folder_until_ctrl_c(opx: Opx, tmp_path: Path) -> None:
    opx.write("a.md", "# A\n\ntext\n")
    log = tmp_path / "log"
    with log.open("w") as stdout, opx.start("watch", opx.folder / "docs", stdout=stdout) as process:
        try:
            wait_for(log, "watching ")
            replacement = opx.write(".a.tmp", "# A2\n\ntext\n")
            replacement.rename(replacement.with_name("a.md"))
            wait_for(log, "ingested   documents/docs/a.md")
            (opx.folder / "docs" / "a.md").unlink()
            wait_for(log, "deleted    documents/docs/a.md")
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0
    assert log.read_text().endswith("stopped; `opx watch` again catches up\n")
    assert "Traceback" not in errors
    assert json.loads(opx("list", "--json").stdout) == []


def test_watching_a_file_is_wrong_usage(opx: Opx) -> None:
    assert opx("watch", opx.write("a.md", "# A\n\ntext\n")).exit_code == 2
