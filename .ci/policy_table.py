"""The policy as tables of the documentation: `python .ci/policy_table.py docs/tenants.md` writes them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opx.domain.policy import PERMITS, TABLE, Action, Reach, Role, token_of
from opx.operations import load
from opx.operations.registry import Operation

BEGIN, END = "<!-- policy: begin -->", "<!-- policy: end -->"
NOT_REACHED = "–"


def written_into(document: str) -> str:
    """The document with the current tables between its marks. Raises `ValueError` if it has none."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the document has no marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{roles_table()}\n\n{operations_table()}\n{END}{after}"


def roles_table() -> str:
    """The targets that each role reaches, by action."""
    rows = ([f"**{action}**: {PERMITS[action]}", *map(_cell, TABLE[action].values())] for action in Action)
    return _table(["action", *Role], rows)


def _cell(reach: Reach) -> str:
    return NOT_REACHED if reach is Reach.NONE else reach.value


def operations_table() -> str:
    """Operations, tokens, and resources of IAM policies, by action. One with several actions is in the row of each."""

    def row(action: Action) -> list[str]:
        found = [one for one in load() if action in one.actions]
        names = [f"`{one.name}`" for one in found]
        return [f"**{action}**", ", ".join(names), token_of(action), ", ".join(_resources(found)) or NOT_REACHED]

    return _table(["action", "operations", "token", "IAM: `execute-api:Invoke` on"], map(row, Action))


def _resources(operations: list[Operation[Any, Any]]) -> Iterator[str]:
    """Resources of routes, below the stage of the API."""
    for one in operations:
        if one.route:
            yield f"`{one.route.method}{re.sub(r'{[^}]*}', '*', one.route.path)}`"


def _table(heads: list[str], rows: Any) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(written_into(target.read_text(encoding="utf-8")), encoding="utf-8")
