"""Checks docstrings, comments and names against the glossary: `python .ci/words.py PATH ...` lists the problems."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

RIDDLE = re.compile(r"(?:what|which|how|whether|where|who|whom|whose)\b", re.IGNORECASE)
"""A docstring names the thing or begins with a verb."""

PHRASES = re.compile(
    r"\b(?:told|tells|telling|tell|said|saying|asked|asking|what came of|tak(?:e|es|en|ing) in|took in|a text(?! format)|"
    r"somebody|anybody|whoever)\b(?! account)|(?<!in )(?<!take )(?<!takes )(?<!took )\bplaces?\b(?! of its own)",
    re.IGNORECASE,
)
NAMES = re.compile(r"(?:^|_)(?:told|tells?|said|says?|asked|asks|asking)(?:_|$)|Asked|Said|Told|Asking")

PUBLIC_FIELDS = frozenset({"asked", "asked_at", "first_asked_at", "last_asked_at"})
"""Fields of replies that keep their published names."""


def problems(file: Path) -> Iterator[tuple[int, str]]:
    """Lines of a file that break the glossary, with the reason."""
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    for node in docstrings(tree):
        text = node.value.value if isinstance(node.value, ast.Constant) else ""
        if isinstance(text, str):
            if RIDDLE.match(text.strip().lstrip("(`\"'")):
                yield node.lineno, f"docstring begins with a question word: {text.strip().splitlines()[0][:60]}"
            yield from _phrases(node.lineno, text)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from _phrases(token.start[0], token.string)
    fields = {target.lineno for target in _fields(tree) if target.id in PUBLIC_FIELDS}
    for line, name in names(tree):
        if NAMES.search(name) and line not in fields:
            yield line, f"name {name}"


def docstrings(tree: ast.AST) -> Iterator[ast.Expr]:
    """Docstrings of modules, classes and functions, and those below a constant or field."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Names that a file defines: functions, classes, parameters, variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def _fields(tree: ast.AST) -> Iterator[ast.Name]:
    """Annotated fields of classes."""
    for node in ast.walk(tree):
        for statement in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                yield statement.target


def _phrases(line: int, text: str) -> Iterator[tuple[int, str]]:
    for number, part in enumerate(text.splitlines()):
        for found in PHRASES.finditer(part):
            yield line + number, f"{found[0]!r}: {part.strip()[:80]}"


def main(paths: list[str]) -> int:
    """Prints the problems of the Python files at these paths and below them; returns 1 if there are any."""
    files = sorted({file for path in map(Path, paths) for file in ([path] if path.is_file() else path.rglob("*.py"))})
    found = [f"{file}:{line}: {problem}" for file in files for line, problem in problems(file)]
    print("\n".join(found) or f"words: {len(files)} files follow docs/glossary.md")  # noqa: T201
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
