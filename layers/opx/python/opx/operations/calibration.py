"""Operations on the calibration of confidence: show it, fit a new one, or return to the shipped models.

Models are for all clients, so only administrators of the installation's own scope may manage them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from opx.domain.policy import Action
from opx.domain.record import Record, about, rounded
from opx.domain.requests import Request
from opx.operations.context import Context
from opx.operations.registry import Function, operation

if TYPE_CHECKING:
    from opx.retrieval.calibration.calibrating import Calibrator
    from opx.retrieval.calibration.models import Calibration

Loss = Annotated[float | None, about("Log loss on questions that were not fitted on; null if nothing was fitted.")]


class GetCalibration(Request, frozen=True):
    pass


class CalibrationFacts(Record, frozen=True):
    """A calibration in use. `maps_cosines`: shipped models of another embedding model are used, with its cosines."""

    made_at: str
    documents: int
    questions: int
    loss: Loss
    loss_before: Loss
    maps_cosines: bool
    slope: Annotated[float, about("Factor of the log-odds of a confidence.")]
    intercept: Annotated[float, about("Constant added to them.")]


class CalibrationStatus(Record, frozen=True):
    """The models of confidence that searches use."""

    embedding_model: str
    models: Annotated[
        Literal["calibrated", "fitted", "general"],
        about(
            "`calibrated` on this corpus; `fitted`: shipped for this embedding model; `general`: shipped for "
            "any embedding model; cosine similarities are not used."
        ),
    ]
    calibration: CalibrationFacts | None
    remark: Annotated[str, about("Reason why a stored calibration is not used; empty otherwise.")]


@operation(http="GET /calibration", function=Function.MANAGE, action=Action.MANAGE_SOURCES)
def get_calibration(context: Context, request: GetCalibration) -> CalibrationStatus:  # noqa: ARG001 - as all operations
    """Show the models of confidence in use, and their figures.

    Raises `ForbiddenError` for a caller of another scope, `InvalidInputError` where a managed knowledge base computes
    confidences itself, and `StoreUnavailableError`.
    """
    calibrator = _calibrator(context)
    kept, model = calibrator.kept(), calibrator.embedder
    facts = _facts(kept.calibration) if kept.calibration else None
    return CalibrationStatus(model, kept.models_of(model), facts, kept.problem)


class Calibrate(Request, frozen=True):
    pass


class CalibrationReport(Record, frozen=True, omit_defaults=True):
    """The result of a calibration. `reason` states why the models are unchanged; it is empty if new ones are in use, or
    if a function does the work."""

    embedding_model: str
    asked: Annotated[bool, about("True if a function does it; get_calibration then shows the outcome.")] = False
    documents: int = 0
    questions: int = 0
    loss: Loss = None
    loss_before: Loss = None
    reason: str = ""


@operation(http="POST /calibration", function=Function.MANAGE, status=202, action=Action.MANAGE_SOURCES)
def calibrate(context: Context, request: Calibrate) -> CalibrationReport:  # noqa: ARG001 - as all operations
    """Fit the models of confidence to this corpus, on questions generated from it, and use them if they are better.

    Where functions build indexes, one of them does it. Raises `ForbiddenError` for a caller of another scope,
    `InvalidInputError` where a managed knowledge base computes confidences itself, `EmbeddingError` for a model with
    meaningless vectors, and `StoreUnavailableError`; the models in use stay then.
    """
    calibrator = _calibrator(context)
    rebuilds = context.system.ports.functions.rebuilds
    if rebuilds is not None:
        from opx.lifecycle.reindex.reindexing import CALIBRATE

        rebuilds.send(CALIBRATE)
        return CalibrationReport(calibrator.embedder, asked=True)
    found = calibrator.run()
    return CalibrationReport(
        calibrator.embedder,
        documents=found.documents,
        questions=found.questions,
        loss=rounded(found.loss),
        loss_before=rounded(found.loss_before),
        reason=found.reason,
    )


class DiscardCalibration(Request, frozen=True):
    pass


class CalibrationDiscarded(Record, frozen=True):
    embedding_model: str
    discarded: Annotated[bool, about("False if the shipped models were in use before.")]


@operation(http="DELETE /calibration", function=Function.MANAGE, action=Action.MANAGE_SOURCES)
def discard_calibration(context: Context, request: DiscardCalibration) -> CalibrationDiscarded:  # noqa: ARG001 - as all operations
    """Discard the calibration and use the shipped models of confidence.

    Raises `ForbiddenError` for a caller of another scope, `InvalidInputError` where a managed knowledge base computes
    confidences itself, and `StoreUnavailableError`.
    """
    calibrator = _calibrator(context)
    return CalibrationDiscarded(calibrator.embedder, calibrator.discard())


def _calibrator(context: Context) -> Calibrator:
    return context.system.lifecycle.calibrator(context.progress)


def _facts(made: Calibration) -> CalibrationFacts:
    return CalibrationFacts(
        made.made_at,
        made.documents,
        made.questions,
        rounded(made.loss),
        rounded(made.loss_before),
        made.fit.cosines is not None,
        round(made.fit.slope, 4),
        round(made.fit.intercept, 4),
    )
