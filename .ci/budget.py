"""Checks how large the project is against `.ci/size.toml`: `python .ci/budget.py`, or `--lower` to write lower limits.

Lines are counted without blank lines and docstrings, so that nobody saves on what helps the reader; tokens are counted beside
them, so that nobody saves by density.
"""

from __future__ import annotations

import ast
import re
import resource
import subprocess
import sys
import time
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / ".ci" / "size.toml"
LAYERS = ROOT / "layers"
LIBRARY = LAYERS / "opx" / "python" / "opx"
SUITES = "opx-testing"
"""The distribution of contract suites: tests that ship, which no program contains. Its own line limits it."""
LARGEST_LOAN = 2_500
"""Lines that one capability may borrow."""

_NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_CALIBRATION_SECONDS = 0.2
"""Processor time of `_calibration` on the machine that the limit of `collecting_seconds` was measured on."""

Figures = dict[str, dict[str, int]]
"""Name of a part and of a measure to a figure."""


def size_of(source: str) -> tuple[int, int]:
    """Lines of code and tokens of a module, without blank lines and docstrings; a line of comment counts as a line."""
    described = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(body := getattr(node, "body", None), list)
        for statement in body
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
        for line in range(statement.lineno, (statement.end_lineno or 0) + 1)
    }
    lines = source.splitlines()
    code = sum(bool(line.strip()) for number, line in enumerate(lines, 1) if number not in described)
    texts = iter(f"{line}\n" for line in lines)
    tokens = tokenize.generate_tokens(lambda: next(texts, ""))
    return code, sum(token.type not in _NOT_CODE and token.start[0] not in described for token in tokens)


def _sources(folder: Path) -> Iterator[tuple[str, str]]:
    """The part that each module belongs to (its package, or `root` for the modules beside the packages), and its text."""
    for file in sorted(folder.rglob("*.py")):
        inside = file.relative_to(folder).parts
        yield (inside[0] if len(inside) > 1 else "root"), file.read_text(encoding="utf-8")


def _distributions() -> Iterator[tuple[str, str]]:
    """The distribution that each module beside the library belongs to, and its text."""
    for folder in sorted(LAYERS.glob("opx-*")):
        yield from ((folder.name, source) for _, source in _sources(folder / "python"))


def tests_of(root: Path) -> list[str]:
    """The text of each module of tests, those of distributions included."""
    return [source for folder in (root / "tests", *root.glob("layers/*/tests")) for _, source in _sources(folder)]


def library() -> Figures:
    """Files, lines and tokens of each package of the library, and of each distribution beside it."""
    figures: Figures = {}
    for package, source in (*_sources(LIBRARY), *_distributions()):
        lines, tokens = size_of(source)
        part = figures.setdefault(package, {"files": 0, "lines": 0, "tokens": 0})
        for measure, more in (("files", 1), ("lines", lines), ("tokens", tokens)):
            part[measure] += more
    return figures


def counts() -> dict[str, int]:
    """The figures of the whole that a reader has to hold in the head."""
    import click

    from opx.edges.cli.main import cli
    from opx.operations import load
    from opx.settings import Settings

    def commands(command: click.Command, context: click.Context) -> int:
        if not isinstance(command, click.Group) or context.info_name == "call":  # its subcommands are the operations
            return 1
        inner = (command.get_command(context, name) for name in command.list_commands(context))
        return sum(commands(each, click.Context(each, context, each.name)) for each in inner if each)

    tests = tests_of(ROOT)
    core = [source for _, source in _sources(LIBRARY)]
    core_lines = sum(len(source.splitlines()) for source in core)
    return {
        "core_files": len(core),
        "core_lines": core_lines,
        "library_lines": core_lines
        + sum(len(source.splitlines()) for name, source in _distributions() if name != SUITES),
        "tests_lines": sum(len(source.splitlines()) for source in tests),
        "tests_files": len(tests),
        "settings": len(Settings.__struct_fields__),
        "operations": len(list(load())),
        "commands": commands(cli, click.Context(cli, info_name="opx")),
    }


def collecting_seconds() -> int:
    """Processor time in which pytest collects all tests, as it would be on the machine of the calibration."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:randomly", "-p", "no:syrupy"]
    subprocess.run(line, cwd=ROOT, check=True, capture_output=True)  # noqa: S603 - our own program
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return round(used * _CALIBRATION_SECONDS / _calibration())


def _calibration() -> float:
    source = (LIBRARY / "settings.py").read_text(encoding="utf-8")
    begin = time.process_time()
    for _ in range(40):
        compile(source, "settings", "exec")
    return time.process_time() - begin


def problems(budget: dict[str, Any], parts: Figures, whole: dict[str, int]) -> Iterator[str]:
    """Figures above their limits, loans included, each with what may leave; parts and measures without a limit; and loans
    that are too large or don't name what pays them back."""
    loans = budget.get("loans", [])
    for loan in loans:
        if loan["lines"] > LARGEST_LOAN or not loan.get("repaid_by", "").strip():
            yield f"loan for {loan['for']}: at most {LARGEST_LOAN} lines, and `repaid_by` names what pays them back"
    for part, figures in parts.items():
        entry = budget["library"].get(part)
        if entry is None:
            yield f"package {part} has no line in {FILE.name}: add one, and take its lines from another"
            continue
        borrowed = sum(loan["lines"] for loan in loans if loan["package"] == part)
        for measure, figure in figures.items():
            limit = entry[measure] + {"lines": borrowed, "tokens": 10 * borrowed, "files": -(-borrowed // 200)}[measure]
            if figure > limit:
                yield f"{part}: {figure:,} {measure}, {limit:,} at most. What may leave: {entry['leave']}"
    borrowed = sum(loan["lines"] for loan in loans if loan["package"] in budget["library"])
    for name, figure in whole.items():
        entry = budget["whole"][name]
        limit = entry["most"] + (round(1.4 * borrowed) if name == "library_lines" else 0)  # blank lines and docstrings
        limit += sum(loan["lines"] for loan in loans if loan["package"] == name)
        if figure > limit:
            yield f"{name}: {figure:,}, {limit:,} at most. What may leave: {entry['leave']}"


def raised(history: list[dict[str, Any]]) -> Iterator[str]:
    """Limits of the first of these budgets that are above those of a later, that is, an earlier committed one."""
    now, *earlier = [_limits(budget) for budget in history]
    for name, limit in now.items():
        least = min((limits[name] for limits in earlier if name in limits), default=limit)
        if limit > least:
            yield f"{name}: its limit was {least:,} and is {limit:,}; limits only go down, and a capability takes a loan"


def _limits(budget: dict[str, Any]) -> dict[str, int]:
    limits = {f"{part} {measure}": entry[measure] for part, entry in budget["library"].items() for measure in MEASURES}
    return limits | {name: entry["most"] for name, entry in budget["whole"].items()}


MEASURES = ("files", "lines", "tokens")


def _committed() -> Iterator[dict[str, Any]]:
    """The budgets that this branch had, as far as the clone has its history; branches that were merged tried theirs."""
    name = FILE.relative_to(ROOT).as_posix()
    for commit in _git("log", "--first-parent", "--format=%H", "--", name).split():
        if text := _git("show", f"{commit}:{name}"):
            yield tomllib.loads(text)


def _git(*arguments: str) -> str:
    line = ["git", *arguments]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False).stdout  # noqa: S603 - as above


def lowered(text: str, parts: Figures, whole: dict[str, int]) -> str:
    """The file with each limit that is above its figure set to it."""
    forms = {rf"(?m)(^{name} = \{{ most = )(\d+)": figure for name, figure in whole.items()}
    for part, figures in parts.items():
        forms |= {rf"(?m)(^{part} = \{{.*?\b{measure} = )(\d+)": figure for measure, figure in figures.items()}
    for form, figure in forms.items():
        if (match := re.search(form, text)) and int(match[2]) > figure:
            text = f"{text[: match.start(2)]}{figure}{text[match.end(2) :]}"
    return text


def main(arguments: list[str]) -> int:
    parts, whole = library(), counts()
    text = FILE.read_text(encoding="utf-8")
    if "--lower" in arguments:
        FILE.write_text(lowered(text, parts, whole), encoding="utf-8")
        return 0
    budget = tomllib.loads(text)
    whole["collecting_seconds"] = collecting_seconds()
    found = [*problems(budget, parts, whole), *raised([budget, *_committed()])]
    for problem in found:
        print(f"budget: {problem}")  # noqa: T201 - it is a program
    lines = sum(figures["lines"] for figures in parts.values())
    tokens = sum(figures["tokens"] for figures in parts.values())
    print(f"library: {lines:,} lines of code, {tokens:,} tokens;", ", ".join(f"{k} {v:,}" for k, v in whole.items()))  # noqa: T201
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
