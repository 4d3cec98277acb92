"""Splits a topic without a model: into its parts, its identifiers, and the aspects of a problem."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opx.retrieval.question import identifiers
from opx.text.fields import query_terms
from opx_web.research.planning import one_line

MAX_PARTS = 8
MIN_TERMS = 2
"""A clause with fewer content words, and without an identifier, is part of its neighbour."""

MAX_READ = 2000
"""Characters of a topic that are split; the whole topic is searched anyway."""

_MOST_JOINTS = 30

_BULLET = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]+", re.MULTILINE)
_SENTENCE_END = re.compile(r"[?!;\n\r。？！；]+|\.(?:\s+|$)")
_BETWEEN = re.compile(
    r"^.{0,60}?\b(?:differences?|distinction|choose|choosing|compar(?:e|ing|ison of))(?:\s+between)?\s+", re.IGNORECASE
)
_VERSUS = re.compile(r"\s+(?:vs\.?|versus|(?:as )?compared (?:to|with)|rather than|instead of)\s+", re.IGNORECASE)
_JOINT = re.compile(
    r"(\s*,\s*(?:(?:and|or|then|und|oder|et|ou|y|o|e)\s+)?|\s+(?:and|as well as|plus|und|sowie|et|ainsi que|y|e)\s+)",
    re.IGNORECASE,
)
_PAIR = re.compile(r"\s+(?:and|or|with|to|from|und|oder|et|y|e)\s+", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:[-._:/@'’]+[^\W_]+)*")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ASPECTS: dict[str, frozenset[str]] = {
    "symptoms": _words("symptom symptoms detect detecting detection notice recognise recognize signs alert"),
    "cause": _words("cause causes caused why reason reasons root"),
    "fix": _words(
        "fix fixes fixed fixing resolve resolution resolved repair mitigate mitigation recover recovery remedy remediation "
        "solution solve restore"
    ),
    "verification": _words("verify verification verified confirm check checked validate ensure"),
    "prevention": _words("prevent prevention preventing avoid avoiding again recurring recurrence"),
}
"""Aspects of a problem that operations documents have sections about, and the words that mean them."""

_ASPECT_WORDS = frozenset().union(*ASPECTS.values())
_ONE_ASPECT = rf"\b(?:{'|'.join(sorted(_ASPECT_WORDS))})\b"
_SEVERAL_ASPECTS = re.compile(
    rf"{_ONE_ASPECT}(?:\s*,\s*(?:and\s+)?|\s+and\s+)(?:the\s+|how\s+to\s+)?{_ONE_ASPECT}", re.IGNORECASE
)
_LEADS = _words(
    "how what why when where which who whose do does did i we you me my our us it them they this that these those one "
    "should would could can may might must need want tell explain describe show find give list please about get got "
    "happen happens happened happening work works make sure step steps way best also both know learn same there here "
    "went wrong go goes ran last year time times ever see stay stays keep keeps still "
    "so if is are was were be been being has have had the a an of in on at to for from by with without and or not no "
    "wie was warum wann wo wer ist sind comment pourquoi quand est como cuando"
)
"""Question words, and words that refer to something else: they don't describe the subject."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. `parts` are to be searched separately: one at least."""

    text: str
    parts: tuple[str, ...]
    identifiers: tuple[str, ...]


def read_topic(text: str) -> Topic:
    """Splits a topic into its questions and clauses, the two sides of a comparison, and the aspects of a problem.

    Text that can't be split stays together. A pure function of the text.
    """
    found: list[str] = []
    for sentence in _SENTENCE_END.split(_BULLET.sub("", text[:MAX_READ])):
        found.extend(_parts_of(sentence.strip(" ,:")))
    parts = _on_their_own(found)
    whole = " ".join(text.split())
    return Topic(text, tuple(parts[:MAX_PARTS]) or (one_line(whole),), identifiers_of(text))


def identifiers_of(text: str) -> tuple[str, ...]:
    """The names and codes in `text`. Words of plain English with a hyphen are none."""
    found = identifiers(text[:MAX_READ])
    return tuple(name for name in found if not (name.islower() and name.replace("-", "").isalpha()))


def content_words(text: str) -> list[str]:
    """The words that describe the subject, in order, each once."""
    words = (word for word in _WORD.findall(text[:MAX_READ]) if word.casefold() not in _LEADS and query_terms(word))
    return list(dict.fromkeys(words))


def aspects_of(text: str) -> list[str]:
    """Aspects of a problem in `text`, in the order of `ASPECTS`."""
    words = {word.casefold() for word in _WORD.findall(text)}
    return [aspect for aspect, marks in ASPECTS.items() if marks & words]


def subject(text: str) -> str:
    """The subject of `text`: its content words without those that name an aspect of the problem."""
    return " ".join(word for word in content_words(text) if word.casefold() not in _ASPECT_WORDS)


def _parts_of(sentence: str) -> Iterable[str]:
    """The parts of one sentence."""
    if not content_words(sentence):
        return []
    compared = _compared(sentence)
    if compared:
        return compared
    clauses = _clauses(sentence)
    return [part for clause in clauses for part in _sides(clause)]


def _compared(sentence: str) -> list[str]:
    """The two sides of `difference between A and B`, of `A versus B`; empty if nothing is compared."""
    between = _BETWEEN.match(sentence)
    sides = _PAIR.split(sentence[between.end() :], maxsplit=1) if between else _VERSUS.split(sentence, maxsplit=1)
    named = [side.strip(" ,") for side in sides if content_words(side)]
    return named if len(named) == 2 else []


def _clauses(sentence: str) -> list[str]:
    """Splits the sentence at conjunctions and commas if the pieces can be searched alone."""
    pieces = _JOINT.split(sentence, maxsplit=_MOST_JOINTS)
    clauses = [pieces[0]]
    for joint, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        if _stands_alone(clauses[-1]) and (_stands_alone(piece) or _points_back(piece)):
            clauses.append(piece)
        else:
            clauses[-1] += joint + piece
    return [clause.strip(" ,") for clause in clauses]


def _stands_alone(clause: str) -> bool:
    about = subject(clause)
    return bool(identifiers_of(clause)) or len(query_terms(about)) >= MIN_TERMS


def _points_back(clause: str) -> bool:
    """True if it names an aspect of something mentioned before: `how to prevent it`."""
    words = _WORD.findall(clause.casefold())
    return bool(aspects_of(clause)) and not subject(clause) and len(words) > 1


def _sides(clause: str) -> list[str]:
    """Splits a clause with several aspects of one problem, one part for each aspect."""
    about = subject(clause)
    if not about or not _SEVERAL_ASPECTS.search(clause):
        return [clause]
    return [f"{about} {aspect}" for aspect in aspects_of(clause)]


def _on_their_own(parts: Sequence[str]) -> list[str]:
    """Adds the subject to parts that refer back; each part once."""
    whole: list[str] = []
    about = ""
    for part in parts:
        named = subject(part)
        text = part if named or not about else f"{about} {' '.join(aspects_of(part)) or part}"
        about = named or about
        whole.append(one_line(text))
    return list(dict.fromkeys(whole))
