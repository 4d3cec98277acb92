"""One research on its way, from its topic to its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from opx.domain.knowledge import Tier
from opx.domain.queries import QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.research import Finding, ResearchReport, Step, StepKind, Stopped
from opx.domain.results import Answer
from opx.errors import UnknownCategoryError
from opx.retrieval.query import INDEX_DOWN
from opx.retrieval.research.findings import Findings
from opx.retrieval.research.planning import SoFar, SubQuery, one_line
from opx.retrieval.research.plans import Plans
from opx.retrieval.research.workers import Clock, Job, Workers

MAX_WORKERS = 4
RESULTS_OF_A_SEARCH = 10
MAX_NOTES = 20
PLANNING_SHARE = 0.5
"""Of an iteration's time, what a planner may take; searches have the rest."""


class Answering(Protocol):
    """Answers questions of one reader, in several threads at once; `KnowledgeQuery` does."""

    def answer(self, query: str, config: QueryConfig | None = None) -> Answer: ...


@dataclass
class Research:
    """Plans, searches and stops. `until` is the end, as `clock` has it."""

    query: Answering
    plans: Plans
    config: QueryConfig
    max_iterations: int
    clock: Clock
    until: float
    findings: Findings
    trace: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    partial: bool = False

    def report(self) -> ResearchReport:
        """Do it. Raises `UnknownCategoryError`: everything else that goes wrong is in the report."""
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
        """Search until there is a reason to stop."""
        for iteration in range(1, self.max_iterations + 1):
            if not self._left:
                return self._out_of_time()
            end = self.clock() + self._left / (self.max_iterations + 1 - iteration)
            searches = self._planned(iteration, end)
            if not searches:
                return Stopped.NOTHING_LEFT
            if not self._search(workers, iteration, searches, end):
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
        """Something that should have been done was not."""
        self.partial = True
        self.notes.append(text)

    def _found(self) -> tuple[list[Finding], int]:
        config = self.config
        return self.findings.best(self.plans.parts, config.max_results, config.max_chunks_per_document)

    def _planned(self, iteration: int, end: float) -> list[SubQuery]:
        so_far = SoFar()
        if iteration > 1:
            gaps = self.findings.gaps(self.plans.parts)
            so_far = SoFar(tuple(self._found()[0]), gaps, tuple(self.plans.asked))
        searches, steps = self.plans.searches(iteration, so_far, PLANNING_SHARE * (end - self.clock()))
        self.trace.extend(steps)
        return searches

    def _search(self, workers: Workers[Answer], iteration: int, searches: Sequence[SubQuery], end: float) -> bool:
        """Do the searches at once and take in what they find, in their order. Whether any could be done."""
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
        return lambda: self.query.answer(query.text, config)

    def _taken(self, iteration: int, query: SubQuery, job: Job[Answer]) -> bool:
        """Take in what a search found, or note why it found nothing; whether it was done."""
        step = Step(iteration, StepKind.SEARCH, one_line(query.text), query.why, milliseconds=job.milliseconds)
        problem = job.problem()
        if isinstance(job.failure, UnknownCategoryError):
            raise job.failure
        if not problem and INDEX_DOWN in job.future.result().notes:
            problem = INDEX_DOWN
        if problem:
            self._lacks(f"a search could not be done: {problem}")
            self.trace.append(replace(step, error=problem))
            return False
        self.trace.append(self._with_answer(step, query, job.future.result()))
        return True

    def _with_answer(self, step: Step, query: SubQuery, answer: Answer) -> Step:
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
    """Words that may come from what was found don't leave the system; with no other tier, there is nothing to search."""
    return not query.from_findings or any(tier is not Tier.INTERNET for tier in config.searched_tiers)
