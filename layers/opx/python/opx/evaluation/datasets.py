"""Labelled retrieval sets in BEIR form: `corpus.jsonl`, `queries.jsonl`, `qrels/test.tsv`."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opx.errors import InvalidInputError

OTHER_KIND = "other"


@dataclass(frozen=True, slots=True)
class Page:
    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """`relevant` maps page ids to their grade, above 0."""

    id: str
    text: str
    kind: str
    relevant: dict[str, int]


@dataclass(frozen=True, slots=True)
class Dataset:
    folder: Path
    questions: tuple[Question, ...]

    def pages(self) -> Iterator[Page]:
        for record in _records(self.folder / "corpus.jsonl"):
            yield Page(str(record["_id"]), str(record.get("title") or ""), str(record["text"]))


def load_dataset(folder: Path) -> Dataset:
    """Read a dataset; questions without a relevant page are left out, as BEIR does.

    Raises `InvalidInputError` that names the file and line that is missing or malformed.
    """
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        if not (folder / name).is_file():
            raise InvalidInputError(f"{folder} is not a dataset in BEIR form: it has no {name}")
    labels = _labels(folder / "qrels" / "test.tsv")
    questions = []
    for record in _records(folder / "queries.jsonl"):
        name = str(record["_id"])
        if labels.get(name):
            questions.append(Question(name, str(record["text"]), _kind(record), labels[name]))
    if not questions:
        raise InvalidInputError(f"{folder}: no question of queries.jsonl has a label in qrels/test.tsv")
    return Dataset(folder, tuple(questions))


def _kind(record: dict[str, Any]) -> str:
    metadata = record.get("metadata")
    return str(metadata.get("kind", OTHER_KIND)) if isinstance(metadata, dict) else OTHER_KIND


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as exc:  # neither UTF-8 nor JSON
                raise InvalidInputError(f"{path}:{number}: not a JSON object ({exc})") from exc
            if not isinstance(record, dict) or not {"_id", "text"} <= record.keys():
                raise InvalidInputError(f"{path}:{number}: a record is an object with _id and text")
            yield record


def _labels(path: Path) -> dict[str, dict[str, int]]:
    labels: dict[str, dict[str, int]] = {}
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        for number, row in enumerate(csv.DictReader(file, delimiter="\t"), start=2):
            try:
                grade = int(row["score"])
                if grade > 0:
                    labels.setdefault(row["query-id"], {})[row["corpus-id"]] = grade
            except (KeyError, TypeError, ValueError) as exc:
                raise InvalidInputError(f"{path}:{number}: expected query-id, corpus-id and a whole score") from exc
    return labels
