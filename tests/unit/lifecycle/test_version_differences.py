"""Differences of two versions of a document."""

from __future__ import annotations

import difflib
import io
import random
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.record import replace
from opx.domain.versions import (
    Change,
    CommandChange,
    Renumbering,
    Restored,
    Safeguard,
    SafeguardChange,
    StepChange,
    StepChangeKind,
    VersionDiff,
    VersionName,
)
from opx.lifecycle.versions import differences
from opx.lifecycle.versions.differences import OutlineChanges, difference, unified
from tests.support.builders import a_document, changed

LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "c\n", "d\n", "--- x\n", "+++ y\n", "@@ -1 +1 @@\n", "\n", "é\u2028f\n"])
)
ENDS = st.sampled_from(["", "a", "z", "\\ No newline"])


def patched(text: str, diff: str) -> str:
    """The text with a unified diff applied, as its format is defined; fails where it doesn't apply."""
    old, new, at = list(io.StringIO(text, newline="\n")), [], 0
    rows: list[str] = []
    for row in list(io.StringIO(diff, newline="\n"))[2:]:
        if row.startswith("\\"):
            rows[-1] = rows[-1].removesuffix("\n")
        else:
            rows.append(row)
    for row in rows:
        if found := re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@\n", row):
            start = int(found[1]) - (found[2] != "0")
            new += old[at:start]
            at = start
            continue
        if row[0] != "+":
            assert old[at] == row[1:]
            at += 1
        if row[0] != "-":
            new.append(row[1:])
    return "".join(new + old[at:])


@given(LINES, LINES, ENDS, ENDS)
def test_a_diff_makes_one_text_of_the_other(old: list[str], new: list[str], end: str, new_end: str) -> None:
    before, after = "".join(old) + end, "".join(new) + new_end
    diff = "".join(unified(before, after, "a", "b"))
    assert patched(before, diff) == after
    assert (diff == "") == (before == after)


def test_only_what_changed_is_shown_with_its_surroundings() -> None:
    lines = [f"line {number}\n" for number in range(30)]
    changed = [*lines[:14], "another\n", *lines[15:]]
    diff = "".join(unified("".join(lines), "".join(changed), "v1", "v2")).splitlines()
    assert diff[:3] == ["--- v1", "+++ v2", "@@ -12,7 +12,7 @@"]
    assert diff[3:] == [
        *(f" line {n}" for n in (11, 12, 13)),
        "-line 14",
        "+another",
        *(f" line {n}" for n in (15, 16, 17)),
    ]


def test_texts_of_many_lines_that_come_again_and_again_take_bounded_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without anchors nothing larger than the bound is compared line by line."""
    compared: list[int] = []

    class Noted(difflib.SequenceMatcher[str]):
        def __init__(self, junk: None, a: Sequence[str], b: Sequence[str], *, autojunk: bool) -> None:
            compared.append(len(a) * len(b))
            super().__init__(junk, a, b, autojunk)

    monkeypatch.setattr(difflib, "SequenceMatcher", Noted)
    numbers = random.Random(7)
    old, new = ("".join(f"{numbers.randint(0, 50)}\n" for _ in range(3000)) for _ in range(2))
    diff = "".join(unified(old, new, "a", "b"))
    assert patched(old, diff) == new
    assert max(compared, default=0) <= differences.MAX_PAIRS


def test_metadata_that_differ_are_named() -> None:
    before = a_document(title="Disk", tags=("a", "b"), expires="2026-01-01")
    after = changed(before, version=2, title="Disks", tags=("b",), expires="", declared_version="1.1")
    found = difference(before, after, ("same\n", "same\n"))
    assert found.changes == (
        Change("title", "Disk", "Disks"),
        Change("tags", "a, b", "b"),
        Change("version", "", "1.1"),
        Change("expires", "2026-01-01", ""),
    )
    assert (found.diff, found.added, found.removed, found.cut) == ("", 0, 0, False)


def test_a_long_diff_is_cut_at_a_line_with_full_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "MAX_CHARACTERS", 200)
    document = a_document()
    text = "".join(f"line {number}\n" for number in range(1000))
    found = difference(document, replace(document, version=2), ("", text))
    assert (found.added, found.removed, found.cut) == (1000, 0, True)
    assert len(found.diff) <= 200
    assert found.diff.endswith("\n")


def test_of_very_many_steps_the_first_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "MAX_LISTED", 2)
    steps = tuple(StepChange(kind=StepChangeKind.ADDED, title=str(number)) for number in range(3))
    found = difference(a_document(), a_document(), ("", ""), OutlineChanges(steps))
    assert ([step.title for step in found.steps], found.cut) == (["0", "1"], True)


def test_versions_and_differences_round_trip_as_json() -> None:
    name = VersionName(3, "0f", "2026-01-01T00:00:00Z")
    step = StepChange(kind=StepChangeKind.CHANGED, title="Wait", commands=(CommandChange("a", "b"),))
    change = Change("title", "a", "b")
    diff = VersionDiff(
        "a.md",
        name,
        replace(name, version=4),
        (change,),
        "--- a\n",
        1,
        2,
        cut=True,
        steps=(step,),
        renumbered=(Renumbering("2", "3", "4", "5"),),
        safeguards=(SafeguardChange(kind=StepChangeKind.REMOVED, safeguard=Safeguard.WARNING, before="Never."),),
        notes=("too long",),
    )
    restored = Restored("documents/a.md", name, True, ("note",))
    assert VersionDiff.from_json(diff.to_json()) == diff
    assert Restored.from_json(restored.to_json()) == restored
