"""Fits the models of confidence: python -m tests.quality.fit_confidence SET ... [--home DIR] [--keep FILE] [--write]

A SET is `FOLDER`, or `FOLDER=FILE` for the questions of a file over the same documents. Every question is searched as it is,
and with its relevant pages taken out, so that it has no answer; some questions have none anyway. Of a set with splits only
`dev` is fitted on.

For each way of searching (legs and mode) three models are fitted: `order` by a listwise loss (the cross entropy of a softmax
over a question's pages, Cao et al., ICML 2007), `confidence` by logistic regression on what the order of left-out
collections looks like, and `near` by logistic regression on the first evidence of a question.
"""

from __future__ import annotations

import argparse
import json
import pickle
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from opx.domain.queries import Fusion, SearchMode
from opx.domain.record import replace
from opx.ports import Leg
from opx.retrieval.calibration.questions import without
from opx.retrieval.confidence import FAR, OTHER
from opx.retrieval.evidence import CONFIDENCE, NEARNESS, ORDER, Parts, evidence_of, ordered_evidence
from opx.retrieval.hybrid import BOTH, DEPTH, JUDGED, LEXICAL, VECTOR, Candidates, FusedHits, fused_hits
from opx.retrieval.judging import PASSAGES, pages_of
from opx.retrieval.question import focused, value_words
from opx.settings import Settings
from opx.system import bootstrap
from opx.text.fields import words
from opx.text.languages import question_languages
from opx_quality.cli.evaluate import evaluation_settings
from opx_quality.evaluation.datasets import LabelledQuestion, load_dataset
from opx_quality.evaluation.figures import ndcg
from opx_quality.evaluation.runner import Evaluation
from tests.quality.logistic import Array, Fit, fit_listwise, fit_logistic

ANSWERABLE, REMOVED = "answerable", "removed"
LEGS = (BOTH, LEXICAL, VECTOR)
Way = tuple[str, SearchMode]
"""Legs and mode."""
WAYS: tuple[Way, ...] = tuple((legs, mode) for legs in LEGS for mode in SearchMode)


@dataclass(frozen=True, slots=True)
class Seen:
    """Inputs of the models for a question: the evidence of each page, in the order of the fused levels."""

    pages: tuple[str, ...]
    rows: tuple[Parts, ...]


@dataclass(frozen=True, slots=True)
class QuestionEvidence:
    """Evidence of a question by way, as it is or without its relevant pages (`REMOVED`; `relevant` is empty then)."""

    set: str
    kind: str
    collection: str
    question: LabelledQuestion
    relevant: Mapping[str, int]
    seen: Mapping[Way, Seen]


def collect(evaluation: Evaluation, name: str, questions: Iterable[LabelledQuestion]) -> Iterator[QuestionEvidence]:
    """Searches every question in all ways. A set over documents is one collection; of pages in a file, the first folder of a
    page's id names its collection."""
    dataset = evaluation.dataset
    for question in questions:
        ask = _QuestionSearch(evaluation, question.text)
        of_pages = next(iter(question.relevant)).split("/")[0] if question.relevant else ""
        collection = dataset.folder.name if dataset.documents else of_pages
        if not question.relevant:
            yield QuestionEvidence(name, question.kind, collection, question, {}, ask.seen(frozenset()))
            continue
        yield QuestionEvidence(name, ANSWERABLE, collection, question, question.relevant, ask.seen(frozenset()))
        yield QuestionEvidence(name, REMOVED, collection, question, {}, ask.seen(frozenset(question.relevant)))


class _QuestionSearch:
    """The search for one question, done once; legs and pages are taken out of what it found."""

    def __init__(self, evaluation: Evaluation, text: str) -> None:
        self._evaluation = evaluation
        self._text = text
        self._languages = question_languages(text)
        self._response = evaluation.respond(text, 3 * DEPTH[SearchMode.THOROUGH])

    def seen(self, removed: frozenset[str]) -> dict[Way, Seen]:
        """The inputs of the models in each way. Modes of the same depth have the same."""
        found = {(legs, depth): self._seen(removed, legs, depth) for legs in LEGS for depth in set(DEPTH.values())}
        return {(legs, mode): found[legs, DEPTH[mode]] for legs, mode in WAYS}

    def _seen(self, removed: frozenset[str], legs: str, depth: int) -> Seen:
        found = self._found(removed, legs, depth)
        pages = pages_of(found)[:JUDGED]
        names = tuple(self._evaluation.page(page.best.indexed) for page in pages)
        return Seen(names, tuple(evidence_of(focused(self._text), found, pages)))

    def _found(self, removed: frozenset[str], legs: str, depth: int) -> FusedHits:
        response = without(self._response, lambda chunk: self._evaluation.page(chunk) in removed, depth)
        if legs == VECTOR:
            response = replace(response, lexical=Leg(), term_frequencies={})
        elif legs == LEXICAL:
            response = replace(response, vector=Leg())
        named = {entry for leg in (response.lexical, response.vector) for entry, _ in leg.hits}
        response = replace(response, chunks={entry: response.chunks[entry] for entry in named})
        question_words = words(self._text, self._languages)
        values = value_words(self._text, self._languages)
        return fused_hits(
            Candidates.of(response), Fusion.MIN_MAX, PASSAGES, question_words=question_words, values=values
        )


FITTED_SPLITS = ("", "dev")
FOREIGN = ("foreign", "off-topic")
"""Kinds of questions about other things: to those, nothing is near."""
OTHER_LANGUAGES = ("language", "cross-language")
PEOPLES_WEIGHT = 2.0
"""Of a question that was written for the purpose: there are few of them, and they are what people type."""
WEIGHTS = defaultdict(lambda: 0.15, {ANSWERABLE: 1.0, REMOVED: 0.04})
LATER = 0.3
"""Weight of pages behind the first one: of those there are many."""
FOREIGN_WEIGHT = 5.0
RIDGE = {"order": 30.0, "confidence": 3.0, "near": 1.0}
NEVER_NEGATIVE = ("margin", "cosine", "bm25", "document", "title_match", "pairs")
PLACES = 10
"""Of a question's pages, for the model of confidence."""
FOLDS = 5
COSINES = ("cosine", "cosine_best")
"""Inputs that mean something else with another embedding model."""


@dataclass(frozen=True, slots=True)
class Models:
    order: Fit
    confidence: Fit
    near: Fit

    def judged(self, rows: Sequence[Parts]) -> tuple[list[int], Array]:
        """Positions of the pages in order, and their confidences, never rising."""
        if not rows:
            return [], np.array([])
        order, ranked = ordered(self.order, rows)
        found = self.confidence.predict(_array(ranked, CONFIDENCE))
        return order, np.minimum.accumulate(found)


def ordered(model: Fit, rows: Sequence[Parts]) -> tuple[list[int], list[Parts]]:
    scores = model.log_odds(_array(rows, ORDER))
    order = np.argsort(-scores, kind="stable")
    return [int(at) for at in order], ordered_evidence([rows[at] for at in order], [float(scores[at]) for at in order])


def fitted(evidence: Sequence[QuestionEvidence], way: Way, *, cosines: bool = True) -> Models:
    """The models of a way. Without `cosines`, for an embedding model that nothing is known of."""
    dropped = () if cosines else COSINES
    order = _order(evidence, way, dropped)
    crossed: dict[int, Fit] = {}
    for fold in range(FOLDS):
        rest = [one for one in evidence if _fold(one) != fold]
        crossed[fold] = _order(rest, way, dropped)
    rows, labels, weights = [], [], []
    for one in evidence:
        seen = one.seen[way]
        if not seen.rows:
            continue
        places, ranked = ordered(crossed[_fold(one)], seen.rows)
        for rank, (at, row) in enumerate(zip(places[:PLACES], ranked[:PLACES], strict=True)):
            rows.append(row)
            labels.append(float(seen.pages[at] in one.relevant))
            weights.append(_weight(one) * (LATER if rank else 1.0))
    positive = np.array([name in NEVER_NEGATIVE for name in CONFIDENCE])
    table = _without(_array(rows, CONFIDENCE), CONFIDENCE, dropped)
    confidence = fit_logistic(table, np.array(labels), np.array(weights), positive=positive, ridge=RIDGE["confidence"])
    return Models(order, confidence, _near(evidence, way, dropped))


def _order(evidence: Sequence[QuestionEvidence], way: Way, dropped: Sequence[str]) -> Fit:
    groups, labels, weights = [], [], []
    for one in evidence:
        seen = one.seen[way]
        gains = np.array([float(page in one.relevant) for page in seen.pages])
        if one.kind == ANSWERABLE and gains.any():
            groups.append(_without(_array(seen.rows, ORDER), ORDER, dropped))
            labels.append(gains / gains.sum())
            weights.append(_weight(one))
    return fit_listwise(groups, labels, weights, ridge=RIDGE["order"])


def _near(evidence: Sequence[QuestionEvidence], way: Way, dropped: Sequence[str]) -> Fit:
    chosen = [
        one
        for one in evidence
        if one.seen[way].rows
        and (one.kind in FOREIGN or (one.kind == ANSWERABLE and one.question.kind not in OTHER_LANGUAGES))
    ]
    rows = _without(_array([one.seen[way].rows[0] for one in chosen], NEARNESS), NEARNESS, dropped)
    labels = np.array([float(one.kind == ANSWERABLE) for one in chosen])
    weights = np.where(labels == 0, FOREIGN_WEIGHT, 1.0)
    return fit_logistic(rows, labels, weights, positive=np.array([True, True]), ridge=RIDGE["near"])


def _array(rows: Sequence[Parts], names: Sequence[str]) -> Array:
    return np.array([[row[name] for name in names] for row in rows]).reshape(-1, len(names))


def _without(rows: Array, names: Sequence[str], dropped: Sequence[str]) -> Array:
    kept = rows.copy()
    for name in dropped:
        if name in names:
            kept[:, names.index(name)] = 0.0
    return kept


def _weight(one: QuestionEvidence) -> float:
    return WEIGHTS[one.kind] * (PEOPLES_WEIGHT if one.question.split else 1.0)


def _fold(one: QuestionEvidence) -> int:
    return zlib.crc32((one.collection or one.question.id).encode()) % FOLDS


# -- reporting

Found = list[tuple[QuestionEvidence, tuple[str, ...], Array]]
"""Each question with its pages in order and their confidences."""


def left_out(evidence: Sequence[QuestionEvidence], way: Way) -> Found:
    """Each question by models that never saw its collection; those of none by models that never saw the question."""
    found: Found = []
    groups = {one.collection or f"none {_fold(one)}" for one in evidence}
    for group in sorted(groups):
        models = fitted([one for one in evidence if (one.collection or f"none {_fold(one)}") != group], way)
        found += _judged([one for one in evidence if (one.collection or f"none {_fold(one)}") == group], models, way)
    return found


def _judged(evidence: Sequence[QuestionEvidence], models: Models, way: Way) -> Found:
    found: Found = []
    for one in evidence:
        order, confidences = models.judged(one.seen[way].rows)
        found.append((one, tuple(one.seen[way].pages[at] for at in order), confidences))
    return found


def report(found: Found) -> Iterator[str]:
    """Of each set: the order, how sure first pages are and how often rightly, and the same without the relevant pages."""
    sets = sorted({one.set for one, _, _ in found})
    for name in sets:
        answered = [item for item in found if item[0].set == name and item[0].kind == ANSWERABLE]
        if answered:
            yield from _of_set(name, answered, [i for i in found if i[0].set == name and i[0].kind == REMOVED])
    for kind in sorted({one.kind for one, _, _ in found} - {ANSWERABLE, REMOVED}):
        best = np.array([values.max(initial=0.0) for one, _, values in found if one.kind == kind])
        shares = ", ".join(f"{bar}: {(best >= bar).mean():.2f}" for bar in (0.9, 0.7, 0.5, 0.3))
        yield f"{kind} ({len(best)}), share at or above {shares}"


def _of_set(name: str, answered: Found, removed: Found) -> Iterator[str]:
    scores = np.mean([ndcg(pages, one.relevant) for one, pages, _ in answered])
    best = np.array([values.max(initial=0.0) for _, _, values in answered])
    right = np.array([bool(pages) and pages[0] in one.relevant for one, pages, _ in answered])
    gone = np.array([values.max(initial=0.0) for _, _, values in removed])
    brier = np.mean((best - right) ** 2)
    yield f"{name} ({len(answered)}): nDCG@10 {scores:.4f}, first page right {right.mean():.3f}, Brier {brier:.4f}"
    for bar in (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4):
        at = best >= bar
        share = right[at].mean() if at.any() else float("nan")
        yield f"  {bar}: {at.mean():.2f} of the questions, right {share:.3f}; without their page {(gone >= bar).mean():.2f}"


def _near_report(evidence: Sequence[QuestionEvidence], model: Fit, way: Way) -> Iterator[str]:
    """The share of each kind of question that nothing is near."""
    for kind in sorted({one.kind for one in evidence}):
        rows = [one.seen[way].rows[0] for one in evidence if one.kind == kind and one.seen[way].rows]
        far = model.predict(_array(rows, NEARNESS)) < FAR
        yield f"{kind} ({len(rows)}): nothing is near {far.mean():.3f}"


# -- the file


def to_json(model: Fit, names: Sequence[str], dropped: Sequence[str] = ()) -> dict[str, Any]:
    values = zip(names, model.mean, model.scale, model.coefficients, strict=True)
    features = {
        name: {"mean": round(float(m), 4), "scale": round(float(s), 4), "coefficient": round(float(c), 4)}
        for name, m, s, c in values
        if name not in dropped
    }
    return {"intercept": round(float(model.intercept), 4), "features": features}


def _models_json(evidence: Sequence[QuestionEvidence], way: Way, *, cosines: bool) -> dict[str, Any]:
    models, dropped = fitted(evidence, way, cosines=cosines), () if cosines else COSINES
    return {
        "order": to_json(models.order, ORDER, dropped),
        "confidence": to_json(models.confidence, CONFIDENCE, dropped),
        "near": to_json(models.near, NEARNESS, dropped),
    }


def all_models(evidence: Sequence[QuestionEvidence], embedder: str, command: str) -> dict[str, Any]:
    """The file that is shipped. Modes of the same depth have the same models."""
    found: dict[str, Any] = {embedder: {}, OTHER: {}}
    for legs, mode in WAYS:
        for name, cosines in ((embedder, True), (OTHER, False)):
            of_legs = found[name].setdefault(legs, {})
            alike = next((other for other in of_legs if DEPTH[SearchMode(other)] == DEPTH[mode]), "")
            of_legs[mode.value] = of_legs[alike] if alike else _models_json(evidence, (legs, mode), cosines=cosines)
    counts = Counter(one.kind for one in evidence)
    made = {
        "data": ", ".join(f"{count} {kind}" for kind, count in counts.items()),
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
    }
    return {"made": made, "models": found}


def _collected(args: argparse.Namespace) -> tuple[list[QuestionEvidence], str]:
    evidence: list[QuestionEvidence] = []
    embedder = ""
    for given in args.sets:
        found, embedder = _of_given(given, args.home, args.keep)
        evidence += found
    return evidence, embedder


def _of_given(given: str, home: Path, keep: Path | None) -> tuple[list[QuestionEvidence], str]:
    """The evidence of a set, and the embedding model. With `keep`, earlier evidence is read from that folder."""
    folder, _, questions = given.partition("=")
    path = keep / f"{zlib.crc32(given.encode()):08x}.pickle" if keep else None
    if path and path.exists():
        kept: tuple[list[QuestionEvidence], str] = pickle.loads(path.read_bytes())
        return kept
    dataset = load_dataset(Path(folder))
    chosen = load_dataset(Path(folder), Path(questions)) if questions else dataset
    with bootstrap(evaluation_settings(Settings(home=str(home)), dataset)) as services:
        evaluation = Evaluation(services, dataset)
        evaluation.ingest()
        name = Path(questions).stem if questions else Path(folder).name
        found = (
            list(collect(evaluation, name, chosen.all_questions)),
            services.indexing.embedder.model_id.partition("/")[0],
        )
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(found))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--home", type=Path, default=Path(".opx"))
    parser.add_argument("--keep", type=Path, help="folder for what the models see, to fit again without asking again")
    parser.add_argument("--way", default="", help="report on this way alone, such as both,balanced")
    parser.add_argument("--write", action="store_true", help="replace the shipped coefficients")
    args = parser.parse_args()
    everything, embedder = _collected(args)
    evidence = [one for one in everything if one.question.split in FITTED_SPLITS]
    kept = [one for one in everything if one.question.split not in FITTED_SPLITS]
    for legs, mode in WAYS:
        if (args.way and args.way != f"{legs},{mode.value}") or (not args.way and legs != BOTH):
            continue
        print(f"\n== {legs}, {mode.value}: collections left out", *report(left_out(evidence, (legs, mode))), sep="\n")
        models = fitted(evidence, (legs, mode))
        print(
            f"\n== {legs}, {mode.value}: splits never fitted on", *report(_judged(kept, models, (legs, mode))), sep="\n"
        )
        print(*_near_report(everything, models.near, (legs, mode)), sep="\n")
    if args.write:
        command = "python -m tests.quality.fit_confidence SET ... --write"
        path = Path(str(files("opx.retrieval").joinpath("confidence.json")))
        path.write_text(json.dumps(all_models(evidence, embedder, command), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
