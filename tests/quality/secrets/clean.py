"""Text without secrets: our own documents, folders of the reader, and generated lines that look dangerous."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from tests.quality.secrets.samples import HERE, filled

ROOT = Path(__file__).parents[3]
OWN = ("corpus", "docs")
_SUFFIXES = frozenset((".md", ".json", ".jsonl", ".yml", ".yaml", ".tsv", ".txt", ".html", ".eml"))
_COPIES = 400
"""Times that each line of `dangerous.txt` is drawn with other values: about 1 MB."""


def dangerous(copies: int = _COPIES) -> Iterator[str]:
    """Documents of generated lines: hashes, ids, digests, certificates, placeholders, references, documentation."""
    blocks = [block for block in (HERE / "dangerous.txt").read_text("utf-8").split("\n\n") if not block.startswith("#")]
    for copy in range(copies):
        drawn = random.Random(copy).sample(blocks, len(blocks))
        yield "\n\n".join(filled(block, f"{copy} {number}") for number, block in enumerate(drawn)) + "\n"


def texts_below(folder: Path) -> Iterator[tuple[str, str]]:
    """Names and texts of a folder's documents; each string of a `.jsonl` file's rows is one."""
    for path in sorted(folder.rglob("*")):
        if path.suffix not in _SUFFIXES or not path.is_file():
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        if path.suffix != ".jsonl":
            yield path.name, text
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            yield from (
                (f"{path.name}:{number}", value) for value in json.loads(line).values() if isinstance(value, str)
            )
