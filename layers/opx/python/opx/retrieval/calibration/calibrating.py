"""Calibrates the models of confidence on a corpus: asks it questions made of itself, and judges each half of
them by what was fitted on the other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import mean

from opx.domain.documents import KnowledgeDocument
from opx.domain.ids import stable_hash
from opx.domain.record import replace
from opx.domain.scopes import GLOBAL_KEY, Scope
from opx.domain.times import iso_time
from opx.errors import InvalidInputError, OpxError
from opx.ingestion.corpus.catalog import Catalog
from opx.ports import Clock, Embedder, SearchFilter, SearchIndex
from opx.retrieval.calibration.asking import MODE, Asker, Seen
from opx.retrieval.calibration.fitting import fit, loss_of
from opx.retrieval.calibration.models import Calibration, CalibrationStore, Fit, KeptCalibration, with_changes
from opx.retrieval.calibration.questions import FOREIGN, MadeQuestion, ReadChunks, make_questions, too_little, usable
from opx.retrieval.confidence import Judges, has_models, models_made
from opx.retrieval.hybrid import BOTH

log = logging.getLogger(__name__)

MOST_DOCUMENTS = 50_000
"""Of a scope, from which those to ask about are drawn."""

FEWEST_SEEN = 30
"""Questions of each half, each with its document and without it."""

GROWN = 2.0
"""So many times as many entries as at the last calibration, or as few, make another one due."""

_SHOWN_EVERY = 25

Progress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class AskedCorpus:
    """The documents of an installation, and how to ask for them. `scopes` are all that there are."""

    catalog: Catalog
    scopes: Callable[[], Iterable[Scope]]
    categories: Sequence[str]
    read: ReadChunks
    index: SearchIndex
    embedder: Embedder


@dataclass(frozen=True, slots=True)
class Outcome:
    """`reason` says why nothing was changed; "" if a new calibration is used from now on. Losses are None if nothing was
    fitted."""

    documents: int
    questions: int = 0
    reason: str = ""
    loss: float | None = None
    loss_before: float | None = None


class Calibrator:
    """Calibrates for the embedding model that answers now."""

    def __init__(
        self,
        corpus: AskedCorpus,
        store: CalibrationStore,
        clock: Clock,
        progress: Progress = lambda _step, _count: None,
    ) -> None:
        self._corpus = corpus
        self._store = store
        self._clock = clock
        self._progress = progress

    @property
    def embedder(self) -> str:
        """The id of the model that is calibrated for."""
        return self._corpus.embedder.model_id

    def kept(self) -> KeptCalibration:
        """The calibration that is kept for the model. Raises `StoreUnavailableError`."""
        return self._store.read(self.embedder)

    def discard(self) -> bool:
        """Go back to the shipped models; whether there was anything to go back from."""
        kept = self.kept()
        self._store.write(self.embedder, None, entries=kept.entries)
        return bool(kept.calibration or kept.problem)

    def is_due(self) -> bool:
        """True if the corpus grew or shrank since the last calibration as `GROWN` says, or if there was none and no models
        are shipped for the embedding model."""
        before = self.kept().entries
        if before is None:
            return not has_models(self.embedder)
        now = self._entries()
        return now >= GROWN * max(before, 1) or now * GROWN <= before

    def run(self) -> Outcome:
        """Calibrate, and keep the new calibration if it is better than what is used now.

        What is kept stays until the end. Raises `EmbeddingError` for a model whose vectors mean nothing, and
        `StoreUnavailableError`.
        """
        model, entries = self.embedder, self._entries()
        documents = usable(self._documents())
        reason = too_little(documents)
        if reason:
            return self._unchanged(model, entries, Outcome(len(documents), reason=reason))
        questions = make_questions(documents, self._corpus.read)
        seen = list(self._seen(questions))
        parts = halves(seen)
        if min(map(len, parts)) < FEWEST_SEEN:
            reason = f"only {len(questions)} questions could be made of the documents"
            return self._unchanged(model, entries, Outcome(len(documents), len(questions), reason))
        in_use = self._in_use(model)
        before = mean(loss_of(part, in_use) for part in parts)
        ways = (False,) if has_models(model) else (False, True)
        loss, mapped = min((_loss_of_fits(model, parts, mapped=one), one) for one in ways)
        found = fit(model, seen, mapped=mapped)
        if self.embedder != model:
            raise InvalidInputError("the index was replaced meanwhile: calibrate again")
        figures = Outcome(len(documents), len(questions), loss=loss, loss_before=before)
        if not loss < before:
            reason = "new models would not be better on questions that they aren't fitted on"
            return self._unchanged(model, entries, replace(figures, reason=reason))
        calibration = Calibration(
            model, models_made(), found, len(documents), len(questions), loss, before, iso_time(self._clock())
        )
        self._store.write(model, calibration, entries=entries)
        return figures

    def _in_use(self, model: str) -> Judges:
        kept = self._store.read(model).calibration
        return with_changes(model, kept.fit if kept else Fit(), BOTH, MODE)

    def _unchanged(self, model: str, entries: int, outcome: Outcome) -> Outcome:
        """Note that it was tried, so that the same isn't tried every day."""
        self._store.write(model, self._store.read(model).calibration, entries=entries)
        return outcome

    def _documents(self) -> Iterator[KnowledgeDocument]:
        for scope in self._corpus.scopes():
            found = self._corpus.catalog.visible((scope.key,), categories=self._corpus.categories)
            yield from islice(found, MOST_DOCUMENTS)

    def _entries(self) -> int:
        return self._corpus.index.count(SearchFilter(tuple(scope.key for scope in self._corpus.scopes())))

    def _seen(self, questions: Sequence[MadeQuestion]) -> Iterator[Seen]:
        asker = Asker(self._corpus.index, self._corpus.embedder)
        for number, question in enumerate(questions):
            if number % _SHOWN_EVERY == 0:
                self._progress(f"asking questions: {number} of {len(questions)}", number)
            document = question.document
            where = SearchFilter(visible_to_owner(document.key.scope))
            yield from asker.made(question.text, where, document.document_id)
        where = SearchFilter(tuple(scope.key for scope in self._corpus.scopes()))
        for text in FOREIGN:
            yield asker.foreign(text, where)


def visible_to_owner(scope: Scope) -> tuple[str, ...]:
    """The scopes that the owner of a scope sees: everybody's, the client's and its own."""
    return tuple(dict.fromkeys((GLOBAL_KEY, Scope(scope.client_id).key, scope.key)))


def halves(seen: Iterable[Seen]) -> tuple[list[Seen], list[Seen]]:
    """All about one document are in the same half."""
    parts: tuple[list[Seen], list[Seen]] = [], []
    for one in seen:
        parts[int(stable_hash("calibration", one.group), 16) % 2].append(one)
    return parts


def _loss_of_fits(model: str, parts: tuple[list[Seen], list[Seen]], *, mapped: bool) -> float:
    """The mean of the losses on each half of what is fitted on the other."""
    fits = [fit(model, part, mapped=mapped) for part in reversed(parts)]
    return mean(loss_of(part, with_changes(model, one, BOTH, MODE)) for part, one in zip(parts, fits, strict=True))


def calibrate_if_due(calibrator: Calibrator) -> str:
    """Calibrate, and give a line for people about the outcome; "" if no calibration was due. Raises as `run`."""
    return outcome_line(calibrator.run()) if calibrator.is_due() else ""


def attempt_if_due(calibrator: Callable[[], Calibrator]) -> str:
    """The same for a caller that goes on if it fails: the line gives the reason then."""
    try:
        return calibrate_if_due(calibrator())
    except OpxError as exc:
        return f"not calibrated: {exc}"


def outcome_line(outcome: Outcome) -> str:
    """`calibrated with 400 questions about 730 documents (log loss 0.224, of the models before 0.283)`."""
    losses = ""
    if outcome.loss is not None:
        losses = f" (log loss {outcome.loss:.3f}, of the models before {outcome.loss_before:.3f})"
    if outcome.reason:
        return f"the models of confidence stay as they are: {outcome.reason}{losses}"
    return f"calibrated with {outcome.questions} questions about {outcome.documents:,} documents{losses}"
