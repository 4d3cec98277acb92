"""Parses questions as people type them to words and filters.

`"exact phrase"`, `-word`, `-"phrase"`, `tag:`, `category:`, `tier:`, `resource:`, `service:`, `title:`, `before:`
and `after:` (docs/searching.md). Text that isn't a valid operator is searched as words, with a note: people paste logs and
commands, and a misread question finds nothing when it matters most.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from msgspec import Struct, field

from opx.domain.ids import day_number, day_text, first_day, shortened
from opx.domain.knowledge import KnowledgeModel
from opx.domain.queries import MAX_QUERY_CHARACTERS, QueryConfig
from opx.domain.record import replace
from opx.domain.resources import identity_in
from opx.domain.results import Absent
from opx.errors import InvalidInputError
from opx.ports import SearchEngine, SearchFilter
from opx.retrieval.judging_records import JudgingRecord
from opx.retrieval.operators import MAX_OPERATORS, Operator, OperatorKind, normalised, operators, paths_of, problem
from opx.retrieval.question import Question, TermChange, contains, folded, identifiers, required_groups, whole_terms
from opx.text.languages import question_languages

__all__ = ["Question", "read_question"]

NO_WORDS = "there is nothing to search for: add words to the filters"
NO_POSITIVE_WORD = "nothing but exclusions: their words were searched"
PASTED = (
    "this looks like a log, code, a command or running text: quotes, dashes and colons in it were searched as words"
)

_MAX_NOTES = 8
MAX_ALERT_CHARACTERS = 100_000
"""Characters of a notification that are parsed; its text is cut like any question."""
_SHOWN_CHARACTERS = 60
_NAMING = (OperatorKind.TITLE, OperatorKind.TAG, OperatorKind.RESOURCE, OperatorKind.SERVICE, OperatorKind.CATEGORY)
_EXCLUSIONS = (OperatorKind.EXCLUDED_WORD, OperatorKind.EXCLUDED_PHRASE)
_HAS_WORD = re.compile(r"[^\W_]")


def read_question(query: str, config: QueryConfig, knowledge: KnowledgeModel) -> Question:
    """Parses a question within the limits of `config`: a question narrows, and never widens.

    Never raises: malformed operators are searched as words, and reported in `notes`.
    """
    if config.plain:
        plain = Question(query, plain=True, identifiers=identifiers(normalised(query)))
        return _allowed(plain, config, knowledge)
    if alert := pasted_alert(query):
        return _allowed(alert, config, knowledge)
    text = normalised(query)
    found, pasted = operators(text)
    if not (found or pasted):
        return _allowed(Question(text, identifiers=identifiers(text)), config, knowledge)
    reading = _Reading(text, [PASTED] if pasted else [])
    reading.take(found, knowledge)
    return _question_of(reading, config, knowledge)


_LIKE_ALERT = re.compile(
    r"\s*\[(?:FIRING|RESOLVED|ALERT|CRITICAL|WARNING|PROBLEM)\b"
    r"|\s*(?-i:[A-Z])\w{2,149}(?:\{|[ \t]+\()\s*[a-z_]\w*\s*=[^\n]*[})][ \t]*(?:\n|\Z)"
    r"|(?:.*\n)?[ \t*-]{0,10}alertname\s*="
    r"|\s*(?:\[\s*)?\{.*\"(?:alertname|AlarmName|alert_title|alertId|ruleName|incident|incident_key|routing_key)\\?\"\s*:",
    re.IGNORECASE | re.DOTALL,
)
"""Beginnings of an alert. Log lines, JSON log records and code also have pairs in brackets; in them every word counts."""
_ONE_NAME = re.compile(r"[A-Za-z_][\w:.-]{2,149}")


def pasted_alert(query: str) -> Question | None:
    """Converts a pasted alert to a question: its name and text, without its labels, and for JSON the text beside it. None if
    the query is no alert."""
    sent, beside = _json_in(query)
    if not _LIKE_ALERT.match(sent):
        return None
    from opx.text.procedures.alerts import read_alert

    try:
        alert = read_alert(sent)
    except InvalidInputError:
        return None
    name = alert.name.strip()
    if not (alert.labels or alert.text) or not _ONE_NAME.match(name):
        return None
    text = normalised(f"{name}\n{alert.text}\n{beside}").strip()[:MAX_QUERY_CHARACTERS]
    named = name if _ONE_NAME.fullmatch(name) else ""
    return Question(
        text,
        identifiers=identifiers(text),
        notes=alert.notes,
        alert=named or name,
        labels=alert.labels,
        runbook=alert.runbook,
        about=identity_in(alert.labels),
    )


_NAMES_ALERT = re.compile(r'"(?:alertname|AlarmName)\\?"')


def _json_in(text: str) -> tuple[str, str]:
    """Splits text into the JSON of an alert and the rest; without JSON, returns the text and ""."""
    for start in sorted(at for at in (text.find("{"), text.find("[")) if at >= 0):
        before = text[:start].strip()
        try:
            end = json.JSONDecoder().raw_decode(text, start)[1]
        except (ValueError, RecursionError):
            continue
        if not before or ('"' not in before and _NAMES_ALERT.search(text, start, end)):
            return text[start:end], f"{before}\n{text[end:].strip()}".strip()
    return text, ""


class _Reading(Struct):
    """Valid operators of the text, and notes about the invalid ones."""

    text: str
    notes: list[str]
    read: dict[OperatorKind, list[Operator]] = field(default_factory=dict)

    def take(self, found: list[Operator], knowledge: KnowledgeModel) -> None:
        for operator in found[:MAX_OPERATORS]:
            reason = problem(operator, knowledge)
            if reason:
                self.notes.append(f"searched as words: {self._shown(operator)} ({reason})")
            else:
                self.read.setdefault(operator.kind, []).append(operator)
        if len(found) > MAX_OPERATORS:
            self.notes.append(f"only the first {MAX_OPERATORS} operators were read; the rest was searched as words")
        if any(kind in self.read for kind in _EXCLUSIONS) and not _HAS_WORD.search(self._words()):
            self.notes.append(NO_POSITIVE_WORD)
            for kind in _EXCLUSIONS:
                self.read.pop(kind, None)

    def values(self, *kinds: OperatorKind) -> tuple[str, ...]:
        """The distinct values of the operators of these kinds, in order."""
        return tuple(dict.fromkeys(operator.value for kind in kinds for operator in self.read.get(kind, ())))

    def words(self) -> str:
        """The words to search: the text without operators, with the words of phrases. If nothing is left, the values of
        the filters, also of `title:`."""
        left = self._words()
        if _HAS_WORD.search(left):
            return left
        return " ".join(self.values(*_NAMING))

    def _words(self) -> str:
        parts, at = [], 0
        for operator in sorted((each for found in self.read.values() for each in found), key=lambda each: each.start):
            parts += [self.text[at : operator.start], operator.value if operator.kind is OperatorKind.PHRASE else ""]
            at = operator.end
        parts.append(self.text[at:])
        return " ".join(stripped for part in parts if (stripped := part.strip()))

    def _shown(self, operator: Operator) -> str:
        end = operator.end if operator.kind is not OperatorKind.OPEN_QUOTE else operator.start + _SHOWN_CHARACTERS
        return shortened(" ".join(self.text[operator.start : end].split()), _SHOWN_CHARACTERS)


def _question_of(reading: _Reading, config: QueryConfig, knowledge: KnowledgeModel) -> Question:
    """The parsed question, with notes on contradictions in it or with `config`."""
    text = reading.words()
    question = Question(
        text=text,
        phrases=reading.values(OperatorKind.PHRASE),
        title=reading.values(OperatorKind.TITLE),
        tags=in_any_case(reading.values(OperatorKind.TAG)),
        resources=in_any_case(reading.values(OperatorKind.RESOURCE, OperatorKind.SERVICE)),
        categories=_paths(reading.values(OperatorKind.CATEGORY), knowledge),
        tiers=tuple(dict.fromkeys(value.casefold() for value in reading.values(OperatorKind.TIER))),
        updated_from=max(_days(reading.values(OperatorKind.AFTER)), default=None),
        updated_before=min(_days(reading.values(OperatorKind.BEFORE)), default=None),
        identifiers=identifiers(text),
    )
    excluded = reading.values(*_EXCLUSIONS)
    kept = tuple(words for words in excluded if not _is_required(words, question))
    dropped = [
        f'"{words}" is required and excluded: the exclusion was ignored' for words in excluded if words not in kept
    ]
    conflicts = list(_conflicts(question, config, knowledge))
    notes = [*dropped, *conflicts, *_few(reading.notes), *([] if text else [NO_WORDS])]
    return replace(
        question, excluded=kept, notes=tuple(notes), impossible=bool(conflicts), pasted=PASTED in reading.notes
    )


def _allowed(words: Question, config: QueryConfig, knowledge: KnowledgeModel) -> Question:
    """A question without operators, with notes on contradictions in `config`."""
    conflicts = tuple(_conflicts(words, config, knowledge))
    return replace(words, notes=conflicts, impossible=True) if conflicts else words


def _conflicts(question: Question, config: QueryConfig, knowledge: KnowledgeModel) -> Iterator[str]:
    """Reasons why nothing can be found: filters that exclude each other, or everything that the caller searches."""
    if question.tiers and not set(question.tiers) & set(config.searched_tiers):
        searched = ", ".join(config.searched_tiers) or "none"
        yield f"nothing can be found: tier:{question.tiers[0]} is not among the tiers that are searched ({searched})"
    allowed = {path for name in config.categories or () for path in paths_of(name, knowledge)}
    if question.categories and allowed and not allowed.intersection(question.categories):
        yield f"nothing can be found: category:{question.categories[0]} is outside of {', '.join(config.categories or ())}"
    first = max(_known(question.updated_from, day_number(config.updated_from)), default=None)
    end = min(_known(question.updated_before, day_number(config.updated_before)), default=None)
    if first is not None and end is not None and first >= end:
        yield f"nothing can be found: no day is after:{day_text(first)} and before:{day_text(end)}"


def _is_required(words: str, question: Question) -> bool:
    """True if every result with the required phrases contains the excluded words."""
    required = (*question.phrases, *question.title)
    terms = set(whole_terms(words)) if len(words.split()) == 1 else set()
    return any(
        contains(folded(phrase), folded(words)) or any(terms.issuperset(group) for group in required_groups(phrase))
        for phrase in required
    )


def _paths(values: Iterable[str], knowledge: KnowledgeModel) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for value in values for path in paths_of(value, knowledge)))


def _days(values: Iterable[str]) -> list[int]:
    return _known(*map(first_day, values))


def _known(*days: int | None) -> list[int]:
    return [day for day in days if day is not None]


def in_any_case(values: Iterable[str]) -> tuple[str, ...]:
    """The values in all usual cases: those of documents are stored unchanged, and compared exactly."""
    return tuple(dict.fromkeys(form for value in values for form in _forms(value)))


def _forms(value: str) -> tuple[str, ...]:
    return value, value.casefold(), value.capitalize(), value.upper()


def _few(notes: list[str]) -> list[str]:
    more = len(notes) - _MAX_NOTES
    return [
        *notes[:_MAX_NOTES],
        *([f"and {more} more parts of the question were searched as words"] if more > 0 else []),
    ]


_EXPOSURE = re.compile(
    r"(?=.*\bCVE-\d{4}-\d{4,9}\b)"
    r".*\b(?:affected|affects?|vulnerable|exposed|impacted|inventory|which (?:services?|systems?|hosts?))\b",
    re.IGNORECASE | re.DOTALL,
)


def seeks_exposure(query: str) -> bool:
    """True if a question is about the systems that a vulnerability affects, which the graph has."""
    return bool(_EXPOSURE.match(query))


# -- state of a question until its answer


class ParsedQuery(Struct):
    """A question with its state until the answer. `typed` is the question before any change. `languages` are its possible
    ones. `timings` are in milliseconds, summed over all searches. `ranked_by` names the last ranker. `unknown` are the words,
    each by its first term, that no search found; `changes` are replaced words.

    It is searched in `engine`, by words alone if `by_words`, within the filter `where`; `valid` is a filter of hits on the
    `day` of the question."""

    query: str
    question: Question
    config: QueryConfig
    languages: tuple[str, ...]
    notes: list[str]
    typed: Question
    where: SearchFilter = SearchFilter(scopes=())
    day: str = ""
    valid: Callable[[JudgingRecord], bool] | None = None
    engine: SearchEngine = None  # type: ignore[assignment]  # set by the stage that searches
    by_words: bool = False
    partial: bool = False
    timings: dict[str, float] = field(default_factory=dict)
    ranked_by: str = "fused"
    unknown: frozenset[str] | None = None
    changes: tuple[TermChange, ...] = ()
    absent: tuple[Absent, ...] | None = None

    @property
    def text(self) -> str:
        """The words to search."""
        return self.question.text

    @property
    def searched(self) -> str:
        """The words to search, and the resources that the question is about."""
        return "\n".join((self.question.text, *self.question.about))

    @property
    def is_prose(self) -> bool:
        """True if its words may be replaced: a pasted text is searched as it is, and so is an alert or a plain question."""
        return not (self.typed.plain or self.typed.pasted or self.typed.alert)

    def become(self, other: ParsedQuery) -> None:
        """Takes the state of another attempt to answer the same question."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(other, name))

    def relaxed(self) -> bool:
        """Treats the question's phrases as words from now on; False if it has none."""
        relaxed = self.question.relaxed()
        if relaxed is self.question:
            return False
        self.question = relaxed
        self.note(relaxed.notes[-1])
        return True

    def lacking(self, words: Iterable[str]) -> None:
        """Records the words that a search didn't find; words that another search found are not unknown."""
        unknown = frozenset(words)
        self.unknown = unknown if self.unknown is None else self.unknown & unknown

    def is_missing(self, absent: Iterable[Absent]) -> None:
        """Records the identifiers that a search didn't find. One that another search finds isn't absent; of their siblings
        the first is kept."""
        found = {one.name: one for one in absent}
        known = self.absent
        self.absent = tuple(found.values()) if known is None else tuple(one for one in known if one.name in found)

    def note(self, text: str) -> None:
        """Adds a note once, however often it happens."""
        if text not in self.notes:
            self.notes.append(text)

    def lacks(self, text: str) -> None:
        """Marks the answer as partial, with a note."""
        self.partial = True
        self.note(text)

    def took(self, part: str, milliseconds: float) -> None:
        self.timings[part] = self.timings.get(part, 0.0) + milliseconds

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Records the duration of the block, also if it fails."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.took(part, 1000 * (time.perf_counter() - started))


def parse_query(query: str, config: QueryConfig, knowledge: KnowledgeModel) -> ParsedQuery:
    """Parses a query, cut to its maximum length, without lone surrogates, which neither stores nor models accept."""
    whole = query[:MAX_ALERT_CHARACTERS].encode("utf-8", "replace").decode()
    text = whole[:MAX_QUERY_CHARACTERS]
    if len(whole) > len(text) and not config.plain and pasted_alert(whole):
        text = whole
    cut = f"the query has {len(query):,} characters; only the first {MAX_QUERY_CHARACTERS:,} were searched"
    question = read_question(text, config, knowledge)
    notes = [cut] if len(query) > len(text) else []
    languages = question_languages(question.text, config.language)
    return ParsedQuery(query, question, config, languages, [*notes, *question.notes], question)
