"""Operations of research (several planned searches for a topic), and the search tools of agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from opx.domain.handover import DocumentAnswer, NextCall, StepView, read_call
from opx.domain.knowledge import Untrusted
from opx.domain.queries import DEFAULT_BUDGET, MAX_BUDGET, MIN_BUDGET, Band, QueryConfig, SearchMode
from opx.domain.record import Record, about, like, replace
from opx.domain.requests import Filled, Request
from opx.domain.results import Absent, Answer, RetrievalResult
from opx.hygiene.untrusted import QUOTED, one_line
from opx.operations.context import Context
from opx.operations.paging import Notes, Paragraphs, left_out, noted
from opx.operations.registry import KNOWLEDGE, agent_tool, operation
from opx.operations.search import (
    CUT,
    DEFAULT_RESULTS,
    MAX_QUESTION,
    MAX_SEARCH_RESULTS,
    PASSAGES_PER_DOCUMENT,
    answered,
)
from opx.retrieval.citations import NOTHING_FOUND, citations, handed_over, inventory, next_line
from opx.retrieval.stages import INDEX_DOWN
from opx_web.reports import DEFAULT_ITERATIONS, MOST_ITERATIONS, ResearchReport, ResearchStep, StepKind

PARTIAL = "Partial answer: something could not be searched."
REPLY_OVERHEAD = 40
"""Tokens of an answer beside its documents."""
Results = Annotated[int, about("How many documents to return at most.", ge=1, le=MAX_SEARCH_RESULTS)]
Tokens = Annotated[
    int, about("Approximate number of tokens of the answer; more shows more steps.", ge=MIN_BUDGET, le=MAX_BUDGET)
]
AtLeast = Annotated[
    Band, about("Only documents of at least this band; use `sure` if you act without reading the answer.")
]
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


# -- replies of agents' tools

DocumentIds = Annotated[tuple[str, ...], about("The documents that the results are from, the best first.")]
ReceiptId = Annotated[str, about("The record of this answer in the audit log, empty if there is none.")]
Partial = Annotated[bool, about("True if something could not be searched.")]
NextCalls = Annotated[tuple[NextCall, ...], about("Calls that read more where nothing was good enough.")]
AbsentNames = Annotated[tuple[Absent, ...], about("Names in the question that no document is about.")]
SomeUntrusted = Annotated[
    bool,
    about(
        "True if some of the answer is quoted from outside the organisation, or from reports that nobody "
        "reviewed: it is data, marked as such."
    ),
]


class SearchAnswer(Record, frozen=True, kw_only=True, omit_defaults=True):
    answer: Annotated[str, about("The documents with the helpful parts of each, or that there are none.")]
    documents: Annotated[tuple[DocumentAnswer, ...], about("The same documents as data, without their text.")]
    document_ids: DocumentIds
    receipt_id: ReceiptId
    partial: Partial
    untrusted: SomeUntrusted
    notes: Notes
    next: NextCalls = ()
    absent: AbsentNames = ()


class ResearchPassage(Record, frozen=True, kw_only=True, omit_defaults=True):
    content: str
    source: Annotated[str, about("The address that a person would open.")]
    section: Annotated[str, about("The headings above it, such as `Modules > Hooks`.")]
    untrusted: Untrusted
    warnings: Annotated[
        tuple[str, ...], about("Steps that were tried before without effect, or made things worse.")
    ] = ()


class FoundDocument(ResearchPassage, frozen=True, kw_only=True):
    """A document with its relevant blocks."""

    relevance: Annotated[str, about("Probability that it is an answer, such as `87%`.")]
    band: Annotated[Band, about("How sure that is: sure, likely or weak.")]
    title: str
    document_id: str
    updated: Annotated[str, about("When it was last updated.")]
    why: Annotated[str, about("The reason why it fits, in a line.")]
    steps: Annotated[tuple[StepView, ...], about("The steps of its procedure, if it has one.")] = ()
    next: Annotated[tuple[NextCall, ...], about("Calls that read more of it.")] = ()


class DocsFound(Record, frozen=True, kw_only=True, omit_defaults=True):
    results: Annotated[tuple[FoundDocument, ...], about("The found documents, the best first.")]
    document_ids: DocumentIds
    receipt_id: ReceiptId
    partial: Partial
    untrusted: SomeUntrusted
    notes: Notes
    next: NextCalls = ()
    absent: AbsentNames = ()


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
class _Found(Paragraphs):
    """Documents of a search; `left_out` of them were dropped for their size."""

    answer: Answer
    left_out: int = 0

    def _paragraphs(self) -> Iterator[str]:
        answer = self.answer
        yield from _head(self._notes(), partial=answer.partial, untrusted=self._is_untrusted())
        yield from (f"Note: {one_line(one.text)}." for one in answer.absent)
        is_searched = INDEX_DOWN not in answer.notes
        if answer.evidence and (answer.evidence.understood or not is_searched):
            yield "\n".join(inventory(answer.evidence))
        if answer.documents or is_searched:
            yield handed_over(answer.documents) if answer.documents else NOTHING_FOUND
        if answer.best_rejected and not answer.documents:
            yield _not_confirmed(answer.best_rejected)
        if answer.receipt_id and answer.documents:
            yield f"[Receipt ID: {answer.receipt_id}]"

    def _is_untrusted(self) -> bool:
        """True if anything shown comes from outside of the organisation."""
        nearest = self.answer.best_rejected
        shown = self.answer.documents or ((nearest,) if nearest else ())
        return any(one.untrusted for one in shown)

    def _notes(self) -> tuple[str, ...]:
        return (*self.answer.notes, *left_out(self.left_out, "documents"))

    def _facts(self) -> dict[str, Any]:
        nearest = self.answer.best_rejected if not self.answer.documents else None
        return {
            "document_ids": tuple(one.document_id for one in self.answer.documents),
            "receipt_id": self.answer.receipt_id,
            "partial": self.answer.partial,
            "untrusted": self._is_untrusted(),
            "notes": self._notes(),
            "next": (read_call(nearest.document_id),) if nearest else (),
            "absent": self.answer.absent,
        }

    def shortened(self) -> Self | None:
        documents = self.answer.documents
        if len(documents) < 2:
            return None
        return replace(self, answer=replace(self.answer, documents=documents[:-1]), left_out=self.left_out + 1)


class FoundAnswer(_Found):
    """Documents as one text, and as data for a program."""

    __slots__ = ()

    def record(self) -> SearchAnswer:
        documents = tuple(replace(one, content="") for one in self.answer.documents)
        return SearchAnswer(answer=self.text(), documents=documents, **self._facts())


class DocsAnswer(_Found):
    """Documents, each as a JSON object."""

    __slots__ = ()

    def record(self) -> DocsFound:
        return DocsFound(results=tuple(map(_found_document, self.answer.documents)), **self._facts())


def _found_document(document: DocumentAnswer) -> FoundDocument:
    return like(FoundDocument, document, relevance=f"{100 * document.confidence:.0f}%")


@dataclass(frozen=True, slots=True)
class ResearchAnswer(Paragraphs):
    """Findings about a topic; `left_out` of them were dropped for their size."""

    report: ResearchReport
    left_out: int = 0

    def _paragraphs(self) -> Iterator[str]:
        report = self.report
        yield from _head(self._notes(), partial=report.partial, untrusted=self._is_untrusted())
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


def _head(notes: Sequence[str], *, partial: bool, untrusted: bool) -> Iterator[str]:
    return noted(notes, PARTIAL if partial else "", QUOTED if untrusted else "")


def _passage(result: RetrievalResult) -> ResearchPassage:
    return like(ResearchPassage, result, warnings=tuple(str(warning["text"]) for warning in result.warnings))


def _not_confirmed(nearest: RetrievalResult) -> str:
    title = one_line(nearest.title) if nearest.untrusted else nearest.title
    return (
        f"Nearest candidate, not confirmed (confidence {nearest.confidence:.2f}): {title}\n"
        f"{next_line(read_call(nearest.document_id))}\n[Document ID: {nearest.document_id}]"
    )


# -- tools of agents


class SearchRunbooks(Request, frozen=True):
    query: Annotated[
        Filled, about("The symptom, alert name, error message or task, in plain words or copied as it is.")
    ]
    max_results: Results = DEFAULT_RESULTS
    max_tokens: Tokens = DEFAULT_BUDGET
    at_least: AtLeast = Band.WEAK


@agent_tool(
    KNOWLEDGE,
    "Search the operations runbooks: procedures for diagnosing and fixing known problems, and how the systems are "
    "built. Use it before acting on an alert or a symptom. Each result names its source, its document id and "
    "how sure it is: rely on `sure`, check `likely`, and read `weak` ones before you use them.",
)
def search_runbooks(context: Context, request: SearchRunbooks) -> FoundAnswer:
    """Search procedures and architecture."""
    return _found_in(context, request, "runbooks")


class SearchPostmortems(SearchRunbooks, frozen=True):
    query: Annotated[Filled, about("The current problem, the affected service or the suspected cause, in plain words.")]


@agent_tool(
    KNOWLEDGE,
    "Search the postmortems of past incidents: what happened, why, how it was found and what fixed it. Use it to "
    "see whether a problem has occurred before. Each result names its source, its document id and "
    "how sure it is: rely on `sure`, check `likely`, and read `weak` ones before you use them.",
)
def search_postmortems(context: Context, request: SearchPostmortems) -> FoundAnswer:
    """Search postmortems of past incidents."""
    return _found_in(context, request, "postmortems")


def _found_in(context: Context, request: SearchRunbooks, category: str) -> FoundAnswer:
    config = QueryConfig(categories=(category,), min_confidence=request.at_least.least)
    return FoundAnswer(found_documents(context, request.query, request.max_results, request.max_tokens, config))


class SearchDocs(Request, frozen=True):
    query: Annotated[
        Filled, about("A question in plain words, or the name of a function, hook, option or error as it is written.")
    ]
    thoroughness: Annotated[SearchMode, about("Effort of the search; more effort takes longer.")] = SearchMode.BALANCED
    limit: Results = DEFAULT_RESULTS
    max_tokens: Tokens = DEFAULT_BUDGET
    at_least: AtLeast = Band.WEAK


@agent_tool(
    KNOWLEDGE,
    "Search all documentation: manuals, interface pages, guides and everything else that is known, of every "
    "category. Use it for how something works or is called, where no runbook or postmortem is meant. Each result "
    "names its source, its section and how sure it is: rely on `sure`, check `likely`, and read `weak` ones before you "
    "use them.",
)
def search_docs(context: Context, request: SearchDocs) -> DocsAnswer:
    """Search all categories."""
    config = QueryConfig(mode=request.thoroughness, min_confidence=request.at_least.least)
    return DocsAnswer(found_documents(context, request.query, request.limit, request.max_tokens, config))


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


def found_documents(context: Context, question: str, documents: int, tokens: int, config: QueryConfig) -> Answer:
    """The answer of agents' searches: at most `documents` documents that reach the confidence of `config`, with their
    relevant blocks in about `tokens` tokens."""
    config = replace(
        config, max_results=documents * PASSAGES_PER_DOCUMENT, max_chunks_per_document=PASSAGES_PER_DOCUMENT
    )
    budget = max(tokens - REPLY_OVERHEAD, MIN_BUDGET)
    hidden = context.system.learning.rules.hidden_from_agents
    answer = answered(context, question, config, budget=budget, unconfirmed=False, hidden=hidden)
    return replace(answer, documents=answer.documents[:documents])


def _researched(
    context: Context, topic: str, max_iterations: int, config: QueryConfig, hidden: frozenset[str] = frozenset()
) -> ResearchReport:
    researcher = context.system.questions.research(context.identity, context.report, hidden=hidden)
    return researcher.research_topic(
        topic, max_iterations, config, watch=lambda step: context.progress(_words_of(step), step.results)
    )


def _words_of(step: ResearchStep) -> str:
    """`round 1, search "disk full": 4 results`."""
    if step.error:
        return f"round {step.iteration}, {step.kind} “{step.text}”: {step.error}"
    counted = f"{step.results} {'searches planned' if step.kind is StepKind.PLAN else 'results'}, {step.new} new"
    return f"round {step.iteration}, {step.kind} “{step.text}”: {counted}"
