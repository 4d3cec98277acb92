"""Renders the patterns for a task as framed text for an orchestrator's prompt; no pattern can break out of the frame."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from opx.domain.ids import day_text
from opx.domain.learning import GATES, Pattern, RAGPattern
from opx.domain.queries import Band
from opx.domain.scopes import Identity
from opx.errors import InvalidInputError
from opx.hygiene.invisible import removed
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.indexing.capability import Indexing
from opx.learning.capability import Learning
from opx.learning.query import PatternSearch, RAGQueryService, is_expired, patterns_of_gate, visible_heads
from opx.learning.review_topics import topics
from opx.learning.rules import check_orchestrator
from opx.learning.tried_steps import StepFinder, terms_of
from opx.ports import Vector
from opx.records.capability import QuestionRecords
from opx.retrieval.capability import Questions
from opx.runtime.knowledge_file import Installation
from opx.runtime.metrics import unreported
from opx.text.tokenizer import encode

MAX_TOKENS = 2000
"""cl100k tokens of a context, frame included."""

MOST_PATTERNS = 5

BEGIN = "[ORCHESTRATOR CONTEXT: Historical Knowledge]"
INTRODUCTION = "Similar situations have been resolved these ways:"
RECOMMENDATION = "Recommendation: Try patterns in order. Pattern 1 is most likely based on historical data."
END = "[END CONTEXT]"

MOST_WEAK = 2
"""Weak patterns in a context, all of them decisions of people: a solution that hardly fits would only mislead."""

TASK_SHARE = 0.5
"""Share of a context's tokens that the task itself may have."""

WEAK_FIT = "weak: a decision of people about similar work, to weigh"
_LABELS = ((5, "Most Common"), (3, "Moderate"), (0, "Less Common"))
_SHARES = (("Problem", 0.3), ("Solution", 0.55), ("When to try", 0.15))
"""Share of a pattern's token budget that each line gets, where the pattern doesn't fit."""

_NUMBER = re.compile(r"\s*\d+\.\s")

_LEAST_TOKENS = 80
"""With a smaller budget a pattern is left out: the remainder would mislead."""


class OrchestratorContextBuilder:
    """Renders patterns for tasks. Raises the errors of `RAGQueryService`."""

    def __init__(self, patterns: RAGQueryService, *, max_tokens: int = MAX_TOKENS) -> None:
        if max_tokens < 2 * _LEAST_TOKENS:
            raise InvalidInputError(f"max_tokens must be at least {2 * _LEAST_TOKENS}, not {max_tokens}")
        self._patterns = patterns
        self._max_tokens = max_tokens

    def build_context_for_task(self, task: object, agent_type: str = "") -> str:
        """The text of `build`."""
        return self.build(task, agent_type).text

    def build(self, task: object, agent_type: str = "") -> BuiltContext:
        """The task, then the patterns that may help with it, best first, in the frame that orchestrators know; the task alone
        if there are none. Weak patterns are left out, but for decisions of people.

        Of a task that is a mapping or an object, `description`, `task_type` (or `type`) and `technology` are read;
        without a description it raises `InvalidInputError`, as a string without words does. Patterns that don't fit into
        `max_tokens` (cl100k) are shortened, and the last ones left out. No text of a pattern can end the frame or pass
        for a line of it.
        """
        facts = task_facts(task)
        found = self._patterns.query_for_task(
            facts["description"], agent_type, facts["task_type"], facts["technology"], MOST_PATTERNS
        )
        basic = basic_context(facts, agent_type, int(self._max_tokens * TASK_SHARE))
        shown = worth_showing(found)
        framed = render(shown, max_tokens=self._max_tokens - len(encode(basic)) - 2)
        return BuiltContext("\n\n".join(filter(None, (basic, framed))), len(shown) if framed else 0)


@dataclass(frozen=True, slots=True)
class BuiltContext:
    """A context, and the number of patterns it was made of."""

    text: str
    patterns: int


def basic_context(facts: Mapping[str, str], agent_type: str, most: int) -> str:
    """The task as lines that can't be mistaken for the frame; its description has at most `most` tokens."""
    lines = (
        ("Task", _cut(framed_line(facts["description"]), most)),
        ("Task type", framed_line(facts["task_type"])),
        ("Technology", framed_line(facts["technology"])),
        ("Agent type", framed_line(agent_type or "")),
    )
    return "\n".join(f"{name}: {text}" for name, text in lines if text)


def worth_showing(patterns: Sequence[RAGPattern]) -> list[RAGPattern]:
    """The patterns without weak ones, but for the first decisions of people."""
    weak = [one for one in patterns if one.band is Band.WEAK and one.entry_type in GATES][:MOST_WEAK]
    return [one for one in patterns if one.band is not Band.WEAK or one in weak]


def render(patterns: Sequence[RAGPattern], *, max_tokens: int = MAX_TOKENS) -> str:
    """Patterns in the frame, in the order given; "" if there is none. While others follow, one has half of the room."""
    if not patterns:
        return ""
    room = max_tokens - len(encode(_in_frame([])))
    blocks: list[str] = []
    for number, pattern in enumerate(patterns, start=1):
        share = room if number == len(patterns) else max(room // 2, min(room, _LEAST_TOKENS))
        block = _block(number, pattern, share, reason_of_place(number, patterns))
        if not block:
            break
        blocks.append(block)
        room -= len(encode(block)) + 2
    return _in_frame(blocks)


def label(successes: int) -> str:
    """The frame's label for a number of successes."""
    return next(name for least, name in _LABELS if successes >= least)


def reason_of_place(number: int, patterns: Sequence[RAGPattern]) -> str:
    """The reason why a pattern (the first has number 1) stands before one that worked more often; "" if it doesn't."""
    pattern = patterns[number - 1]
    for at, other in enumerate(patterns[number:], start=number + 1):
        if other.success_count <= pattern.success_count:
            continue
        if other.failure_count > pattern.failure_count and other.confidence_bound < pattern.confidence_bound:
            return f"Pattern {at} worked more often, but also failed {_times(other.failure_count)}"
        if other.warnings and not pattern.warnings:
            return f"Pattern {at} worked more often, but has a warning"
        return f"it is closer to this task than Pattern {at}, which worked more often"
    return ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _in_frame(blocks: Sequence[str]) -> str:
    return "\n\n".join((BEGIN, INTRODUCTION, *blocks, RECOMMENDATION, END))


def _block(number: int, pattern: RAGPattern, room: int, reason: str) -> str:
    """One pattern within `room` tokens; "" if too little of it would fit."""
    counted = f"{pattern.success_count} success{'' if pattern.success_count == 1 else 'es'}"
    head = f"Pattern {number} ({label(pattern.success_count)} - {counted}):"
    fits = f"\n- Fit: {WEAK_FIT}" if pattern.band is Band.WEAK else ""
    head += fits + (f"\n- Why here: {reason}" if reason else "")
    texts = {
        "Problem": framed_line(pattern.problem),
        "Solution": framed_line("\n".join(_warned(pattern))),
        "When to try": framed_line(pattern.when_to_try),
    }
    block = _lines(head, texts)
    if len(encode(block)) <= room:
        return block
    if room < _LEAST_TOKENS:
        return ""
    spare = room - len(encode(_lines(head, dict.fromkeys(texts, "")))) - len(texts)
    return _lines(head, {name: _cut(texts[name], int(spare * share)) for name, share in _SHARES})


def _lines(head: str, texts: Mapping[str, str]) -> str:
    return "\n".join((head, *(f"- {name}: {text}" for name, text in texts.items())))


def _warned(pattern: RAGPattern) -> Iterator[str]:
    """The steps of a solution, each after its warnings; warnings that quote none of the steps come first."""
    steps = pattern.solution.splitlines() or [""]
    before: dict[int, list[str]] = {0: _failure_rate_warning(pattern)}
    for warning, position in zip(pattern.warnings, _quoted_steps(pattern.warnings, steps), strict=True):
        before.setdefault(position, []).append(f"(WARNING, {warning})")
    for at, step in enumerate(steps):
        yield from before.get(at, ())
        yield step


def _failure_rate_warning(pattern: RAGPattern) -> list[str]:
    """A warning for a pattern that fails at least as often as it works: the frame's head counts successes alone."""
    tried = pattern.success_count + pattern.failure_count
    failed = pattern.failure_count >= max(pattern.success_count, 1)
    return [f"(WARNING, failed {pattern.failure_count} of {tried} times)"] if failed else []


def _quoted_steps(warnings: Sequence[str], steps: Sequence[str]) -> list[int]:
    """Position of the step that each warning quotes; the first if it quotes none."""
    if not warnings:
        return []
    terms = [terms_of(_NUMBER.sub("", step)) for step in steps]
    finder = StepFinder([one or frozenset({step}) for one, step in zip(terms, steps, strict=True)])
    quoted = [finder.found(terms_of(warning)) for warning in warnings]
    return [max(found, key=lambda at: len(terms[at])) if found else 0 for found in quoted]


def _cut(text: str, most: int) -> str:
    """The text cut to `most` tokens, with an ellipsis if something is missing."""
    tokens = encode(text)
    if len(tokens) <= most:
        return text
    kept = text
    while kept and len(encode(f"{kept}…")) > most:
        kept = kept[: max(0, min(len(kept) - 1, int(len(kept) * most / max(len(encode(kept)), 1))))]
    return f"{kept.rstrip()}…" if kept else ""


_TASK_FIELDS = ("description", "task_type", "type", "technology")


def task_facts(task: object) -> dict[str, str]:
    """Description, type and technology of a task: a string, a mapping, or an object. Raises `InvalidInputError`."""
    if isinstance(task, str):
        return {"description": task, "task_type": "", "technology": ""}
    given = task if isinstance(task, Mapping) else {name: getattr(task, name, None) for name in _TASK_FIELDS}
    if given.get("description") is None:
        kind = type(task).__name__
        raise InvalidInputError(f"task must be a string, or a mapping or an object with a description, not {kind}")
    facts = {name: given.get(name) for name in ("description", "task_type", "technology")}
    if facts["task_type"] is None:
        facts["task_type"] = given.get("type")
    wrong = [name for name, value in facts.items() if not isinstance(value, str | None)]
    if wrong:
        raise InvalidInputError(f"{', '.join(wrong)} of a task must be strings")
    return {name: value or "" for name, value in facts.items()}


# -- framing


MAX_CHARACTERS = 8000
"""Characters of an input that are framed; a context has room for less."""

_LOOK_ALIKES = str.maketrans(
    {
        **dict(zip("авгеєёикмнопрстухяѕіїјԁԛԝһӏ", "abreeenkmhonpctyxrsiijdqwhl", strict=True)),
        **dict(zip("αβδεηικνοπρστυχω", "abdenikonnpotuxw"[:7] + "nonpotuxw", strict=True)),
        **dict(zip("013457@$€|ı", "oieastaseli", strict=True)),
    }
)
_NOT_LETTERS = re.compile(r"[\W\d_]+")
_CODE = re.compile(r"[@?.=*$/\\'\"{}<>|&;]")
_ALONE = frozenset({"end", "theend", "endof", "context", "kontext"})
_CONTEXT = re.compile("context|kontext")
_ENDS = re.compile("end|fin|stop|close|begin|start|orchestrator|historical")
_NEAR = 100
"""Characters that are inspected beside an unpaired bracket."""

_COLONS = ":：∶꞉ː︓﹕"
_COLON = re.compile(f"[{_COLONS}]")
_LABEL = re.compile(r"(?:problem|solution|whentotry|whyhere|fit|recommendation|successes|success)\Z")
_LABEL_CHARACTERS = 60
_PIECES = dict.fromkeys("⎡⎢⎣", "(") | dict.fromkeys("⎤⎥⎦", ")")
"""Characters that large brackets are drawn with."""


def framed_line(text: str) -> str:
    """The text on one line that can't be mistaken for a mark or label of the frame."""
    shortened = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
    line = " ".join(_visible(shortened).split())
    return _without_labels(_without_marks(line))


def skeleton(text: str) -> str:
    """The lowercase Latin letters that the text looks like to a reader."""
    plain = text if text.isascii() else unicodedata.normalize("NFKD", text)
    folded = plain.casefold().translate(_LOOK_ALIKES)
    return _NOT_LETTERS.sub("", folded if folded.isascii() else "".join(_letters(folded)))


def _letters(text: str) -> Iterator[str]:
    return (character for character in text if character.isascii())


def _visible(text: str) -> str:
    """Without invisible characters, and with other kinds of brackets as parentheses."""
    return "".join(map(_shown, removed(text)[0]))


def _shown(character: str) -> str:
    if character.isascii():
        return character if character.isprintable() or character.isspace() else " "
    if character.isspace():
        return " "
    category = unicodedata.category(character)
    if category in ("Ps", "Pe"):
        return "(" if category == "Ps" else ")"
    if category[0] == "C" or unicodedata.name(character, "").endswith((" FILLER", "GRAPHEME JOINER")):
        return ""
    return _PIECES.get(character, character)


def _without_marks(line: str) -> str:
    """With parentheses instead of square brackets around anything that could be a mark of the frame."""
    characters = list(line)
    for begin, end in _pairs(line):
        low = begin + 1 if begin is not None else max(0, (end or 0) - _NEAR)
        high = end if end is not None else low + _NEAR
        if _is_mark(line[low:high]):
            if begin is not None:
                characters[begin] = "("
            if end is not None:
                characters[end] = ")"
    return "".join(characters)


def _pairs(line: str) -> Iterator[tuple[int | None, int | None]]:
    """Positions of opening and closing square brackets; None for a missing half."""
    waiting: list[int] = []
    for at, character in enumerate(line):
        if character == "[":
            waiting.append(at)
        elif character == "]":
            yield (waiting.pop() if waiting else None), at
    yield from ((at, None) for at in waiting)


def _is_mark(content: str) -> bool:
    """True if bracketed text could be the frame's begin or end. Text that isn't plain ASCII could read as anything."""
    if not content.isascii():
        return True
    letters = skeleton(content)
    if letters in _ALONE:
        return True
    return bool(_CONTEXT.search(letters) and (_ENDS.search(letters) or not _CODE.search(content)))


def _without_labels(line: str) -> str:
    """With a dash instead of the colon after anything that could be a label of the frame."""

    def instead(match: re.Match[str]) -> str:
        before = line[max(0, match.start() - _LABEL_CHARACTERS) : match.start()]
        return " -" if _LABEL.search(skeleton(before)) else match[0]

    return _COLON.sub(instead, line)


# -- queries


@dataclass(eq=False)
class PatternQueries:
    """Pattern queries for an orchestrator's identity, or for the operator of the system (no identity, or `operator`)."""

    installation: Installation
    corpus: Corpus
    learning: Learning
    _: KW_ONLY
    questions: Questions
    records: QuestionRecords
    indexing: Indexing
    _vectors: dict[tuple[str, str], Vector] = field(init=False, default_factory=dict)

    def of(self, identity: Identity | None = None, *, operator: bool = False) -> RAGQueryService:
        """The query service of an identity."""
        caller = self.installation.identity_of(identity)
        reader = self.corpus.projects.reader(caller)
        search = PatternSearch(
            ask=self.questions.for_reader(caller, recorded=False).search,
            heads=lambda ids: self._current(visible_heads(self.learning.patterns, reader, ids)),
            check=lambda: None if operator or identity is None else check_orchestrator(self.learning.rules, caller),
            observers=self.records.observers(reader, None, unreported, gaps=False),
            embed=self._embed(),
            of_gate=lambda gate: self._current(patterns_of_gate(self.learning.patterns, reader, gate)),
        )
        return RAGQueryService(search)

    def _current(self, patterns: Iterable[Pattern]) -> list[Pattern]:
        """The patterns that aren't expired: they are hidden on their day, and deleted when pruning runs."""
        knowledge, today = self.installation.knowledge, day_text(int(self.installation.clock() // 86_400))
        return [one for one in patterns if not is_expired(one, knowledge, today)]

    def _embed(self) -> Callable[[str], Vector] | None:
        """The embedding of questions, which remembers the work of review topics: they are compared with every question."""
        embedder = self.indexing.query_embedder
        if embedder is None:
            return None
        work = frozenset(topic.work for topic in topics())

        def embed(text: str) -> Vector:
            if text not in work:
                return embedder.embed_query(text)
            key = embedder.model_id, text
            if key not in self._vectors:
                self._vectors[key] = embedder.embed_query(text)
            return self._vectors[key]

        return embed

    def context_builder(
        self, identity: Identity | None = None, *, operator: bool = False
    ) -> OrchestratorContextBuilder:
        """The builder of framed contexts of an identity."""
        return OrchestratorContextBuilder(self.of(identity, operator=operator))
