"""Operations of research: several planned searches for a topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from opx.domain.queries import Band, QueryConfig
from opx.domain.record import Record, about, like, replace
from opx.domain.requests import Filled, Request
from opx.domain.results import RetrievalResult
from opx.operations.context import Context
from opx.operations.paging import Notes, Paragraphs, left_out
from opx.operations.registry import KNOWLEDGE, agent_tool, operation
from opx.operations.search import CUT, MAX_QUESTION
from opx.operations.search_tools import DocumentIds, FoundPassage, Partial, SomeUntrusted, head
from opx.retrieval.citations import citations
from opx_web.reports import DEFAULT_ITERATIONS, MOST_ITERATIONS, ResearchReport, ResearchStep, StepKind

Iterations = Annotated[int, about("Maximum number of rounds of searches.", ge=1, le=MOST_ITERATIONS)]


class Research(Request, frozen=True):
    topic: Annotated[Filled, about(f"The topic; {CUT}", max_length=MAX_QUESTION)]
    max_iterations: Iterations = DEFAULT_ITERATIONS
    config: Annotated[
        QueryConfig, about("Bounds every search; `maxResults` and `minConfidence` are those of the findings.")
    ] = QueryConfig()


@operation(http="POST /research")
def research(context: Context, request: Research) -> ResearchReport:
    """Research a topic by several searches: for each part of it, and again for missing parts."""
    return _researched(context, request.topic, request.max_iterations, request.config)


# -- the tool of agents


class ResearchPassage(FoundPassage, frozen=True, kw_only=True):
    """A finding."""


class ResearchFindings(Record, frozen=True, kw_only=True):
    topic: str
    searches_performed: int
    findings: Annotated[tuple[ResearchPassage, ...], about("The findings, the best first.")]
    document_ids: DocumentIds
    gaps: Annotated[tuple[str, ...], about("Parts of the topic that nothing good was found for.")]
    partial: Partial
    untrusted: SomeUntrusted
    notes: Notes
    trace: Annotated[tuple[ResearchStep, ...], about("The searches in order, with their reasons.")]


@dataclass(frozen=True, slots=True)
class ResearchAnswer(Paragraphs):
    """Findings about a topic; `left_out` of them were dropped for their size."""

    report: ResearchReport
    left_out: int = 0

    def _paragraphs(self) -> Iterator[str]:
        report = self.report
        yield from head(self._notes(), partial=report.partial, untrusted=self._is_untrusted())
        yield citations(report.findings)
        yield f"Searches performed: {report.searches_performed}"

    def _is_untrusted(self) -> bool:
        return any(finding.untrusted for finding in self.report.findings)

    def _notes(self) -> tuple[str, ...]:
        return (*self.report.notes, *left_out(self.left_out, "findings"))

    def record(self) -> ResearchFindings:
        """The findings, with the trace of the searches."""
        report = self.report
        return like(
            ResearchFindings,
            report,
            findings=tuple(map(_passage, report.findings)),
            document_ids=tuple(dict.fromkeys(finding.document_id for finding in report.findings)),
            untrusted=self._is_untrusted(),
            notes=self._notes(),
        )

    def shortened(self) -> ResearchAnswer | None:
        findings = self.report.findings
        if len(findings) < 2:
            return None
        return replace(self, report=replace(self.report, findings=findings[:-1]), left_out=self.left_out + 1)


def _passage(result: RetrievalResult) -> ResearchPassage:
    return like(ResearchPassage, result, warnings=tuple(str(warning["text"]) for warning in result.warnings))


class ResearchTopic(Request, frozen=True):
    topic: Annotated[Filled, about("The topic or the question, in plain words.")]
    max_iterations: Iterations = DEFAULT_ITERATIONS


@agent_tool(
    KNOWLEDGE,
    "Research a topic with several searches, each of which follows up on what the ones before found and lacked. "
    "Use it for questions with several parts, or where one search was not enough; it takes longer than a search. "
    "The findings name their source and section.",
    opt_in=True,
)
def research_topic(context: Context, request: ResearchTopic) -> ResearchAnswer:
    """Research a topic by several searches, again for missing parts."""
    config = QueryConfig(min_confidence=Band.LIKELY.least)
    hidden = context.system.learning.rules.hidden_from_agents
    return ResearchAnswer(_researched(context, request.topic, request.max_iterations, config, hidden))


def _researched(
    context: Context, topic: str, max_iterations: int, config: QueryConfig, hidden: frozenset[str] = frozenset()
) -> ResearchReport:
    from opx_web.research.researcher import Researchers

    researcher = context.system.part(Researchers).of(context.identity, context.report, hidden=hidden)
    return researcher.research_topic(
        topic, max_iterations, config, watch=lambda step: context.progress(_words_of(step), step.results)
    )


def _words_of(step: ResearchStep) -> str:
    """`round 1, search "disk full": 4 results`."""
    if step.error:
        return f"round {step.iteration}, {step.kind} “{step.text}”: {step.error}"
    counted = f"{step.results} {'searches planned' if step.kind is StepKind.PLAN else 'results'}, {step.new} new"
    return f"round {step.iteration}, {step.kind} “{step.text}”: {counted}"
