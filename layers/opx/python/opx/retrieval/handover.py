"""Hands over the documents of an answer: the blocks of each that help, its steps, warnings before their lines, and the
next calls, within a budget of tokens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from opx.domain.documents import KnowledgeDocument
from opx.domain.handover import DocumentAnswer, NextCall, ShownCommand, StepView, call
from opx.domain.ids import day_number
from opx.domain.outcomes import JudgedPassage
from opx.domain.procedures import Classified, Command, Effect, Outline, Step
from opx.domain.record import replace
from opx.domain.resources import LABELS, texts_in
from opx.domain.results import RetrievalResult
from opx.domain.titles import disambiguated
from opx.errors import DocumentNotFoundError, StoreUnavailableError
from opx.retrieval.assembly import MAX_DOCUMENTS, DocumentPassages, QuestionTerms, choose, grouped
from opx.retrieval.citations import document_text, harm_shown, mentions, with_warnings
from opx.runtime.threads import Each
from opx.text.procedures.layout import laid_out, whole_steps
from opx.text.tokenizer import estimated_tokens

if TYPE_CHECKING:
    from opx.domain.learning import StepWarning

log = logging.getLogger(__name__)

MAX_STEPS = 40
"""Steps of a document that an answer lists."""
MAX_WORDS = 4
_DETAILS = ("expect", "check", "if_fails", "approval", "warnings")
"""Fields of a step that is shown."""
_CAUTION = 1.02
"""Factor on token estimates of whole texts: one in twenty texts is larger."""
_FOOT, _STEPS = 30, 60
"""Tokens of the call that continues reading, and of the first document's list of steps that aren't shown."""


Readable = tuple[KnowledgeDocument, Outline]
Read = Callable[[str], Readable]
"""Reads the document with an id, with its outline. Raises `DocumentNotFoundError` and `StoreUnavailableError`."""

Classify = Callable[[Command], Classified]
WarningsOf = Callable[[Callable[[], "Sequence[JudgedPassage]"]], "list[list[StepWarning]]"]
"""Looks up the warnings of each passage; `[]` if there are none at all, without building the passages."""


class Handover(Struct, frozen=True):
    """Hands documents over to one reader. `today` is a day such as 2026-03-31."""

    read: Read
    classify: Classify
    warnings_of: WarningsOf
    each: Each
    today: str

    def documents(self, question: str, results: Sequence[RetrievalResult], budget: int) -> tuple[DocumentAnswer, ...]:
        """Each document of the results, the best first. Together they take about `budget` tokens; a document of which nothing
        fits has no content. A document that can't be read any more consists of the passages that were found."""
        terms, groups = QuestionTerms(question), grouped(results)
        read = self.each(self._readable, [group[0].document_id for group in groups[:MAX_DOCUMENTS]])
        readable = [*read, *[None] * (len(groups) - len(read))]
        outlines = [*map(_outline, groups, read), *map(_nothing_of, groups[len(read) :])]
        found = list(map(DocumentPassages, outlines, groups))
        labels = [list(texts_in(one.best.metadata.get(LABELS, ()))) for one in found]
        titles = disambiguated([one.best.title for one in found], [one.best.source for one in found], labels)
        frames = [self._frame(terms, *one) for one in zip(titles, found, readable, strict=True)]
        self._choose(terms, found[:MAX_DOCUMENTS], frames, budget)
        contents = [_Content(one) for one in found]
        parts = zip(frames, found, contents, self._warned(found, readable, contents), strict=True)
        return tuple(self._filled(*part) for part in parts)

    def _choose(
        self, terms: QuestionTerms, found: Sequence[DocumentPassages], frames: Sequence[DocumentAnswer], budget: int
    ) -> None:
        overheads = [estimated_tokens(document_text(frame, "")) + _FOOT for frame in frames[: len(found)]]
        room = budget - _STEPS - sum(map(estimated_tokens, mentions(frames[2:])))
        choose(terms, found, overheads, room, self._tokens_of)

    def _tokens_of(self, found: DocumentPassages) -> int:
        """Estimated tokens of the chosen blocks, with the lines that name harmful commands."""
        content = _Content(found)
        harm = harm_shown(list(self._steps(found.outline, content)))
        return round(_CAUTION * estimated_tokens("\n".join((content.text, *harm))))

    def warnings_in(self, document: KnowledgeDocument, content: str) -> list[StepWarning]:
        """Warnings of steps in a part of a document that were tried before."""
        return next(iter(self._looked_up(lambda: [_passage(document.title, "", content, document)])), [])

    def _readable(self, document_id: str) -> Readable | None:
        try:
            return self.read(document_id) if document_id else None
        except DocumentNotFoundError:
            return None
        except StoreUnavailableError:
            log.warning("the outline of document %s can't be read", document_id, exc_info=True)
            return None

    def _warned(
        self, found: Sequence[DocumentPassages], readable: Sequence[Readable | None], contents: Sequence[_Content]
    ) -> list[list[StepWarning]]:
        def passages() -> list[JudgedPassage]:
            parts = zip(found, readable, contents, strict=True)
            return [
                _passage(one.best.title, one.best.section, content.text, document[0] if document else None)
                for one, document, content in parts
            ]

        return self._looked_up(passages) or [[] for _ in found]

    def _looked_up(self, passages: Callable[[], Sequence[JudgedPassage]]) -> list[list[StepWarning]]:
        try:
            return self.warnings_of(passages)
        except StoreUnavailableError:
            log.warning("warnings can't be looked up", exc_info=True)
            return []

    def _frame(
        self, terms: QuestionTerms, title: str, found: DocumentPassages, readable: Readable | None
    ) -> DocumentAnswer:
        """The metadata of a document, without its content."""
        best = found.best
        document = readable[0] if readable else None
        return DocumentAnswer(
            document_id=best.document_id,
            title=title,
            section=best.section,
            source=best.source,
            category=best.category,
            tier=best.tier,
            untrusted=best.untrusted,
            trust=best.trust_score,
            confidence=round(best.confidence, 6),
            judged=best.judged,
            helps_by=best.helps_by,
            score=best.score,
            updated=best.timestamp,
            age_days=_age(best.timestamp, self.today),
            attributes=document.attributes if document else {},
            owner=document.owner if document else "",
            review=document.review_by if document else str(best.metadata.get("reviewBy", "")),
            why=why(terms, best),
            step_count=len(found.outline.steps),
            flags=best.flags,
            outcome=str(best.outcome.get("text", "")) if best.outcome else "",
            occurrences=best.occurrences,
            copies=tuple(f"{copy['title']} ({copy['source']})" for copy in best.copies),
        )

    def _filled(
        self, frame: DocumentAnswer, found: DocumentPassages, content: _Content, warned: Sequence[StepWarning]
    ) -> DocumentAnswer:
        """Adds the chosen content, its steps and warnings, and the calls that continue reading."""
        text = content.text
        if text and not frame.untrusted:
            text = with_warnings(text, [warning.to_json() for warning in warned])
        return replace(
            frame,
            content=text,
            line=content.line,
            whole=content.whole,
            steps=tuple(self._steps(found.outline, content)),
            warnings=tuple(warning.text for warning in warned),
            next=tuple(_next(frame.document_id, found.outline, content)),
        )

    def _steps(self, outline: Outline, content: _Content) -> Iterator[StepView]:
        names = outline.step_names()
        for step in _listed(outline.steps, content):
            yield self._step(outline, step, names, shown=step.number in content.steps, within=content.text)

    def steps(self, outline: Outline, steps: Iterable[Step], shown: Container[int]) -> tuple[StepView, ...]:
        """Steps for readers; `shown` are the numbers of steps with their text in the answer."""
        names = outline.step_names()
        return tuple(self._step(outline, step, names, shown=step.number in shown) for step in steps)

    def _step(
        self, outline: Outline, step: Step, names: Mapping[int, str], *, shown: bool, within: str | None = None
    ) -> StepView:
        """A step for readers. `within`: only commands in this text."""
        classified = [(command, self.classify(command)) for command in step.commands]
        commands = [
            ShownCommand(
                command.text,
                command.language,
                found.effect,
                found.blast,
                found.undo,
                command.placeholders,
                found.reason,
            )
            for command, found in classified
            if within is None or _has(within, command)
        ]
        effects = [one.effect for _, one in classified]
        view = StepView(
            number=step.number,
            name=names[step.number],
            step_id=step.step_id,
            title=step.title,
            effect=Effect.DESTRUCTIVE if step.destructive else _worst(effects),
            shown=shown,
            section=outline.sections[step.section].heading,
            commands=tuple(commands),
        )
        if not shown:
            return view
        goes_to = names[int(step.goes_to)] if step.goes_to.isdecimal() else step.goes_to
        return replace(view, **{name: getattr(step, name) for name in _DETAILS}, goes_to=goes_to)


def _worst(effects: Sequence[Effect]) -> Effect:
    return max(effects, key=lambda effect: effect.severity, default=Effect.UNKNOWN)


def _passage(title: str, section: str, content: str, document: KnowledgeDocument | None) -> JudgedPassage:
    if document is None:
        return JudgedPassage(title, section, content)
    key = document.key
    return JudgedPassage(title, section, content, document.document_id, key.scope.key, key.id, document.source_uri)


# -- text of the chosen blocks


class _Content:
    """The chosen units of a document as text, with the headings above them."""

    def __init__(self, found: DocumentPassages) -> None:
        outline, chosen = found.outline, sorted(found.chosen)
        self.whole = bool(chosen) and len(chosen) == len(outline.units)
        self.steps = set(whole_steps(outline, found.chosen))
        self.touched = {outline.units[at].step for at in chosen} - {0}
        self.text = laid_out(outline, chosen, ends=True) if not self.whole else outline.text.strip("\n")
        self.line = 1 + outline.text.count("\n", 0, outline.units[chosen[0]].start) if chosen else 0


def _has(text: str, command: Command) -> bool:
    """True if the text has a command, which may be indented there."""
    return all(line.strip() in text for line in command.text.split("\n"))


def _listed(steps: Sequence[Step], content: _Content) -> list[Step]:
    """At most `MAX_STEPS` steps: those that are shown, and others from the beginning."""
    if len(steps) <= MAX_STEPS:
        return list(steps)
    wanted = {step.number for step in steps if step.number in content.touched}
    for step in steps:
        if len(wanted) >= MAX_STEPS:
            break
        wanted.add(step.number)
    return [step for step in steps if step.number in wanted]


def _next(document_id: str, outline: Outline, content: _Content) -> Iterator[NextCall]:
    if content.whole or not document_id:
        return
    missing = [step.number for step in outline.steps if step.number not in content.steps]
    if missing:
        reason = f"steps {_named(outline, missing)} of {len(outline.steps)}"
        yield call("read_document", reason, document=document_id, part="steps")
    else:
        yield call("read_document", "the rest of its text", document=document_id, part="all")


def _named(outline: Outline, numbers: Sequence[int]) -> str:
    """`2-4, 7`, by the names of the steps."""
    names = outline.step_names()
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(names[run[0]] if len(run) == 1 else f"{names[run[0]]}-{names[run[-1]]}" for run in runs)


# -- metadata


def why(terms: QuestionTerms, best: RetrievalResult) -> str:
    """The reason for certainty, the words of the question in the passage, and its ranks in the legs."""
    certain = str(best.metadata.get("why", ""))
    named = ", ".join(terms.words_in(f"{best.title}\n{best.section}\n{best.content}")[:MAX_WORDS])
    parts = best.parts
    ranks = (("words", parts.lexical_rank), ("meaning", parts.vector_rank)) if parts else ()
    ways = ", ".join(f"{way} #{rank}" for way, rank in ranks if rank is not None)
    return "; ".join(filter(None, (certain, named, ways))) or "found"


def _age(updated: str, today: str) -> int | None:
    then, now = day_number(updated), day_number(today)
    return None if then is None or now is None else max(now - then, 0)


def _outline(group: Sequence[RetrievalResult], readable: Readable | None) -> Outline:
    """The outline of a document; if it can't be read, one of its found passages."""
    if readable:
        return readable[1]
    from opx.text.procedures.outline import outline_of

    best = group[0]
    return outline_of(best.document_id, best.title, "\n\n".join(dict.fromkeys(result.content for result in group)))


def _nothing_of(group: Sequence[RetrievalResult]) -> Outline:
    """An empty outline, for a document that is only named."""
    return Outline(group[0].document_id, group[0].title, text="", sections=())
