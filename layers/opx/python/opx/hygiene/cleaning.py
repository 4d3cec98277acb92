"""Cleans text before it is chunked: masks secrets, removes invisible characters, notes suspicious passages.

Findings are rare: blocks of lines are first searched for literals that every finding contains, and only lines of a block
that has one are matched against patterns.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import accumulate

from opx.domain.documents import Remark, RemarkKind
from opx.hygiene import invisible
from opx.hygiene.instructions import UNREADABLE, Suspicion, encoded_hints, instruction_formats, suspicions
from opx.hygiene.issued_secrets import issued_formats, rare_tokens
from opx.hygiene.private_keys import HINT
from opx.hygiene.secret_formats import CONTEXT_HINTS
from opx.hygiene.secret_structures import HINTS as STRUCTURE_HINTS
from opx.hygiene.secrets import Masker, find, mask, secret_formats
from opx.hygiene.stated_secrets import BEHIND

Span = tuple[int, int]
"""Offsets of characters, the second excluded."""

_BLOCK = 16_384
_LONG_WORD = 16
"""Characters of the shortest word that can contain an issued token: tokens' literals are searched in such words only."""
_KEPT_BACK = 4096
"""Characters at the end of a piece of a long line that are examined again with the next piece."""
_MOST_KEPT_BACK = 49_152
_LONGEST_TAIL = 300
_LONGEST_MARK = 100
"""Characters of a private key's first line."""
_MOST_NOTED = 1000
_MOST_REPORTED = 15
"""Remarks of one kind that a document keeps."""
_MOST_SPANS = 2000
_UNSEEN = re.compile(
    "[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e01ef]|[\ufe00-\ufe0f]{3}"
)


class Cleaner:
    """Cleans one document. `remarks` and `suspected` are complete when all of the text has been read."""

    def __init__(self) -> None:
        self._masker = Masker()
        self._remarks: list[Remark] = []
        self._unnoted: Counter[RemarkKind] = Counter()
        self._spans: list[Span] = []
        self._position = 0
        self._line = 1
        self._tail = ""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Masked, removed and suspected passages, not quoted: the first of each kind, and the number of the others."""
        masked = [
            Remark(RemarkKind.MASKED_SECRET, f"line {each.line}: {each.label} (fingerprint {each.fingerprint})")
            for each in self._masker.findings
        ]
        every = (*masked, *self._remarks)
        kinds = (RemarkKind.MASKED_SECRET, RemarkKind.SUSPECTED_INSTRUCTION)
        found = {kind: [each for each in every if each.kind is kind] for kind in kinds}
        return tuple(each for kind in kinds for each in _truncated(kind, found[kind], self._unnoted[kind]))

    @property
    def suspected(self) -> tuple[Span, ...]:
        """Spans of the cleaned text that seem to be instructions to a model: ascending and disjoint."""
        joined: list[Span] = []
        for start, end in sorted(self._spans):
            if joined and start <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((start, end))
        return tuple(joined)

    def clean(self, pieces: Iterable[str]) -> Iterator[str]:
        """Yields the lines, cleaned; a private key becomes one line. Pieces of a long line may be cut elsewhere."""
        for block in _blocks(pieces):
            text = "".join(block)
            hints = _hints_of(text)
            by_line = _lines_to_examine(block, text, hints)
            wanted = sorted(by_line)
            at = 0
            while at < len(block):
                following = bisect_left(wanted, at)
                until = wanted[following] if following < len(wanted) else len(block)
                until = at if self._masker.is_open else until
                if until > at:
                    yield from self._passed(block[at:until])
                if until < len(block):
                    yield from self._piece(block[until], by_line.get(until, _NONE), hints)
                at = until + 1
            self._forget()
        for piece in self._masker.rest():
            self._examine(piece, self._line, None, None)
            self._position += len(piece)
            yield piece

    def value(self, name: str, text: str) -> str:
        """Cleans a value of the document's metadata. A suspected instruction in it marks the whole document."""
        text, removed = invisible.removed(text)
        masked, findings = mask(text)
        self._remarks.extend(
            Remark(RemarkKind.MASKED_SECRET, f"{name}: {each.label} (fingerprint {each.fingerprint})")
            for each in findings
        )
        reasons = [UNREADABLE] * bool(removed) + [each.reason for each in suspicions(masked)]
        self._remarks.extend(Remark(RemarkKind.SUSPECTED_INSTRUCTION, f"{name}: {reason}") for reason in reasons)
        if reasons:
            self._spans.append((0, _EVERYWHERE))
        return masked

    def _passed(self, pieces: Sequence[str]) -> Sequence[str]:
        """Passes lines without findings through."""
        self._position += sum(map(len, pieces))
        self._line += sum(piece.endswith("\n") for piece in pieces)
        self._tail = pieces[-1]
        return pieces

    def _piece(self, piece: str, own: Set[str], hints: Set[str]) -> Iterator[str]:
        """Cleans a line; `own` are the hints in it, `hints` those in its block."""
        line = self._line
        self._line += piece.endswith("\n")
        piece, removed = invisible.removed(piece)
        if removed:
            self._suspect(line, f"{removed} invisible characters were removed", (0, len(piece)))
        within = hints if self._masker.is_open else own  # lines that were held come with this one
        for cleaned in self._masker.feed(piece, line, own):
            self._examine(cleaned, line, within, hints)
            self._position += len(cleaned)
            self._tail = cleaned
            if cleaned:
                yield cleaned

    def _forget(self) -> None:
        """Drops findings above the limit and counts them."""
        findings = self._masker.findings
        self._unnoted[RemarkKind.MASKED_SECRET] += max(0, len(findings) - _MOST_NOTED)
        del findings[_MOST_NOTED:]

    def _examine(self, text: str, line: int, own: Set[str] | None, hints: Set[str] | None) -> None:
        for found in suspicions(text, own):
            self._suspect(line, found.reason, (found.start, found.end))
        tail = self._tail if len(self._tail) <= _LONGEST_TAIL and self._tail.strip() else ""
        if tail and hints != _NONE and text.strip():
            for found in _across(tail, text, hints):
                self._suspect(line, found.reason, (found.start - len(tail), found.end - len(tail)))

    def _suspect(self, line: int, reason: str, span: Span) -> None:
        if len(self._remarks) < _MOST_NOTED:
            self._remarks.append(Remark(RemarkKind.SUSPECTED_INSTRUCTION, f"line {line}: {reason}"))
        else:
            self._unnoted[RemarkKind.SUSPECTED_INSTRUCTION] += 1
        start, end = self._position + span[0], self._position + max(span[1], span[0] + 1)
        if len(self._spans) < _MOST_SPANS:
            self._spans.append((start, end))
        else:  # rather too much than too little
            self._spans[-1] = (self._spans[-1][0], end)


_EVERYWHERE = 1 << 62
_NONE: frozenset[str] = frozenset()


def overlaps(spans: Sequence[Span], start: int, end: int) -> bool:
    """True if a range of text overlaps one of the spans, which are ascending and disjoint."""
    at = bisect_right(spans, start, key=lambda span: span[1])
    return at < len(spans) and spans[at][0] < end


def _lines_to_examine(block: Sequence[str], text: str, hints: frozenset[str]) -> Mapping[int, Set[str]]:
    """Hints by the positions in the block of their lines. Where a hint may be hidden, every line may have every hint."""
    unseen = not text.isascii() and _UNSEEN.search(text)
    if not hints and not unseen:
        return {}
    lowered = text.lower()
    if unseen or len(lowered) != len(text):  # a hint may be elsewhere than in the text
        return dict.fromkeys(range(len(block)), hints)
    ends = list(accumulate(map(len, block)))
    found: defaultdict[int, set[str]] = defaultdict(set)
    for hint in hints:
        for at in _positions(lowered, hint):
            found[bisect_right(ends, at)].add(hint)
    return found


def _positions(text: str, literal: str) -> Iterator[int]:
    at = text.find(literal)
    while at >= 0:
        yield at
        at = text.find(literal, at + len(literal))


def _truncated(kind: RemarkKind, remarks: Sequence[Remark], unnoted: int) -> Sequence[Remark]:
    if len(remarks) <= _MOST_REPORTED and not unnoted:
        return remarks
    first = remarks[: _MOST_REPORTED - 1]
    return [*first, Remark(kind, f"and {len(remarks) + unnoted - len(first):,} more")]


def _across(tail: str, text: str, hints: Set[str] | None) -> list[Suspicion]:
    """Suspicions that begin in the line before and end in this one: lines of a paragraph may be wrapped anywhere."""
    joined = tail.replace("\n", " ") + text
    return [found for found in suspicions(joined, hints) if 0 < found.start < len(tail) < found.end]


def _blocks(pieces: Iterable[str]) -> Iterator[list[str]]:
    """Groups lines into blocks. Lines that came in pieces are cut outside of secrets."""
    block: list[str] = []
    size = 0
    rest = ""
    for piece in pieces:
        if rest or not piece.endswith("\n"):
            rest += piece
            at = len(rest) if rest.endswith("\n") else _cut(rest)
            if not at:
                continue
            piece, rest = rest[:at], rest[at:]  # noqa: PLW2901
        block.append(piece)
        size += len(piece)
        if size >= _BLOCK:
            yield block
            block, size = [], 0
    if rest:
        block.append(rest)
    if block:
        yield block


def _cut(text: str) -> int:
    """Returns the position at which to cut an unfinished line, so that a possible secret at its end stays whole."""
    latest = max(0, len(text) - _KEPT_BACK)
    hints = _hints_of(text)
    found = find(text, hints) if hints else []
    at = min((each.since for each in found if each.end > latest), default=latest)
    begin = text.rfind("-----BEGIN", max(0, latest - _LONGEST_MARK), latest + _LONGEST_MARK)
    at = min(at, begin) if begin >= 0 else at
    return at if len(text) - at <= _MOST_KEPT_BACK else latest


def _hints_of(text: str) -> frozenset[str]:
    """The literals of secrets and instructions that the text may contain: each is in one of its words, or in the text."""
    if not text.isascii():
        text = invisible.blanked(text) if _UNSEEN.search(text) else text
    lowered = text.lower()
    groups, in_words, foreign = _hints()
    new = set(lowered.split()) - _WORDS.harmless
    words = f" {' '.join(new)} "
    long_words = " ".join([word for word in new if len(word) >= _LONG_WORD])
    parts = [hint for hint in in_words if hint in long_words]
    parts += rare_tokens(long_words)
    found = list(parts)
    for base, hints, phrases in groups:
        if base in words:
            parts.append(base)
            found += [hint for hint in hints if hint in words]
            found += [hint for hint in phrases if hint in lowered]
    _WORDS.note(new, parts)
    if not text.isascii():
        found += [hint for hint in foreign if hint in lowered]
    return frozenset(found)


class _KnownWords:
    """Words of earlier texts by whether a part of a hint is in them: most words were in other texts before."""

    _MOST, _LONGEST = 100_000, 40

    def __init__(self) -> None:
        self.harmless: set[str] = set()
        self._others: set[str] = set()

    def note(self, words: Set[str], parts: Iterable[str]) -> None:
        """Remembers words, in which no parts are but these; a part may begin or end with the blank beside the word."""
        new = [word for word in words - self._others if len(word) <= self._LONGEST]
        text = f" {' '.join(new)} "
        within = [part for part in parts if part in text]
        others = {word for word in new if any(part in f" {word} " for part in within)}
        if len(self.harmless) + len(self._others) > self._MOST:
            self.harmless, self._others = set(), set()
        self.harmless.update(word for word in new if word not in others)
        self._others |= others


_WORDS = _KnownWords()

_BASES = (
    *(
        "pass",
        "secret",
        "token",
        "key",
        "login",
        "auth",
        "snmp",
        "ldap",
        "code",
        " -p",
        "user",
        "psk",
        "net ",
        "sql",
        "smb",
    ),
    *("credential", "session", "encrypt", "identified", "system", "assistant", "mc ", "]:", "pin", "line ", "</", '"d'),
)
"""Literals that other hints contain, or stand with: those are searched only where the literal is."""


_Group = tuple[str, tuple[str, ...], tuple[str, ...]]
"""Part of a word, and literals that are searched where it is: those that contain it, in a word and the blanks around it, and
those that are searched in the text, as they have several words or stand near it."""


@cache
def _hints() -> tuple[tuple[_Group, ...], tuple[str, ...], tuple[str, ...]]:
    """Literals that may be anywhere, in groups; those that occur in long words only; and those that are not ASCII."""
    issued = {hint for form in issued_formats() for hint in form.hints}
    in_words = (issued - {*CONTEXT_HINTS}) | {*encoded_hints()}
    everything = {HINT, *STRUCTURE_HINTS, *in_words}
    everything.update(hint for form in secret_formats() for hint in form.hints)
    everything.update(hint for form in instruction_formats() for hint in form.hints)
    foreign = {hint for hint in everything if not hint.isascii()}
    return tuple(_groups(everything - in_words - foreign)), tuple(sorted(in_words)), tuple(sorted(foreign))


def _groups(hints: set[str]) -> Iterator[_Group]:
    left = set(hints)
    for base in _BASES:
        behind = {hint for hint in left if base in hint or hint in BEHIND.get(base, ())}
        left -= behind
        phrases = {hint for hint in behind if " " in hint.strip(" ") or base not in hint}
        yield base, tuple(sorted(behind - phrases)), tuple(sorted(phrases))
    for hint in sorted(left):
        word = max(hint.split(" "), key=len)
        yield (word, (), (hint,)) if " " in hint.strip(" ") else (hint, (hint,), ())
