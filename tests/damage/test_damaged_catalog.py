"""Rows of the catalog that can't be read: a comparison names them and goes on, and a repair makes them again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opx.domain.documents import DocumentKey, DocumentState
from opx.domain.scopes import scope_of_object
from opx.ports import Item
from opx.ports.tables import DOCUMENTS, KEYS, TableSpec
from opx_assurance.consistency.differences import Problem
from tests.damage.homes import CHANGED, OTHERS, copied, missing_answers, reconciled, repaired
from tests.support.reindex_support import services_at

KEY = DocumentKey(*scope_of_object(CHANGED))
Damage = Callable[[Item], Item]


def without(name: str) -> Damage:
    return lambda item: {key: value for key, value in item.items() if key != name}


def having(name: str, value: Any) -> Damage:
    return lambda item: {**item, name: value}


@pytest.fixture
def home(undamaged: Path, tmp_path: Path) -> Path:
    return copied(undamaged, tmp_path / "home")


def damage(home: Path, spec: TableSpec, version: int, change: Damage) -> None:
    with services_at(home) as services:
        items = [
            item for item in services.tables.every_item(spec) if item.get("documentKey") == KEY.id and "version" in item
        ]
        (item,) = [item for item in items if item["version"] == version]
        services.tables.table(spec).put(change(item))


def remove_object(home: Path) -> None:
    with services_at(home) as services:
        services.store.delete(OTHERS[0])


KEY_DAMAGES = {
    "no scope": without("scope"),
    "another scope": having("scope", "client:"),
    "no source": without("source"),
    "a source that is no text": having("source", 5),
    "no state": without("state"),
    "no version": without("version"),
    "a lease that is no time": having("leaseUntil", "soon"),
    "unfinished work that is no list": having("writing", 7),
}
VERSION_DAMAGES = {
    "no title": without("title"),
    "no metadata": without("metadata"),
    "metadata that are text": having("metadata", "x"),
    "no category": without("category"),
    "a trust that is no number": having("trust", "high"),
    "no source": without("source"),
}


@pytest.mark.parametrize("kind", KEY_DAMAGES)
def test_a_damaged_item_of_a_key_is_named_and_made_again(home: Path, kind: str) -> None:
    damage(home, KEYS, 3, KEY_DAMAGES[kind])
    found_and_mended(home)
    with services_at(home) as services:
        versions = [(one.version, one.state) for one in services.corpus.catalog.versions(KEY)]
    assert versions[-2:] == [(2, DocumentState.SUPERSEDED), (1, DocumentState.SUPERSEDED)]
    assert versions[0][1] is DocumentState.CURRENT


@pytest.mark.parametrize("kind", VERSION_DAMAGES)
def test_a_damaged_row_of_the_current_version_is_named_and_made_again(home: Path, kind: str) -> None:
    damage(home, DOCUMENTS, 3, VERSION_DAMAGES[kind])
    found_and_mended(home)
    with services_at(home) as services:
        versions = [(one.version, one.state) for one in services.corpus.catalog.versions(KEY)]
    assert versions == [
        (3, DocumentState.CURRENT),
        (2, DocumentState.SUPERSEDED),
        (1, DocumentState.SUPERSEDED),
    ]


def found_and_mended(home: Path) -> None:
    """Another difference shows that the comparison goes on."""
    remove_object(home)
    counts = reconciled(home).counts
    assert counts[Problem.ROW_DAMAGED] >= 1
    assert counts[Problem.OBJECT_MISSING] == 1
    report = repaired(home)
    assert (report.left, report.failed) == ([], 0)
    assert report.repaired[Problem.ROW_DAMAGED] >= 1
    assert reconciled(home).differences == []
    assert missing_answers(home) == [OTHERS[0]]


@pytest.mark.parametrize("kind", ["no title", "metadata that are text", "no source"])
def test_a_damaged_row_of_an_earlier_version_is_named_and_left(home: Path, kind: str) -> None:
    damage(home, DOCUMENTS, 2, VERSION_DAMAGES[kind])
    remove_object(home)
    for _ in range(2):
        (difference,) = [one for one in reconciled(home).differences if one.problem is Problem.OLD_ROW_DAMAGED]
        assert (difference.object_key, "#00000002" in difference.text) == (CHANGED, True)
        report = repaired(home)
        assert [one.problem for one in report.left] == [Problem.OLD_ROW_DAMAGED]
    assert missing_answers(home) == [OTHERS[0]]


def test_a_damaged_row_of_an_earlier_version_hides_no_other_damage_of_the_document(home: Path) -> None:
    damage(home, DOCUMENTS, 2, without("title"))
    with services_at(home) as services:
        current = next(iter(services.corpus.catalog.versions(KEY)))
        services.store.delete(f"chunks/{current.document_id}.jsonl")
    assert set(reconciled(home).counts) == {Problem.OLD_ROW_DAMAGED, Problem.CHUNKS_MISSING}
    assert repaired(home).repaired == {Problem.CHUNKS_MISSING: 1}
    assert missing_answers(home) == []
