"""The table of attacks adds up all results of a kind, and fails where one was not held."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.attack import table
from tests.support.attacks import REPORT, AttackReport


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "results"
    monkeypatch.setenv(REPORT, str(path))
    monkeypatch.setattr(sys, "argv", ["table", str(path)])
    return path


def test_results_of_a_kind_are_one_row(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for tried in (1000, 234):
        with AttackReport().attack("kill -9") as found:
            found.tried = tried
    with pytest.raises(SystemExit) as ended:
        table.main()
    assert ended.value.code == 0
    heads, row = capsys.readouterr().out.splitlines()
    assert heads.split("  ")[0] == "kind"
    assert row.split()[2:7] == ["1,234", "0", "0", "0", "0"]
    assert file.exists()


def test_result_is_kept_when_the_attack_fails_and_the_table_fails(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def attack() -> None:
        with AttackReport().attack("fuzz") as found:
            found.tried, found.leaks, found.examples = 7, 1, ["an example"]
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        attack()
    with pytest.raises(SystemExit) as ended:
        table.main()
    assert ended.value.code == 1
    assert "fuzz: an example" in capsys.readouterr().out
    assert file.exists()


def test_no_results_are_no_success(file: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        table.main()
    assert ended.value.code == 1
    assert not file.exists()
