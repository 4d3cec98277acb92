"""The listings that run are those that were recorded: lines of imports are the only difference."""

from __future__ import annotations

import re
from difflib import ndiff
from pathlib import Path

import pytest

from tests.designs.loading import FOLDER, LISTINGS, RECORDED, listing, recorded

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from.md"
DEDENTED = ("phase_7_05", "phase_7_06", "phase_7_07")
"""Stand within a list in their design, with its indentation."""
_IMPORT = re.compile(r"(?:from [\w.]+ )?import [\w ,]+$")
NAMES = sorted(path.stem for path in LISTINGS.glob("*.py"))


def recorded_name(name: str) -> str:
    return name.replace("phase_7", "opx-phase-7").replace("_", "-")


def original(name: str) -> str:
    text = recorded(recorded_name(name))
    return re.sub("^   ", "", text, flags=re.MULTILINE) if name in DEDENTED else text


def other_lines(name: str) -> list[str]:
    """Lines by which a listing differs from its record, but for imports and empty ones."""
    running = (LISTINGS / f"{name}.py").read_text(encoding="utf-8").splitlines()
    changed = [line for line in ndiff(original(name).splitlines(), running) if line[:2] in ("- ", "+ ")]
    return [line for line in changed if not (line[0] == "+" and (not line[2:] or _IMPORT.match(line[2:])))]


@pytest.mark.parametrize("name", NAMES)
def test_only_imports_differ(name: str) -> None:
    assert other_lines(name) == []


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_imported(name: str) -> None:
    given = {"qdrant_client": None} if name == "decision_68_08" else {}
    if given:  # creates a collection when it is imported; test_decision_68 does
        compile((LISTINGS / f"{name}.py").read_text(encoding="utf-8"), name, "exec")
    else:
        assert listing(name)


def test_another_difference_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (LISTINGS / "maestro_05.py").read_text(encoding="utf-8")
    (tmp_path / "maestro_05.py").write_text(text.replace("max_results: int = 10", "max_results: int = 20"))
    monkeypatch.setattr("tests.designs.test_listings.LISTINGS", tmp_path)
    assert [line[:2] for line in other_lines("maestro_05")] == ["- ", "+ "]


def test_every_python_listing_runs_from_a_file() -> None:
    python = {path.name.removesuffix(".py.txt") for path in RECORDED.glob("*.py.txt")}
    assert python == set(map(recorded_name, NAMES))


def test_every_listing_is_used_by_a_test() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("test_*.py"))
    used = set(re.findall(r"[\"']([a-z][\w-]*[_-]\d\d)[\"']", tests))
    unused = [path.name for path in RECORDED.iterdir() if path.name.split(".")[0] not in set(map(recorded_name, used))]
    assert unused == []


def test_listings_that_are_not_python_have_a_row() -> None:
    page = PAGE.read_text(encoding="utf-8")
    missing = [path.name for path in RECORDED.iterdir() if not path.name.endswith(".py.txt") if path.name not in page]
    assert missing == []


@pytest.mark.parametrize("name", DEDENTED)
def test_what_differs_by_more_than_imports_has_a_row(name: str) -> None:
    assert f"{recorded_name(name)}.py.txt" in PAGE.read_text(encoding="utf-8")
