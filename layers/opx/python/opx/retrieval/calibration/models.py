"""Applies a calibration on a deployment's own corpus to the shipped models of confidence, and stores it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

from opx.domain.queries import SearchMode
from opx.domain.record import Record
from opx.errors import InvalidInputError
from opx.ports import Item, Table
from opx.retrieval.confidence import REFERENCE, Judges, LinearModel, calibration_key, has_models, models_made, shipped
from opx.retrieval.hybrid import BOTH, LEXICAL

log = logging.getLogger(__name__)

RULES = 1
"""Version of the meaning of a `Calibration`: increase it when that changes; older ones are ignored."""

COSINES = ("cosine", "cosine_best")
"""Inputs of the models that depend on the embedding model."""


class CosineMap(Record, frozen=True, rename=None):
    """Maps cosines to those of the embedding model that the shipped models were fitted for: slope x cosine + offset."""

    slope: float
    offset: float


class Fit(Record, frozen=True, rename=None):
    """Changes to the shipped models. With `cosines`, the models with cosine inputs are used for an embedding model that they
    weren't fitted for. The log-odds of a confidence become slope x log-odds + intercept."""

    cosines: CosineMap | None = None
    slope: float = 1.0
    intercept: float = 0.0

    @property
    def is_sound(self) -> bool:
        """False for numbers that no fit returns: higher cosines and log-odds always count in favour of a document."""
        slope, offset = (self.cosines.slope, self.cosines.offset) if self.cosines else (1.0, 0.0)
        return all(map(math.isfinite, (slope, offset, self.slope, self.intercept))) and slope > 0 and self.slope > 0


class Calibration(Record, frozen=True, rename=None):
    """A fit for one embedding model. `models` identifies the shipped models that it was fitted to. Losses are log losses on
    held-out questions: of the models before, and with this fit."""

    embedder: str
    models: str
    fit: Fit
    documents: int
    questions: int
    loss: float
    loss_before: float
    made_at: str
    rules: int = RULES

    @property
    def is_current(self) -> bool:
        """False for a calibration of an earlier version of the code, or fitted to other shipped models."""
        return self.rules == RULES and self.models == models_made()


@lru_cache(64)
def with_changes(embedder: str, fit: Fit, legs: str, mode: SearchMode) -> Judges:
    """The shipped models with the changes of a fit. It was fitted on searches with both legs; for one leg only cosines are
    changed."""
    cosines = fit.cosines if legs != LEXICAL else None
    judges = shipped(REFERENCE if cosines else embedder, legs, mode)
    order, confidence, near = judges.order, judges.confidence, judges.near
    if cosines:
        order, confidence, near = (_mapped(one, cosines) for one in (order, confidence, near))
    if legs == BOTH:
        confidence = _scaled(confidence, fit.slope, fit.intercept)
    return Judges(order, confidence, near)


def _mapped(model: LinearModel, cosines: CosineMap) -> LinearModel:
    """The same model on unmapped cosines: the map is folded into their mean and scale."""
    parts = {
        name: (c, (mean - cosines.offset) / cosines.slope, scale / cosines.slope)
        if name in COSINES
        else (c, mean, scale)
        for name, (c, mean, scale) in model.parts.items()
    }
    return LinearModel(model.intercept, parts)


def _scaled(model: LinearModel, slope: float, intercept: float) -> LinearModel:
    parts = {name: (slope * c, mean, scale) for name, (c, mean, scale) in model.parts.items()}
    return LinearModel(slope * model.intercept + intercept, parts)


# -- storage, by embedding model, in the table of index editions


@dataclass(frozen=True, slots=True)
class KeptCalibration:
    """A stored calibration. `problem`: why it isn't used. `entries`: the number of index entries at the last attempt to
    calibrate, whatever its outcome; None if there was none."""

    calibration: Calibration | None = None
    problem: str = ""
    entries: int | None = None

    def models_of(self, embedder: str) -> Literal["calibrated", "fitted", "general"]:
        """The kind of models that searches with this embedding model use."""
        return "calibrated" if self.calibration else "fitted" if has_models(embedder) else "general"


class CalibrationStore:
    """Stores one item for each embedding model. `subject` distinguishes installations that share a table."""

    def __init__(self, table: Table, subject: str) -> None:
        self._table = table
        self._subject = subject

    def read(self, embedder: str) -> KeptCalibration:
        """Reads the stored calibration. Raises `StoreUnavailableError`."""
        item = self._table.get(calibration_key(self._subject, embedder))
        if item is None:
            return KeptCalibration()
        entries = item.get("entries")
        calibration, problem = _read(item.get("calibration"))
        return KeptCalibration(calibration, problem, entries if isinstance(entries, int) else None)

    def write(self, embedder: str, calibration: Calibration | None, *, entries: int | None) -> None:
        """Replaces the whole item. Without a calibration the shipped models are used. Raises
        `StoreUnavailableError`."""
        made = calibration.to_json() if calibration else None
        self._table.put({**calibration_key(self._subject, embedder), "calibration": made, "entries": entries})


def _read(data: object) -> tuple[Calibration | None, str]:
    """A usable calibration, or the reason why there is none."""
    if data is None:
        return None, ""
    try:
        found = Calibration.from_json(data)
    except InvalidInputError as exc:
        return None, f"the calibration can't be read and is ignored: {exc}"
    if not found.is_current:
        return None, "the calibration is for other shipped models and is ignored: calibrate again"
    if not found.fit.is_sound:
        return None, "the calibration is damaged and is ignored: calibrate again"
    return found, ""


def models_in(item: Item, embedder: str) -> Callable[[str, SearchMode], Judges] | None:
    """The models of a row, by legs and mode; None, and a line in the log, if its calibration can't be used."""
    calibration, problem = _read(item.get("calibration"))
    if problem:
        log.warning("%s: %s", embedder, problem)
    return partial(with_changes, embedder, calibration.fit) if calibration else None
