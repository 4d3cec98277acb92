"""Canaries: own questions that are queried every hour, so that it is seen when an answer gets worse."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from opx.domain.ids import iso_time
from opx.domain.policy import Action
from opx.domain.record import Record, about, replace
from opx.domain.requests import FilledText, Request
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.operations.context import Context, Progress, unwatched
from opx.operations.registry import operation
from opx.ports import Clock, Table
from opx.ports.tables import GAPS, readable
from opx.runtime.deadlines import remaining
from opx_quality.evaluation.kept import Evaluations, OwnQuestion
from opx_quality.evaluation_keys import canary_partition
from opx_quality.quality import SPARE_SECONDS, RunReply, judged, of_installation, reply_to

if TYPE_CHECKING:
    from opx.operations.system import System

log = logging.getLogger("opx.quality.canaries")  # a function imports this module without its entry point

MAX_CANARIES = 20
"""Each is a search an hour."""
KEPT_DAYS = 60
EVERY_SECONDS = 3600.0

_DAY_SECONDS = 86_400
_MAX_HISTORY = 200


class CanaryResult(Record, frozen=True):
    """An answer to a canary; null where the question wasn't searched."""

    at: str
    reply: RunReply | None


class Canary(Record, frozen=True):
    question: OwnQuestion
    results: Annotated[tuple[CanaryResult, ...], about("The latest ones, the newest first.")]


class ListCanaries(Request, frozen=True):
    results: Annotated[int, about("How many results of each at most.", ge=1, le=_MAX_HISTORY)] = 24


class Canaries(Record, frozen=True):
    canaries: tuple[Canary, ...]


@operation(http="GET /evaluations/canaries", action=Action.CURATE, target=of_installation)
def list_canaries(context: Context, request: ListCanaries) -> Canaries:
    """List the own questions that are queried every hour, with their latest results."""
    return Canaries(tuple(_listed(context.system, request.results)))


class RunCanaries(Request, frozen=True):
    pass


@operation(http="POST /evaluations/canaries", action=Action.CURATE, target=of_installation)
def run_canaries(context: Context, request: RunCanaries) -> Canaries:  # noqa: ARG001 - as all operations
    """Query all canaries now, unrecorded, and keep the results. Raises `InvalidInputError` if there is none."""
    if not ask_canaries(context.system, context.progress):
        raise InvalidInputError("no question is a canary: mark one of the knowledge base's own questions")
    return Canaries(tuple(_listed(context.system, ListCanaries().results)))


class MarkCanary(Request, frozen=True):
    question_id: Annotated[FilledText, about("The id of an own question.")]
    canary: Annotated[bool, about("False ends it; its results stay for a while.")] = True


@operation(http="PUT /evaluations/questions/{questionId}/canary", action=Action.CURATE, target=of_installation)
def mark_canary(context: Context, request: MarkCanary) -> OwnQuestion:
    """Have an own question queried every hour, or no longer.

    Raises `EvaluationNotFoundError`, and `InvalidInputError` if there are too many canaries.
    """
    evaluations = Evaluations.of(context.system)
    question = evaluations.question(request.question_id)
    others = sum(one.canary and one.question_id != question.question_id for one in evaluations.questions())
    if request.canary and others >= MAX_CANARIES:
        raise InvalidInputError(f"there are {MAX_CANARIES} canaries already: end one first")
    marked = replace(question, canary=request.canary)
    evaluations.put_question(marked)
    return marked


# -- queries


def ask_canaries(system: System, progress: Progress = unwatched) -> int:
    """Asks each canary, as many as there is time for, and keeps the results. Returns their number."""
    results = CanaryResults(system.tables.table(GAPS), system.clock)
    found = _canaries(system)
    for number, question in enumerate(found, start=1):
        left = remaining()
        if left is not None and left < SPARE_SECONDS:
            log.warning("%d canaries were not queried: there was no time left", len(found) - number + 1)
            break
        results.put(question.question_id, CanaryResult(iso_time(system.clock()), _replied(system, question)))
        progress(f"{number} of {len(found)} canaries queried", number)
    return len(found)


def _replied(system: System, question: OwnQuestion) -> RunReply | None:
    try:
        return judged(question.labelled(), reply_to(system.questions.for_reader(recorded=False), question.text))
    except StoreUnavailableError:
        log.exception("a canary was not searched")
        return None


class CanaryFeed:
    """Asks the canaries every hour, on a machine that no scheduler calls."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._due = system.clock() + EVERY_SECONDS

    def poll(self) -> Sequence[str]:
        """See `Feed`."""
        if self._system.clock() < self._due:
            return ()
        self._due = self._system.clock() + EVERY_SECONDS
        ask_canaries(self._system)
        return ()


def feed(system: System) -> CanaryFeed:
    """Scheduled work where no scheduler is."""
    return CanaryFeed(system)


def _canaries(system: System) -> list[OwnQuestion]:
    return list(islice((one for one in Evaluations.of(system).questions() if one.canary), MAX_CANARIES))


def _listed(system: System, results: int) -> Iterator[Canary]:
    kept = CanaryResults(system.tables.table(GAPS), system.clock)
    for question in _canaries(system):
        yield Canary(question, tuple(islice(kept.latest(question.question_id), results)))


class CanaryResults:
    """Results of canaries in the table of gaps, for `KEPT_DAYS`, in a partition of each question, which no scope has."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def put(self, question_id: str, result: CanaryResult) -> None:
        expires = int(self._clock()) + KEPT_DAYS * _DAY_SECONDS
        key = {"scopeKey": canary_partition(question_id), "gapId": result.at}
        self._table.put({**key, "result": result.to_json(), "expiresAt": expires})

    def latest(self, question_id: str) -> Iterator[CanaryResult]:
        """The results of a question, the newest first."""
        found = self._table.query(canary_partition(question_id), reverse=True)
        return readable(lambda item: CanaryResult.from_json(item["result"]), found)
