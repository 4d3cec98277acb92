"""The search tools of agents."""

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
from opx.operations.registry import KNOWLEDGE, agent_tool
from opx.operations.search import (
    DEFAULT_RESULTS,
    MAX_SEARCH_RESULTS,
    PASSAGES_PER_DOCUMENT,
    run_search,
)
from opx.retrieval.citations import NOTHING_FOUND, handed_over, inventory, next_line
from opx.retrieval.stages import INDEX_DOWN

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


class FoundPassage(Record, frozen=True, kw_only=True, omit_defaults=True):
    content: str
    source: Annotated[str, about("The address that a person would open.")]
    section: Annotated[str, about("The headings above it, such as `Modules > Hooks`.")]
    untrusted: Untrusted
    warnings: Annotated[
        tuple[str, ...], about("Steps that were tried before without effect, or made things worse.")
    ] = ()


class FoundDocument(FoundPassage, frozen=True, kw_only=True):
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


@dataclass(frozen=True, slots=True)
class _Found(Paragraphs):
    """Documents of a search; `left_out` of them were dropped for their size."""

    answer: Answer
    left_out: int = 0

    def _paragraphs(self) -> Iterator[str]:
        answer = self.answer
        yield from head(self._notes(), partial=answer.partial, untrusted=self._is_untrusted())
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


def head(notes: Sequence[str], *, partial: bool, untrusted: bool) -> Iterator[str]:
    return noted(notes, PARTIAL if partial else "", QUOTED if untrusted else "")


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


def found_documents(context: Context, question: str, documents: int, tokens: int, config: QueryConfig) -> Answer:
    """The answer of agents' searches: at most `documents` documents that reach the confidence of `config`, with their
    relevant blocks in about `tokens` tokens."""
    config = replace(
        config, max_results=documents * PASSAGES_PER_DOCUMENT, max_chunks_per_document=PASSAGES_PER_DOCUMENT
    )
    budget = max(tokens - REPLY_OVERHEAD, MIN_BUDGET)
    hidden = context.system.learning.rules.hidden_from_agents
    answer = run_search(context, question, config, budget=budget, unconfirmed=False, hidden=hidden)
    return replace(answer, documents=answer.documents[:documents])
