"""Calibrates the models of confidence on a corpus with questions generated from it, cross-validated on two halves."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import mean

from opx.domain.documents import KnowledgeDocument
from opx.domain.ids import iso_time, stable_hash
from opx.domain.record import replace
from opx.domain.scopes import GLOBAL_KEY, Scope
from opx.errors import EmbeddingError, InvalidInputError, OpxError
from opx.ingestion.corpus.catalog import Catalog
from opx.ports import Clock, Embedder, SearchFilter, SearchIndex
from opx.retrieval.calibration.models import (
    Calibration,
    CalibrationStore,
    CosineMap,
    Fit,
    KeptCalibration,
    with_changes,
)
from opx.retrieval.calibration.questions import (
    FOREIGN,
    MODE,
    EvidenceCollector,
    LabelledEvidence,
    MadeQuestion,
    QuestionKind,
    ReadChunks,
    make_questions,
    too_little,
    usable,
)
from opx.retrieval.confidence import Judges, has_models, logistic, models_made
from opx.retrieval.evidence import NEARNESS, ordered_evidence
from opx.retrieval.hybrid import BOTH

log = logging.getLogger(__name__)

MOST_DOCUMENTS = 50_000
"""Documents of a scope from which a sample is drawn."""

FEWEST_SEEN = 30
"""Least pieces of evidence in each half: a question gives one with its document and one without it."""

GROWN = 2.0
"""Factor of growth or shrinkage in entries since the last calibration that makes another one due."""

_SHOWN_EVERY = 25

Progress = Callable[[str, int], None]


_LEAST_GAIN = 0.0005
"""Decrease of the log loss below which the models stay: it is shown with three digits."""


@dataclass(frozen=True, slots=True)
class CalibrationCorpus:
    """The documents of an installation with its index and embedding model. `scopes` returns all scopes."""

    catalog: Catalog
    scopes: Callable[[], Iterable[Scope]]
    categories: Sequence[str]
    read: ReadChunks
    index: SearchIndex
    embedder: Embedder


@dataclass(frozen=True, slots=True)
class CalibrationOutcome:
    """Outcome of a calibration. `reason`: why nothing was changed; "" if the new calibration is used from now on. Losses are
    None if nothing was fitted."""

    documents: int
    questions: int = 0
    reason: str = ""
    loss: float | None = None
    loss_before: float | None = None


@dataclass(eq=False)
class Calibrator:
    """Calibrates for the embedding model that is in use."""

    corpus: CalibrationCorpus
    store: CalibrationStore
    clock: Clock
    progress: Progress = lambda _step, _count: None

    @property
    def embedder(self) -> str:
        """Id of the embedding model."""
        return self.corpus.embedder.model_id

    def kept(self) -> KeptCalibration:
        """The stored calibration for the model. Raises `StoreUnavailableError`."""
        return self.store.read(self.embedder)

    def discard(self) -> bool:
        """Returns to the shipped models. True if there was a calibration to discard."""
        kept = self.kept()
        self.store.write(self.embedder, None, entries=kept.entries)
        return bool(kept.calibration or kept.problem)

    def is_due(self) -> bool:
        """True if the corpus grew or shrank by the factor `GROWN` since the last calibration, or if there was none and no
        models are shipped for the embedding model."""
        before = self.kept().entries
        if before is None:
            return not has_models(self.embedder)
        now = self._entries()
        return now >= GROWN * max(before, 1) or now * GROWN <= before

    def run(self) -> CalibrationOutcome:
        """Calibrates, and stores the new calibration if it is better than the models in use.

        The stored calibration stays until the end. Raises `EmbeddingError` for a model with meaningless vectors, and
        `StoreUnavailableError`.
        """
        model, entries = self.embedder, self._entries()
        documents = usable(self._documents())
        reason = too_little(documents)
        if reason:
            return self._unchanged(model, entries, CalibrationOutcome(len(documents), reason=reason))
        questions = make_questions(documents, self.corpus.read)
        evidence = list(self._evidence(questions))
        parts = halves(evidence)
        if min(map(len, parts)) < FEWEST_SEEN:
            reason = f"only {len(questions)} questions could be made of the documents"
            return self._unchanged(model, entries, CalibrationOutcome(len(documents), len(questions), reason))
        in_use = self._in_use(model)
        before = mean(loss_of(part, in_use) for part in parts)
        ways = (False,) if has_models(model) else (False, True)
        loss, mapped = min((_loss_of_fits(model, parts, mapped=one), one) for one in ways)
        found = fit(model, evidence, mapped=mapped)
        if self.embedder != model:
            raise InvalidInputError("the index was replaced meanwhile: calibrate again")
        figures = CalibrationOutcome(len(documents), len(questions), loss=loss, loss_before=before)
        if not loss < before - _LEAST_GAIN:
            reason = "new models would not be better on questions that they aren't fitted on"
            return self._unchanged(model, entries, replace(figures, reason=reason))
        calibration = Calibration(
            model, models_made(), found, len(documents), len(questions), loss, before, iso_time(self.clock())
        )
        self.store.write(model, calibration, entries=entries)
        return figures

    def _in_use(self, model: str) -> Judges:
        kept = self.store.read(model).calibration
        return with_changes(model, kept.fit if kept else Fit(), BOTH, MODE)

    def _unchanged(self, model: str, entries: int, outcome: CalibrationOutcome) -> CalibrationOutcome:
        """Records the attempt, so that the same isn't tried every day."""
        self.store.write(model, self.store.read(model).calibration, entries=entries)
        return outcome

    def _documents(self) -> Iterator[KnowledgeDocument]:
        for scope in self.corpus.scopes():
            found = self.corpus.catalog.visible((scope.key,), categories=self.corpus.categories)
            yield from islice(found, MOST_DOCUMENTS)

    def _entries(self) -> int:
        return self.corpus.index.count(SearchFilter(tuple(scope.key for scope in self.corpus.scopes())))

    def _evidence(self, questions: Sequence[MadeQuestion]) -> Iterator[LabelledEvidence]:
        collector = EvidenceCollector(self.corpus.index, self.corpus.embedder)
        for number, question in enumerate(questions):
            if number % _SHOWN_EVERY == 0:
                self.progress(f"querying: question {number} of {len(questions)}", number)
            document = question.document
            where = SearchFilter(visible_to_owner(document.key.scope))
            yield from collector.made(question.text, where, document.document_id)
        where = SearchFilter(tuple(scope.key for scope in self.corpus.scopes()))
        for text in FOREIGN:
            yield collector.foreign(text, where)


def visible_to_owner(scope: Scope) -> tuple[str, ...]:
    """The scopes visible to the owner of a scope: the global one, the client's and its own."""
    return tuple(dict.fromkeys((GLOBAL_KEY, Scope(scope.client_id).key, scope.key)))


def halves(evidence: Iterable[LabelledEvidence]) -> tuple[list[LabelledEvidence], list[LabelledEvidence]]:
    """Splits evidence into two halves; all evidence of one document is in the same half."""
    parts: tuple[list[LabelledEvidence], list[LabelledEvidence]] = [], []
    for one in evidence:
        parts[int(stable_hash("calibration", one.group), 16) % 2].append(one)
    return parts


def _loss_of_fits(model: str, parts: tuple[list[LabelledEvidence], list[LabelledEvidence]], *, mapped: bool) -> float:
    """Mean loss on each half of the models fitted on the other half."""
    fits = [fit(model, part, mapped=mapped) for part in reversed(parts)]
    return mean(loss_of(part, with_changes(model, one, BOTH, MODE)) for part, one in zip(parts, fits, strict=True))


def calibrate_if_due(calibrator: Calibrator) -> str:
    """Calibrates if due, and returns a line for people about the outcome, else "". Raises as `run`."""
    return outcome_line(calibrator.run()) if calibrator.is_due() else ""


def attempt_if_due(calibrator: Callable[[], Calibrator]) -> str:
    """Like `calibrate_if_due`, but returns a line with the reason instead of raising `OpxError`."""
    try:
        return calibrate_if_due(calibrator())
    except OpxError as exc:
        return f"not calibrated: {exc}"


def outcome_line(outcome: CalibrationOutcome) -> str:
    """`calibrated with 400 questions about 730 documents (log loss 0.224, of the models before 0.283)`."""
    losses = ""
    if outcome.loss is not None:
        losses = f" (log loss {outcome.loss:.3f}, of the models before {outcome.loss_before:.3f})"
    if outcome.reason:
        return f"the models of confidence stay as they are: {outcome.reason}{losses}"
    return f"calibrated with {outcome.questions} questions about {outcome.documents:,} documents{losses}"


# -- fitting


WRONG_MEAN, WRONG_SPREAD = 0.321, 0.121
"""Cosines of documents that were found and don't answer: mean and standard deviation with the model that the shipped
models were fitted for, on questions made as ours."""

NOTHING = -10.0
"""Log-odds of nearness if nothing was found."""

LEAST_SPREAD = 1e-3
LEAST_LEAD = 0.25
"""Least lead of the mean cosine of right documents over that of wrong ones, in standard deviations of the wrong ones."""

OF_MADE = (1.27, -1.32)
"""Slope and intercept on log-odds of the shipped models on generated questions when they are right on people's questions: a
generated question counts as answered by its own document only, even if another one answers as well. Subtracted again."""

PRIOR = 50.0
"""Precision of the normal prior around the shipped slope and intercept: a standard deviation of .14."""

LEAST_SLOPE = 0.1

REMOVED_WEIGHT = 0.04
"""Weight of a question whose document was removed, as in the fit of the shipped models."""

FOREIGN_WEIGHT = 2.0
"""Weight of a question about something else: there are few of them beside the generated ones."""

_STEPS = 50


@dataclass(frozen=True, slots=True)
class Point:
    """The first document of a question: its estimated log-odds, `right` if it answers, and its weight."""

    log_odds: float
    right: bool
    weight: float


def cosine_map(evidence: Iterable[LabelledEvidence]) -> CosineMap:
    """Maps cosines so that those of wrong documents have the mean and the spread as with the embedding model that the
    shipped models were fitted for. Raises `EmbeddingError` if right documents aren't above them."""
    right: list[float] = []
    wrong: list[float] = []
    for one in evidence:
        if one.kind is not QuestionKind.FOREIGN:
            for row, answers in zip(one.rows, one.right, strict=True):
                (right if answers else wrong).append(row["cosine"])
    if not right or not wrong:
        raise EmbeddingError("no question found a right and a wrong document: there is nothing to measure cosines by")
    mean = math.fsum(wrong) / len(wrong)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in wrong) / len(wrong))
    lead = math.fsum(right) / len(right) - mean
    if not (spread >= LEAST_SPREAD and lead >= LEAST_LEAD * spread):
        raise EmbeddingError(
            f"the embedding model doesn't separate right documents from others: their cosines are {lead:.3f} above those of "
            f"wrong ones, which vary by {spread:.3f}"
        )
    slope = WRONG_SPREAD / spread
    return CosineMap(slope, WRONG_MEAN - slope * mean)


def fit(embedder: str, evidence: Sequence[LabelledEvidence], *, mapped: bool) -> Fit:
    """Fits the changes to the shipped models: if `mapped`, to those with mapped cosines, else to those that are shipped for
    the embedding model. Raises as `cosine_map`."""
    found = Fit(cosine_map(evidence)) if mapped else Fit()
    slope, intercept = fit_scale(points_of(evidence, with_changes(embedder, found, BOTH, MODE)))
    return replace(found, slope=slope, intercept=intercept)


def loss_of(evidence: Sequence[LabelledEvidence], judges: Judges) -> float:
    """Sum of the log losses of the first documents' confidences and of nearness."""
    return log_loss(points_of(evidence, judges), OF_MADE) + log_loss(near_points(evidence, judges))


def near_points(evidence: Sequence[LabelledEvidence], judges: Judges) -> list[Point]:
    """Nearness of questions with their document, and of those about something else. It is `NOTHING` for a question without
    results."""
    found = []
    for one in evidence:
        if one.kind is not QuestionKind.REMOVED:
            score = judges.near.score({name: one.rows[0][name] for name in NEARNESS}) if one.rows else NOTHING
            is_near = one.kind is QuestionKind.ANSWERED
            found.append(Point(score, is_near, 1.0 if is_near else FOREIGN_WEIGHT))
    return found


def points_of(evidence: Sequence[LabelledEvidence], judges: Judges) -> list[Point]:
    """The first documents of generated questions, in the models' order, without questions that found nothing."""
    found = []
    for one in evidence:
        if one.rows and one.kind is not QuestionKind.FOREIGN:
            scores = list(map(judges.order.score, one.rows))
            order = sorted(range(len(scores)), key=lambda at: -scores[at])
            ranked = ordered_evidence([one.rows[at] for at in order], [scores[at] for at in order])
            weight = REMOVED_WEIGHT if one.kind is QuestionKind.REMOVED else 1.0
            found.append(Point(judges.confidence.score(ranked[0]), one.right[order[0]], weight))
    return found


def fit_scale(points: Sequence[Point]) -> tuple[float, float]:
    """Slope and intercept on log-odds (Platt, 1999) that minimise the log loss, with a prior at 1 and 0. The slope is
    `LEAST_SLOPE` at least: more evidence never makes a document less likely."""
    slope, intercept = OF_MADE
    for _ in range(_STEPS):
        g1, g2 = PRIOR * (slope - OF_MADE[0]), PRIOR * (intercept - OF_MADE[1])
        h11, h12, h22 = PRIOR, 0.0, PRIOR
        for one in points:
            chance = logistic(slope * one.log_odds + intercept)
            off, bend = one.weight * (chance - one.right), one.weight * chance * (1 - chance)
            g1, g2 = g1 + off * one.log_odds, g2 + off
            h11, h12, h22 = h11 + bend * one.log_odds**2, h12 + bend * one.log_odds, h22 + bend
        det = h11 * h22 - h12 * h12
        steps = (h22 * g1 - h12 * g2) / det, (h11 * g2 - h12 * g1) / det
        slope, intercept = max(slope - steps[0], LEAST_SLOPE), intercept - steps[1]
        if max(map(abs, steps)) < 1e-9:
            break
    return slope / OF_MADE[0], (intercept - OF_MADE[1]) / OF_MADE[0]


def log_loss(points: Sequence[Point], scale: tuple[float, float] = (1.0, 0.0)) -> float:
    """Weighted mean log loss, after slope and intercept of `scale`; infinite without points."""
    total = math.fsum(one.weight for one in points)
    losses = (one.weight * _loss(scale[0] * one.log_odds + scale[1], right=one.right) for one in points)
    return math.fsum(losses) / total if total else math.inf


def _loss(log_odds: float, *, right: bool) -> float:
    """Negative log of the probability of the true label."""
    z = log_odds if right else -log_odds
    return math.log1p(math.exp(-abs(z))) + max(-z, 0.0)
