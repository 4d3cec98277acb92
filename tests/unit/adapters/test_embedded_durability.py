"""Killing a writer at any moment loses nothing that was acknowledged and leaves nothing half done."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opx.adapters.embedded.database import Database, open_database
from opx.adapters.embedded.object_store import FolderObjectStore
from opx.adapters.embedded.table import SqliteQueue, SqliteTable
from opx.ports import Item
from tests.support.durability_writer import KEYS, SPEC, content_of

ROUNDS = 10
WRITER = Path(__file__).parents[2] / "support" / "durability_writer.py"


def acknowledged_before_kill(folder: Path, start: int) -> dict[str, list[int]]:
    """Runs the writer, kills it at a random moment of its work, and returns the acknowledged numbers."""
    with subprocess.Popen([sys.executable, WRITER, folder, str(start)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline()]
        time.sleep(random.uniform(0.0, 0.1))
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.readlines()
    assert writer.returncode == -signal.SIGKILL
    numbers: dict[str, list[int]] = {"object": [], "item": [], "message": []}
    for kind, number in (line.split() for line in lines if line.endswith("\n")):
        numbers[kind].append(int(number))
    return numbers


@contextmanager
def opened(folder: Path) -> Iterator[Database]:
    database = open_database(folder / "opx.sqlite")
    yield database
    database.close()


def latest(numbers: list[int], slot: int) -> int:
    return max((number for number in numbers if number % KEYS == slot), default=-1)


def check_objects(folder: Path, acknowledged: list[int]) -> None:
    store = FolderObjectStore(folder / "corpus")
    for info in store.list():
        number, slot = int(info.metadata["number"]), int(info.key.removeprefix("folder/"))
        with store.open(info.key) as stream:
            content = stream.read()
        assert content == content_of(number), "content and metadata are of different versions"
        assert info.etag == hashlib.sha256(content).hexdigest()
        assert number >= latest(acknowledged, slot)
    assert len(list(store.list())) >= len({number % KEYS for number in acknowledged})


def check_items(database: Database, acknowledged: list[int]) -> None:
    table = SqliteTable(SPEC, database)
    for slot in range(KEYS):
        (item,) = table.query(f"{slot}")
        (twin,) = table.query(f"twin of {slot}")
        assert item["number"] == twin["number"] >= latest(acknowledged, slot), "half of a batch was written"
        assert item in list(table.query(item["parity"], index="parity-number-index"))


def check_messages(database: Database, acknowledged: list[int]) -> None:
    queue = SqliteQueue(database, "numbers")
    found: list[int] = []
    while messages := queue.receive():
        found.extend(int(message.body) for message in messages)
        for message in messages:
            queue.done(message.receipt)
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found)


def test_killed_writer_loses_and_corrupts_nothing(tmp_path: Path) -> None:
    acknowledged: dict[str, list[int]] = {"object": [], "item": [], "message": []}
    for round_number in range(ROUNDS):
        written = acknowledged_before_kill(tmp_path, round_number * 100_000)
        for kind, numbers in written.items():
            acknowledged[kind] += numbers
        check_objects(tmp_path, acknowledged["object"])
        with opened(tmp_path) as database:
            assert database.connection().execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            if len(acknowledged["item"]) > KEYS:
                check_items(database, acknowledged["item"])
            check_messages(database, written["message"])
    assert len(acknowledged["object"]) > ROUNDS


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("content", [b"old", b"new"])
def test_put_that_stops_before_a_rename_leaves_the_old_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, content: bytes
) -> None:
    store = FolderObjectStore(tmp_path)
    before = store.put("a.md", b"old", metadata={"title": "old"})
    stop_at(monkeypatch, step)
    with pytest.raises(KeyboardInterrupt):
        store.put("a.md", content, metadata={"title": "new"})
    monkeypatch.undo()
    reopened = FolderObjectStore(tmp_path)
    assert reopened.head("a.md") == before
    after = reopened.put("a.md", content, metadata={"title": "new"})
    assert reopened.head("a.md") == after
    assert list((tmp_path / ".tmp").iterdir()) == []


def test_first_put_that_stops_halfway_leaves_no_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FolderObjectStore(tmp_path)
    stop_at(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        store.put("a.md", b"new", metadata={"title": "new"})
    monkeypatch.undo()
    assert store.head("a.md") is None
    assert list(store.list()) == []
    store.put("a.md", b"other")
    info = store.head("a.md")
    assert info is not None
    assert dict(info.metadata) == {}


def test_batch_that_fails_halfway_writes_none_of_it(tmp_path: Path) -> None:
    def items() -> Iterator[Item]:
        yield {"id": "a"}
        raise KeyboardInterrupt

    with opened(tmp_path) as database:
        table = SqliteTable(SPEC, database)
        with pytest.raises(KeyboardInterrupt):
            table.put_many(items())
        assert table.get({"id": "a"}) is None
        table.put({"id": "b"})


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Stop the program before its `step`-th rename, as a kill would."""
    rename, left = os.replace, [step]

    def replace(source: Path, target: Path) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "replace", replace)
