"""Renamed files keep their documents, and with them versions and outcomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_support import Opx

REDIS = "# Redis is full\n\nRun `redis-cli info memory` and raise maxmemory.\n"
DISK = "# Disk is full\n\n1. Run `df -h`.\n"


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    found = Opx(tmp_path)
    found.write("teams/redis.md", REDIS)
    found.write("teams/disk.md", DISK)
    ingested(found)
    return found


def ingested(opx: Opx, *options: str) -> str:
    result = opx("ingest", opx.folder / "docs", *options)
    assert result.exit_code == 0, result.output
    return result.output


def rename(opx: Opx, name: str, to: str) -> None:
    target = opx.folder / "docs" / to
    target.parent.mkdir(parents=True, exist_ok=True)
    (opx.folder / "docs" / name).rename(target)


def documents(opx: Opx) -> dict[str, tuple[str, int]]:
    """Name in the corpus and number of the version of each document, by the path of its file."""
    listed: list[dict[str, Any]] = json.loads(opx("list", "--json").stdout)
    return {one["source"]: (one["key"].removeprefix("documents/"), one["version"]) for one in listed}


def redis(opx: Opx) -> str:
    """The id of the document on Redis."""
    (found,) = (
        one["documentId"] for one in json.loads(opx("list", "--json").stdout) if one["title"] == "Redis is full"
    )
    return str(found)


def names(opx: Opx) -> dict[str, str]:
    return {Path(source).name: Path(name).name for source, (name, _) in documents(opx).items()}


@pytest.mark.parametrize("options", [(), ("--mirror",)])
def test_a_renamed_file_keeps_its_document(opx: Opx, options: tuple[str, ...]) -> None:
    rename(opx, "teams/redis.md", "teams/redis-memory.md")
    output = ingested(opx, *options)
    assert "redis.md -> " in output
    assert names(opx) == {"redis-memory.md": "redis.md", "disk.md": "disk.md"}


def test_its_outcomes_stay(opx: Opx) -> None:
    assert opx("search", "redis is full").exit_code == 0
    assert opx("outcome", "record", "last", "resolved").exit_code == 0
    rename(opx, "teams/redis.md", "teams/memory.md")
    ingested(opx, "--mirror")
    assert "resolved" in opx("outcome", "show", redis(opx)).stdout


def test_a_later_change_of_the_renamed_file_is_its_next_version(opx: Opx) -> None:
    rename(opx, "teams/redis.md", "teams/memory.md")
    ingested(opx)
    opx.write("teams/memory.md", REDIS + "\nThen look at the eviction policy.\n")
    ingested(opx, "--mirror")
    assert [version for name, version in documents(opx).values() if name.endswith("redis.md")] == [2]
    assert "nothing changed" in ingested(opx, "--mirror")


def test_a_renamed_file_that_is_deleted_is_removed(opx: Opx) -> None:
    rename(opx, "teams/redis.md", "teams/memory.md")
    ingested(opx)
    (opx.folder / "docs" / "teams" / "memory.md").unlink()
    ingested(opx, "--mirror")
    assert names(opx) == {"disk.md": "disk.md"}


def test_files_that_changed_places_stay_where_they_are(opx: Opx) -> None:
    opx.write("teams/redis.md", DISK)
    opx.write("teams/disk.md", REDIS)
    ingested(opx, "--mirror")
    assert names(opx) == {"redis.md": "redis.md", "disk.md": "disk.md"}


def test_of_two_copies_one_keeps_the_document(opx: Opx) -> None:
    rename(opx, "teams/redis.md", "teams/a.md")
    opx.write("teams/b.md", REDIS)
    ingested(opx, "--mirror")
    assert names(opx) == {"a.md": "redis.md", "b.md": "b.md", "disk.md": "disk.md"}


def test_a_copy_of_a_file_that_stays_is_a_new_document(opx: Opx) -> None:
    opx.write("teams/copy.md", REDIS)
    assert "->" not in ingested(opx)
    assert set(names(opx)) == {"redis.md", "copy.md", "disk.md"}


def test_a_file_that_moves_into_the_folder_of_another_category_is_a_new_document(opx: Opx) -> None:
    rename(opx, "teams/redis.md", "postmortems/redis.md")
    ingested(opx, "--mirror")
    (category,) = (one["category"] for one in json.loads(opx("list", "--json").stdout) if "Redis" in one["title"])
    assert category != "runbooks/procedures"


def test_a_renamed_folder_keeps_its_documents(opx: Opx) -> None:
    (opx.folder / "docs" / "teams").rename(opx.folder / "docs" / "platform")
    ingested(opx, "--mirror")
    assert sorted(Path(name).parent.name for name, _ in documents(opx).values()) == ["teams", "teams"]
