from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from opx.adapters.connections import Connections
from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient, OperationClient
from opx.edges.cli.intake import WorkingFolder
from opx.edges.cli.watch import Follower
from opx.edges.client import RemoteClient, bearer
from opx.edges.loading import Loader, LocalLoader, RemoteLoader, Waiting
from opx.errors import StoreUnavailableError
from opx.ingestion.events import PutFile
from opx.ingestion.files import FileToIngest
from opx.operations.context import Caller, Context
from opx.operations.system import System
from tests.doubles.api_gateway import DeployedSystem
from tests.support.cli_support import Opx
from tests.support.remote_support import KINDS


@pytest.fixture
def services(opx: Opx) -> Iterator[System]:
    with opx.services() as services:
        yield services


@dataclass(frozen=True)
class Knowledge:
    """The knowledge that documents are put into, with its client and loader."""

    client: OperationClient
    loader: Loader


@pytest.fixture(params=KINDS)
def base(request: pytest.FixtureRequest, services: System) -> Iterator[Knowledge]:
    """Knowledge in this process, or over HTTP."""
    if request.param == "folder":
        context = Context(services, Caller(Identity(), owns_system=True))
        yield Knowledge(LocalClient(context), LocalLoader(context))
        return
    with DeployedSystem(services, tokens={"token": {"scope": "opx/admin"}}) as system:
        client = a_client(system)
        yield Knowledge(client, RemoteLoader(client))
        client.close()


def a_client(system: DeployedSystem) -> RemoteClient:
    return RemoteClient(system.endpoint, bearer("token"), Connections(), pause=lambda seconds: None)


def a_follower(
    opx: Opx, base: Knowledge, *, delete: bool = True, sleep: Callable[[float], None] = lambda seconds: None
) -> Follower:
    place = WorkingFolder(opx.folder, opx.home)
    return Follower(base.client, base.loader, place, opx.folder / "docs", {}, delete=delete, sleep=sleep)


def following(opx: Opx, base: Knowledge, *, delete: bool = True) -> Follower:
    follower = a_follower(opx, base, delete=delete)
    follower.folder.mkdir(exist_ok=True)
    follower.ingest()
    return follower


def titles(services: System) -> dict[str, str]:
    """Source and title of each current document."""
    found = (
        d for path in services.installation.knowledge.categories for d in services.corpus.catalog.in_category(path)
    )
    return {document.source_uri: document.title for document in found}


def keys_of(services: System) -> dict[str, str]:
    """Name in the corpus of each current document, by the name of its file."""
    knowledge, catalog = services.installation.knowledge, services.corpus.catalog
    found = (document for path in knowledge.categories for document in catalog.in_category(path))
    return {Path(document.source_uri).name: Path(document.source).name for document in found}


def test_a_renamed_file_keeps_its_document_while_it_is_watched(opx: Opx, services: System, base: Knowledge) -> None:
    if isinstance(base.loader, RemoteLoader):
        pytest.skip("S3's etags don't tell that a file has the content of another")
    old = opx.write("redis.md", "# Redis\n\nRaise maxmemory.\n")
    follower = following(opx, base)
    new = old.rename(old.with_name("memory.md"))
    follower.react([old, new])
    assert keys_of(services) == {"memory.md": "redis.md"}
    new.write_text("# Redis\n\nRaise maxmemory by half.\n")
    follower.react([new])
    assert keys_of(services) == {"memory.md": "redis.md"}
    new.unlink()
    follower.react([new])
    assert keys_of(services) == {}


def test_existing_files_are_ingested_first(opx: Opx, services: System, base: Knowledge) -> None:
    opx.write("a.md", "# A\n\ntext\n")
    following(opx, base)
    assert titles(services) == {"docs/a.md": "A"}


def test_files_deleted_meanwhile_are_removed_at_the_start(opx: Opx, services: System, base: Knowledge) -> None:
    for number in range(6):
        opx.write(f"{number}.md", f"# {number}\n\ntext\n")
    following(opx, base)
    (opx.folder / "docs" / "0.md").unlink()
    following(opx, base)
    assert "docs/0.md" not in titles(services)


def test_a_folder_that_lost_much_is_watched_without_deleting(
    opx: Opx, services: System, base: Knowledge, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [opx.write(f"{name}.md", f"# {name.upper()}\n\ntext of {name}\n") for name in "ab"]
    following(opx, base)
    for path in paths:
        path.unlink()
    following(opx, base)
    assert titles(services) == {"docs/a.md": "A", "docs/b.md": "B"}
    assert "has lost 2 of 2 documents" in capsys.readouterr().err


def test_the_last_file_of_a_folder_is_removed(opx: Opx, services: System, base: Knowledge) -> None:
    path = opx.write("a.md", "# A\n\ntext\n")
    following(opx, base)
    path.unlink()
    following(opx, base)
    assert titles(services) == {}


def test_new_and_changed_files_are_ingested(
    opx: Opx, services: System, base: Knowledge, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = opx.write("a.md", "# A\n\ntext\n")
    follower = following(opx, base)
    opx.write("a.md", "# A2\n\ntext\n")
    capsys.readouterr()
    follower.react([changed, opx.write("b.md", "# B\n\ntext\n")])
    assert titles(services) == {"docs/a.md": "A2", "docs/b.md": "B"}
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[1:3] for line in lines) == [
        ["ingested", "documents/docs/a.md"],
        ["ingested", "documents/docs/b.md"],
    ]


def test_a_rename_moves_the_document(opx: Opx, services: System, base: Knowledge) -> None:
    old = opx.write("a.md", "# A\n\ntext\n")
    follower = following(opx, base)
    new = old.rename(old.with_name("b.md"))
    follower.react([old, new])
    assert titles(services) == {"docs/b.md": "A"}


def test_a_renamed_folder_moves_its_documents(opx: Opx, services: System, base: Knowledge) -> None:
    old = opx.write("runbooks/deep/a.md", "# A\n\ntext\n").parents[1]
    follower = following(opx, base)
    new = old.rename(old.with_name("postmortems"))
    follower.react([old, new])
    assert titles(services) == {"docs/postmortems/deep/a.md": "A"}


def test_deleting_can_be_left_out(opx: Opx, services: System, base: Knowledge) -> None:
    path = opx.write("a.md", "# A\n\ntext\n")
    follower = following(opx, base, delete=False)
    path.unlink()
    follower.react([path])
    assert titles(services) == {"docs/a.md": "A"}


def test_a_file_that_an_editor_replaces_is_not_deleted(opx: Opx, services: System, base: Knowledge) -> None:
    path = opx.write("a.md", "# A\n\ntext\n")
    following(opx, base)
    path.unlink()

    def the_editor_goes_on(seconds: float) -> None:
        opx.write("a.md", "# A2\n\ntext\n")

    a_follower(opx, base, sleep=the_editor_goes_on).react([path])
    assert titles(services) == {"docs/a.md": "A2"}
    assert (
        len(
            list(services.corpus.catalog.versions(next(services.corpus.catalog.in_category("runbooks/procedures")).key))
        )
        == 2
    )


def test_hidden_files_and_the_home_folder_are_ignored(opx: Opx, services: System, base: Knowledge) -> None:
    follower = following(opx, base)
    follower.react([opx.write(".a.md.swp", "# A\n\ntext\n"), opx.home / "corpus" / "x.md", opx.folder / "outside.md"])
    assert titles(services) == {}


def test_a_changed_sidecar_changes_its_document(opx: Opx, services: System, base: Knowledge) -> None:
    opx.write("a.md", "# A\n\ntext\n")
    follower = following(opx, base)
    follower.react([opx.write("a.md.metadata.json", '{"metadataAttributes": {"title": "Better"}}')])
    assert titles(services) == {"docs/a.md": "Better"}


def test_a_vanished_folder_removes_no_documents(opx: Opx, services: System, base: Knowledge) -> None:
    path = opx.write("a.md", "# A\n\ntext\n")
    follower = following(opx, base)
    shutil.rmtree(path.parent)
    follower.react([path, path.parent])
    assert titles(services) == {"docs/a.md": "A"}


def test_file_that_can_not_be_ingested_does_not_end_the_watch(
    opx: Opx, services: System, base: Knowledge, capsys: pytest.CaptureFixture[str]
) -> None:
    follower = following(opx, base)
    follower.react([opx.write("bad.md", b"\x00"), opx.write("good.md", "# Good\n\ntext\n")])
    assert titles(services) == {"docs/good.md": "Good"}
    assert "failed: bad.md" in capsys.readouterr().err


class Fails:
    """A loader whose store doesn't answer when files are put."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self.down = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def put_files(self, files: Sequence[FileToIngest], metadata: Mapping[str, Any]) -> Iterator[PutFile]:
        if self.down:
            raise StoreUnavailableError("busy")
        return self._loader.put_files(files, metadata)


def test_changes_are_handled_later_if_the_store_does_not_answer(
    opx: Opx, services: System, base: Knowledge, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = Fails(base.loader)
    follower = following(opx, Knowledge(base.client, cast("Loader", failing)))
    path = opx.write("a.md", "# A\n\ntext\n")
    failing.down = True
    follower.react([path])
    assert titles(services) == {}
    assert "opx: will retry: busy" in capsys.readouterr().err
    failing.down = False
    follower.react([])
    assert titles(services) == {"docs/a.md": "A"}


def test_unsettled_documents_are_reported(
    opx: Opx, services: System, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opx.edges.loading.Waiting", partial(Waiting, patience=0.0))
    with DeployedSystem(services, tokens={"token": {"scope": "opx/admin"}}) as system:
        client = a_client(system)
        system.asleep = True
        path = opx.write("a.md", "# A\n\ntext\n")
        following(opx, Knowledge(client, RemoteLoader(client))).react([path])
        client.close()
    lines = capsys.readouterr().err.splitlines()
    message = "still waiting: 1 document is still being worked on: see `opx status` and `opx failed` in a while"
    assert [line.split(maxsplit=2)[2] for line in lines if "waiting" in line] == [message, message]


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
