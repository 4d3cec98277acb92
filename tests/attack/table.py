"""`python -m tests.attack.table FILE` prints the results of attacks in one table. Exits with 1 if one was not held."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.attacks import Attack

HEADS = ("kind", "tried", "leaks", "crashes", "hangs over 5 s", "silent losses", "seconds")


def merged(rows: Iterable[Attack]) -> list[Attack]:
    """One result per kind, in the order of kinds."""
    found: dict[str, Attack] = {}
    for row in rows:
        found.setdefault(row.kind, Attack(row.kind)).add(row)
    return [found[kind] for kind in sorted(found)]


def read(path: Path) -> list[Attack]:
    if not path.exists():
        return []
    return merged(Attack(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines())


def lines(rows: list[Attack]) -> Iterator[str]:
    cells = [HEADS, *((one.kind, *map(_shown, _numbers(one))) for one in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADS))]
    for row in cells:
        yield "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
    for one in rows:
        yield from (f"{one.kind}: {example}" for example in one.examples)


def _numbers(one: Attack) -> tuple[float, ...]:
    return one.tried, one.leaks, one.crashes, one.hangs, one.losses, round(one.seconds)


def _shown(number: float) -> str:
    return f"{number:,}"


def main() -> None:
    rows = read(Path(sys.argv[1]))
    sys.stdout.writelines(f"{line}\n" for line in lines(rows))
    raise SystemExit(0 if rows and all(one.held for one in rows) else 1)


if __name__ == "__main__":
    main()
