"""Labelled samples of secrets in documents of operations, and the half of each.

A sample begins with `@@ kind | form | name`. `⟦…⟧` marks the characters that must be masked. `‹A36›` stands for 36 random
characters, so that no scanner takes the files for a leak; `‹64:user:password›` for base64 of the words after the colon. All
values are invented.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
HALVES = ("tuned", "judged")
FORMS = ("structure", "issued", "free")
"""The format of a file, command or device; the format of an issuer; prose, and what only a reader understands."""

_HEAD = re.compile(r"^@@ (?P<head>.*)\n", re.MULTILINE)
_FILLED = re.compile(r"‹64:(?P<plain>[^›]+)›|‹(?P<alphabet>[A-Za-z])(?P<length>\d+)›|‹(?P<alnum>\d+)›")
_MARKS = re.compile("⟦|⟧")
_HEX = string.digits + "abcdef"
_ALPHABETS = {
    "A": string.ascii_letters + string.digits,
    "B": string.ascii_letters + string.digits + "+/",
    "T": string.ascii_uppercase + "234567",
    "U": string.ascii_uppercase + string.digits,
    "X": _HEX.upper(),
    "d": string.digits,
    "h": _HEX,
    "l": string.ascii_lowercase + string.digits,
    "w": string.ascii_letters + string.digits + "-_",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """A document and the spans of its secrets."""

    kind: str
    form: str
    name: str
    text: str
    spans: tuple[tuple[int, int], ...]

    @property
    def half(self) -> str:
        """The half that its kind is in, by a rule that was fixed before anything was measured."""
        return HALVES[hashlib.sha256(f"secrets {self.kind}".encode()).digest()[0] % 2]


@cache
def samples() -> tuple[Sample, ...]:
    """All samples, in the order of the files."""
    written = [
        each
        for path in sorted((HERE / "samples").glob("*.txt"))
        for each in _written(path.read_text("utf-8"), path.stem)
    ]
    return (*written, *_issued())


def second_samples() -> tuple[Sample, ...]:
    """Samples that were written after the formats: short, of the same kinds of files, commands and devices."""
    return tuple(_written((HERE / "second.txt").read_text("utf-8"), "second"))


def filled(text: str, seed: str) -> str:
    """Replaces the stand-ins by random characters, the same for the same seed."""
    chosen = random.Random(seed)

    def one(match: re.Match[str]) -> str:
        if match["plain"]:
            return base64.b64encode(match["plain"].encode()).decode()
        alphabet, length = _ALPHABETS[match["alphabet"] or "A"], int(match["length"] or match["alnum"])
        drawn = "".join(chosen.choices(alphabet, k=length))
        return drawn if length < 3 or _is_mixed(drawn, alphabet) else one(match)

    return _FILLED.sub(one, text)


def _is_mixed(drawn: str, alphabet: str) -> bool:
    """True unless chance left out digits or letters, which random characters of this length rarely do."""
    tests = [test for test in (str.isdigit, str.isalpha) if any(map(test, alphabet))]
    return len(drawn) < 8 or all(any(map(test, drawn)) for test in tests)


def _written(text: str, seed: str) -> Iterator[Sample]:
    parts = _HEAD.split(text)[1:]
    for number, (head, body) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
        kind, form, name = (part.strip() for part in head.split("|"))
        yield _sample(kind, form, name, filled(body, f"{seed} {number}"))


def _sample(kind: str, form: str, name: str, marked: str) -> Sample:
    spans: list[tuple[int, int]] = []
    text, start = "", 0
    for part, mark in zip(_MARKS.split(marked), [*_MARKS.findall(marked), ""], strict=True):
        text += part
        if mark == "⟧":
            spans.append((start, len(text)))
        start = len(text)
    return Sample(kind, form, name, text, tuple(spans))


def _issued() -> Iterator[Sample]:
    documents = _HEAD.split((HERE / "documents.txt").read_text("utf-8"))[1:]
    pairs = list(zip(documents[::2], documents[1::2], strict=True))
    lines = (HERE / "issued.txt").read_text("utf-8").splitlines()
    for row in (line for line in lines if not line.startswith("#")):
        kind, value = (part.strip() for part in row.split("|"))
        drawn = random.Random(kind)
        for name, body in drawn.sample(pairs, 2):
            seed = f"{kind} {name}"
            token = filled(value, seed)
            yield _sample(kind, "issued", name, filled(body, seed).replace("⟦⟧", f"⟦{token}⟧"))


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
