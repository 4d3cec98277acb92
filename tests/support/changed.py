"""Lists the modules of tests that a change reaches, the nearest first: `make test-changed` runs them.

Nearness is the number of imports between a module of tests and what changed. Nearly every module is reached by the tests that
use the whole system, so the list ends where `MOST` tests are reached, and says so.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.support.scheduling import SLOW

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    **{
        f"layers/{one.parent.name}/python": (one.parent.name.replace("-", "_"),)
        for one in ROOT.glob("layers/opx*/python")
    },
    ".": (
        *("infra", "tests", "lambdas", "examples"),
        *(one.relative_to(ROOT).as_posix() for one in ROOT.glob("layers/*/tests")),
    ),
}
"""Folders that modules are imported from, with their packages."""

MOST = 500
"""Test functions of a run: two minutes on two cores."""

OTHER_TARGETS = (
    "layers/opx-streams/tests/test_redis_streams.py",
    *(f"tests/{name}/" for name in ("bulk", "console", "deployment", "docs", "examples", "opensearch", "packaging")),
)
"""Modules and folders that `make test` leaves out."""

_TEST = re.compile(r"^ *(?:async )?def test_", re.MULTILINE)

Importers = Mapping[str, Iterable[str]]


def modules() -> dict[str, Path]:
    """All modules by name, those of tests included."""
    return {
        ".".join(file.relative_to(ROOT / folder).with_suffix("").parts).removesuffix(".__init__"): file
        for folder, packages in SOURCES.items()
        for package in packages
        for file in (ROOT / folder / package).rglob("*.py")
    }


def imports(source: str, known: Mapping[str, Path]) -> Iterator[str]:
    """The known modules that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            within = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (
                name if name in known else node.module for name in within if name in known or node.module in known
            )


def importers(known: Mapping[str, Path]) -> Importers:
    """The modules that import each module."""
    found = defaultdict[str, set[str]](set)
    for name, file in known.items():
        for imported in imports(file.read_text(encoding="utf-8"), known):
            found[imported].add(name)
    return found


def is_test(name: str) -> bool:
    return name.startswith(("tests.", "layers.")) and name.rpartition(".")[2].startswith("test_")


def reached(changed: Iterable[str], importers: Importers) -> Iterator[str]:
    """The modules of tests that import what changed, directly or over others, the nearest first."""
    seen = set(changed)
    level = sorted(seen)
    while level:
        yield from filter(is_test, level)
        level = sorted({name for module in level for name in importers.get(module, ())} - seen)
        seen.update(level)


def changed_files(base: str) -> list[str]:
    """Files that differ from where this branch left `base`, and new ones; of `base` itself, those of its last commit."""

    def git(*arguments: str) -> list[str]:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )

    (left,) = filter(None, git("merge-base", "HEAD", base))
    changed = git("diff", "--name-only", left) + git("ls-files", "--others", "--exclude-standard")
    return sorted(filter(None, changed)) or sorted(filter(None, git("diff", "--name-only", "HEAD~1")))


def main() -> None:
    known = modules()
    by_file = {file.relative_to(ROOT).as_posix(): name for name, file in known.items()}
    files = changed_files(os.environ.get("BASE") or "main")
    chosen, left_out, tests = [], 0, 0
    for name in reached({by_file[file] for file in files if file in by_file}, importers(known)):
        path = known[name].relative_to(ROOT).as_posix()
        count = len(_TEST.findall(known[name].read_text(encoding="utf-8")))
        if path not in files and (tests >= MOST or path in SLOW or path.startswith(OTHER_TARGETS)):
            left_out += 1
        else:
            chosen.append(path)
            tests += count
    others = [file for file in files if file not in by_file]
    print(
        f"{len(files)} changed files reach {len(chosen) + left_out} modules of tests; the nearest {len(chosen)} run"
        + (f", and `make test` has the other {left_out}" if left_out else "")
        + (
            f". No test imports {', '.join(others[:5])}{' …' if others[5:] else ''}: see docs/developing.md"
            if others
            else ""
        ),
        file=sys.stderr,
    )
    print("\n".join(chosen))


if __name__ == "__main__":
    main()
