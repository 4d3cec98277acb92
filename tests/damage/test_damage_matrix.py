"""Each kind of damage to each kind of file is found by a thorough comparison, and `opx repair` mends or names it.

`pytest tests/damage -m ''` runs all cases; `make test` runs those of `QUICK`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opx_assurance.consistency.differences import Problem
from opx_assurance.consistency.repair import SURPLUS, RepairReport
from tests.damage import homes
from tests.damage.homes import (
    OTHERS,
    WITH_SIDECAR,
    add_noise,
    alter,
    blank_beginning,
    blank_end,
    copied,
    empty,
    in_home,
    is_found,
    make_folder,
    missing_answers,
    reconciled,
    remove,
    repaired,
    replace_by_noise,
    term_file,
    truncate,
    version_file,
    withdraw_rights,
)
from tests.support.attacks import Attack, AttackReport

Damage = Callable[[Path], None]
Find = Callable[[Path], Path]

MENDED, NAMED = "mended", "named"

TO_CONTENT = (truncate, empty, alter, blank_beginning, blank_end, replace_by_noise, add_noise)
EVERY = (*TO_CONTENT, remove, make_folder)
TO_DATABASE = (truncate, empty, remove, blank_beginning, replace_by_noise, make_folder)

CASES: dict[str, tuple[Find, dict[str, tuple[Damage, ...]]]] = {
    "chunks": (lambda home: version_file(home, ".jsonl", current=True), {MENDED: EVERY}),
    "old chunks": (lambda home: version_file(home, ".jsonl", current=False), {NAMED: EVERY}),
    "outline": (lambda home: version_file(home, ".outline.json", current=True), {MENDED: EVERY}),
    "old outline": (
        lambda home: version_file(home, ".outline.json", current=False),
        {MENDED: (*TO_CONTENT, make_folder)},  # a missing one is made when it is read
    ),
    "object": (in_home(f"corpus/{OTHERS[0]}"), {NAMED: EVERY}),
    "sidecar": (
        in_home(f"corpus/{WITH_SIDECAR}.metadata.json"),
        {NAMED: EVERY},
    ),
    "record of metadata": (
        in_home(f"corpus/.meta/{OTHERS[0]}"),
        {
            MENDED: (truncate, empty, blank_beginning, blank_end, replace_by_noise, add_noise),
            NAMED: (alter, remove, make_folder),
        },
    ),
    "main database": (in_home("opx.db"), {NAMED: TO_DATABASE, MENDED: (blank_end,)}),
    "format": (
        in_home("format.json"),
        {MENDED: (truncate, empty, blank_beginning, blank_end, replace_by_noise, add_noise, make_folder)},
    ),
    "questions": (in_home("questions.db"), {NAMED: (truncate, blank_beginning, replace_by_noise)}),
    "index database": (in_home("index/index.db"), {MENDED: (*TO_DATABASE, alter, blank_end)}),
    **{
        f"vectors ({ending})": (
            in_home(f"index/rows.{ending}"),
            {MENDED: (truncate, empty, alter, blank_beginning, blank_end, replace_by_noise, remove, make_folder)},
        )
        for ending in ("i8", "lo")
    },
    "list of segments": (in_home("index/terms/meta.json"), {MENDED: EVERY}),
    **{
        f"terms ({ending})": (term_file(ending), {MENDED: (truncate, empty, alter, remove, replace_by_noise)})
        for ending in ("idx", "term", "store", "fast")
    },
}
CASES |= {
    f"rights of {name}": (in_home(name), {MENDED: (withdraw_rights,)})
    for name in ("opx.db", "questions.db", "index", "index/index.db", "index/terms", "corpus", f"corpus/{OTHERS[1]}")
}
"""Files, and by outcome the damages that lead to it. Left out is what harms nothing, such as bytes behind the last page."""

QUICK = {
    ("chunks", truncate),
    ("chunks", alter),
    ("old chunks", alter),
    ("outline", alter),
    ("old outline", truncate),
    ("object", alter),
    ("object", remove),
    ("sidecar", truncate),
    ("record of metadata", truncate),
    ("main database", truncate),
    ("main database", blank_beginning),
    ("format", truncate),
    ("questions", blank_beginning),
    ("index database", truncate),
    ("vectors (i8)", alter),
    ("vectors (lo)", alter),
    ("list of segments", remove),
    ("terms (idx)", alter),
    ("rights of index/terms", withdraw_rights),
}


def _name(damage: Damage) -> str:
    return next(name for name, value in vars(homes).items() if value is damage)


def _cases() -> Iterator[object]:
    for kind, (find, outcomes) in CASES.items():
        for outcome, damages in outcomes.items():
            for damage in damages:
                marks = [pytest.mark.attack, *([] if (kind, damage) in QUICK else [pytest.mark.damage])]
                yield pytest.param(find, damage, outcome, id=f"{kind}: {_name(damage)}", marks=marks)


def is_named(report: RepairReport) -> bool:
    return bool(report.left or report.failed or report.lost or report.changed)


@pytest.fixture(scope="module")
def kinds(attack_report: AttackReport) -> Iterator[Attack]:
    with attack_report.attack("kinds of damage at rest") as found:
        yield found


@pytest.mark.parametrize(("find", "damage", "outcome"), list(_cases()))
def test_damage_is_found_and_mended_or_named(
    undamaged: Path, tmp_path: Path, kinds: Attack, find: Find, damage: Damage, outcome: str
) -> None:
    home = copied(undamaged, tmp_path / "home")
    with kinds.case(f"{_name(damage)} {find(home).name}"):
        found_and_mended_or_named(home, damage, find(home), outcome)


def found_and_mended_or_named(home: Path, damage: Damage, file: Path, outcome: str) -> None:
    damage(file)
    assert is_found(home)
    report = repaired(home)
    assert is_named(report) is (outcome == NAMED)
    left = {one.problem for one in reconciled(home).differences}
    assert left <= {*(one.problem for one in report.left), *SURPLUS}
    assert missing_answers(home) == []
    again = repaired(home)
    assert (again.folder, again.damaged, again.repaired) == ("", [], {})


def test_an_undamaged_home_has_no_findings_and_is_left_alone(undamaged: Path, tmp_path: Path) -> None:
    home = copied(undamaged, tmp_path / "home")
    before = {path: path.read_bytes() for path in homes.objects(home)}
    assert not is_found(home)
    report = repaired(home)
    assert report.is_whole
    assert (report.folder, report.repaired, report.changed) == ("", {}, [])
    assert {path: path.read_bytes() for path in homes.objects(home)} == before


def test_there_are_more_than_sixty_kinds() -> None:
    assert len(list(_cases())) >= 60


def test_a_dry_run_lists_the_damage_and_changes_nothing(undamaged: Path, tmp_path: Path) -> None:
    home = copied(undamaged, tmp_path / "home")
    truncate(home / "index" / "index.db")
    size = (home / "index" / "index.db").stat().st_size
    report = repaired(home, dry_run=True)
    assert {one.file for one in report.damaged} == {"index/index.db"}
    assert Problem.STORE_DAMAGED in {one.problem for one in report.left}
    assert not report.is_whole
    assert (home / "index" / "index.db").stat().st_size == size
    assert not list(home.glob("damaged-*"))
