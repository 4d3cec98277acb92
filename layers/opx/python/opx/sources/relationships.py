"""Relations that a source states, as lines at the end of a document: `jira:TASK-123|BLOCKS|jira:TASK-9`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from opx.sources.markdown import one_line

_STRUCTURE = re.compile(r"[|\[\]<>`\"]")
_EDGE = re.compile(r"[^A-Z0-9]+")


def reference(namespace: str, value: str) -> str:
    """`user:john` and the like; characters that mark structure are left out of the value. "" without a value."""
    cleaned = one_line(_STRUCTURE.sub(" ", value))
    return f"{namespace}:{cleaned}" if cleaned else ""


def relation(origin: str, edge: str, target: str) -> str:
    """A line, or "" if an end of it is missing. The edge is written in capitals with underscores."""
    name = _EDGE.sub("_", edge.upper()).strip("_") or "RELATED_TO"
    return f"{origin}|{name}|{target}" if origin and target else ""


def block(lines: Iterable[str]) -> str:
    """The relations of a document, each once, or "" if there is none."""
    found = [line for line in dict.fromkeys(lines) if line]
    return "\n".join(["relationships:", *(f"- {line}" for line in found)]) if found else ""
