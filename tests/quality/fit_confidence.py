"""Fits the models of confidence: python -m tests.quality.fit_confidence DATASET ... [--home DIR] [--write]

Every question is asked as it is, and with its relevant pages taken out of the results, so that it has no answer;
questions about other things have none anyway. Questions without an answer weigh about a quarter of all: the models have to
know them, but an engineer on call mostly asks what somebody has written down. All of it is repeated "wordless", with the
lexical leg left out as if no word of the question occurred anywhere, so that the models learn what a cosine alone is worth.

Of a dataset with splits only `dev` is fitted on. Prints, for collections left out of the fit and then for the splits that
are never fitted on: the order's quality, how many hits of each range of confidence are relevant, and how many questions are
refused at each floor.
"""

from __future__ import annotations

import argparse
import json
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opx.cli.evaluate import evaluation_settings
from opx.evaluation.datasets import load_dataset
from opx.evaluation.measures import ndcg
from opx.evaluation.runner import Evaluation
from opx.evaluation.svg import Drawing
from opx.retrieval.local_ranker import COVERED
from opx.settings import Settings
from opx.system import bootstrap
from tests.quality.asked import ANSWERABLE, NAMES, OFF_TOPIC, REMOVED, UNANSWERABLE, WORDLESS, Asked, Seen, collect
from tests.quality.logistic import Array, Fit, fit_logistic

RIDGE = {"fused": 10.0, "ranked": 10.0, "answerable": 3.0}
NEVER_FALLING = {
    "fused": ("fused", "lead", "fused_x_title", "fused_x_coverage", "fused_x_cosine"),
    "ranked": (),
    "answerable": (),
}
WEIGHTS = {
    "fused": {ANSWERABLE: 1.0, REMOVED: 0.25, OFF_TOPIC: 1.0, UNANSWERABLE: 1.0},
    "ranked": {ANSWERABLE: 1.0, REMOVED: 0.05, OFF_TOPIC: 1.0, UNANSWERABLE: 1.0},
    "answerable": {ANSWERABLE: 1.0, REMOVED: 0.1, OFF_TOPIC: 5.0, UNANSWERABLE: 1.0},
}
FITTED_SPLITS = ("", "dev")
SPLIT_WEIGHT = 1.0
"""Of a question that is written for the purpose: there are few of them, and they are what people type."""
WORDLESS_WEIGHT = {"fused": 0.2, "ranked": 0.0, "answerable": 0.2}
MODES = {"balanced": "fused", "thorough": "ranked"}
"""The model that judges the hits of each mode."""

REPORTED = ((ANSWERABLE,), (ANSWERABLE, REMOVED, OFF_TOPIC, UNANSWERABLE), (WORDLESS + ANSWERABLE,))
BINS = ((0.9, 1.01), (0.7, 0.9), (0.5, 0.7), (0.3, 0.5), (0.1, 0.3), (0.0, 0.1))
FLOORS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7)
REFUSED = 0.05
"""Share of questions with an answer that may be refused."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One question's hits as a mode gives them: pages and confidences, both best first."""

    pages: tuple[str, ...]
    confidences: Array


def fit(asked: Sequence[Asked], name: str) -> Fit:
    """The model of this name. `ranked` learns its order from alerts and reports alone, of which there are enough; what its
    figures mean it learns from all questions."""
    if name != "ranked":
        return _fit(asked, name)
    return _recalibrated(_fit([one for one in asked if not one.split], name), asked, name)


def _recalibrated(model: Fit, asked: Sequence[Asked], name: str) -> Fit:
    """The model with its log-odds stretched and moved to fit all questions (Platt, 1999)."""
    odds = np.concatenate([model.log_odds(one.seen[name].rows) for one in asked])[:, None]
    labels = np.concatenate([one.seen[name].labels for one in asked])
    weights = np.concatenate([np.full(len(one.seen[name].labels), _weight(one, name)) for one in asked])
    moved = fit_logistic(odds, labels, weights, positive=np.array([True]), ridge=0.0)
    stretch = moved.coefficients[0] / moved.scale[0]
    shift = moved.intercept - stretch * moved.mean[0]
    return Fit(model.mean, model.scale, model.coefficients * stretch, float(model.intercept * stretch + shift))


def _fit(asked: Sequence[Asked], name: str) -> Fit:
    rows = np.vstack([one.seen[name].rows for one in asked])
    labels = np.concatenate([one.seen[name].labels for one in asked])
    weights = np.concatenate([np.full(len(one.seen[name].labels), _weight(one, name)) for one in asked])
    positive = np.array([each in NEVER_FALLING[name] for each in NAMES[name]])
    return fit_logistic(rows, labels, weights, positive=positive, ridge=RIDGE[name])


def _weight(one: Asked, name: str) -> float:
    weight = WEIGHTS[name][one.kind.removeprefix(WORDLESS)] * (SPLIT_WEIGHT if one.split else 1.0)
    return weight * WORDLESS_WEIGHT[name] if one.kind.startswith(WORDLESS) else weight


def judged(one: Asked, models: Mapping[str, Fit], name: str) -> Judged:
    """As `balanced` (fused) or `thorough` (ranked) would: never surer of a hit than that there is an answer."""
    seen, question = one.seen[name], one.seen["answerable"]
    if not len(seen.labels):
        return Judged((), np.array([]))
    found = np.minimum(models[name].predict(seen.rows), models["answerable"].predict(question.rows)[0])
    best = np.argsort(-found, kind="stable")
    return Judged(tuple(seen.pages[at] for at in _order(models[name], seen, name)), found[best])


def _order(model: Fit, seen: Seen, name: str) -> npt.NDArray[np.intp]:
    """Places of the hits: as they are, unless the ranker has words to go by."""
    covered = name == "ranked" and seen.rows[:, NAMES[name].index("document")].max() >= COVERED
    return np.argsort(-model.predict(seen.rows), kind="stable") if covered else np.arange(len(seen.labels))


def left_out(asked: Sequence[Asked], name: str) -> list[Judged]:
    """Each question by models that never saw its collection (off-topic ones: so many left out in turn)."""
    collections = sorted({one.collection for one in asked} - {""})
    names = [one.collection or collections[n % len(collections)] for n, one in enumerate(asked)]
    models = {}
    for each in collections:
        rest = [one for one, other in zip(asked, names, strict=True) if other != each]
        models[each] = {part: fit(rest, part) for part in (name, "answerable")}
    return [judged(one, models[each], name) for one, each in zip(asked, names, strict=True)]


def report(asked: Sequence[Asked], found: Sequence[Judged]) -> Iterator[str]:
    yield from _quality(asked, found)
    yield from _reliability(asked, found)
    yield from _refusals(asked, found)


def _quality(asked: Sequence[Asked], found: Sequence[Judged]) -> Iterator[str]:
    scores: dict[str, list[float]] = {}
    for one, each in zip(asked, found, strict=True):
        if one.kind == ANSWERABLE:
            for kind in ("all", one.question, f"({one.collection})"):
                scores.setdefault(kind, []).append(ndcg(each.pages, one.relevant))
    yield "nDCG@10: " + ", ".join(f"{kind} {np.mean(values):.4f}" for kind, values in sorted(scores.items()))


def _reliability(asked: Sequence[Asked], found: Sequence[Judged]) -> Iterator[str]:
    for kinds in REPORTED:
        values, labels = _first_ten(asked, found, kinds)
        yield f"share of hits that are relevant ({', '.join(kinds)})"
        for low, high in (*BINS, (0.7, 1.01)):
            inside = (values >= low) & (values < high)
            share = labels[inside].mean() if inside.any() else float("nan")
            yield f"  {low:.1f} to {min(high, 1):.1f}: {share:.3f} of {int(inside.sum())}"


def _refusals(asked: Sequence[Asked], found: Sequence[Judged]) -> Iterator[str]:
    best: dict[str, list[float]] = {}
    for one, each in zip(asked, found, strict=True):
        best.setdefault(one.kind, []).append(float(each.confidences.max(initial=0)))
    yield "share of questions whose best hit is below a floor"
    for floor in (*FLOORS, float(np.quantile(best[ANSWERABLE], REFUSED))):
        shares = ", ".join(f"{kind} {np.mean(np.array(values) < floor):.3f}" for kind, values in best.items())
        yield f"  {floor:.3f}: {shares}"


def drawn(asked: Sequence[Asked], by_mode: Mapping[str, Sequence[Judged]]) -> str:
    """The share of hits that are relevant over the confidence that was given, as SVG."""
    drawing = Drawing("Reliability on collections left out of the fit")
    drawing.guide(((0, 0), (1, 1)))
    for mode, found in by_mode.items():
        for kinds, said in ((REPORTED[0], "with an answer"), (REPORTED[1], "all questions")):
            values, labels = _first_ten(asked, found, kinds)
            points = []
            for low in np.arange(0, 1, 0.1):
                inside = (values >= low) & (values < low + 0.1 + 1e-9)
                if inside.any():
                    points.append((float(values[inside].mean()), float(labels[inside].mean())))
            drawing.line(f"{mode}, {said}", points, dots=True)
    ticks = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    return drawing.to_svg(x_label="confidence given", y_label="share that is relevant", x_ticks=ticks)


def _first_ten(asked: Sequence[Asked], found: Sequence[Judged], kinds: Sequence[str]) -> tuple[Array, Array]:
    """Confidences and labels of the first ten hits of questions asked in these ways."""
    chosen = [(each, one) for one, each in zip(asked, found, strict=True) if one.kind in kinds]
    values = np.concatenate([each.confidences[:10] for each, _ in chosen])
    labels = np.concatenate([[float(page in one.relevant) for page in each.pages[:10]] for each, one in chosen])
    return values, labels


def to_json(model: Fit, names: Sequence[str]) -> dict[str, Any]:
    values = zip(names, model.mean, model.scale, model.coefficients, strict=True)
    features = {
        name: {"mean": round(float(m), 4), "scale": round(float(s), 4), "coefficient": round(float(c), 4)}
        for name, m, s, c in values
    }
    return {"intercept": round(model.intercept, 4), "features": features}


def all_models(asked: Sequence[Asked]) -> dict[str, Any]:
    """The file that is shipped."""
    counts = Counter("written for the example corpus" if one.split else "from alert rules and incident reports"
                     for one in asked if one.kind == ANSWERABLE)  # fmt: skip
    made = {
        "data": " and ".join(f"{count} questions {said}" for said, count in counts.items())
        + ": each also without its relevant pages and without its words, and questions without an answer",
        "command": "python -m tests.quality.fit_confidence DATASET tests/quality/own --write",
        "date": datetime.now(UTC).date().isoformat(),
    }
    return {**{name: to_json(fit(asked, name), names) for name, names in NAMES.items()}, "made": made}


def _asked(args: argparse.Namespace) -> list[Asked]:
    if args.keep and args.keep.exists():
        kept: list[Asked] = pickle.loads(args.keep.read_bytes())
        return kept
    asked: list[Asked] = []
    for folder in args.datasets:
        dataset = load_dataset(folder)
        with bootstrap(evaluation_settings(Settings(home=str(args.home)), dataset)) as services:
            evaluation = Evaluation(services, dataset)
            evaluation.ingest()
            asked.extend(collect(evaluation))
    if args.keep:
        args.keep.write_bytes(pickle.dumps(asked))
    return asked


def _print(title: str, lines: Iterable[str]) -> None:
    print(f"\n== {title}", *lines, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", type=Path, nargs="+")
    parser.add_argument("--home", type=Path, default=Path(".opx"))
    parser.add_argument("--keep", type=Path, help="what the models see, to fit again without asking again")
    parser.add_argument("--plot", type=Path, help="where to draw the reliability (SVG)")
    parser.add_argument("--write", action="store_true", help="replace the shipped coefficients")
    args = parser.parse_args()
    everything = _asked(args)
    asked = [one for one in everything if one.split in FITTED_SPLITS]
    kept = [one for one in everything if one.split not in FITTED_SPLITS]
    fitted = {name: fit(asked, name) for name in NAMES}
    by_mode = {mode: left_out(asked, name) for mode, name in MODES.items()}
    for mode, found in by_mode.items():
        _print(f"{mode}, collections left out", report(asked, found))
        own = [at for at, one in enumerate(asked) if one.split]
        if kept:
            _print(f"{mode}, the split set left out", report([asked[at] for at in own], [found[at] for at in own]))
            tested = [judged(one, fitted, MODES[mode]) for one in kept]
            _print(f"{mode}, splits that are never fitted on", report(kept, tested))
    if args.plot:
        args.plot.write_text(drawn(asked, by_mode), encoding="utf-8")
    models = all_models(asked)
    print(json.dumps(models, indent=2))
    if args.write:
        path = Path(str(files("opx.retrieval").joinpath("confidence.json")))
        path.write_text(json.dumps(models, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
