"""Credentials in text: found by their form, and masked so that only their kind and a short fingerprint are left."""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from opx.hygiene.private_keys import PrivateKeys
from opx.hygiene.secret_formats import SecretFormat, secret_formats

_DIGITS, _DIGITS_OF_CHOSEN = 4, 2
"""Hex digits of a fingerprint. Of what people choose there are few, so that every bit helps to guess it."""

_OF_NO_VALUE = re.compile(
    r"(?i)(?:next|page|paging|pagination|continuation|sync|delta|resume|start(?:ing)?|marker|cursor|idempotency|request)"
    r"[ _.-]?token\W{0,14}$"
)
"""What marks a place or a request, before its value."""
LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BASIC = re.compile(r"[A-Za-z0-9+/]{4,}={0,2}")

MIN_LENGTH = 8
MIN_BITS = 2.5
"""Shannon entropy of a value's characters, in bits each. Eight different characters have 3."""

_OBVIOUS = re.compile(r"(?i)example|placeholder|redacted|masked|x{4}|\*{3}|\.{3}|…|1234567|abcdef|your[-_]|change.?me")
_PLACEHOLDERS = re.compile(
    r"(?i)change.?(?:it|this)|replace|dummy|sample|fake|insert|your|\bmy[-_]?|xxx|todo|foo.?bar|hunter2|qwerty|letmein"
    r"|pass(?:word|wd)?[-_.]?\d{0,4}$|^(?:the|some|new|old|db|root|admin|user|super|test)?[-_]?(?:secret|token|pass|pwd)"
    r"|^(?:none|null|true|false|undefined)$|correct.?horse"
)
_REFERENCE = re.compile(
    r"(?i)^(?:[$@%&!~^*?#<{\[(/\\]|\.{0,2}/|arn:|[a-z0-9+.-]{2,20}://|file:|vault:|ssm:|op:|ref\+|env[.:]|secretsmanager|projects/|kms"
    r"|sha\d{1,3}[-:]|md5:|base64:|process\.|os\.|self\.|data\.|var\.)"
    r"|::|\$\{|\{\{|%\(|\.(?:ya?ml|json|txt|pem|crt|key|conf|py|go|js|sh)$"
)
_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_IDENTIFIER = re.compile(
    r"(?i)(?:CVE|GHSA|CWE|KB|RFC|ISO|RHSA|USN)-?\d[\w-]*|v?\d+(?:[.:_-]\d+)+\w*|\d{4}-\d\d-\d\d\S*"
)
_WORDS = re.compile(r"[-_./:@\s=+]+")
_WORD = re.compile(
    r"[A-Za-z]?[a-z]*\d{0,3}|[A-Z]+\d{0,3}|\d{1,6}|[A-Z]?[a-z]+(?:[A-Z][a-z]{2,}){0,6}\d{0,2}|v\d+[a-z]*\d?"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret that was masked. `line` counts from 1."""

    kind: str
    label: str
    fingerprint: str
    line: int

    @property
    def mask(self) -> str:
        return f"[masked {self.kind} {self.fingerprint}]"


@dataclass(frozen=True, slots=True)
class Found:
    """Where in a text a secret is: the part that is masked, and `since`, where what tells that it is one begins."""

    format: SecretFormat
    since: int
    start: int
    end: int


def mask(text: str) -> tuple[str, tuple[Finding, ...]]:
    """The text with its secrets masked, and what was masked. Masking again changes nothing."""
    masker = Masker()
    masked = [piece for number, line in enumerate(_lines(text), start=1) for piece in masker.feed(line, number)]
    masked.extend(masker.rest())
    return "".join(masked), tuple(masker.findings)


class Masker:
    """Masks a text that comes line by line, in bounded memory."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._keys = PrivateKeys()
        self._line = 1

    @property
    def is_within_key(self) -> bool:
        """Whether the next line may go on with a private key."""
        return self._keys.is_open

    def feed(self, text: str, line: int, hints: Iterable[str] | None = None) -> Iterator[str]:
        """What there is of the text up to this line, masked, in lines. `hints` as in `find`."""
        self._line = line
        if not self._keys.is_open and "PRIVATE KEY" not in text:
            yield mask_line(text, line, self.findings, hints)
            return
        for piece in _lines("".join(self._keys.feed(text, line))):
            yield mask_line(piece, line, self.findings, None)
        self._note_keys()

    def rest(self) -> Iterator[str]:
        """What was held because a private key seemed to begin in it."""
        for piece in _lines("".join(self._keys.rest())):
            yield mask_line(piece, self._line, self.findings)
        self._note_keys()

    def _note_keys(self) -> None:
        self.findings.extend(
            Finding("private-key", "private key", key.fingerprint, key.line) for key in self._keys.found
        )
        self._keys.found.clear()


def _lines(text: str) -> Iterator[str]:
    return (match[0] for match in LINE.finditer(text))


def mask_line(text: str, line: int, findings: list[Finding], hints: Iterable[str] | None = None) -> str:
    """The text with all but private keys masked; what was is added to `findings`.

    `hints`: those of the formats' hints that the text may contain.
    """
    parts: list[str] = []
    position = 0
    for found in find(text, hints):
        secret = text[found.start : found.end]
        finding = Finding(found.format.kind, found.format.label, _fingerprint(secret, found.format), line)
        findings.append(finding)
        parts += (text[position : found.start], finding.mask)
        position = found.end
    return "".join((*parts, text[position:])) if parts else text


def find(text: str, hints: Iterable[str] | None = None) -> list[Found]:
    """The secrets of a text other than private keys, in order, none within another."""
    lowered = text.lower()
    found: list[Found] = []
    present = frozenset([hint for hint in (_all_hints() if hints is None else hints) if hint in lowered])
    for form in _formats_with(present):
        found.extend(_matches(form, text))
    kept: list[Found] = []
    for each in found:  # the most telling first
        if not any(each.start < other.end and other.start < each.end for other in kept):
            kept.append(each)
    return sorted(kept, key=lambda each: each.start)


@cache
def _all_hints() -> tuple[str, ...]:
    return tuple({hint for form in secret_formats() for hint in form.hints})


@lru_cache(maxsize=1024)
def _formats_with(hints: frozenset[str]) -> tuple[SecretFormat, ...]:
    """Those that may match a text with these hints, in their order."""
    return tuple(form for form in secret_formats() if not hints.isdisjoint(form.hints))


def _matches(form: SecretFormat, text: str) -> Iterator[Found]:
    for match in form.pattern.finditer(text):
        start, end = _span(match)
        if _is_secret(form, match, text[start:end], text):
            yield Found(form, match.start(), start, end)


def _span(match: re.Match[str]) -> tuple[int, int]:
    """Of the group that took part, else of the whole match."""
    for name in match.re.groupindex:
        if name != "user" and match[name] is not None:
            return match.span(name)
    return match.span()


def _is_secret(form: SecretFormat, match: re.Match[str], value: str, text: str) -> bool:
    if form.kind == "authorization":
        password = _basic_password(value)
        return looks_random(value) if password is None else not is_placeholder(password)
    if form.judged:
        start, _ = _span(match)
        before = text[max(0, start - 80) : start]
        return looks_random(value) and not _OF_NO_VALUE.search(before)
    if form.chosen:
        user = match.groupdict().get("user") or ""
        return not is_placeholder(value) and value.lower() != user.lower()
    return not is_obvious_placeholder(value)


def _basic_password(value: str) -> str | None:
    """The password of what is the base64 of `user:password`; None for anything else."""
    if not _BASIC.fullmatch(value):
        return None
    try:
        user, _, password = base64.b64decode(value, validate=True).decode("ascii").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return password if user and password else None


def _fingerprint(secret: str, form: SecretFormat) -> str:
    digits = _DIGITS_OF_CHOSEN if form.chosen else _DIGITS
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def is_obvious_placeholder(value: str) -> bool:
    """True for what nobody takes for a secret even where its form is right."""
    return bool(_OBVIOUS.search(value)) or len(set(value)) < 4


def is_placeholder(value: str) -> bool:
    """True for what documentation writes instead of a secret, and for what says where the secret is."""
    return is_obvious_placeholder(value) or bool(_PLACEHOLDERS.search(value) or _REFERENCE.search(value))


def is_hash_or_id(value: str) -> bool:
    """True for UUIDs, versions, dates and the numbers of advisories."""
    return bool(_UUID.fullmatch(value) or _IDENTIFIER.fullmatch(value))


def looks_random(value: str) -> bool:
    """True for what is long and mixed enough to be a secret: no words, names, versions or placeholders."""
    value = value.strip().rstrip(".:,")
    if len(value) < MIN_LENGTH or " " in value or not value.isascii() or is_placeholder(value) or is_hash_or_id(value):
        return False
    if all(_WORD.fullmatch(part) for part in _WORDS.split(value) if part):
        return False
    return _classes(value) >= 2 and _entropy(value) >= MIN_BITS


def _classes(value: str) -> int:
    """How many of: lower case, upper case, digits, other marks than those which join words."""
    tests = (str.islower, str.isupper, str.isdigit, lambda c: not c.isalnum() and c not in "-_./: ")
    return sum(any(test(character) for character in value) for test in tests)


def _entropy(value: str) -> float:
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
