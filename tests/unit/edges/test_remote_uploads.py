"""Files on their way into a deployed system's bucket."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.adapters.connections import Connections
from opx.edges.client import ATTEMPTS, Pause, RemoteClient, bearer
from opx.edges.loading import RemoteLoader, remove_document, remove_objects
from opx.errors import DocumentNotFoundError, OpxError, StoreUnavailableError
from opx.ingestion.events import SIDECAR_SUFFIX, PutFile, Result
from opx.ingestion.files import FileToIngest
from opx.operations.corpus import API_VERSION, GetStatus, get_status
from opx.operations.documents import ListCategories, list_categories
from opx.settings import Settings
from tests.doubles.api_gateway import DeployedSystem
from tests.doubles.http_double import Request, Response
from tests.support.cli_support import word_services

CLAIMS = {"scope": "opx/admin"}
NOT_FOUND = Response(404, {"error": {"code": "not_found", "message": "no current document"}})


@pytest.fixture
def system(tmp_path: Path) -> Iterator[DeployedSystem]:
    services = word_services(Settings(home=str(tmp_path / "home")))
    with services, DeployedSystem(services, tokens={"token": CLAIMS}) as system:
        yield system


def a_client(system: DeployedSystem, pause: Pause = lambda seconds: None) -> RemoteClient:
    return RemoteClient(system.endpoint, bearer("token"), Connections(), pause=pause)


@pytest.fixture
def client(system: DeployedSystem) -> Iterator[RemoteClient]:
    client = a_client(system)
    yield client
    client.close()


@pytest.fixture
def loader(client: RemoteClient) -> RemoteLoader:
    return RemoteLoader(client)


def a_file(tmp_path: Path, name: str = "a.md", data: bytes = b"# A\n\ntext\n") -> FileToIngest:
    path = tmp_path / name
    path.write_bytes(data)
    return FileToIngest(path, f"docs/{name}")


def change_when_signed(
    system: DeployedSystem, monkeypatch: pytest.MonkeyPatch, file: FileToIngest, changed: bytes
) -> None:
    """Change a file between the question where to put it and the answer."""
    sign = system.bucket.sign_put

    def change_and_sign(*args: object, **more: object) -> object:
        file.path.write_bytes(changed)
        return sign(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(system.bucket, "sign_put", change_and_sign)


def puts(system: DeployedSystem) -> list[Request]:
    return [request for request in system.requests if request.method == "PUT"]


def test_bytes_arrive_as_they_are_past_the_api(system: DeployedSystem, loader: RemoteLoader, tmp_path: Path) -> None:
    data = b"# A\n\n" + bytes(range(32, 127)) * 70_000  # more than the API itself takes
    list(loader.put_files([a_file(tmp_path, data=data)], {}))
    with system.services.store.open("documents/docs/a.md") as stream:
        assert stream.read() == data
    assert max(len(request.body) for request in system.requests if request.method == "POST") < 1000


def test_the_sidecar_is_there_before_its_document(system: DeployedSystem, loader: RemoteLoader, tmp_path: Path) -> None:
    a_file(tmp_path, "a.md" + SIDECAR_SUFFIX, b"{}")
    list(loader.put_files([a_file(tmp_path)], {}))
    assert [put.path for put in puts(system)] == [
        f"/bucket/documents/docs/a.md{SIDECAR_SUFFIX}",
        "/bucket/documents/docs/a.md",
    ]


def test_a_sidecar_does_not_go_before_a_document_that_can_not_follow(
    system: DeployedSystem, loader: RemoteLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = a_file(tmp_path)
    a_file(tmp_path, "a.md" + SIDECAR_SUFFIX, b"{}")
    change_when_signed(system, monkeypatch, file, b"# A\n\nlonger text\n")
    (put,) = loader.put_files([file], {})
    assert put.outcome is not None
    assert (put.outcome.result, puts(system)) == (Result.FAILED, [])


def test_a_sidecar_that_is_gone_is_removed_after_its_document_was_put(
    system: DeployedSystem, loader: RemoteLoader, tmp_path: Path
) -> None:
    sidecar = a_file(tmp_path, "a.md" + SIDECAR_SUFFIX, b"{}").path
    list(loader.put_files([a_file(tmp_path)], {}))
    sidecar.unlink()
    system.reset()
    assert list(loader.put_files([a_file(tmp_path)], {})) == [PutFile("documents/docs/a.md")]
    (put, removal) = [request for request in system.requests if request.path not in ("/failures", "/uploads")]
    assert (put.method, put.path) == ("PUT", "/bucket/documents/docs/a.md")
    assert (removal.path, removal.json()) == (
        "/objects/delete",
        {"objectKeys": ["documents/docs/a.md" + SIDECAR_SUFFIX]},
    )
    assert system.services.store.head("documents/docs/a.md" + SIDECAR_SUFFIX) is None


def test_a_document_that_is_not_replaced_keeps_its_sidecar(
    system: DeployedSystem, loader: RemoteLoader, tmp_path: Path
) -> None:
    sidecar = a_file(tmp_path, "a.md" + SIDECAR_SUFFIX, b"{}").path
    list(loader.put_files([a_file(tmp_path)], {}))
    sidecar.unlink()
    system.inject(Response(403, "<Code>AccessDenied</Code>"), path="/bucket/documents/docs/a.md")
    with pytest.raises(OpxError, match="AccessDenied"):
        list(loader.put_files([a_file(tmp_path)], {}))
    assert system.services.store.head("documents/docs/a.md" + SIDECAR_SUFFIX)


def test_an_unchanged_file_is_not_sent_again(system: DeployedSystem, loader: RemoteLoader, tmp_path: Path) -> None:
    file = a_file(tmp_path)
    list(loader.outcomes([put.object_key for put in loader.put_files([file], {})]))
    system.reset()
    (put,) = loader.put_files([file], {})
    assert put.outcome is not None
    assert (put.outcome.result, puts(system)) == (Result.UNCHANGED, [])


def test_an_upload_that_breaks_is_done_again_whole(
    system: DeployedSystem, loader: RemoteLoader, tmp_path: Path
) -> None:
    system.inject(Response(hang_up=True), path="a.md")
    system.inject(Response(503, "<Code>SlowDown</Code>"), path="a.md")
    (put,) = loader.put_files([a_file(tmp_path)], {})
    assert put.outcome is None
    assert [request.body for request in puts(system)] == [b"# A\n\ntext\n"] * 3


def test_a_bucket_that_stays_busy_ends_the_command(
    system: DeployedSystem, loader: RemoteLoader, tmp_path: Path
) -> None:
    system.inject(Response(503, "<Code>SlowDown</Code>"), times=ATTEMPTS, path="a.md")
    with pytest.raises(StoreUnavailableError, match="SlowDown"):
        list(loader.put_files([a_file(tmp_path)], {}))


def test_an_address_that_is_refused_is_an_error(system: DeployedSystem, loader: RemoteLoader, tmp_path: Path) -> None:
    system.inject(Response(403, "<Code>AccessDenied</Code>"), path="a.md")
    with pytest.raises(OpxError, match=r"refused .*a.md \(403, AccessDenied\)"):
        list(loader.put_files([a_file(tmp_path)], {}))


@pytest.mark.parametrize("changed", [b"# B\n\ntext\n", b"# A\n\nlonger text\n", b"#"])
def test_a_file_that_changes_meanwhile_fails_and_is_not_stored(
    system: DeployedSystem, loader: RemoteLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: bytes
) -> None:
    file = a_file(tmp_path)
    change_when_signed(system, monkeypatch, file, changed)
    (put,) = loader.put_files([file], {})
    assert put.outcome is not None
    assert put.outcome.result is Result.FAILED
    assert "changed while it was sent" in put.outcome.reason
    assert system.services.store.head("documents/docs/a.md") is None


def test_a_file_that_is_too_large_fails_with_the_limit(
    system: DeployedSystem, loader: RemoteLoader, tmp_path: Path
) -> None:
    large = tmp_path / "large.md"
    with large.open("wb") as stream:
        stream.truncate(system.services.settings.max_document_bytes + 1)
    outcomes = {
        put.object_key: put.outcome for put in loader.put_files([FileToIngest(large, "large.md"), a_file(tmp_path)], {})
    }
    failed = outcomes["large.md"]
    assert failed is not None
    assert "104,857,601 bytes" in failed.reason
    assert outcomes["documents/docs/a.md"] is None


def test_a_caller_that_stops_sends_no_more(system: DeployedSystem, loader: RemoteLoader, tmp_path: Path) -> None:
    done = loader.put_files([a_file(tmp_path, f"{number}.md") for number in range(40)], {})
    next(done)
    done.close()  # type: ignore[attr-defined]
    sent = len(system.requests)
    assert sent < 80
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("opx-upload")]


def test_a_failure_from_before_is_not_taken_for_a_new_one(system: DeployedSystem, tmp_path: Path) -> None:
    def wake_the_workers(_seconds: float) -> None:
        system.asleep = False

    client = a_client(system, wake_the_workers)
    loader = RemoteLoader(client)
    results = []
    for data in (b"", b"# Mended\n\ntext\n"):
        (put,) = loader.put_files([a_file(tmp_path, data=data)], {})
        system.asleep = True
        results += [outcome.result for outcome in loader.outcomes([put.object_key])]
    client.close()
    assert results == [Result.FAILED, Result.INGESTED]


def test_a_failure_between_two_things_that_are_sent_is_a_new_one(system: DeployedSystem, tmp_path: Path) -> None:
    def settled_already(_seconds: float) -> None:
        pytest.fail("there is nothing to wait for")

    client = a_client(system, settled_already)
    loader = RemoteLoader(client)
    (put,) = loader.put_files([a_file(tmp_path, data=b"")], {})
    system.work()
    loader.note_failures()
    remove_objects(client, ["documents/docs/gone.md"])
    assert [outcome.result for outcome in loader.outcomes([put.object_key])] == [Result.FAILED]
    client.close()


@pytest.mark.parametrize("again", [None, NOT_FOUND])
def test_a_deletion_whose_answer_got_lost_is_done(
    system: DeployedSystem, tmp_path: Path, again: Response | None
) -> None:
    client = a_client(system, lambda seconds: system.work())
    loader = RemoteLoader(client)
    (put,) = loader.put_files([a_file(tmp_path)], {})
    (outcome,) = loader.outcomes([put.object_key])
    system.lose_answers(path=outcome.document_id)
    if again:
        system.inject(again, path=outcome.document_id)
    (deleted,) = remove_document(client, outcome.document_id)
    client.close()
    assert (deleted.document_id, deleted.key.source) == (outcome.document_id, put.object_key)


def test_a_repeated_deletion_of_nothing_is_an_error(system: DeployedSystem, client: RemoteClient) -> None:
    system.inject(Response(503, {}))
    with pytest.raises(DocumentNotFoundError):
        remove_document(client, "0" * 32)


def test_a_repeated_deletion_of_what_belongs_to_others_is_an_error(
    system: DeployedSystem, client: RemoteClient, loader: RemoteLoader, tmp_path: Path
) -> None:
    (put,) = loader.put_files([a_file(tmp_path)], {})
    (outcome,) = loader.outcomes([put.object_key])
    system.tokens = {"token": {**CLAIMS, "opx_client_id": "acme"}}
    system.inject(Response(503, {}))
    with pytest.raises(DocumentNotFoundError):
        remove_document(client, outcome.document_id)


def test_no_files_send_no_request(system: DeployedSystem, loader: RemoteLoader) -> None:
    assert list(loader.put_files([], {})) == []
    assert system.requests == []


def test_many_keys_are_deleted_in_portions(system: DeployedSystem, client: RemoteClient) -> None:
    remove_objects(client, [f"documents/{number}.md" for number in range(150)])
    sizes = [len(request.json()["objectKeys"]) for request in system.requests if request.path == "/objects/delete"]
    assert sizes == [100, 50]


def test_a_newer_system_is_reported_before_other_fields_are_read(system: DeployedSystem, client: RemoteClient) -> None:
    system.inject(Response(200, {"apiVersion": API_VERSION + 1, "owner": "global"}), path="/status")
    with pytest.raises(OpxError, match="is newer than this command: update opx"):
        client.call(get_status, GetStatus())


def test_an_answer_of_another_version_is_reported(system: DeployedSystem, client: RemoteClient) -> None:
    system.inject(Response(200, {"kinds": []}), path="/categories")
    with pytest.raises(OpxError, match="bring both to the same version"):
        client.call(list_categories, ListCategories())
