"""Builds a corpus to calibrate on, and evidence as from searches with an embedding model."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from opx.operations.system import System
from opx.ports import Vector, Vectors
from opx.retrieval.calibration.calibrating import Calibrator
from opx.retrieval.calibration.questions import LabelledEvidence, QuestionKind
from opx.retrieval.evidence import CONFIDENCE, ORDER, Parts
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.fakes import WordsEmbedder

ADJECTIVES = ("amber", "brisk", "cobalt", "dusty", "eager", "frozen", "gentle", "hollow")
NOUNS = ("gateway", "ledger", "scheduler", "broker", "archive", "resolver", "balancer")
FAULTS = ("refuses connections", "loses messages", "runs out of memory", "answers slowly", "rejects certificates")
CATEGORIES = ("runbooks/procedures", "postmortems")


def page(number: int) -> str:
    """A page about one fault of one thing; no two are alike."""
    adjective, noun = ADJECTIVES[number % len(ADJECTIVES)], NOUNS[number % len(NOUNS)]
    name, fault = f"{adjective} {noun}", FAULTS[number % len(FAULTS)]
    return (
        f"# The {name} {fault}\n\n## Symptoms\n\nThe {name} {fault} while {ADJECTIVES[number % 5]} clients wait for it.\n\n"
        f"## Restart the {name} without an outage\n\nDrain the {noun}, restart it, and look at number {number}.\n\n"
        f"## Why the {name} {fault} at night\n\nA batch of {adjective} jobs takes what the {noun} needs.\n"
    )


@dataclass
class Calibrated:
    """A system with generated pages in alternating categories."""

    services: System

    @property
    def calibrator(self) -> Calibrator:
        return self.services.lifecycle.calibrator()

    def ingest(self, numbers: Sequence[int], categories: Sequence[str] = CATEGORIES) -> None:
        for number in numbers:
            key = f"documents/{categories[number % len(categories)]}/{number}.md"
            self.services.store.put(key, page(number).encode())
        assert self.services.ingestion.drain is not None
        assert all(outcome.result == "ingested" for outcome in self.services.ingestion.drain.run())


def a_corpus(home: Path, documents: int = 40, categories: Sequence[str] = CATEGORIES, **given: object) -> Calibrated:
    services = bootstrap(Settings(home=str(home)), **{"embedder": ShiftedWords(), **given})  # type: ignore[arg-type]
    found = Calibrated(services)
    found.ingest(range(documents), categories)
    return found


class ShiftedWords:
    """A model with a high cosine between all texts: nothing is below .7."""

    model_id = "shifted/64"
    dimension = 65

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        return [(self._vector(text),) for text in texts]

    def embed_query(self, text: str) -> Vector:
        return self._vector(text)

    @staticmethod
    def _vector(text: str) -> Vector:
        words = WordsEmbedder().embed_query(text)
        return array("f", [*(value * math.sqrt(0.3) for value in words), math.sqrt(0.7)])


# -- evidence


def seen_with(cosines: tuple[float, float], questions: int = 200, *, seed: int = 1) -> Iterator[LabelledEvidence]:
    """Questions that find one right page and three wrong ones; cosines are those of a model of mean .32 and deviation
    .12 for wrong pages and .6 for right ones, times the first of `cosines`, plus the second."""
    random = Random(seed)
    for number in range(questions):
        rows = [_row(random, right=right, cosines=cosines) for right in (True, False, False, False)]
        best = max(row["cosine"] for row in rows)
        rows = [row | {"cosine_best": best} for row in rows]
        yield LabelledEvidence(f"page {number}", QuestionKind.ANSWERED, tuple(rows), (True, False, False, False))
        left = rows[1:]
        best = max(row["cosine"] for row in left)
        yield LabelledEvidence(
            f"page {number}", QuestionKind.REMOVED, tuple(row | {"cosine_best": best} for row in left), (False,) * 3
        )


def _row(random: Random, *, right: bool, cosines: tuple[float, float]) -> Parts:
    cosine = random.gauss(0.6 if right else 0.321, 0.121)
    level = random.gauss(0.9 if right else 0.4, 0.2)
    shared = dict.fromkeys((*ORDER, *CONFIDENCE), min(max(level, 0.0), 1.0))
    return shared | {"cosine": cosine * cosines[0] + cosines[1], "unknown": 0.0, "length": 1.8, "both": 1.0}
