"""Finds credentials in text and masks them by kind and fingerprint.

Formats are those of issuers (`issued_secrets`), of names, addresses and headers (`secret_formats`), of files, commands and
devices (`stated_secrets`), and of structures over several lines (`secret_structures`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from opx.hygiene.issued_secrets import LEAST_RARE, issued_formats, rare_tokens
from opx.hygiene.private_keys import KeyBlock, PrivateKeys
from opx.hygiene.secret_formats import SecretFormat, ValueTest, context_formats
from opx.hygiene.secret_structures import Structures
from opx.hygiene.secret_values import (
    basic_password,
    is_clear,
    is_named,
    is_obvious_placeholder,
    is_placeholder,
    is_stated,
    looks_random,
)
from opx.hygiene.stated_secrets import first_stated, stated_formats

_DIGITS, _DIGITS_OF_CHOSEN = 4, 2
"""Hex digits of a fingerprint. Fewer for secrets chosen by people, where every bit helps to guess them."""

_OF_NO_VALUE = re.compile(
    r"(?i)(?:next|page|paging|pagination|continuation|sync|delta|resume|start(?:ing)?|marker|cursor|idempotency|request)"
    r"[ _.-]?token\W{0,14}$|arn:aws[\w-]{0,10}:secretsmanager:[\w-]{0,20}:\d{0,12}:secret:$"
)
"""Names of cursors, request ids and stored secrets, before their value."""
_QUOTES = ("'", '"', ">")
"""Marks before a value that is certainly complete, so that it may be a phrase."""
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@cache
def secret_formats() -> tuple[SecretFormat, ...]:
    """All formats, the most specific first: of two that match the same text, the first one's name is used."""
    stated, first = stated_formats(), first_stated()
    return (*issued_formats(), *stated[:first], *context_formats(), *stated[first:])


@dataclass(frozen=True, slots=True)
class FoundSecret:
    """Position of a secret: the part that is masked, and `since`, the start of the whole match."""

    format: SecretFormat
    since: int
    start: int
    end: int


def mask(text: str) -> tuple[str, tuple[KeyBlock, ...]]:
    """Returns the text with its secrets masked, and the masked secrets. Idempotent."""
    masker = Masker()
    masked = [piece for number, line in enumerate(_LINE.findall(text), start=1) for piece in masker.feed(line, number)]
    masked.extend(masker.rest())
    return "".join(masked), tuple(masker.findings)


class Masker:
    """Masks text that is read line by line, in bounded memory."""

    def __init__(self) -> None:
        self.findings: list[KeyBlock] = []
        self._keys = PrivateKeys()
        self._structures = Structures()
        self._line = 1

    @property
    def is_open(self) -> bool:
        """True if the meaning of the next line depends on those before it."""
        return self._keys.is_open or self._structures.is_open

    def feed(self, text: str, line: int, hints: Iterable[str] | None = None) -> Iterator[str]:
        """Yields the complete text up to this line, masked, in lines. `hints` as in `find`."""
        self._line = line
        if not self._keys.is_open and "PRIVATE KEY" not in text:
            yield self._mask(text, line, hints)
            return
        for piece in _LINE.findall("".join(self._keys.feed(text, line))):
            yield self._mask(piece, line, None)
        self._note_keys()

    def rest(self) -> Iterator[str]:
        """Yields the text that was held because a private key seemed to begin in it."""
        for piece in _LINE.findall("".join(self._keys.rest())):
            yield self._mask(piece, self._line, None)
        self._note_keys()

    def _note_keys(self) -> None:
        self.findings.extend(self._keys.found)
        self._keys.found.clear()

    def _mask(self, text: str, line: int, hints: Iterable[str] | None) -> str:
        """Masks all secrets but private keys, and notes them."""
        parts: list[str] = []
        position = 0
        stated = [FoundSecret(form, start, start, end) for form, start, end in self._structures.feed(text)]
        for found in _kept((*_candidates(text, hints), *stated)):
            secret = text[found.start : found.end]
            finding = KeyBlock(found.format.kind, found.format.label, _fingerprint(secret, found.format), line)
            self.findings.append(finding)
            parts += (text[position : found.start], finding.mask)
            position = found.end
        return "".join((*parts, text[position:])) if parts else text


def find(text: str, hints: Iterable[str] | None = None) -> list[FoundSecret]:
    """The secrets in `text` other than private keys, in order, not overlapping."""
    return _kept(_candidates(text, hints))


def _candidates(text: str, hints: Iterable[str] | None) -> list[FoundSecret]:
    lowered = text.lower()
    if hints is None:
        hints = (*_all_hints(), *rare_tokens(lowered))
    present = frozenset([hint for hint in hints if hint in lowered])
    rare = any(len(hint) > LEAST_RARE for hint in present)
    return [found for form in _formats_with(present & _known_hints(), rare) for found in _matches(form, text)]


def _kept(candidates: Iterable[FoundSecret]) -> list[FoundSecret]:
    """Those that overlap none before them, in the order of the text. The most specific come first."""
    kept: list[FoundSecret] = []
    for each in candidates:
        if not any(each.start < other.end and other.start < each.end for other in kept):
            kept.append(each)
    return sorted(kept, key=lambda each: each.start)


@cache
def _all_hints() -> tuple[str, ...]:
    return tuple(_known_hints())


@cache
def _known_hints() -> frozenset[str]:
    return frozenset(hint for form in secret_formats() for hint in form.hints)


@lru_cache(maxsize=4096)
def _formats_with(hints: frozenset[str], rare: bool) -> tuple[SecretFormat, ...]:
    """Formats that may match text with these hints, in their order. `rare`: also those without any hint."""
    return tuple(form for form in secret_formats() if not hints.isdisjoint(form.hints) or (rare and not form.hints))


def _matches(form: SecretFormat, text: str) -> Iterator[FoundSecret]:
    for match in form.pattern.finditer(text):
        for start, end in _spans(match):
            if _is_secret(form, match, (start, end), text):
                yield FoundSecret(form, match.start(), start, end)


def _spans(match: re.Match[str]) -> Iterator[tuple[int, int]]:
    """The spans of the groups that matched, else of the whole match."""
    names = [name for name in match.re.groupindex if name != "user"]
    if not names:
        yield match.span()
    for name in names:
        if match[name] is not None:
            yield match.span(name)


def _is_secret(form: SecretFormat, match: re.Match[str], span: tuple[int, int], text: str) -> bool:
    start, end = span
    value = text[start:end]
    if form.kind == "authorization":
        password = basic_password(value)
        return looks_random(value) if password is None else not is_placeholder(password)
    if form.judgement is ValueTest.RANDOM:
        return looks_random(value) and not _OF_NO_VALUE.search(text[max(0, start - 80) : start])
    if form.judgement is ValueTest.CHOSEN:
        user = match.groupdict().get("user") or ""
        return not is_placeholder(value) and value.lower() != user.lower()
    if form.judgement is ValueTest.STATED:
        return is_stated(value, quoted=text[max(0, start - 1) : start] in _QUOTES)
    return _JUDGES[form.judgement](value)


_JUDGES: dict[ValueTest, Callable[[str], bool]] = {
    ValueTest.FORM: lambda value: not is_obvious_placeholder(value),
    ValueTest.NAMED: is_named,
    ValueTest.CLEAR: is_clear,
    ValueTest.BASIC: lambda value: basic_password(value) is not None,
}


def _fingerprint(secret: str, form: SecretFormat) -> str:
    digits = _DIGITS_OF_CHOSEN if form.chosen else _DIGITS
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
