"""Examples of the documentation run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def examples(page: str) -> list[str]:
    return [block for block in _BLOCK.findall((ROOT / page).read_text(encoding="utf-8")) if "Knowledge.open(" in block]


@pytest.mark.parametrize("page", ["README.md", "docs/coming-from.md", "docs/api/python.md"])
def test_examples_of_a_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runbooks").mkdir()
    (tmp_path / "runbooks" / "disk.md").write_text("# Disk full\n\n1. Delete rotated logs.\n")
    found = examples(page)
    assert found
    for example in found:
        exec(compile(example, page, "exec"), {})
    assert page == "README.md" or "Disk full" in capsys.readouterr().out  # that of README.md has nothing to find
