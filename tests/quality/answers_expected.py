"""The figures that replies are expected to reach on questions with gold spans.

`python -m tests.quality.answers_expected` shows what differs from `answers/expected.json`; with `--write` it writes the file
anew. Questions of `answers/elsewhere.jsonl` are over a corpus that isn't ours to copy: `--elsewhere FOLDER` names a folder in
BEIR form that has it. Without one, its figures are left as they are.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from opx.operations.system import System
from opx_quality.cli.evaluate import reply_forms
from opx_quality.evaluation.answers import answer_figures
from opx_quality.evaluation.datasets import ALL, Dataset, load_dataset
from opx_quality.evaluation.querying import run_queries
from opx_quality.evaluation.runner import Evaluation
from opx_quality.evaluation.runs import EvaluationRun
from tests.quality.expected import compared, services_with
from tests.quality.splits import SPLITS

FOLDER = Path(__file__).with_name("answers")
ELSEWHERE = FOLDER / "elsewhere.jsonl"
EXPECTED = FOLDER / "expected.json"
OWN, OTHER = "own", "elsewhere"

TOLERANCE = 0.02
"""For shares of all kinds, and grades."""

KIND_QUESTIONS = 1.0
"""A kind, and the questions whose page is found, may move by what so many of its questions are worth, too."""

TOKENS = 0.03
"""Replies may be longer or shorter by this share."""

NOW = datetime(2026, 11, 23, tzinfo=UTC).timestamp()
"""Replies say how old a document is, which takes room."""

Figures = dict[str, dict[str, dict[str, dict[str, float | None]]]]
"""By split, form, kind of question and name. A kind has the share that is helped, and how many questions there are."""


def clock() -> float:
    return NOW


def run_of(services: System, dataset: Dataset) -> EvaluationRun:
    """Every question in every form of reply, and in nothing else."""
    evaluation = Evaluation(services, dataset)
    evaluation.ingest()
    return run_queries(evaluation, (), compared_at=None, forms=reply_forms(services))


def figures(run: EvaluationRun) -> Figures:
    """Figures of each half that was run."""
    found: Figures = {}
    for split in SPLITS:
        half = run.of_split(split)
        for form, kinds in answer_figures(half.questions, half.answers).get(ALL, {}).items() if half.questions else ():
            rows = {kind: one.to_json() for kind, one in kinds.items()}
            short = {kind: {"questions": row["questions"], "helped": row["helped"]} for kind, row in rows.items()}
            found.setdefault(split, {})[form] = {**short, ALL: rows[ALL]}
    return found


# -- comparing


def differences(expected: Figures, found: Figures) -> Iterator[str]:
    """Figures that differ by more than the tolerance, or are in one of them only, a line each."""
    return compared(dict(_flat(expected)), dict(_flat(found)))


def _flat(found: Figures) -> Iterator[tuple[str, tuple[float, float]]]:
    """Every figure by its path, with its tolerance."""
    for split, forms in found.items():
        for form, kinds in forms.items():
            for kind, row in kinds.items():
                for name, value in row.items():
                    if value is not None:
                        yield f"{split}, {form}, {kind}, {name}", (value, _tolerance(kind, name, row))


def _tolerance(kind: str, name: str, row: Mapping[str, float | None]) -> float:
    if name == "questions":
        return 0.0
    if name.startswith("tokens"):
        return TOKENS * (row[name] or 0.0)
    questions = row["questions"] or 1.0
    if name == "helpedIfFound":  # of the questions whose page is found
        return TOLERANCE + KIND_QUESTIONS / max(questions * (row["inFive"] or 0.0), 1.0)
    return TOLERANCE + (0.0 if kind == ALL else KIND_QUESTIONS / questions)


def expected_figures(name: str = OWN) -> Figures:
    found: Figures = json.loads(EXPECTED.read_text(encoding="utf-8"))["figures"].get(name, {})
    return found


def _evaluated(dataset: Dataset) -> Figures:
    with TemporaryDirectory() as home, services_with(Path(home), clock=clock) as services:
        return figures(run_of(services, dataset))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elsewhere", type=Path, metavar="FOLDER", help="the other corpus, in BEIR form")
    parser.add_argument("--write", action="store_true", help="write the file anew")
    args = parser.parse_args()
    found = {OWN: _evaluated(load_dataset(FOLDER))}
    if args.elsewhere:
        found[OTHER] = _evaluated(load_dataset(args.elsewhere, ELSEWHERE))
    known = {name: expected_figures(name) for name in (OWN, OTHER)} if EXPECTED.is_file() else {}
    for name, each in found.items():
        for line in sorted(differences(known.get(name, {}), each)) if known else ():
            print(f"{name}, {line}")
    if args.write:
        made = {
            "command": "python -m tests.quality.answers_expected --write",
            "date": datetime.now(UTC).date().isoformat(),
        }
        EXPECTED.write_text(json.dumps({"made": made, "figures": known | found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
