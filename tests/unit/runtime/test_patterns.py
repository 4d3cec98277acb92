"""Tests of the cache of compiled patterns, each in processes of its own."""

from __future__ import annotations

import json
import marshal
import subprocess
import sys
from pathlib import Path

import pytest

from opx.runtime import patterns
from tests.support.cli_support import ROOT, environment

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import re
from opx.runtime.patterns import PatternCache

parser, compiled = sys.modules["re._parser"], []
original = parser.parse
parser.parse = lambda text, *rest: compiled.append(text) or original(text, *rest)
PatternCache().begin()
import module_with_patterns as module

secret = re.compile("secret-of-a-question", re.ASCII)
import json
patterns = [module.NAMED, module.VERBOSE, module.CHARACTERS, module.BYTES]
facts = [[str(p.pattern), p.flags, p.groups, dict(p.groupindex)] for p in patterns]
count = sum(compiled.count(p.pattern) for p in patterns)
print(json.dumps([count, facts, module.found()]))
"""

MODULE = r"""
import re

NAMED = re.compile(r"(?i)(?P<first>a+)(b)?(?P<last>c|é)")
VERBOSE = re.compile("x  y # comment", re.VERBOSE | re.DOTALL)
CHARACTERS = re.compile("[^\\W\\d_\U0001f600-\U0001f64f]+|\\N{BULLET}")
BYTES = re.compile(b"[\\x00-\\x08]")


def found():
    first = NAMED.search("xxAAÉ")
    text = VERBOSE.match("xy")[0]
    return [first.groupdict(), first.lastgroup, text, CHARACTERS.findall("äb • c"), bool(BYTES.match(b"\0"))]
"""
TEXTS, ALL = 3, 4
"""Patterns of the module that are text, and all of them."""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "module_with_patterns.py").write_text(MODULE, "utf-8")
    return Run(tmp_path)


class Run:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"

    @property
    def file(self) -> Path:
        return Path(f"{self.cache}{Path(patterns.__file__).parent}/patterns.{sys.implementation.cache_tag}.patterns")

    def __call__(self, **variables: str) -> tuple[int, object]:
        """The number of patterns that a process compiled, and facts about those of the module."""
        line = [sys.executable, "-W", "error", "-c", PROGRAM, str(self.folder)]
        env = {**environment(), "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(self.cache), **variables}
        done = subprocess.run(line, env=env, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
        count, *facts = json.loads(done.stdout)
        return count, facts


def test_the_second_process_compiles_none_of_a_modules_patterns(run: Run) -> None:
    first, facts = run()
    assert first == ALL + TEXTS, "each text is compiled once more for the cache"
    assert run() == (ALL - TEXTS, facts)


def test_patterns_of_questions_are_not_kept(run: Run) -> None:
    run()
    assert b"(?P<first>" in run.file.read_bytes()
    assert b"secret-of-a-question" not in run.file.read_bytes()


@pytest.mark.parametrize("damage", [b"", b"no marshal", marshal.dumps(7), marshal.dumps(("another release", {}))])
def test_another_releases_or_a_damaged_file_is_replaced(run: Run, damage: bytes) -> None:
    first, facts = run()
    whole = run.file.read_bytes()
    run.file.write_bytes(damage)
    assert run() == (first, facts)
    assert run.file.read_bytes() == whole


def test_nothing_is_written_where_python_writes_no_modules(run: Run) -> None:
    run(PYTHONDONTWRITEBYTECODE="1")
    assert not run.file.exists()


def test_a_folder_that_cant_be_written_is_no_error(run: Run) -> None:
    run.file.mkdir(parents=True)
    first, facts = run()
    assert run() == (first, facts)
    assert [path.name for path in run.file.parent.glob("*.patterns*")] == [run.file.name]
