"""Builders of evaluation runs, questions and replies, for tests of reports and comparisons."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from opx_quality.evaluation.datasets import LabelledQuestion
from opx_quality.evaluation.runs import EvaluationRun, JudgedReply

CONFIDENCE = 0.9


def a_question(
    name: str,
    *relevant: str,
    kind: str = "words",
    split: str = "",
    text: str = "",
    grades: Mapping[str, int] | None = None,
) -> LabelledQuestion:
    """A question that these pages answer; without any, one that none does."""
    return LabelledQuestion(name, text or f"text of {name}", kind, dict(grades or dict.fromkeys(relevant, 1)), split)


def a_reply(*pages: str, confidences: tuple[float, ...] = (), milliseconds: float = 5.0) -> JudgedReply:
    """Pages in this order; without confidences, all are sure."""
    return JudgedReply(pages, confidences or (CONFIDENCE,) * len(pages), milliseconds, {"search": milliseconds / 2})


def a_run(*pairs: tuple[LabelledQuestion, JudgedReply], **others: Sequence[JudgedReply]) -> EvaluationRun:
    """A run of the mode `balanced`; `others` are further modes."""
    questions, replies = [question for question, _ in pairs], [reply for _, reply in pairs]
    found = {"balanced": tuple(replies), **{name: tuple(each) for name, each in others.items()}}
    return EvaluationRun("set", "corpus-1", tuple(questions), found, tuple(found), {"pages": 3.0})


# -- a small dataset in files

PAGES = {
    "storage/disk": ("Disk full", "Delete rotated logs of the disk."),
    "storage/slow": ("Disk slow", "Compare queue lengths and fail over."),
    "pods": ("", "The pod is crash looping. Read its events."),
    "certificates": ("Certificate expired", "Renew it and reload the gateway."),
}
QUESTIONS = {
    "q1": ("rotated logs disk", "words", {"storage/disk": 2, "storage/slow": 1}),
    "q2": ("pod crash looping", "words", {"pods": 1}),
    "q3": ("gateway certificate renew", "", {"certificates": 1}),
}


def lines(records: Sequence[Mapping[str, object]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def write_dataset(folder: Path, pages: Mapping[str, tuple[str, str]] = PAGES) -> Path:
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": name, "title": title, "text": text} for name, (title, text) in pages.items()]
    (folder / "corpus.jsonl").write_text(lines(corpus))
    queries = [{"_id": n, "text": text, "metadata": {"kind": k} if k else {}} for n, (text, k, _) in QUESTIONS.items()]
    (folder / "queries.jsonl").write_text(lines([*queries, {"_id": "unlabelled", "text": "?"}]))
    labels = [f"{name}\t{page}\t{grade}" for name, (_, _, found) in QUESTIONS.items() for page, grade in found.items()]
    (folder / "qrels" / "test.tsv").write_text(
        "\n".join(["query-id\tcorpus-id\tscore", *labels, "q2\tstorage/disk\t0"])
    )
    return folder
