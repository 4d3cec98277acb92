"""Finds pairs of documents about the same thing that state different values, commands, or opposite instructions.

Each decision has a reason that can be shown: the same words but for one value. Documents are compared only where a rare word
of a statement and a word of its subject are the same, so that the cost grows with the number of statements and not with its
square.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

from opx.text.procedures.phrases import words
from opx_quality.contradicting.statements import Statement, StatementKind, title_words

MOST_COMPARED = 60
"""Statements with the same words that one is compared with."""
MIN_SHARED = 0.65
"""Share of words that two wordings of one statement have in common: of 0.55, 0.65 and 0.75 the one with which all pairs of
the development set are found without a false one."""


class Subject(Struct, frozen=True):
    """The subject of a document. Alerts are those that it is for."""

    title: frozenset[str]
    alerts: frozenset[str]
    services: frozenset[str]

    @classmethod
    def of(cls, title: str, alerts: Sequence[str], services: Sequence[str]) -> Subject:
        return cls(title_words(title), frozenset(alerts), frozenset(one.lower() for one in services))

    @property
    def names(self) -> frozenset[str]:
        """Words by which documents with the same subject are found."""
        return self.title | {one.lower() for one in self.alerts} | self.services


class StatedDocument(Struct, frozen=True):
    """The statements of a document; `number` is its position among all."""

    number: int
    subject: Subject
    statements: tuple[Statement, ...]


class Contradiction(Struct, frozen=True):
    """Two statements of different documents, `first` that of the earlier one. `about` is what differs: a dimension, an option
    or an action."""

    first: int
    second: int
    one: Statement
    other: Statement
    about: str


def contradictions(documents: Sequence[StatedDocument]) -> Iterator[Contradiction]:
    """Each pair of contradicting statements, once for two documents and what differs."""
    by_number = {one.number: one for one in documents}
    rarity = Counter(word for one in documents for statement in one.statements for word in statement.words)
    buckets: defaultdict[tuple[str, ...], list[tuple[int, Statement]]] = defaultdict(list)
    seen: set[tuple[object, ...]] = set()
    for document in documents:
        for statement in document.statements:
            keys = list(_keys(statement, document.subject, rarity))
            for number, known in _candidates(keys, buckets, document.number):
                found = _compared(by_number[number], known, document, statement)
                if found and (key := _identity(found)) not in seen:
                    seen.add(key)
                    yield found
            for key in keys:
                if len(buckets[key]) < MOST_COMPARED:
                    buckets[key].append((document.number, statement))


def _identity(found: Contradiction) -> tuple[object, ...]:
    return found.first, found.second, found.about, found.one.values, found.other.values


def _candidates(
    keys: Sequence[tuple[str, ...]], buckets: dict[tuple[str, ...], list[tuple[int, Statement]]], own: int
) -> Iterator[tuple[int, Statement]]:
    met: set[tuple[int, int]] = set()
    for key in keys:
        for number, known in buckets.get(key, ()):
            if number != own and (mark := (number, id(known))) not in met:
                met.add(mark)
                yield number, known


def _keys(statement: Statement, subject: Subject, rarity: Counter[str]) -> Iterator[tuple[str, ...]]:
    """The keys under which a statement is filed: its rarest words, of which similar ones share at least one (the prefixes
    of Chaudhuri et al., A primitive operator for similarity joins, ICDE 2006), each with a word of the subject."""
    if statement.kind is StatementKind.COMMAND:
        words = [statement.subject]
    else:
        ordered = sorted(statement.words, key=lambda word: (rarity[word], word))
        words = ordered[: len(ordered) - _least(len(ordered)) + 1]
    subjects = sorted(subject.names) or [""]
    named = sorted(word for word in statement.words if _is_name(word))
    for word in words:
        yield from ((statement.kind, word, one) for one in islice((*subjects, *named), 12))


def _least(size: int) -> int:
    """Words that a statement of this size shares at least with a similar one."""
    return max(1, -int(-MIN_SHARED * size // 1))


def _is_name(word: str) -> bool:
    return any(mark in word for mark in "_-./:@") or any(character.isdigit() for character in word)


# -- two documents


_STRONG, _WEAK, _SERVICE, _SHARED, _NONE = 4, 3, 2, 1, 0


def _compared(first: StatedDocument, one: Statement, second: StatedDocument, other: Statement) -> Contradiction | None:
    closeness = _closeness(first.subject, second.subject)
    if one.kind is not other.kind or _differ_by_qualifier(first, one, second, other):
        return None
    about = _DIFFERENCES[one.kind](one, other, closeness)
    if not about or _agrees(first, other, about) or _agrees(second, one, about):
        return None
    return Contradiction(first.number, second.number, one, other, about)


def _closeness(one: Subject, other: Subject) -> int:
    """STRONG for documents about the same thing: the same alert, or a title that has all words of the other. Titles that
    differ in both are those of two alerts of one system. WEAK: the same service and a word of the title, or only one of
    both: SERVICE, SHARED."""
    if one.alerts and other.alerts:
        return _STRONG if one.alerts & other.alerts else _NONE
    both = one.title & other.title
    if both and (one.title == other.title or (len(both) >= 2 and both in (one.title, other.title))):
        return _STRONG
    if one.services & other.services:
        return _WEAK if both else _SERVICE
    return _SHARED if both else _NONE


_QUALIFIERS = words(
    """
    production prod staging stage stg dev development test testing qa sandbox preprod uat dr canary local cloud on-prem
    primary replica standby secondary leader follower master slave read write reader writer reads writes connect idle
    warning critical warn info page min max soft hard upper lower inbound outbound ingress egress client server request
    response internal external public private first second third last initial final day night weekday weekend blue green
    east west north south linux window windows macos mysql postgres postgresql oracle redis kafka arm64 amd64 cpu memory disk
    network start startup stop shutdown before after not no never without > < large small hot cold full incremental daily
    weekly monthly hourly yearly manual automatic old new legacy free premium enterprise http https tcp udp grpc ipv4 ipv6
    batch realtime stateful stateless zookeeper liveness readiness scale-up scale-down up down minor major rollback
    """
)
"""Words that make two statements ones about different things, or cases."""


def _differ_by_qualifier(first: StatedDocument, one: Statement, second: StatedDocument, other: Statement) -> bool:
    """True if something that one of them has names another case: an environment, a role, a direction, a region."""
    words = frozenset() if one.kind is StatementKind.COMMAND else one.words ^ other.words
    context = (first.subject.title | one.headings) ^ (second.subject.title | other.headings)
    if any(word in _QUALIFIERS or _is_place(word) for word in words):
        return True
    return any((word in _QUALIFIERS and word not in ("first", "not", "no")) or _is_place(word) for word in context)


def _is_place(word: str) -> bool:
    """True for names with a number: `eu-west-1`, `db-2`, `v3`, `kafka2`."""
    return any(character.isdigit() for character in word)


def _similar(one: frozenset[str], other: frozenset[str]) -> bool:
    both = len(one & other)
    if not both or both < MIN_SHARED * len(one | other):
        return False
    return one <= other or other <= one or both >= 0.8 * len(one | other)


def _value_difference(one: Statement, other: Statement, closeness: int) -> str:
    """The dimension in which one value alone differs, "" for none."""
    if not _similar(one.words, other.words) or not _is_same_subject(one, other, closeness):
        return ""
    if _by_name(one).keys() != _by_name(other).keys():
        return ""
    left, right = one.values - other.values, other.values - one.values
    names = {name for name, _ in (*left, *right)}
    return names.pop() if len(left) == len(right) == len(names) == 1 else ""


def _is_same_subject(one: Statement, other: Statement, closeness: int) -> bool:
    """The fewer words state what a value is of, the more of the rest has to be the same."""
    both = one.words & other.words
    if closeness == _STRONG:
        return len(both) >= 2 or one.headings == other.headings or any(map(_is_name, both))
    is_named = any(map(_is_name, both))
    if closeness in (_WEAK, _SERVICE):
        return (is_named and len(both) >= 2) or (closeness == _WEAK and len(both) >= 3)
    return is_named and len(both) >= 2 and one.words == other.words


def _command_difference(one: Statement, other: Statement, closeness: int) -> str:
    """The option or target that alone differs, "" for none."""
    if one.subject != other.subject or closeness != _STRONG:
        return ""
    mine, theirs = dict(one.values), dict(other.values)
    if mine.keys() != theirs.keys():
        return ""
    differing = [name for name, value in mine.items() if value != theirs[name]]
    if len(differing) != 1:
        return ""
    moved = differing[0].startswith("target")
    return differing[0] if not moved or _similar(one.words, other.words) else ""


def _instruction_difference(one: Statement, other: Statement, closeness: int) -> str:
    if not _similar(one.words, other.words):
        return ""
    is_named = closeness >= _WEAK or any(map(_is_name, one.words & other.words))
    if not is_named and (closeness < _SHARED or len(one.words) < 2 or one.words != other.words):
        return ""
    is_opposite = one.subject == other.subject and one.values != other.values
    return one.subject if is_opposite else ""


_DIFFERENCES = {
    StatementKind.VALUE: _value_difference,
    StatementKind.COMMAND: _command_difference,
    StatementKind.INSTRUCTION: _instruction_difference,
}


def _by_name(statement: Statement) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, value in statement.values:
        found[name].add(value)
    return found


def _agrees(document: StatedDocument, statement: Statement, about: str) -> bool:
    """True if a document also states the statement of another one: it distinguishes several cases."""
    return any(_agrees_with(one, statement, about) for one in document.statements if one.kind is statement.kind)


def _agrees_with(one: Statement, other: Statement, about: str) -> bool:
    if one.kind is StatementKind.COMMAND:
        return one.subject == other.subject and one.values == other.values
    if one.kind is StatementKind.INSTRUCTION:
        return one.subject == other.subject and one.values == other.values and _similar(one.words, other.words)
    mine, theirs = _by_name(one)[about], _by_name(other)[about]
    return _similar(one.words, other.words) and bool(mine) and (mine <= theirs or theirs <= mine)
