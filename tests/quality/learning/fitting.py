"""Fits the models of similarity on the half that is for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.learning.query import FAILURE_MODEL, SEARCHED, TASK_MODEL, PatternQuestion, hits_of, similarity_parts
from opx.operations.system import System
from tests.quality.learning.cases import FAILURE, TASK, TUNED, Case
from tests.quality.learning.world import ASKING, CLIENT
from tests.quality.logistic import fit_logistic

RIDGE = 1.0
Row = tuple[dict[str, float], bool]


def fits(services: System, names: Mapping[str, str], cases: Sequence[Case]) -> Iterator[str]:
    """The coefficients, in the form in which `opx.learning.query` has them."""
    for kind, model in ((TASK, TASK_MODEL), (FAILURE, FAILURE_MODEL)):
        inputs = [name for name in model if name != "intercept"]
        rows = [
            row
            for case in cases
            if case.half == TUNED and case.query_kind == kind
            for row in _rows(services, names, case)
        ]
        values = np.array([[parts[name] for name in inputs] for parts, _ in rows])
        labels = np.array([float(label) for _, label in rows])
        free = np.zeros(len(inputs), dtype=bool)
        fit = fit_logistic(values, labels, np.ones(len(rows)), positive=free, ridge=RIDGE)
        weights = fit.coefficients / fit.scale
        found = {"intercept": fit.intercept - float(weights @ fit.mean)}
        found |= dict(zip(inputs, map(float, weights), strict=True))
        yield f"{kind}: { ({name: round(value, 2) for name, value in found.items()}) } from {len(rows)} pairs"


def _rows(services: System, names: Mapping[str, str], case: Case) -> Iterator[Row]:
    """The inputs for every pattern that the question admits, and whether it is the right one. Tasks are queried with and
    without their technology."""
    question = PatternQuestion(
        case.text,
        case.error_message,
        case.agent_type,
        case.task_type,
        case.technology,
        of_failure=case.query_kind == FAILURE,
    )
    without = replace(question, technology="")
    query = services.questions.search(ASKING, recorded=False)
    hits = hits_of(query.answer(question.searched, SEARCHED))
    heads = services.learning.patterns.heads([Scope(CLIENT).key], list(hits))
    for variant in (question, without) if case.query_kind == TASK and case.technology else (without,):
        for pattern in heads:
            if variant.admits(pattern):
                parts = similarity_parts(variant, pattern, hits[pattern.pattern_id].cosine)
                yield parts, names[pattern.pattern_id] == case.expects
