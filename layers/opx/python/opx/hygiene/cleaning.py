"""A document's text on its way to chunks: secrets masked, invisible characters removed, suspicious places noted.

Most text has none of it, and what is looked for is rare: blocks of lines are first asked for literals that have to be
there, and only lines of a block that has some are looked at with patterns.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate

from opx.domain.documents import Remark, RemarkKind
from opx.hygiene import invisible
from opx.hygiene.instructions import UNREADABLE, Suspicion, encoded_hints, instruction_formats, suspicions
from opx.hygiene.private_keys import HINT
from opx.hygiene.secrets import CONTEXT_HINTS, Masker, find, mask, secret_formats

Span = tuple[int, int]
"""Offsets of characters, the second excluded."""

_BLOCK = 16_384
_LONG_WORD = 16
"""Characters of the shortest word that an issued token can be in: their literals are looked for in such words alone."""
_KEPT_BACK = 4096
"""Characters at the end of a piece of a long line that are looked at again with the next piece."""
_MOST_KEPT_BACK = 49_152
_LONGEST_TAIL = 300
_LONGEST_MARK = 100
"""Characters of the line that a private key begins with."""
_MOST_NOTED = 1000
_MOST_TOLD = 15
"""Remarks of a kind; a document has few in all."""
_MOST_SPANS = 2000
_UNSEEN = re.compile(
    "[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e01ef]|[\ufe00-\ufe0f]{3}"
)


class Cleaner:
    """Cleans one document. What was found is known when all of the text has been read."""

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
        """What was masked, removed and suspected, without quoting it; of each kind the first ones and a number."""
        masked = [
            Remark(RemarkKind.MASKED_SECRET, f"line {each.line}: {each.label} (fingerprint {each.fingerprint})")
            for each in self._masker.findings
        ]
        every = (*masked, *self._remarks)
        kinds = (RemarkKind.MASKED_SECRET, RemarkKind.SUSPECTED_INSTRUCTION)
        found = {kind: [each for each in every if each.kind is kind] for kind in kinds}
        return tuple(told for kind in kinds for told in _told(kind, found[kind], self._unnoted[kind]))

    @property
    def suspected(self) -> tuple[Span, ...]:
        """Where in the cleaned text there is what seems to be aimed at a model: ascending, apart from each other."""
        joined: list[Span] = []
        for start, end in sorted(self._spans):
            if joined and start <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((start, end))
        return tuple(joined)

    def clean(self, pieces: Iterable[str]) -> Iterator[str]:
        """The same lines, cleaned; a private key becomes one line. Pieces of a long line may be cut elsewhere."""
        for block in _blocks(pieces):
            text = "".join(block)
            hints = _hints_of(text)
            wanted = _lines_to_examine(block, text, hints)
            at = 0
            while at < len(block):
                following = bisect_left(wanted, at)
                until = wanted[following] if following < len(wanted) else len(block)
                until = at if self._masker.is_within_key else until
                if until > at:
                    yield from self._passed(block[at:until])
                if until < len(block):
                    yield from self._piece(block[until], hints)
                at = until + 1
            self._forget()
        for piece in self._masker.rest():
            self._examine(piece, self._line, None)
            self._position += len(piece)
            yield piece

    def value(self, name: str, text: str) -> str:
        """A value of the document's metadata, cleaned. What seems to be aimed at a model marks the whole document."""
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
        """Lines in which there is nothing."""
        self._position += sum(map(len, pieces))
        self._line += sum(piece.endswith("\n") for piece in pieces)
        self._tail = pieces[-1]
        return pieces

    def _piece(self, piece: str, hints: frozenset[str]) -> Iterator[str]:
        line = self._line
        self._line += piece.endswith("\n")
        piece, removed = invisible.removed(piece)
        if removed:
            self._suspect(line, f"{removed} invisible characters were removed", (0, len(piece)))
        for cleaned in self._masker.feed(piece, line, hints):
            self._examine(cleaned, line, hints)
            self._position += len(cleaned)
            self._tail = cleaned
            if cleaned:
                yield cleaned

    def _forget(self) -> None:
        """Keep no more findings than are told, and the number of the others."""
        findings = self._masker.findings
        self._unnoted[RemarkKind.MASKED_SECRET] += max(0, len(findings) - _MOST_NOTED)
        del findings[_MOST_NOTED:]

    def _examine(self, text: str, line: int, hints: frozenset[str] | None) -> None:
        for found in suspicions(text, hints):
            self._suspect(line, found.reason, (found.start, found.end))
        tail = self._tail if len(self._tail) <= _LONGEST_TAIL and self._tail.strip() else ""
        if tail and hints != frozenset() and text.strip():
            for found in _across(tail, text, hints):
                self._suspect(line, found.reason, (found.start - len(tail), found.end - len(tail)))

    def _suspect(self, line: int, reason: str, place: Span) -> None:
        if len(self._remarks) < _MOST_NOTED:
            self._remarks.append(Remark(RemarkKind.SUSPECTED_INSTRUCTION, f"line {line}: {reason}"))
        else:
            self._unnoted[RemarkKind.SUSPECTED_INSTRUCTION] += 1
        start, end = self._position + place[0], self._position + max(place[1], place[0] + 1)
        if len(self._spans) < _MOST_SPANS:
            self._spans.append((start, end))
        else:  # rather too much than too little
            self._spans[-1] = (self._spans[-1][0], end)


_EVERYWHERE = 1 << 62


def overlaps(spans: Sequence[Span], start: int, end: int) -> bool:
    """Whether a piece of text shares a character with one of the spans, which ascend and don't touch."""
    at = bisect_right(spans, start, key=lambda span: span[1])
    return at < len(spans) and spans[at][0] < end


def _lines_to_examine(block: Sequence[str], text: str, hints: frozenset[str]) -> Sequence[int]:
    """Positions in the block, ascending, of lines with a hint or with characters that are not seen."""
    unseen = [] if text.isascii() else [match.start() for match in _UNSEEN.finditer(text)]
    if not hints and not unseen:
        return ()
    lowered = text.lower()
    if unseen or len(lowered) != len(text):  # a hint may be hidden, or elsewhere than in the text
        return range(len(block))
    ends = list(accumulate(map(len, block)))
    return sorted({bisect_right(ends, at) for hint in hints for at in _places(lowered, hint)})


def _places(text: str, literal: str) -> Iterator[int]:
    at = text.find(literal)
    while at >= 0:
        yield at
        at = text.find(literal, at + len(literal))


def _told(kind: RemarkKind, remarks: Sequence[Remark], unnoted: int) -> Sequence[Remark]:
    if len(remarks) <= _MOST_TOLD and not unnoted:
        return remarks
    told = remarks[: _MOST_TOLD - 1]
    return [*told, Remark(kind, f"and {len(remarks) + unnoted - len(told):,} more")]


def _across(tail: str, text: str, hints: frozenset[str] | None) -> list[Suspicion]:
    """What begins in the line before and ends in this one: lines of a paragraph may be wrapped anywhere."""
    joined = tail.replace("\n", " ") + text
    return [found for found in suspicions(joined, hints) if 0 < found.start < len(tail) < found.end]


def _blocks(pieces: Iterable[str]) -> Iterator[list[str]]:
    """Lines in blocks. Those that came in pieces are cut where no secret is."""
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
    """Where to cut a text that goes on, so that what may be a secret at its end stays whole."""
    latest = max(0, len(text) - _KEPT_BACK)
    hints = _hints_of(text)
    found = find(text, hints) if hints else []
    at = min((each.since for each in found if each.end > latest), default=latest)
    begin = text.rfind("-----BEGIN", max(0, latest - _LONGEST_MARK), latest + _LONGEST_MARK)
    at = min(at, begin) if begin >= 0 else at
    return at if len(text) - at <= _MOST_KEPT_BACK else latest


def _hints_of(text: str) -> frozenset[str]:
    """Which literals the text has, of those that something to be found would have."""
    if not text.isascii():
        text = invisible.blanked(text) if _UNSEEN.search(text) else text
    lowered = text.lower()
    anywhere, in_words, foreign = _hints()
    words = " ".join([word for word in lowered.split() if len(word) >= _LONG_WORD])
    found = [hint for hint in anywhere if hint in lowered]
    found += [hint for hint in in_words if hint in words]
    if not text.isascii():
        found += [hint for hint in foreign if hint in lowered]
    return frozenset(found)


@cache
def _hints() -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Literals that may be anywhere, those that are in long words alone, and those that are not ASCII."""
    issued = {hint for form in secret_formats() if not form.judged and not form.chosen for hint in form.hints}
    in_words = (issued - {*CONTEXT_HINTS}) | {*encoded_hints()}
    everything = {HINT, *in_words}
    everything.update(hint for form in secret_formats() for hint in form.hints)
    everything.update(hint for form in instruction_formats() for hint in form.hints)
    foreign = {hint for hint in everything if not hint.isascii()}
    return tuple(sorted(everything - in_words - foreign)), tuple(sorted(in_words)), tuple(sorted(foreign))
