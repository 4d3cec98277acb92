"""Fits the confidence model on a labelled set: python -m tests.quality.fit_confidence DATASET --home DIR [--write]

Every question is asked as it is, and with its relevant pages taken out of the results, so that it has no answer;
questions about other things have none anyway. Questions without an answer weigh about a quarter of all: the model has to
know them, but an engineer on call mostly asks what somebody has written down. All of it is repeated "wordless", with the
lexical leg left out as if no word of the question occurred anywhere, so that the model learns what a cosine alone is worth.

Prints, for collections left out of the fit (the first folder of a page's id names its collection), how many hits of
each range of confidence are relevant, and how many questions are refused at each floor.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from opx.bootstrap import bootstrap
from opx.cli.eval_command import evaluation_settings
from opx.domain.queries import Fusion, SearchMode
from opx.evaluation.datasets import load_dataset
from opx.evaluation.runner import Evaluation
from opx.ports import Leg, SearchResponse
from opx.retrieval.confidence import FEATURES, feature_rows
from opx.retrieval.hybrid import DEPTH, fused_hits
from opx.settings import Settings
from tests.quality.logistic import Array, Fit, fit_logistic

HITS = 20
RIDGE = 10.0
NEVER_FALLING = ("fused", "lead", "fused_x_title", "fused_x_coverage", "fused_x_cosine")
ANSWERABLE, REMOVED, OFF_TOPIC = "answerable", "removed", "off-topic"
WORDLESS = "wordless "
WEIGHTS = {ANSWERABLE: 1.0, REMOVED: 0.25, OFF_TOPIC: 1.0}
WORDLESS_WEIGHT = 0.2
REPORTED = ((ANSWERABLE,), (ANSWERABLE, REMOVED, OFF_TOPIC), (WORDLESS + ANSWERABLE,))
BINS = ((0.9, 1.01), (0.7, 0.9), (0.5, 0.7), (0.3, 0.5), (0.1, 0.3), (0.0, 0.1))
FLOORS = (0.1, 0.2, 0.3, 0.5, 0.7)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question with the features and labels of its hits, shape (hits, features) and (hits,)."""

    kind: str
    collection: str
    rows: Array
    labels: Array


def collect(evaluation: Evaluation, folder: Path) -> Iterator[Asked]:
    """Ask every question of the dataset in all ways, then the ones about other things."""
    for question in load_dataset(folder).questions:
        response = evaluation.respond(question.text, DEPTH[SearchMode.BALANCED])
        collection = next(iter(question.relevant)).split("/")[0]
        relevant = set(question.relevant)
        for prefix, seen in (("", response), (WORDLESS, _wordless(response))):
            yield _asked(prefix + ANSWERABLE, collection, question.text, seen, evaluation, relevant)
            left = _without(seen, evaluation, relevant)
            yield _asked(prefix + REMOVED, collection, question.text, left, evaluation, set())
    others = Path(__file__).with_name("off_topic.txt").read_text(encoding="utf-8").splitlines()
    for text in others:
        response = evaluation.respond(text, DEPTH[SearchMode.BALANCED])
        for prefix, seen in (("", response), (WORDLESS, _wordless(response))):
            yield _asked(prefix + OFF_TOPIC, "", text, seen, evaluation, set())


def _wordless(response: SearchResponse) -> SearchResponse:
    return replace(response, lexical=Leg(), term_frequencies=dict.fromkeys(response.term_frequencies, 0))


def _asked(
    kind: str, collection: str, text: str, response: SearchResponse, evaluation: Evaluation, relevant: set[str]
) -> Asked:
    found = fused_hits(response, Fusion.MIN_MAX, 1)
    rows = feature_rows(text, found)[:HITS]
    labels = [float(evaluation.page(hit.indexed) in relevant) for hit in found.hits[:HITS]]
    values = [[row[name] for name in FEATURES] for row in rows]
    return Asked(kind, collection, np.array(values).reshape(-1, len(FEATURES)), np.array(labels))


def _without(response: SearchResponse, evaluation: Evaluation, pages: set[str]) -> SearchResponse:
    def kept(leg: Leg) -> Leg:
        return Leg(tuple(hit for hit in leg.hits if evaluation.page(response.chunks[hit[0]]) not in pages))

    return replace(response, lexical=kept(response.lexical), vector=kept(response.vector))


def fit(asked: Sequence[Asked]) -> Fit:
    rows = np.vstack([one.rows for one in asked])
    labels = np.concatenate([one.labels for one in asked])
    weights = np.concatenate([np.full(len(one.labels), _weight(one)) for one in asked])
    positive = np.array([name in NEVER_FALLING for name in FEATURES])
    return fit_logistic(rows, labels, weights, positive=positive, ridge=RIDGE)


def _weight(one: Asked) -> float:
    weight = WEIGHTS[one.kind.removeprefix(WORDLESS)]
    return weight * WORDLESS_WEIGHT if one.kind.startswith(WORDLESS) else weight


def left_out(asked: Sequence[Asked]) -> list[Array]:
    """Each question's confidences by a model that never saw its collection (off-topic ones: every seventh left out)."""
    collections = sorted({one.collection for one in asked} - {""})
    names = [one.collection or collections[n % len(collections)] for n, one in enumerate(asked)]
    models = {
        name: fit([one for one, other in zip(asked, names, strict=True) if other != name]) for name in collections
    }
    return [models[name].predict(one.rows) for one, name in zip(asked, names, strict=True)]


def report(asked: Sequence[Asked], confidences: Sequence[Array]) -> Iterator[str]:
    for kinds in REPORTED:
        chosen = [(c[:10], one.labels[:10]) for one, c in zip(asked, confidences, strict=True) if one.kind in kinds]
        found = np.concatenate([c for c, _ in chosen])
        labels = np.concatenate([labels for _, labels in chosen])
        yield f"share of hits that are relevant ({', '.join(kinds)})"
        for low, high in (*BINS, (0.7, 1.01)):
            inside = (found >= low) & (found < high)
            share = labels[inside].mean() if inside.any() else float("nan")
            yield f"  {low:.1f} to {min(high, 1):.1f}: {share:.3f} of {int(inside.sum())}"
    yield "share of questions whose best hit is below a floor"
    best = {kind: [float(c.max(initial=0)) for one, c in zip(asked, confidences, strict=True) if one.kind == kind]
            for kind in sorted({one.kind for one in asked})}  # fmt: skip
    for floor in FLOORS:
        shares = ", ".join(f"{kind} {np.mean(np.array(values) < floor):.3f}" for kind, values in best.items())
        yield f"  {floor:.1f}: {shares}"


def to_json(model: Fit, dataset: Path) -> dict[str, Any]:
    features = {
        name: {"mean": round(float(m), 4), "scale": round(float(s), 4), "coefficient": round(float(c), 4)}
        for name, m, s, c in zip(FEATURES, model.mean, model.scale, model.coefficients, strict=True)
    }
    return {
        "fused": {"intercept": round(model.intercept, 4), "features": features},
        "made": {
            "data": f"{len(load_dataset(dataset).questions)} questions of {dataset.name}: each also without its relevant "
            "pages and without its words, and questions about other things (tests/quality/off_topic.txt)",
            "command": "python -m tests.quality.fit_confidence DATASET --write",
            "date": datetime.now(UTC).date().isoformat(),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--home", type=Path, default=Path(".opx"))
    parser.add_argument("--write", action="store_true", help="replace the shipped coefficients")
    args = parser.parse_args()
    with bootstrap(evaluation_settings(Settings(home=str(args.home)), args.dataset)) as services:
        evaluation = Evaluation(services, load_dataset(args.dataset))
        evaluation.ingest()
        asked = list(collect(evaluation, args.dataset))
    for line in report(asked, left_out(asked)):
        print(line)
    model = to_json(fit(asked), args.dataset)
    print(json.dumps(model, indent=2))
    if args.write:
        path = Path(str(files("opx.retrieval").joinpath("confidence.json")))
        path.write_text(json.dumps(model, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
