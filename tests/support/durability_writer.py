"""A program that writes to every embedded store and reports acknowledged writes, until it is killed.

Arguments: a folder, and the number to start from.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.object_store import FolderObjectStore
from opx.adapters.embedded.table import SqliteQueue, SqliteTable
from opx.ports.tables import IndexSpec, TableSpec

SPEC = TableSpec("numbers", "id", indexes=(IndexSpec("parity-number-index", "parity", "number"),), numbers=("number",))
KEYS = 3


def content_of(number: int) -> bytes:
    return f"{number} ".encode() * (number % 7 * 1000 + 1)


def main(folder: Path, start: int) -> None:
    store = FolderObjectStore(folder / "corpus")
    database = open_database(folder / "opx.sqlite")
    table = SqliteTable(SPEC, database)
    queue = SqliteQueue(database, "numbers")
    for number in count(start):
        store.put(f"folder/{number % KEYS}", content_of(number), metadata={"number": str(number)})
        print("object", number, flush=True)
        item = {"id": f"{number % KEYS}", "number": number, "parity": f"{number % 2}"}
        table.put_many([item, {**item, "id": f"twin of {number % KEYS}"}])
        print("item", number, flush=True)
        queue.send(str(number))
        print("message", number, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
