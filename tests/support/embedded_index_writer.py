"""A program that replaces a few documents of an embedded index over and over, and reports each version once it is committed.

Arguments: a folder, the name of this writer, the version to start from, and the version to stop before.
"""

from __future__ import annotations

import sys
from pathlib import Path

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.ports import DocumentChange, IndexEntry
from opx_testing.entries import VECTOR_DIMENSION, a_change, an_entry, any_vector

DOCUMENTS = 2


def open_index(folder: Path) -> EmbeddedIndex:
    return EmbeddedIndex(folder, model_id="test-model", dimension=VECTOR_DIMENSION)


def parts_of(version: int) -> int:
    return 1 + version % 5 * 3


def entries_of(writer: str, document: int, version: int) -> list[IndexEntry]:
    """All entries of one version of a document, each of which names its version and has one to three vectors."""
    source = f"{writer}{document}"
    return [
        an_entry(
            f"common {source} {version} {n}",
            source=f"{source}.md",
            index=n,
            document_id=f"{source} {version}",
            vectors=[any_vector(f"{source} {version} {n} {at}") for at in range(1 + (version + n) % 3)],
        )
        for n in range(parts_of(version))
    ]


def changes(index: EmbeddedIndex, writer: str, version: int) -> list[DocumentChange]:
    """One change per document, each replacing the previous version."""
    found = []
    for document in range(DOCUMENTS):
        entries = entries_of(writer, document, version)
        found.append(a_change(*entries, superseded=index.references(entries[0].indexed.key_id)))
    return found


def main(folder: Path, writer: str, start: int, stop: int) -> None:
    index = open_index(folder)
    print("ready", flush=True)
    for version in range(start, stop):
        index.apply(changes(index, writer, version))
        print(version, flush=True)
    index.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
