"""The history of the folder store below a prefix is listed, and erased completely."""

from __future__ import annotations

from pathlib import Path

import pytest

from opx.adapters.embedded.object_store import FolderObjectHistory, FolderObjectStore
from opx.errors import InvalidInputError


@pytest.fixture
def store(tmp_path: Path) -> FolderObjectStore:
    store = FolderObjectStore(tmp_path)
    for key in (
        "clients/acme/documents/a.md",
        "clients/acme/x",
        "clients/acme-b/x.md",
        "clients/Acme/x.md",
        "documents/x.md",
    ):
        store.put(key, b"text", metadata={"title": key})
    return store


def test_all_objects_of_a_folder_and_their_notes_go_and_no_others(tmp_path: Path, store: FolderObjectStore) -> None:
    history = FolderObjectHistory(tmp_path)
    assert sorted(history.held("clients/acme/")) == [
        *("clients/acme/documents/a.md", "clients/acme/documents/a.md"),
        *("clients/acme/x", "clients/acme/x"),
    ]
    assert history.erase("clients/acme/") == 4
    assert [info.key for info in store.list()] == ["clients/Acme/x.md", "clients/acme-b/x.md", "documents/x.md"]
    assert list(history.held("clients/acme/")) == []
    assert history.erase("clients/acme/") == 0


def test_notes_without_an_object_are_found(tmp_path: Path, store: FolderObjectStore) -> None:
    """As a put leaves them that ends before its file is in place."""
    (tmp_path / "clients" / "acme" / "documents" / "a.md").unlink()
    history = FolderObjectHistory(tmp_path)
    assert store.head("clients/acme/documents/a.md") is None
    assert list(history.held("clients/acme/documents/")) == ["clients/acme/documents/a.md"]
    assert history.erase("clients/acme/documents/") == 1


@pytest.mark.parametrize("prefix", ["", "/", "clients/acme"])
def test_only_folders_are_erased(tmp_path: Path, store: FolderObjectStore, prefix: str) -> None:
    before = [info.key for info in store.list()]
    with pytest.raises(InvalidInputError):
        FolderObjectHistory(tmp_path).erase(prefix)
    assert [info.key for info in store.list()] == before
