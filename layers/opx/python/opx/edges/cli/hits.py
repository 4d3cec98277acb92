"""Renders answers for a terminal: documents with their relevant blocks, warnings and locations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
from msgspec import Struct

from opx.domain.handover import DocumentAnswer, StepView
from opx.domain.knowledge import Tier
from opx.domain.procedures import Effect
from opx.domain.queries import Band, Basis, Expand
from opx.domain.results import Answer, RetrievalResult, ScoreParts
from opx.edges.cli.output import Screen, aligned, current_folder, plural, printable
from opx.retrieval.citations import WARNINGS, harm_shown, updated, warning_line, with_warnings

SHORT_ID = 8
"""Digits of ids printed for typing or copying."""

MEANS = {
    Effect.READ: "read: changes nothing",
    Effect.UNKNOWN: "unknown: treat it as one that changes something",
    Effect.REVERSIBLE: "reversible: another command undoes it",
    Effect.PAGES: "pages: notifies people",
    Effect.COSTS: "costs: starts or enlarges something that is billed",
    Effect.DESTRUCTIVE: "destructive: loses data, state, history or work in flight",
}
"""Explanations of effects."""

DESTROYS = "This step destroys something that can't be restored."
DESTROY = "Some of these steps destroy something that can't be restored."

_INDENT = "   "
_FITS = 0.05
"""Confidence below which a document isn't printed in full below a sure or likely one."""
_MENTIONED = 0.005
"""Confidence below which a document, "weak, 0.00", isn't mentioned beside a better one."""
_MOST_STEPS = 12
_MOST_FILE = 4_000_000
"""Bytes of a local file that is searched for the line of a passage."""

# -- documents


class HitPage(Struct, frozen=True):
    """Renders answers on a screen, with sections or whole documents (`expand`) and the parts of scores (`explain`). Relative
    sources are files below one of `folders`."""

    screen: Screen
    expand: Expand = Expand.NONE
    explain: bool = False
    folders: tuple[Path, ...] = ()

    def answer(self, answer: Answer) -> Iterator[str]:
        """Every document of an answer, the best first, those without text in a line each; every passage of an answer without
        documents. Below a sure or likely one, those that hardly fit are in a line each; the least likely are left out."""
        if not answer.documents:
            for rank, hit in enumerate(answer.results, start=1):
                yield from self._separated(rank, self.passage(rank, hit))
            return
        ranked = list(enumerate(answer.documents, start=1))
        begun = answer.documents[0].confidence >= Band.LIKELY.least
        shown = [one for one in ranked if self._content(answer, one[1]) and not (begun and one[1].confidence < _FITS)]
        for number, (rank, document) in enumerate(shown, start=1):
            yield from self._separated(number, self._document(rank, document, answer, outline=number == 1))
        best = max(one.confidence for one in answer.documents)
        least = _MENTIONED if best >= _MENTIONED else 0.0
        rest = [self._mention(*one) for one in ranked if one not in shown and one[1].confidence >= least]
        if rest:
            title = "Also found:" if shown else "Found, and larger than the budget:"
            yield from self._separated(len(shown) + 1, [title, *rest])

    def passage(self, rank: int, hit: RetrievalResult) -> Iterator[str]:
        """A passage: title and section, category and score, warnings, text, and source."""
        styled = self.screen.styled
        yield styled(f"{rank}. {heading(hit)}", "bold")
        yield _INDENT + score_line(hit)
        if hit.outcome:
            yield f"{_INDENT}outcomes: {printable(str(hit.outcome.get('text', '')))}"
        yield from self._cautions(hit)
        yield from self._text(hit.content, hit)
        if self.explain and hit.parts:
            yield from (_INDENT + line for line in explanation(hit.parts))
            yield _INDENT + judged_line(hit)
            yield ""
        yield self._source(hit.source, hit.document_id, self._line(hit.source, hit.content))
        yield from (_INDENT + styled(f"also in: {printable(one['title'])}", "dim") for one in hit.copies)

    def _document(self, rank: int, document: DocumentAnswer, answer: Answer, *, outline: bool) -> Iterator[str]:
        styled, passages = self.screen.styled, _passages(answer, document)
        yield styled(f"{rank}. {heading(document)}", "bold")
        yield _INDENT + facts_line(document)
        if document.outcome:
            yield f"{_INDENT}outcomes: {printable(document.outcome)}"
        yield from self._cautions(document)
        expanded = [hit for hit in passages if self._is_expanded(hit)]
        for hit in expanded:
            yield from self._text(hit.content, hit)
        if not expanded:
            yield from self._own_text(document)
        if self.explain and passages and passages[0].parts:
            yield f"{_INDENT}{printable(document.why)}"
            yield from (_INDENT + line for line in explanation(passages[0].parts))
            yield _INDENT + judged_line(passages[0])
            yield ""
        content = "\n".join(hit.content for hit in expanded) or document.content
        if not expanded:
            yield from self._harm(document)
        if self.expand is not Expand.DOCUMENT:
            yield from self._other_steps(document, content, outline=outline)
        yield self._source(document.source, document.document_id, self._line(document.source, content, document.line))
        yield from (_INDENT + styled(f"also in: {printable(title)}", "dim") for title in document.copies)

    def _mention(self, rank: int, document: DocumentAnswer) -> str:
        link = self.screen.link(*self._location(document.source, 0))
        return f"{rank}. {heading(document)} ({document.band}, {document.confidence:.2f})  {self.screen.styled(link, 'dim')}"

    def _separated(self, rank: int, lines: Iterable[str]) -> Iterator[str]:
        if rank > 1:
            yield from ("", self.screen.styled("─" * self.screen.prose, "dim"))
        yield from lines

    # -- the parts of a document

    def _content(self, answer: Answer, document: DocumentAnswer) -> str:
        return document.content or next(
            (hit.content for hit in _passages(answer, document) if self._is_expanded(hit)), ""
        )

    def _is_expanded(self, hit: RetrievalResult) -> bool:
        return self.expand is not Expand.NONE and bool(hit.content)

    def _cautions(self, found: RetrievalResult | DocumentAnswer) -> Iterator[str]:
        """Lines for an untrusted origin and for flags."""
        if found.untrusted:
            yield _INDENT + self.screen.styled(untrusted_line(found.tier, found.category), "caution")
        if found.occurrences:
            yield f"{_INDENT}{found.occurrences}"
        if found.flags:
            for flag in found.flags:
                yield _INDENT + self.screen.styled(f"warning: {WARNINGS.get(flag, printable(flag))}", "warning")

    def _own_text(self, document: DocumentAnswer) -> Iterator[str]:
        """The relevant blocks. Each warning is before its line; those of an untrusted document come first."""
        from opx.edges.cli.rendering import rendered

        warnings = [warning_line({"text": text}) for text in document.warnings]
        missing = [line for line in warnings if document.untrusted or line not in document.content]
        yield from (_INDENT + self.screen.styled(line, "warning") for line in missing)
        yield from (
            "",
            *rendered(document.content, self.screen, {} if document.untrusted else _annotations(warnings)),
            "",
        )

    def _text(self, content: str, hit: RetrievalResult) -> Iterator[str]:
        """A passage, each warning before the line that it belongs to."""
        from opx.edges.cli.rendering import rendered

        warnings = [warning_line(warning) for warning in hit.warnings]
        if hit.untrusted:
            yield from (_INDENT + self.screen.styled(line, "warning") for line in warnings)
            warnings = []
        text = with_warnings(content, hit.warnings) if warnings else content
        yield from ("", *rendered(text, self.screen, _annotations(warnings)), "")

    def _harm(self, document: DocumentAnswer) -> Iterator[str]:
        """Cautions for shown steps and commands: data loss, costs, notifications."""
        yield from (_INDENT + self.screen.styled(printable(line), "caution") for line in harm_shown(document.steps))

    def _other_steps(self, document: DocumentAnswer, content: str, *, outline: bool) -> Iterator[str]:
        """A line for each step whose text isn't shown; only their number if the list would be too long."""
        others = [step for step in document.steps if not step.shown and not (step.title and step.title in content)]
        show = f"opx show {document.document_id[:SHORT_ID]}"
        if not others:
            return
        if outline:
            yield f"{_INDENT}Other steps (`{show} --step N`):"
            yield from (f"{_INDENT}{self._step(step)}" for step in others[:_MOST_STEPS])
        left = document.step_count - len(document.steps) + len(others) - (_MOST_STEPS if outline else 0)
        if left > 0:
            yield f"{_INDENT}{plural(left, 'more step' if outline else 'other step')}: {show} --outline"

    def _step(self, step: StepView) -> str:
        style = "warning" if step.effect is Effect.DESTRUCTIVE else ""
        effect = "" if step.effect is Effect.UNKNOWN else f"  ({step.effect})"
        room = self.screen.prose - len(_INDENT) - len(effect)
        return shorten(f"{step.name:>3}  {printable(step.title)}", room) + self.screen.styled(effect, style)

    # -- sources

    def _source(self, source: str, document_id: str, line: int) -> str:
        show = f"  [{document_id[:SHORT_ID]}]" if document_id else ""
        return _INDENT + self.screen.styled(self.screen.link(*self._location(source, line)) + show, "dim")

    def _location(self, source: str, line: int) -> tuple[str, str]:
        """A source as `path:line`, relative to the current folder if it is below it, and its URL."""
        file = self._file(source)
        if file is None:
            return printable(source), source
        return printable(f"{_from_here(file)}:{line}" if line else _from_here(file)), file.as_uri()

    def _line(self, source: str, content: str, near: int = 1) -> int:
        """The line of the local file at which the content begins; 0 if it isn't found."""
        file = self._file(source)
        first = next((line.strip() for line in content.split("\n") if line.strip() and not _is_annotation(line)), "")
        try:
            if file is None or not first or file.stat().st_size > _MOST_FILE:
                return 0
            lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError:
            return 0
        found = [at for at, line in enumerate(lines, start=1) if line.strip() == first]
        return min(found, key=lambda at: (at < near, abs(at - near)), default=0)

    def _file(self, source: str) -> Path | None:
        """The readable file that a source names."""
        address = urlsplit(source)
        if address.scheme not in ("", "file") or not source:
            return None
        path = Path(unquote(address.path)) if address.scheme else Path(source)
        candidates = [path] if path.is_absolute() else [folder / path for folder in self.folders]
        try:
            return next((one.resolve() for one in candidates if one.is_file()), None)
        except (OSError, ValueError):
            return None


def untrusted_line(tier: str, category: str = "") -> str:
    """`untrusted: from outside (internet)`, `untrusted: a report (workplace/mail) that nobody reviewed`."""
    from opx.hygiene.untrusted import origin

    words = origin(tier, category)
    return printable(f"untrusted: {words if tier == Tier.INTERNAL else f'from outside ({words})'}")


def effect_lines(steps: Sequence[StepView], screen: Screen, *, untrusted: bool = False) -> Iterator[str]:
    """Effects of shown steps: that of a single one in words, and of several those that lose data, cost or notify."""
    if any(step.effect is Effect.DESTRUCTIVE for step in steps):
        yield screen.styled(DESTROYS if len(steps) == 1 else DESTROY, "warning")
    harm = [*harm_shown(steps, untrusted=untrusted)]
    yield from (screen.styled(printable(line), "caution") for line in harm)
    if len(steps) == 1 and steps[0].is_classed:
        yield screen.styled(MEANS[steps[0].effect], steps[0].effect)


def shorten(text: str, most: int) -> str:
    """The text, cut at a word if it is longer."""
    return text if len(text) <= most else text[: most - 1].rsplit(" ", 1)[0] + "…"


def _annotations(warnings: Iterable[str]) -> dict[str, str]:
    return dict.fromkeys(warnings, "warning")


def _is_annotation(line: str) -> bool:
    return line.startswith(("[…]", "[Warning: "))


def _from_here(file: Path) -> str:
    here = current_folder()
    return str(file.relative_to(here)) if file.is_relative_to(here) else str(file)


def _passages(answer: Answer, document: DocumentAnswer) -> list[RetrievalResult]:
    """The passages of a document, the best first."""
    return [hit for hit in answer.results if hit.document_id == document.document_id and hit.source == document.source]


def facts_line(document: DocumentAnswer) -> str:
    """`runbooks/procedures, likely (0.74), updated 2025-03-27 (606 days ago), owner data-platform`."""
    when = f", updated {printable(updated(document))}" if document.updated else ""
    return f"{document.category}, {document.band} ({document.confidence:.2f}){when}"


def receipt_line(answer: Answer, screen: Screen) -> str:
    """A hint how to record the outcome of the answer."""
    return screen.styled(f"Record the outcome: opx outcome record {answer.receipt_id[:SHORT_ID]} resolved", "dim")


# -- passages and their scores


def heading(hit: RetrievalResult | DocumentAnswer) -> str:
    """`Title > Section > Subsection`, on one line."""
    return printable(" > ".join(part for part in (hit.title, _few_headings(hit.section)) if part))


_MOST_HEADINGS = 3


def _few_headings(section: str) -> str:
    """The headings of a passage; of one with many short sections, the first and the last: `Summary / … / Actions`."""
    headings = section.split(" / ")
    return section if len(headings) <= _MOST_HEADINGS else f"{headings[0]} / … / {headings[-1]}"


def score_line(hit: RetrievalResult) -> str:
    """`runbooks/procedures, score 0.81 = confidence 0.81 x trust 1.00 (by words #1, by meaning #4, fused 0.97)`."""
    parts = hit.parts
    if parts is None:
        return f"{hit.category}, score {hit.score:.2f}"
    total = f"score {parts.final:.2f} = confidence {parts.confidence:.2f} x trust {parts.trust:.2f}"
    total += f" x outcomes {parts.outcome:.2f}" if parts.outcome not in (None, 1.0) else ""
    legs = f"by words {_rank(parts.lexical_rank)}, by meaning {_rank(parts.vector_rank)}"
    return f"{hit.category}, {total} ({legs}, fused {parts.fused:.2f})"


def explanation(parts: ScoreParts) -> Iterator[str]:
    """A table of the score's parts, then the ranks of the hit in both legs."""
    rows = [
        ("", "rank", "value", ""),
        ("by words", _rank(parts.lexical_rank), _value(parts.lexical_score), "BM25 over title and text"),
        ("by meaning", _rank(parts.vector_rank), _value(parts.vector_score), "cosine with the question"),
        ("fused", "", _value(parts.fused), "both legs; the order within a question"),
        ("estimated", "", _value(parts.estimated), "confidence before a model read the document"),
        ("score", "", _value(parts.rerank), "of the model that read the document"),
        ("confidence", "", _value(parts.confidence), "probability that the document answers the question"),
        ("trust", "", _value(parts.trust), "of the category"),
        ("outcomes", "", _value(parts.outcome), "of acting upon the document"),
        ("final", "", _value(parts.final), "confidence x trust" + (" x outcomes" if parts.outcome is not None else "")),
    ]
    optional = (("estimated", parts.estimated), ("score", parts.rerank), ("outcomes", parts.outcome))
    absent = {name for name, value in optional if value is None}
    yield from aligned([row for row in rows if row[0] not in absent])
    yield found_by(parts)


def judged_line(hit: RetrievalResult) -> str:
    """`judged: read by a model, answers: "Delete rotated logs."`, or `judged: estimated`."""
    if hit.judged is not Basis.READ:
        return "judged: estimated"
    verdict = f", {hit.parts.verdict}" if hit.parts and hit.parts.verdict else ""
    return f"judged: read by a model{verdict}" + (f': "{printable(hit.helps_by)}"' if hit.helps_by else "")


def found_by(parts: ScoreParts) -> str:
    """`found by words at rank 1 and by meaning at rank 4`."""
    legs = (("by words", parts.lexical_rank), ("by meaning", parts.vector_rank))
    found = [f"{leg} at rank {rank}" for leg, rank in legs if rank is not None]
    missed = [f"not {leg}" for leg, rank in legs if rank is None]
    return "found " + " and ".join(found) + "".join(f", {text}" for text in missed)


def absent_lines(answer: Answer) -> Iterator[str]:
    """`No page for alert QueueHighCritical; nearest sibling: QueueHighWarning`, followed by a blank line."""
    for one in answer.absent:
        text = printable(one.text)
        yield click.style(text[0].upper() + text[1:] + ".", bold=True)
    if answer.absent:
        yield ""


def no_answer_lines(answer: Answer, min_confidence: float, option: str = "") -> Iterator[str]:
    """Lines for an answer without a result: that nothing is near, or the threshold, the closest document and, with `option`,
    how to see it."""
    closest = answer.best_rejected
    if closest is None and not answer.partial:
        yield "No answer: nothing here is near this question."
        return
    yield f"No good answer: nothing reaches confidence {min_confidence:.2f}."
    if closest is not None:
        hint = f"; see it with {option} {_rounded_down(closest.confidence)}" if option else ""
        yield f"Closest: {heading(closest)} ({closest.confidence:.2f}){hint}"


def _rounded_down(confidence: float) -> str:
    """The confidence rounded down, so that the document reaches it."""
    digits = 1 if confidence >= 0.1 else 2
    return f"{math.floor(confidence * 10**digits) / 10**digits:g}"


def _rank(rank: int | None) -> str:
    return "-" if rank is None else f"#{rank}"


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
