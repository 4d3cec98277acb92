"""Rows and lists of an archive that contradict each other are refused before anything is changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.operations.system import System
from opx_assurance.archive.exporting import ARCHIVED, DOCUMENT_LINES, FILE_LINES, VERSION_LINES
from tests.support.archive_support import (
    Entries,
    changed_line,
    entries_of,
    refused,
    resealed,
    services_at,
    write,
)
from tests.support.whole_archive import a_whole_archive

PROJECTS = "tables/opx-knowledge-projects.jsonl"
ALIASES = "tables/opx-knowledge-aliases.jsonl"
STAGING = "tables/opx-knowledge-staging.jsonl"
OUTCOMES = "tables/opx-knowledge-outcomes.jsonl"
GAPS = "tables/opx-knowledge-gaps.jsonl"
PATTERNS = "tables/opx-knowledge-patterns.jsonl"
HOLDS = "tables/opx-knowledge-lifecycle.jsonl"
BASELINES = "tables/opx-knowledge-baselines.jsonl"
Row = dict[str, Any]


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> Entries:
    return entries_of(a_whole_archive(tmp_path_factory.mktemp("archive")))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with services_at(tmp_path_factory.mktemp("empty")) as services:
        yield services


def first(entries: Entries, name: str, which: Callable[[Row], bool]) -> int:
    return next(at for at, line in enumerate(entries[name].splitlines()) if which(json.loads(line)))


def is_client(row: Row) -> bool:
    return bool(row["clientId"] == "#clients")


def of(partition: str) -> Callable[[Row], bool]:
    return lambda row: bool(row["scopeKey"].startswith(partition))


is_run = of("#evaluations")


@pytest.mark.parametrize(
    ("name", "which", "change", "reason"),
    [
        (PROJECTS, is_client, lambda row: row.pop("state"), "state"),
        (PROJECTS, is_client, lambda row: row.update(state="x"), "state"),
        (PROJECTS, lambda row: not is_client(row), lambda row: row.update(groupId="ops"), "groupKey"),
        (PROJECTS, lambda row: not is_client(row), lambda row: row.update(clientId="#secret"), "of no kind"),
        (ALIASES, lambda row: "aliasKey" in row, lambda row: row.update(area="client:other"), "clientId"),
        (ALIASES, lambda row: "aliasKey" in row, lambda row: row.update(canonicalPlace="global|x"), "canonicalPlace"),
        (ALIASES, lambda row: "mergeId" in row, lambda row: row.update(state="done"), "state"),
        (STAGING, lambda row: row["embedded"], lambda row: row.update(waitingPlace="ready#global#x"), "waiting-index"),
        (STAGING, lambda _: True, lambda row: row.update(scopeKey="client:other"), "scopeKey"),
        (STAGING, lambda _: True, lambda row: row.pop("expiresAt"), "expiresAt is missing"),
        (OUTCOMES, lambda row: "last" in row, lambda row: row.pop("revision"), "revision"),
        (OUTCOMES, lambda row: "said" in row, lambda row: row.update(pageScope="client:*"), "client id"),
        (OUTCOMES, lambda row: "told#" in row["place"], lambda row: row.update(place="told#client:*#x"), "client id"),
        (GAPS, lambda row: "signs" in row, lambda row: row.update(signs=[10**12]), "bytes"),
        (
            GAPS,
            lambda row: "signs" in row,
            lambda row: row.update(texts=[], termsKeys=[], signs=[], models=[]),
            "question",
        ),
        (GAPS, is_run, lambda row: row["run"].update(runId="20260101T000000-abcdef"), "gapId"),
        (GAPS, is_run, lambda row: row["run"].update(state="half"), "state"),
        (GAPS, is_run, lambda row: row.pop("expiresAt"), "expiresAt is missing"),
        (GAPS, of("#evaluation questions"), lambda row: row["question"].update(expected={"x": "1"}), "expected"),
        (GAPS, of("#evaluation 2"), lambda row: row["replies"]["balanced"].update(pages=[1]), "pages"),
        (GAPS, of("#evaluation 2"), lambda row: row["question"].update(color="red"), "color"),
        (GAPS, of("#canary "), lambda row: row["result"]["reply"].pop("verdict"), "verdict"),
        (GAPS, of("#dismissed "), lambda row: row.update(scopeKey="#dismissed client:*"), "client id"),
        (GAPS, of("#dismissed "), lambda row: row.pop("by"), "`by`"),
        (PATTERNS, lambda row: "lastBatch" in row, lambda row: row["lastBatch"][0].pop("key"), "key is missing"),
        (HOLDS, lambda _: True, lambda row: row.update(reason="another"), "entry"),
        (BASELINES, lambda row: "hours" in row, lambda row: row.update(node="other"), "seriesKey"),
        (
            DOCUMENT_LINES,
            lambda _: True,
            lambda row: row["head"].update(version=7),
            "does not name its current version",
        ),
        (DOCUMENT_LINES, lambda _: True, lambda row: row["head"].update(since="soon"), "not a time"),
        (VERSION_LINES, lambda _: True, lambda row: row.update(createdAt="soon"), "not a time"),
        (VERSION_LINES, lambda _: True, lambda row: row.update(documentId="../x"), "malformed"),
        (
            FILE_LINES,
            lambda _: True,
            lambda row: row.update(key=f"chunks/{'0' * 32}.jsonl"),
            "no version of the archive",
        ),
    ],
)
def test_a_row_that_the_program_would_not_write_is_refused_by_entry_line_and_reason(
    empty: System,
    entries: Entries,
    tmp_path: Path,
    name: str,
    which: Callable[[Row], bool],
    change: Callable[[Row], object],
    reason: str,
) -> None:
    at = first(entries, name, which)
    found = refused(empty, write(tmp_path / "x", resealed({**entries, name: changed_line(entries[name], change, at)})))
    assert reason in found
    assert f"{name}, line" in found
    assert "nothing was changed" in found


@pytest.mark.parametrize("name", [DOCUMENT_LINES, VERSION_LINES, FILE_LINES, *(table.entry for table in ARCHIVED)])
def test_a_line_that_comes_twice_is_refused(empty: System, entries: Entries, tmp_path: Path, name: str) -> None:
    lines = entries[name].splitlines(keepends=True)
    found = refused(empty, write(tmp_path / "x", resealed({**entries, name: b"".join([*lines, lines[-1]])})))
    assert name in found


@pytest.mark.parametrize("name", [DOCUMENT_LINES, VERSION_LINES])
def test_a_version_without_its_document_and_the_reverse_are_refused(
    empty: System, entries: Entries, tmp_path: Path, name: str
) -> None:
    lines = entries[name].splitlines(keepends=True)
    found = refused(empty, write(tmp_path / "x", resealed({**entries, name: b"".join(lines[1:])})))
    assert "line" in found


def test_objects_out_of_the_order_of_their_bytes_are_refused(empty: System, entries: Entries, tmp_path: Path) -> None:
    """A list that jumps back and forth would have a large pack read once for each of its lines."""
    first, *others, last = entries[FILE_LINES].splitlines(keepends=True)
    made = resealed({**entries, FILE_LINES: b"".join([last, *others, first])})
    assert "not behind those before them" in refused(empty, write(tmp_path / "x", made))


@pytest.mark.parametrize("value", [0, "", [], False])
def test_an_object_that_is_none_is_refused(empty: System, entries: Entries, tmp_path: Path, value: object) -> None:
    changed = changed_line(entries[DOCUMENT_LINES], lambda line: line.update(object=value))
    found = refused(empty, write(tmp_path / "x", resealed({**entries, DOCUMENT_LINES: changed})))
    assert f"{DOCUMENT_LINES}, line 1" in found


def test_half_of_a_surrogate_pair_is_refused_as_any_other_value(
    empty: System, entries: Entries, tmp_path: Path
) -> None:
    changed = changed_line(entries[FILE_LINES], lambda line: line.update(metadata="\ud800"))
    found = refused(empty, write(tmp_path / "x", resealed({**entries, FILE_LINES: changed})))
    assert f"{FILE_LINES}, line 1" in found


def test_a_chunk_file_that_holds_no_chunks_is_refused(empty: System, entries: Entries, tmp_path: Path) -> None:
    pack = bytearray(entries["objects/00001"])
    blob = json.loads(entries[FILE_LINES].splitlines()[0])
    pack[blob["start"] : blob["start"] + 5] = b"[1,2,"
    digest = hashlib.sha256(pack[blob["start"] : blob["start"] + blob["size"]]).hexdigest()
    files = changed_line(entries[FILE_LINES], lambda line: line.update(sha256=digest))
    made = resealed({**entries, "objects/00001": bytes(pack), FILE_LINES: files})
    assert blob["key"] in refused(empty, write(tmp_path / "x", made))
