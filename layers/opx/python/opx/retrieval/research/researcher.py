"""Several searches for one topic: planned, done at once, put together, and again for what is missing.

A research is for one reader: everything is asked of a `KnowledgeQuery`, whose scope no query can widen. What is found can
influence later queries, and nothing else: not how many there are, how long they are, or where they look.
"""

from __future__ import annotations

import time
from functools import partial

from opx.domain.queries import MAX_QUERY_CHARACTERS, QueryConfig
from opx.domain.research import DEFAULT_ITERATIONS, ResearchReport, check_iterations
from opx.errors import InvalidInputError
from opx.retrieval.research.findings import Findings
from opx.retrieval.research.planning import Planner
from opx.retrieval.research.plans import Plans
from opx.retrieval.research.run import Answering, Research, may_search
from opx.retrieval.research.workers import Clock


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
        self, topic: str, max_iterations: int = DEFAULT_ITERATIONS, config: QueryConfig | None = None
    ) -> ResearchReport:
        """What is known about a topic. It ends as soon as each part of the topic has a result that reaches
        `config.min_confidence`, and after `max_iterations` (1-5) of up to four searches each.

        `config` bounds every search and the report: `max_results` are the findings, `max_chunks_per_document` those of one
        document, beside the best for each part. All searches are thorough; what is not the topic as it was given is
        searched for as plain words. What goes wrong is in the report. Raises `InvalidInputError` for an empty topic or a
        wrong number of iterations, and `UnknownCategoryError`.
        """
        check_iterations(max_iterations)
        text = topic[:MAX_QUERY_CHARACTERS].encode("utf-8", "replace").decode().strip()
        if not text:
            raise InvalidInputError("the topic is empty: say in words what is to be found out")
        config = config or QueryConfig()
        run = Research(
            query=self._query,
            plans=Plans(self._planner, text, self._clock, partial(may_search, config)),
            config=config,
            max_iterations=max_iterations,
            clock=self._clock,
            until=self._clock() + self._seconds,
            findings=Findings(config.min_confidence),
        )
        if len(topic) > MAX_QUERY_CHARACTERS:
            cut = f"the topic has {len(topic):,} characters; only the first {MAX_QUERY_CHARACTERS:,} were read"
            run.notes.append(cut)
        return run.report()
