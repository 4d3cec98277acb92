"""`opx status` finds damage of databases, indexes and marks at a glance, and doesn't look at documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.adapters.embedded import home_files
from opx.domain.scopes import Identity
from opx.operations.context import Caller, Context
from opx.operations.corpus import GetStatus, get_status
from tests.damage.homes import alter, blank_beginning, copied, empty, remove, settle, truncate
from tests.damage.test_damage_matrix import CASES, QUICK, Damage, Find, _name
from tests.damage.test_repair import blank, pages_of
from tests.support.cli_support import Opx
from tests.support.reindex_support import services_at

OF_DOCUMENTS = {"chunks", "old chunks", "outline", "old outline", "object", "sidecar", "record of metadata"}
"""Kinds of files of which there are as many as documents: a thorough comparison reads them."""

UNSEEN = {("index database", alter)}
"""One byte within a row changes no page's structure."""

ALWAYS = {
    ("main database", empty),
    ("main database", remove),
    ("vectors (i8)", blank_beginning),
    ("terms (term)", alter),
    ("list of segments", remove),
}


def _cases() -> Iterator[object]:
    for kind, (find, outcomes) in CASES.items():
        for damage in [damage for damages in outcomes.values() for damage in damages]:
            if kind not in OF_DOCUMENTS and not kind.startswith("rights") and (kind, damage) not in UNSEEN:
                marks = [] if (kind, damage) in QUICK | ALWAYS else [pytest.mark.damage]
                yield pytest.param(find, damage, id=f"{kind}: {_name(damage)}", marks=marks)


@pytest.fixture
def opx(undamaged: Path, tmp_path: Path) -> Opx:
    copied(undamaged, tmp_path / ".opx")
    return Opx(tmp_path)


@pytest.mark.parametrize(("find", "damage"), list(_cases()))
def test_damage_of_a_store_is_shown(opx: Opx, find: Find, damage: Damage) -> None:
    file = find(opx.home)
    damage(file)
    found = opx("status")
    assert found.exit_code in (1, 2), found.output
    assert "opx repair" in found.output


def test_undamaged_home_is_ok(opx: Opx) -> None:
    found = opx("status", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["damage"] == []


def test_damage_is_in_the_json_and_in_the_examination(opx: Opx) -> None:
    truncate(opx.home / "questions.db")
    found = opx("status", "--json")
    assert found.exit_code == 1
    (one,) = json.loads(found.stdout)["damage"]
    assert one.startswith("questions.db: ")
    assert "questions.db: " in opx("doctor").stdout


def test_secrets_that_are_no_json_are_shown(opx: Opx) -> None:
    (opx.home / "secrets.json").write_text('{"token": ')
    found = opx("status")
    assert found.exit_code == 1
    assert "secrets.json: it can't be read as JSON" in found.stdout


def test_ends_of_the_tables_of_a_large_database_are_read(opx: Opx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_files, "_SMALL_DATABASE", 0)
    assert opx("status").exit_code == 0
    settle(opx.home / "questions.db")
    blank(opx.home / "questions.db", pages_of(opx.home / "questions.db", "opx-knowledge-audit")[-1])
    assert opx("status").exit_code == 1


def test_reader_of_a_client_sees_nothing_of_files(opx: Opx) -> None:
    truncate(opx.home / "questions.db")
    with services_at(opx.home) as services:
        reader = Context(services, Caller(Identity("acme")))
        assert get_status(reader, GetStatus()).damage == ()
