"""Evaluation runs, saved as JSON to be compared: every question with the reply of each system."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opx.domain.ids import stable_hash
from opx.domain.record import replace
from opx.errors import InvalidInputError
from opx_quality.evaluation.answers import ReplyJudgement
from opx_quality.evaluation.datasets import LabelledQuestion, Span, spans_json

FORMAT = 1
PAGES_KEPT = 20


@dataclass(frozen=True, slots=True)
class JudgedReply:
    """The reply of a system to a question: pages best first and, for answers, their confidences and times.

    `confidences` are those of each page's best chunk; a single leg or fusion has none. `milliseconds` is the whole
    answer, `timings_ms` its parts; time of a search that modes share counts for each of them. `ranked_by` and `partial`
    are the answer's own: a failed reranker, or a missing leg, must not pass for quality. `absent` are the names that the
    answer reports as absent, None if unknown: for a single leg or fusion, and in older runs.
    """

    pages: tuple[str, ...]
    confidences: tuple[float, ...] = ()
    milliseconds: float = 0.0
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    ranked_by: str = ""
    partial: bool = False
    absent: tuple[str, ...] | None = None

    @property
    def best(self) -> float:
        """The confidence of the most certain page, 0 if nothing was found."""
        return max(self.confidences, default=0.0)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"pages": list(self.pages)}
        if self.timings_ms or self.confidences:
            data |= {
                "confidences": [round(value, 6) for value in self.confidences],
                "milliseconds": round(self.milliseconds, 3),
                "timingsMs": {name: round(value, 3) for name, value in self.timings_ms.items()},
                "rankedBy": self.ranked_by,
                "partial": self.partial,
            }
            if self.absent is not None:
                data["absent"] = list(self.absent)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> JudgedReply:
        return cls(
            pages=tuple(data["pages"]),
            confidences=tuple(data.get("confidences", ())),
            milliseconds=data.get("milliseconds", 0.0),
            timings_ms=data.get("timingsMs", {}),
            ranked_by=data.get("rankedBy", ""),
            partial=data.get("partial", False),
            absent=tuple(data["absent"]) if "absent" in data else None,
        )


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """`replies` are those of each system, in the order of the questions. `modes` are the systems that users can query;
    the others are single legs and fusions. `corpus` is a hash of the documents. `answers` has, by the form of the reply,
    its judgement for each question, None for one without spans."""

    dataset: str
    corpus: str
    questions: tuple[LabelledQuestion, ...]
    replies: dict[str, tuple[JudgedReply, ...]]
    modes: tuple[str, ...]
    ingest: dict[str, float] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    answers: dict[str, tuple[ReplyJudgement | None, ...]] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Hash of the questions and their labels: runs with equal ones can be compared."""
        return stable_hash(
            *sorted((q.id, q.text, q.kind, sorted(q.relevant.items()), spans_json(q.spans)) for q in self.questions)
        )

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of questions that have an answer, in order of appearance."""
        return tuple(dict.fromkeys(question.kind for question in self.questions if question.answerable))

    def of_split(self, split: str) -> EvaluationRun:
        """The same run with the questions of one split alone."""
        chosen = [number for number, question in enumerate(self.questions) if question.split == split]
        return replace(
            self,
            questions=tuple(self.questions[number] for number in chosen),
            replies={system: tuple(found[number] for number in chosen) for system, found in self.replies.items()},
            answers={form: tuple(found[number] for number in chosen) for form, found in self.answers.items()},
        )

    def to_json(self) -> dict[str, Any]:
        data = {
            "format": FORMAT,
            "dataset": self.dataset,
            "corpus": self.corpus,
            "about": self.about,
            "ingest": self.ingest,
            "modes": list(self.modes),
            "questions": [question_json(question) for question in self.questions],
            "replies": {name: [reply.to_json() for reply in replies] for name, replies in self.replies.items()},
        }
        if self.answers:
            data["answers"] = {form: [one and one.to_json() for one in found] for form, found in self.answers.items()}
        return data


def question_json(question: LabelledQuestion) -> dict[str, Any]:
    data = {name: getattr(question, name) for name in ("id", "text", "kind", "relevant", "split")}
    return {**data, "spans": spans_json(question.spans)} if question.spans else data


def question_of(data: Mapping[str, Any]) -> LabelledQuestion:
    return LabelledQuestion(**{**data, "spans": tuple(Span(**span) for span in data.get("spans", ()))})


def save_run(run: EvaluationRun, path: Path) -> None:
    """Write a run as JSON. Raises `InvalidInputError` if it can't be written."""
    try:
        path.write_text(json.dumps(run.to_json(), ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as exc:
        raise InvalidInputError(f"{path} can't be written ({exc.strerror})") from exc


def load_run(path: Path) -> EvaluationRun:
    """Read what `save_run` wrote. Raises `InvalidInputError` for anything else."""
    try:
        data = json.loads(path.read_bytes())
        if data["format"] != FORMAT:
            raise InvalidInputError(f"{path} has format {data['format']!r}, not {FORMAT}: save the run anew")
        run = EvaluationRun(
            dataset=data["dataset"],
            corpus=data["corpus"],
            questions=tuple(map(question_of, data["questions"])),
            replies={name: tuple(map(JudgedReply.from_json, found)) for name, found in data["replies"].items()},
            modes=tuple(data["modes"]),
            ingest=data["ingest"],
            about=data["about"],
            answers={
                form: tuple(one and ReplyJudgement(**one) for one in found)
                for form, found in data.get("answers", {}).items()
            },
        )
    except OSError as exc:
        raise InvalidInputError(f"{path} can't be read ({exc.strerror})") from exc
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise InvalidInputError(f"{path} is not a run that `opx eval --save` wrote ({exc!r})") from exc
    if any(len(found) != len(run.questions) for found in (*run.replies.values(), *run.answers.values())):
        raise InvalidInputError(f"{path} is incomplete: replies of a system to some questions are missing")
    return run
