"""Text with warnings before the steps that they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opx.hygiene.untrusted import one_line


def with_warnings(content: str, warnings: Sequence[Mapping[str, Any]]) -> str:
    """The content with a line of ours before each line that a warning is of; before all of it where it is of the document
    as a whole, or of a line that isn't there."""
    if not warnings:
        return content
    lines = content.splitlines()
    before: dict[int, list[str]] = {}
    for warning in warnings:
        line = warning.get("line")
        known = isinstance(line, int) and 0 <= line < len(lines)
        before.setdefault(line if known else 0, []).append(warning_line(warning))  # type: ignore[arg-type]
    return "\n".join(said for at, line in enumerate(lines or [""]) for said in (*before.get(at, ()), line))


def warning_line(warning: Mapping[str, Any]) -> str:
    """`[Warning: tried in INC-7, made things worse: restart the primary]`."""
    return f"[Warning: {one_line(str(warning.get('text', '')))}]"
