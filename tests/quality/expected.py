"""The scores that the shipped configuration is expected to reach on our own questions.

`python -m tests.quality.expected` shows what differs from `own/expected.json`; with `--write` it writes the file anew, and
`own/vectors.npz`, which spares the suite most of the embedding: vectors of the chunks by model and text, in half
precision. Texts that the file doesn't know, and questions, are embedded as always.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from opx.domain.queries import SearchMode
from opx.operations.system import System
from opx.ports import Clock, Embedder, Vector, Vectors
from opx.settings import Settings
from opx.system import bootstrap
from opx_quality.evaluation.abstention import abstention, separation
from opx_quality.evaluation.bands import calibrations
from opx_quality.evaluation.datasets import load_dataset
from opx_quality.evaluation.figures import means_by_kind
from opx_quality.evaluation.querying import run_queries
from opx_quality.evaluation.runner import Evaluation
from opx_quality.evaluation.runs import EvaluationRun
from tests.quality.splits import SPLITS

VECTORS = Path(__file__).with_name("own") / "vectors.npz"


class KnownVectors:
    """An `Embedder` that takes vectors of known texts from a file, and records the used ones in `used`."""

    def __init__(self, embedder: Embedder, path: Path = VECTORS) -> None:
        self._embedder = embedder
        self._known = _read(path, embedder.model_id)
        self.used: dict[str, npt.NDArray[np.float16]] = {}

    @property
    def model_id(self) -> str:
        return self._embedder.model_id

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed_query(self, text: str) -> Vector:
        return self._embedder.embed_query(text)

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        missing = [text for text in texts if _key(text) not in self._known]
        for text, vectors in zip(missing, self._embedder.embed_documents(missing), strict=True):
            self._known[_key(text)] = np.asarray(vectors, dtype=np.float16)
        self.used |= {_key(text): self._known[_key(text)] for text in texts}
        return [_at_full_length(self._known[_key(text)]) for text in texts]


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _at_full_length(vectors: npt.NDArray[np.float16]) -> Vectors:
    wide = vectors.astype(np.float32)
    return [array("f", row) for row in wide / np.linalg.norm(wide, axis=1, keepdims=True)]


def _read(path: Path, model: str) -> dict[str, npt.NDArray[np.float16]]:
    """The vectors of this model; none if the file is of another one."""
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as file:
        if str(file["model"]) != model:
            return {}
        of_each = np.split(file["vectors"], np.cumsum(file["counts"])[:-1])
        return dict(zip(file["keys"].tolist(), of_each, strict=True))


def write_vectors(path: Path, embedder: KnownVectors) -> None:
    """Writes the vectors that were used, and no others."""
    keys = sorted(embedder.used)
    vectors = [embedder.used[key] for key in keys]
    counts = np.array([len(each) for each in vectors], dtype=np.uint16)
    np.savez(
        path, model=np.array(embedder.model_id), keys=np.array(keys), counts=counts, vectors=np.concatenate(vectors)
    )


FOLDER = Path(__file__).with_name("own")
EXPECTED = FOLDER / "expected.json"

TOLERANCE = 0.02
"""For means over all kinds, and for figures of confidence."""

KIND_QUESTIONS = 1.0
"""A kind may move by what so many of its questions are worth, too: the smallest has five in a half."""

PATIENCE = 60.0
"""Seconds that a part of an answer may take."""

Figures = dict[str, Any]
Scores = Mapping[str, float]


@contextmanager
def services_with(home: Path, vectors: Path = VECTORS, clock: Clock = time.time) -> Iterator[System]:
    """A system as it is shipped, but for the vectors that it finds in the file, with all the time that it needs, as how busy
    the machine is must not decide what is answered, and without a record of questions."""
    patient = Settings(home=str(home), rerank_seconds=PATIENCE, search_timeout=PATIENCE, audit_days=0, gap_days=0)
    with bootstrap(patient, clock=clock) as services:
        services.indexing.embedder = KnownVectors(services.indexing.embedder, vectors)
        yield services


def run_of(services: System, split: str = "") -> EvaluationRun:
    """Every question, of one half if it is named, in every mode, over the example corpus. Legs and fusions are compared at
    the depth of `fast`, which takes a third of the time; docs/decisions/0003-fusion.md says how little it matters."""
    dataset = load_dataset(FOLDER)
    evaluation = Evaluation(services, dataset.of_split(split) if split else dataset)
    evaluation.ingest()
    return run_queries(evaluation, compared_at=SearchMode.FAST)


def figures(run: EvaluationRun) -> Figures:
    """Figures of each half that was run: quality by system and kind, and confidence by mode."""
    splits = {question.split for question in run.questions}
    return {split: _figures(run.of_split(split)) for split in SPLITS if split in splits}


def _figures(run: EvaluationRun) -> Figures:
    by_system = {system: zip(run.questions, replies, strict=True) for system, replies in run.replies.items()}
    return {
        "quality": {
            system: means_by_kind((question, reply.pages) for question, reply in pairs)
            for system, pairs in by_system.items()
        },
        "confidence": {mode: _confidence(run, mode) for mode in run.modes},
    }


def _confidence(run: EvaluationRun, mode: str) -> dict[str, float]:
    at, found = abstention(run, mode), calibrations(run, mode)
    values = {
        "answerableRefused": at.answerable,
        "unanswerableRefused": at.unanswerable,
        "firstPageRight": at.right,
        "separation": separation(run, mode),
        **{f"brier, {name}": each.brier for name, each in found.items()},
        **{f"calibrationError, {name}": each.error for name, each in found.items()},
    }
    return {name: round(value, 4) for name, value in values.items() if value is not None}


# -- comparing


def differences(expected: Figures, found: Figures) -> Iterator[str]:
    """Figures that differ by more than the tolerance, or are in one of them only, a line each."""
    return compared(dict(_flat(expected)), dict(_flat(found)))


def compared(wanted: Mapping[str, tuple[float, float]], got: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    """Lines on figures that differ by more than the tolerance, which stands behind each, or are on one side only."""
    for name in wanted.keys() | got.keys():
        if name not in wanted or name not in got:
            yield f"{name}: only {'expected' if name in wanted else 'found'}"
        elif abs(wanted[name][0] - got[name][0]) > wanted[name][1]:
            yield f"{name}: expected {wanted[name][0]:.4f} (+/- {wanted[name][1]:.4f}), found {got[name][0]:.4f}"


def _flat(found: Figures) -> Iterator[tuple[str, tuple[float, float]]]:
    """Every figure by its path, with its tolerance."""
    for split, parts in found.items():
        for system, kinds in parts["quality"].items():
            for kind, scores in kinds.items():
                yield from _scores(
                    f"{split}, {system}, {kind}", scores, TOLERANCE + KIND_QUESTIONS / scores["questions"]
                )
        for mode, scores in parts["confidence"].items():
            yield from _scores(f"{split}, {mode}", scores, TOLERANCE)


def _scores(path: str, scores: Scores, tolerance: float) -> Iterator[tuple[str, tuple[float, float]]]:
    for name, value in scores.items():
        yield f"{path}, {name}", (value, 0.0 if name == "questions" else tolerance)


def expected_figures() -> Figures:
    found: Figures = json.loads(EXPECTED.read_text(encoding="utf-8"))["figures"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the files anew")
    write = parser.parse_args().write
    with TemporaryDirectory() as home, services_with(Path(home), Path("none") if write else VECTORS) as services:
        known = services.indexing.embedder  # the one that ingestion puts its clock around
        found = figures(run_of(services))
    for line in sorted(differences(expected_figures(), found)) if EXPECTED.is_file() else ():
        print(line)
    if write:
        assert isinstance(known, KnownVectors)
        write_vectors(VECTORS, known)
        about = {"model": known.model_id, "date": datetime.now(UTC).date().isoformat()}
        command = "python -m tests.quality.expected --write"
        made = {"command": command, **about}
        EXPECTED.write_text(json.dumps({"made": made, "figures": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
