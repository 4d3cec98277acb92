"""A home folder is its owner's alone: new ones from the beginning, existing ones from when they are opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from opx.edges.cli.main import Launch, cli
from opx.settings import Settings
from opx.system import bootstrap, connect
from tests.support.cli_support import WordEmbedder

PAGE = b"# Disk full\n\nDelete rotated logs.\n"


@pytest.fixture(autouse=True)
def careless() -> Iterator[None]:
    """The usual mask, by which everybody can read new files."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def used(home: Path) -> None:
    """A home with a document, a question and an index."""
    with bootstrap(Settings(home=str(home)), embedder=WordEmbedder()) as system:
        system.store.put("documents/runbooks/procedures/disk.md", PAGE)
        assert system.ingestion.drain
        assert [outcome.result for outcome in system.ingestion.drain.run()] == ["ingested"]
        assert system.questions.for_reader().search("delete rotated logs").results


def open_to_others(folder: Path, rights: int = 0o077) -> list[str]:
    """Names of the folder and of everything in it that give others these rights."""
    paths = [folder, *folder.rglob("*")]
    return [str(path.relative_to(folder.parent)) for path in paths if stat.S_IMODE(path.stat().st_mode) & rights]


def test_nobody_else_can_enter_a_new_home(tmp_path: Path) -> None:
    used(tmp_path / "home")
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


def test_files_are_private_but_for_those_of_the_term_index_whose_folder_is(tmp_path: Path) -> None:
    used(tmp_path / "home")
    shared = open_to_others(tmp_path / "home")
    assert {str(Path(name).parent) for name in shared} <= {"home/index/terms"}
    assert "home/index/terms" not in shared


def test_a_home_that_others_could_read_is_mended_with_a_remark(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    used(home)
    for path in (home, *home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    used_again(home)
    assert open_to_others(home) == []
    (remark,) = [record.getMessage() for record in caplog.records if "others could read" in record.getMessage()]
    assert str(home) in remark
    caplog.clear()
    used_again(home)
    assert not caplog.records


def used_again(home: Path) -> None:
    with bootstrap(Settings(home=str(home)), embedder=WordEmbedder()) as system:
        assert system.questions.for_reader().search("delete rotated logs").results


def test_a_home_that_is_shared_with_a_group_on_purpose_keeps_its_group(tmp_path: Path) -> None:
    home = tmp_path / "home"
    used(home)
    home.chmod(0o2775)
    used_again(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o2770


def test_links_in_a_home_change_nothing_outside_of_it(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other.txt"
    other.write_text("x")
    other.chmod(0o644)
    used(home)
    (home / "link").symlink_to(other)
    home.chmod(0o755)
    used_again(home)
    assert stat.S_IMODE(other.stat().st_mode) == 0o644


def test_the_command_remarks_that_it_mended_a_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    used(home)
    home.chmod(0o755)
    launch = Launch(lambda settings: bootstrap(settings, embedder=WordEmbedder()), connect, {})
    done = CliRunner().invoke(cli, ["--home", str(home), "status"], obj=launch, prog_name="opx")
    assert f"opx: others could read {home}: only its owner can now" in done.output
    assert open_to_others(home, rights=0o007) == []
