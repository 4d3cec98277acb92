"""From a planner to the searches of an iteration: within its time, cut to what is allowed, and by rules if it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from opx.domain.record import replace
from opx.domain.research import Step, StepKind
from opx.retrieval.research.planning import MAX_SUB_QUERIES, Plan, Planner, SoFar, SubQuery, one_line, same_query
from opx.retrieval.research.rules import RulePlanner
from opx.retrieval.research.workers import Clock, Workers

_MOST_LOOKED_AT = 100
"""Of what a planner wants; the first ones are the most important ones."""


@dataclass
class Plans:
    """Plans the iterations of one research. `allowed` says of a search whether it may be done."""

    planner: Planner
    topic: str
    clock: Clock
    allowed: Callable[[SubQuery], bool]
    parts: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def searches(self, iteration: int, so_far: SoFar, seconds: float) -> tuple[list[SubQuery], list[Step]]:
        """Up to four searches that were not done before, and how they were planned."""
        plan, steps = self._planned(iteration, so_far, seconds)
        kept = list(self._fresh(plan.sub_queries[:_MOST_LOOKED_AT]))[:MAX_SUB_QUERIES]
        if len(plan.sub_queries) > MAX_SUB_QUERIES:
            self.notes.append(
                f"{self.planner.name} wanted {len(plan.sub_queries):,} searches at once; {len(kept)} were done"
            )
        if iteration == 1:
            kept = self._with_parts(plan, kept)
        self.asked.extend(query.text for query in kept)
        return kept, [*steps[:-1], replace(steps[-1], results=len(plan.sub_queries), new=len(kept))]

    def _planned(self, iteration: int, so_far: SoFar, seconds: float) -> tuple[Plan, list[Step]]:
        started = self.clock()
        why = f"missing: {'; '.join(gap.part for gap in so_far.gaps)}" if iteration > 1 else "the first searches"
        with Workers[Plan](1, self.clock) as worker:
            (job,) = worker.run([self._plan_of(self.planner, iteration, so_far, seconds)], seconds)
        problem = job.problem()
        step = Step(iteration, StepKind.PLAN, self.planner.name, why, milliseconds=self._since(started), error=problem)
        if not problem:
            return job.future.result(), [step]
        self.notes.append(f"{self.planner.name} could not plan ({problem}); rules did")
        self.planner = RulePlanner()
        started = self.clock()
        plan = self._plan_of(self.planner, iteration, so_far, seconds)()
        by_rules = Step(iteration, StepKind.PLAN, self.planner.name, why, milliseconds=self._since(started))
        return plan, [step, by_rules]

    def _plan_of(self, planner: Planner, iteration: int, so_far: SoFar, seconds: float) -> Callable[[], Plan]:
        if iteration == 1:
            return lambda: planner.first(self.topic, seconds=seconds)
        return lambda: planner.again(self.topic, so_far, seconds=seconds)

    def _since(self, started: float) -> float:
        return 1000 * (self.clock() - started)

    def _fresh(self, wanted: Iterable[SubQuery]) -> Iterable[SubQuery]:
        """What may be searched for and was not, each once, on one line."""
        known = set(map(same_query, self.asked))
        for query in wanted:
            text = query.text if query.text == self.topic else one_line(query.text)
            same = same_query(text)
            if text and same not in known and self.allowed(query):
                known.add(same)
                yield replace(query, text=text)

    def _with_parts(self, plan: Plan, kept: list[SubQuery]) -> list[SubQuery]:
        """The searches, once it is settled of what parts the topic consists."""
        named = dict.fromkeys(query.part for query in kept if query.part)
        self.parts = plan.parts or tuple(named)
        if self.parts:
            return kept
        self.parts = (one_line(self.topic),)
        return [replace(query, part=self.parts[0]) for query in kept]
