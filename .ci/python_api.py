"""Writes the page of the Python API from signatures and docstrings: `python .ci/python_api.py docs/api/python.md`."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import opx
from opx.facade.aio import AsyncKnowledge
from opx.facade.knowledge import Knowledge
from opx.facade.learning import LearningKnowledge

HEAD = """# The Python API

Made from the code by `make schemas`; don't edit it. [coming-from.md](../coming-from.md) has the names of earlier designs.

```python
from opx import Knowledge, QueryConfig

with Knowledge.open("ops-knowledge") as kb:  # a folder of this machine
    kb.add_files("runbooks/")
    for result in kb.query("disk full", QueryConfig(max_results=3)):
        print(result.band, result.title, result.source)
```

`Knowledge.open("https://…", token="…")` calls a deployed system with the same methods. Errors are subclasses of `OpxError`.
"""
RECORDS = (
    "QueryConfig",
    "Results",
    "RetrievalResult",
    "Answer",
    "Document",
    "Evidence",
    "SourceDeclaration",
    "BaselineStats",
    "RAGPattern",
)
SOURCES = ("NVDSource", "MSDocsSource", "AttackSource", "GitHubIssuesSource", "WebSearchSource")
_QUALIFIED = re.compile(r"\b(?:opx|collections\.abc|typing|datetime)(?:\.\w+)*\.(?=\w)")


def page() -> str:
    """The whole page."""
    parts = [HEAD, *section("Knowledge", Knowledge), *section("Knowledge.learning", LearningKnowledge)]
    parts += ["## AsyncKnowledge\n", prose(AsyncKnowledge), awaited()]
    parts += ["## Records\n", *(record(name) for name in RECORDS)]
    parts += ["## KnowledgeSource\n", prose(opx.KnowledgeSource), *methods(opx.KnowledgeSource)]
    parts += ["## Sources to register\n", *(call(name, getattr(opx, name)) for name in SOURCES)]
    return "\n".join(parts)


def section(title: str, kind: type) -> Iterator[str]:
    """A class with its methods."""
    yield f"## {title}\n"
    yield prose(kind)
    yield from methods(kind)


def methods(kind: type) -> Iterator[str]:
    """Public methods and properties, in the order of the code."""
    for name, found in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(found, property):
            yield f"### `{name}`\n\n{prose(found)}"
        elif callable(found) or isinstance(found, classmethod):
            yield call(name, getattr(kind, name))


def call(name: str, function: Any) -> str:
    """A function with its signature and docstring."""
    signature = str(inspect.signature(function))
    signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", re.sub(r"\(self(?:, )?", "(", signature))
    return f"### `{name}`\n\n```python\n{name}{_QUALIFIED.sub('', signature)}\n```\n\n{prose(function)}"


def awaited() -> str:
    """Names of the methods that are awaited."""
    names = [name for name, found in vars(AsyncKnowledge).items() if inspect.iscoroutinefunction(found)]
    return "Awaited: " + ", ".join(f"`{name}`" for name in names if not name.startswith("_")) + ".\n"


def record(name: str) -> str:
    """A record with its fields."""
    kind = getattr(opx, name)
    fields = getattr(kind, "__struct_fields__", ())
    listed = f"Fields: {', '.join(f'`{one}`' for one in fields)}.\n" if fields else ""
    return f"### `{name}`\n\n{prose(kind)}{listed}"


def prose(thing: Any) -> str:
    """The docstring as Markdown."""
    return f"{inspect.getdoc(thing) or ''}\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
