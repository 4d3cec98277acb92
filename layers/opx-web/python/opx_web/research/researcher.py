"""Researches a topic: plans several searches, runs them in parallel, merges their results, and repeats for the gaps.

A research is for one reader: all searches go to a `KnowledgeQuery`, whose scope no query can widen. Findings can influence
the words of later queries, and nothing else: not their number, their length, or their filters.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import cached_property, partial
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

from opx.domain.knowledge import Tier
from opx.domain.queries import MAX_QUERY_CHARACTERS, QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.results import Answer
from opx.domain.scopes import Identity
from opx.errors import IndexWakingError, InvalidInputError, OpxError, StoreUnavailableError, UnknownCategoryError
from opx.operations.system import System
from opx.runtime.deadlines import carried, deadline
from opx.runtime.metrics import Report, unreported
from opx.runtime.threads import serialized
from opx_web.reports import (
    DEFAULT_ITERATIONS,
    Finding,
    ResearchReport,
    ResearchStep,
    StepKind,
    Stopped,
    check_iterations,
)
from opx_web.research.findings import CollectedFindings
from opx_web.research.planners import ChatPlanner, RulePlanner
from opx_web.research.planning import MAX_SUB_QUERIES, Plan, Planner, SoFar, SubQuery, one_line, same_query

# -- workers


log = logging.getLogger(__name__)

R = TypeVar("R")
Clock = Callable[[], float]
"""A monotonic clock in seconds."""


class Task(Generic[R]):
    """A task with its outcome within `seconds`, and its duration."""

    def __init__(self, task: Callable[[], R], seconds: float, clock: Clock) -> None:
        self._task = task
        self._seconds = seconds
        self._clock = clock
        self._started: float | None = None
        self._ended: float | None = None
        self.future: Future[R] = Future()

    def do(self) -> None:
        """Runs the task in a thread of the workers, unless it was cancelled before."""
        if not self.future.set_running_or_notify_cancel():
            return
        self._started = self._clock()
        try:
            result = self._task()
        except BaseException as exc:  # noqa: BLE001 - reported by `failure` and `problem` to the caller of `run`
            self._ended = self._clock()
            self.future.set_exception(exc)
        else:
            self._ended = self._clock()
            self.future.set_result(result)

    @property
    def in_time(self) -> bool:
        """True if it ended, also with a failure."""
        return self.future.done() and not self.future.cancelled()

    @property
    def failure(self) -> BaseException | None:
        """The exception that the task raised."""
        return self.future.exception() if self.in_time else None

    @property
    def milliseconds(self) -> float:
        """Duration until its end or now; 0 if it never began."""
        if self._started is None:
            return 0.0
        return 1000 * ((self._clock() if self._ended is None else self._ended) - self._started)

    def problem(self) -> str:
        """The reason why there is no result, "" if there is one. Unexpected errors are logged."""
        failure = self.failure
        if not self.in_time:
            return f"not finished within {self._seconds:.3g} s"
        if failure is None or isinstance(failure, OpxError):
            return str(failure) if failure else ""
        log.error("a part of a research failed", exc_info=failure)
        return f"{type(failure).__name__}: the error was logged"


class Workers(Generic[R]):
    """Runs tasks in up to `most` threads. A context manager: leaving it ends idle threads.

    Not a `ThreadPoolExecutor`, for whose threads the process waits at its end: a thread that hangs in a search is left to
    end by itself, and runs no other task meanwhile.
    """

    def __init__(self, most: int, clock: Clock = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._jobs: SimpleQueue[Task[R] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def run(self, tasks: Sequence[Callable[[], R]], seconds: float) -> list[Task[R]]:
        """Runs the tasks and returns their jobs, in order. After `seconds` running ones are abandoned, and those that have
        not begun are cancelled."""
        with deadline(seconds, self._clock):
            jobs = [Task(carried(task), seconds, self._clock) for task in tasks]
        for job in jobs:
            self._jobs.put(job)
        while len(self._threads) < min(self._most, len(jobs)):
            self._threads.append(threading.Thread(target=self._work, name="research", daemon=True))
            self._threads[-1].start()
        for future in wait([job.future for job in jobs], timeout=max(0.0, seconds)).not_done:
            future.cancel()
        return jobs

    def __enter__(self) -> Workers[R]:
        return self

    def __exit__(self, *_: object) -> None:
        for _thread in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.do()


# -- plans


_MOST_LOOKED_AT = 100
"""Searches of a plan that are considered; the first ones are the most important."""


@dataclass
class Plans:
    """Plans the iterations of one research. `allowed` is a filter of searches."""

    planner: Planner
    topic: str
    clock: Clock
    allowed: Callable[[SubQuery], bool]
    parts: tuple[str, ...] = ()
    tried: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def searches(self, iteration: int, so_far: SoFar, seconds: float) -> tuple[list[SubQuery], list[ResearchStep]]:
        """Up to four searches that were not done before, and the steps of their planning."""
        plan, steps = self._planned(iteration, so_far, seconds)
        kept = list(self._fresh(plan.sub_queries[:_MOST_LOOKED_AT]))[:MAX_SUB_QUERIES]
        if len(plan.sub_queries) > MAX_SUB_QUERIES:
            self.notes.append(
                f"{self.planner.name} wanted {len(plan.sub_queries):,} searches at once; {len(kept)} were done"
            )
        if iteration == 1:
            kept = self._with_parts(plan, kept)
        self.tried.extend(query.text for query in kept)
        return kept, [*steps[:-1], replace(steps[-1], results=len(plan.sub_queries), new=len(kept))]

    def _planned(self, iteration: int, so_far: SoFar, seconds: float) -> tuple[Plan, list[ResearchStep]]:
        started = self.clock()
        why = f"missing: {'; '.join(gap.part for gap in so_far.gaps)}" if iteration > 1 else "the first searches"
        with Workers[Plan](1, self.clock) as worker:
            (job,) = worker.run([self._plan_of(self.planner, iteration, so_far, seconds)], seconds)
        problem = job.problem()
        step = ResearchStep(
            iteration, StepKind.PLAN, self.planner.name, why, milliseconds=self._since(started), error=problem
        )
        if not problem:
            return job.future.result(), [step]
        self.notes.append(f"{self.planner.name} could not plan ({problem}); rules did")
        self.planner = RulePlanner()
        started = self.clock()
        plan = self._plan_of(self.planner, iteration, so_far, seconds)()
        by_rules = ResearchStep(iteration, StepKind.PLAN, self.planner.name, why, milliseconds=self._since(started))
        return plan, [step, by_rules]

    def _plan_of(self, planner: Planner, iteration: int, so_far: SoFar, seconds: float) -> Callable[[], Plan]:
        if iteration == 1:
            return lambda: planner.first(self.topic, seconds=seconds)
        return lambda: planner.again(self.topic, so_far, seconds=seconds)

    def _since(self, started: float) -> float:
        return 1000 * (self.clock() - started)

    def _fresh(self, wanted: Iterable[SubQuery]) -> Iterable[SubQuery]:
        """Allowed searches that were not tried before, each once, on one line."""
        known = set(map(same_query, self.tried))
        for query in wanted:
            text = query.text if query.text == self.topic else one_line(query.text)
            same = same_query(text)
            if text and same not in known and self.allowed(query):
                known.add(same)
                yield replace(query, text=text)

    def _with_parts(self, plan: Plan, kept: list[SubQuery]) -> list[SubQuery]:
        """Sets the parts of the topic; returns the searches with a part each if there is only one."""
        named = dict.fromkeys(query.part for query in kept if query.part)
        self.parts = plan.parts or tuple(named)
        if self.parts:
            return kept
        self.parts = (one_line(self.topic),)
        return [replace(query, part=self.parts[0]) for query in kept]


# -- researcher


class Researcher:
    """Researches topics for one reader, each within `seconds`. If `planner` fails, rules plan the rest of that research.

    Safe to share between threads.
    """

    def __init__(self, query: Answering, planner: Planner, *, seconds: float, clock: Clock = time.monotonic) -> None:
        self._query = query
        self._planner = planner
        self._seconds = seconds
        self._clock = clock

    def research_topic(
        self,
        topic: str,
        max_iterations: int = DEFAULT_ITERATIONS,
        config: QueryConfig | None = None,
        *,
        watch: Callable[[ResearchStep], None] = lambda _step: None,
    ) -> ResearchReport:
        """Researches a topic; `watch` is called with each step as it ends. It is over as soon as each part of the topic has a
        result that reaches `config.min_confidence`, and after `max_iterations` (1-5) of up to four searches each.

        `config` bounds every search and the report: `max_results` are the findings, `max_chunks_per_document` those of one
        document, beside the best for each part. All searches are thorough; every query other than the given topic is
        searched as plain words. Failures are in the report. Raises `InvalidInputError` for an empty topic or a wrong number
        of iterations, and `UnknownCategoryError`.
        """
        check_iterations(max_iterations)
        text = topic[:MAX_QUERY_CHARACTERS].encode("utf-8", "replace").decode().strip()
        if not text:
            raise InvalidInputError("the topic is empty: say in words what is to be found out")
        config = config or QueryConfig()
        run = ResearchRun(
            query=self._query,
            plans=Plans(self._planner, text, self._clock, partial(may_search, config)),
            config=config,
            max_iterations=max_iterations,
            clock=self._clock,
            until=self._clock() + self._seconds,
            findings=CollectedFindings(config.min_confidence),
            watch=watch,
        )
        if len(topic) > MAX_QUERY_CHARACTERS:
            cut = f"the topic has {len(topic):,} characters; only the first {MAX_QUERY_CHARACTERS:,} were read"
            run.notes.append(cut)
        return run.report()


@dataclass(eq=False)
class Researchers:
    """Researchers of a system: `system.part(Researchers)`."""

    system: System

    def of(
        self, identity: Identity | None = None, report: Report = unreported, *, hidden: frozenset[str] = frozenset()
    ) -> Researcher:
        """Research for this identity, or for the configured one. Its searches are reported and audited like questions; as
        their words are a planner's, they are not recorded as gaps."""
        query = self.system.questions.for_reader(identity, serialized(report), gaps=False, hidden=hidden)
        return Researcher(query, self._planner, seconds=self.system.settings.research_seconds)

    @cached_property
    def _planner(self) -> Planner:
        """Plans the searches of a research."""
        chat = self.system.models.chat if self.system.settings.research_planner != "rules" else None
        return ChatPlanner(chat) if chat else RulePlanner()


# -- run


MAX_WORKERS = 4
RESULTS_OF_A_SEARCH = 10
MAX_NOTES = 20
PLANNING_SHARE = 0.5
"""Share of an iteration's time for the planner; searches have the rest."""


class Answering(Protocol):
    """Answers questions of one reader, in several threads at once; `KnowledgeQuery` does."""

    def search(self, query: str, config: QueryConfig | None = None) -> Answer: ...


@dataclass
class ResearchRun:
    """One research: plans, searches and stops. `until` is its end, in the time of `clock`."""

    query: Answering
    plans: Plans
    config: QueryConfig
    max_iterations: int
    clock: Clock
    until: float
    findings: CollectedFindings
    watch: Callable[[ResearchStep], None] = lambda _step: None
    trace: list[ResearchStep] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    partial: bool = False
    unsearched: StoreUnavailableError | None = None
    """The error of the last search that could not be done."""

    def report(self) -> ResearchReport:
        """Runs the research. Raises `UnknownCategoryError`, and `StoreUnavailableError` if nothing could be searched: other
        failures are in the report."""
        with Workers[Answer](MAX_WORKERS, self.clock) as workers:
            stopped = self._stopped(workers)
        found, left_out = self._found()
        if left_out:
            self._lacks(f"{left_out} findings were left out, as the report would be too long")
        return ResearchReport(
            topic=self.plans.topic,
            searches_performed=sum(step.kind is StepKind.SEARCH for step in self.trace),
            findings=tuple(found),
            trace=tuple(self.trace),
            gaps=tuple(gap.part for gap in self.findings.gaps(self.plans.parts)),
            nearest=tuple(self.findings.nearest(self.plans.parts)),
            notes=tuple(dict.fromkeys((*self.plans.notes, *self.notes)))[:MAX_NOTES],
            partial=self.partial,
            stopped_because=stopped,
            planner=self.plans.planner.name,
        )

    def _stopped(self, workers: Workers[Answer]) -> Stopped:
        """Searches until there is a reason to stop, and returns it."""
        for iteration in range(1, self.max_iterations + 1):
            if not self._left:
                return self._out_of_time()
            end = self.clock() + self._left / (self.max_iterations + 1 - iteration)
            searches = self._planned(iteration, end)
            if not searches:
                return Stopped.NOTHING_LEFT
            if not self._search(workers, iteration, searches, end):
                if iteration == 1 and self.unsearched:
                    raise self.unsearched
                self._lacks("none of the searches could be done: no others were tried")
                return Stopped.UNAVAILABLE
            if not self.findings.gaps(self.plans.parts):
                return Stopped.ENOUGH
        return Stopped.ITERATIONS

    @property
    def _left(self) -> float:
        """Seconds until the end, not below 0."""
        return max(0.0, self.until - self.clock())

    def _out_of_time(self) -> Stopped:
        self._lacks("the time was over before everything was searched")
        return Stopped.TIME

    def _lacks(self, text: str) -> None:
        """Marks the report as partial, with a note."""
        self.partial = True
        self.notes.append(text)

    def _found(self) -> tuple[list[Finding], int]:
        config = self.config
        return self.findings.best(self.plans.parts, config.max_results, config.max_chunks_per_document)

    def _planned(self, iteration: int, end: float) -> list[SubQuery]:
        so_far = SoFar()
        if iteration > 1:
            gaps = self.findings.gaps(self.plans.parts)
            so_far = SoFar(tuple(self._found()[0]), gaps, tuple(self.plans.tried))
        searches, steps = self.plans.searches(iteration, so_far, PLANNING_SHARE * (end - self.clock()))
        for step in steps:
            self._note(step)
        return searches

    def _search(self, workers: Workers[Answer], iteration: int, searches: Sequence[SubQuery], end: float) -> bool:
        """Runs the searches in parallel and adds their results, in their order. True if any of them could be done."""
        jobs = workers.run([self._task(query) for query in searches], end - self.clock())
        taken = [self._taken(iteration, query, job) for query, job in zip(searches, jobs, strict=True)]
        return any(taken)

    def _task(self, query: SubQuery) -> Callable[[], Answer]:
        config = replace(
            self.config,
            mode=SearchMode.THOROUGH,
            plain=self.config.plain
            or query.text != self.plans.topic,  # others' words than the caller's are words alone
            max_results=RESULTS_OF_A_SEARCH,
            include_internet=self.config.include_internet and not query.from_findings,
        )
        return lambda: self.query.search(query.text, config)

    def _taken(self, iteration: int, query: SubQuery, job: Task[Answer]) -> bool:
        """Adds the results of a search, or a note on its failure. True if it was done."""
        step = ResearchStep(iteration, StepKind.SEARCH, one_line(query.text), query.why, milliseconds=job.milliseconds)
        problem = job.problem()
        if isinstance(job.failure, UnknownCategoryError):
            raise job.failure
        if problem:
            late = None if job.in_time else IndexWakingError(f"a search was {problem}")
            self.unsearched = job.failure if isinstance(job.failure, StoreUnavailableError) else late
            self._lacks(f"a search could not be done: {problem}")
            self._note(replace(step, error=problem))
            return False
        self._note(self._with_answer(step, query, job.future.result()))
        return True

    def _note(self, step: ResearchStep) -> None:
        self.trace.append(step)
        self.watch(step)

    def _with_answer(self, step: ResearchStep, query: SubQuery, answer: Answer) -> ResearchStep:
        self.partial |= answer.partial
        self.notes.extend(answer.notes)
        best = answer.results[0] if answer.results else answer.best_rejected
        return replace(
            step,
            results=len(answer.results),
            new=self.findings.add(query, answer),
            best_confidence=best.confidence if best else 0.0,
            receipt_id=answer.receipt_id,
        )


def may_search(config: QueryConfig, query: SubQuery) -> bool:
    """False if a query's words may come from findings, which don't leave the system, and only the internet is searched."""
    return not query.from_findings or any(tier is not Tier.INTERNET for tier in config.searched_tiers)
