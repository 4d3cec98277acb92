"""Fits the models of similarity on the half that is for it, one for each kind of query and type of entry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import opx.learning
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.learning.query import SEARCHED, hits_of, work_cosines
from opx.learning.similarity import INPUTS, PatternQuestion, model_of, similarity_parts
from opx.operations.system import System
from tests.quality.learning.cases import ASKING, CLIENT, FAILURE, HELD_OUT, TASK, TUNED, Case
from tests.quality.logistic import Fit, fit_logistic

RIDGE = 1.0
FILE = Path(opx.learning.__file__).parent / "similarity.json"
COMMAND = "python -m tests.quality.learning --fit --write"


@dataclass(frozen=True, slots=True)
class Pair:
    """A question and a pattern that a search found for it: the inputs of their model, and whether the pattern helps."""

    model: str
    parts: Mapping[str, float | None]
    helps: bool


def fitted(services: System, names: Mapping[str, str], cases: Sequence[Case]) -> dict[str, Any]:
    """The content of `similarity.json`."""
    pairs = [pair for case in cases if case.half == TUNED for pair in _pairs(services, names, case)]
    models = {name: _model([pair for pair in pairs if pair.model == name], inputs) for name, inputs in INPUTS.items()}
    return {
        "made": datetime.now(UTC).date().isoformat(),
        "command": COMMAND,
        "data": f"tests/quality/learning: {sum(case.half == TUNED for case in cases)} queries over {len(names)} patterns; "
        f"{sum(case.half == HELD_OUT for case in cases)} more are only judged",
        "embedding": services.indexing.document_embedder.model_id,
        "models": models,
    }


def write(content: Mapping[str, Any]) -> None:
    """Replaces the coefficients of the library."""
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _model(pairs: Sequence[Pair], inputs: Sequence[str]) -> dict[str, Any]:
    values = np.array([[pair.parts[name] or 0.0 for name in inputs] for pair in pairs])
    labels = np.array([float(pair.helps) for pair in pairs])
    free = np.zeros(len(inputs), dtype=bool)
    fit = fit_logistic(values, labels, np.ones(len(pairs)), positive=free, ridge=RIDGE)
    return {"intercept": round(fit.intercept, 4), "pairs": len(pairs), "features": _features(fit, inputs)}


def _features(fit: Fit, inputs: Sequence[str]) -> dict[str, dict[str, float]]:
    columns = zip(inputs, fit.coefficients, fit.mean, fit.scale, strict=True)
    return {
        name: {
            "coefficient": round(float(coefficient), 4),
            "mean": round(float(mean), 4),
            "scale": round(float(scale), 4),
        }
        for name, coefficient, mean, scale in columns
    }


def _pairs(services: System, names: Mapping[str, str], case: Case) -> Iterator[Pair]:
    """The question with every pattern that it admits. Tasks are queried with and without their technology."""
    question = PatternQuestion(
        case.text,
        case.error_message,
        case.agent_type,
        case.task_type,
        case.technology,
        of_failure=case.query_kind == FAILURE,
    )
    without = replace(question, technology="")
    hits = hits_of(services.questions.for_reader(ASKING, recorded=False).search(question.searched, SEARCHED))
    heads = services.learning.patterns.heads([Scope(CLIENT).key], list(hits))
    embedder = services.indexing.query_embedder
    assert embedder is not None
    work = {} if question.of_failure else work_cosines(embedder.embed_query, question.text, heads)
    for variant in (question, without) if case.query_kind == TASK and case.technology else (without,):
        for pattern in filter(variant.admits, heads):
            cosine = hits[pattern.pattern_id].cosine
            parts = similarity_parts(variant, pattern, cosine, work.get(pattern.pattern_id))
            yield Pair(model_of(variant, pattern), parts, names[pattern.pattern_id] in case.helps)
