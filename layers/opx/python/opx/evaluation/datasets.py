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
            yield Page(str(record["_id"]), str(record.get("title", "")), str(record["text"]))


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
            kind = str((record.get("metadata") or {}).get("kind", OTHER_KIND))
            questions.append(Question(name, str(record["text"]), kind, labels[name]))
    if not questions:
        raise InvalidInputError(f"{folder}: no question of queries.jsonl has a label in qrels/test.tsv")
    return Dataset(folder, tuple(questions))


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                if "_id" not in record or "text" not in record:
                    raise InvalidInputError(f"{path}:{number}: a record needs _id and text")
            except (json.JSONDecodeError, TypeError) as exc:
                raise InvalidInputError(f"{path}:{number}: not a JSON object ({exc})") from exc
            yield record


def _labels(path: Path) -> dict[str, dict[str, int]]:
    labels: dict[str, dict[str, int]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file, delimiter="\t"), start=2):
            try:
                grade = int(row["score"])
                if grade > 0:
                    labels.setdefault(row["query-id"], {})[row["corpus-id"]] = grade
            except (KeyError, TypeError, ValueError) as exc:
                raise InvalidInputError(f"{path}:{number}: expected query-id, corpus-id and a whole score") from exc
    return labels
