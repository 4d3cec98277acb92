"""Finds and masks private keys in PEM form, across lines or within one line (in JSON, with its `\\n`)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

HINT = "private key"

_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_HEADER = re.compile(r"(?:Proc-Type|DEK-Info|Comment|Version|Hash|Charset|MessageID): ")
_DECORATION = " \t\r\n>|+#*/\"'`,;"
_BLANKS = re.compile(r"\\+[nrt]|\s")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\\]+")
_LEAST_PIECE = 32
"""Characters of the shortest run of base64 that isn't a word. Lines of keys have 64 or more, except the last one."""

_LEAST_CHARACTERS = 48
"""Characters of base64 in the shortest key (Ed25519 in PKCS 8 has 64)."""
_MOST_HELD = 65_536
"""Characters that are held until it is clear whether they are a key. RSA with 16,384 bits has 12,800."""


@dataclass(frozen=True, slots=True)
class KeyBlock:
    """A secret that was masked. `line` counts from 1."""

    kind: str
    label: str
    fingerprint: str
    line: int

    @property
    def mask(self) -> str:
        return f"[masked {self.kind} {self.fingerprint}]"


@dataclass(slots=True)
class _Open:
    """A key whose end has not been read yet. `before` is the text before it in its first line."""

    line: int
    before: str
    held: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    size: int = 0


class PrivateKeys:
    """Reads lines one by one and returns those outside of keys; a key becomes one mask.

    The beginning of a key without a body (documentation) is returned unchanged.
    """

    def __init__(self) -> None:
        self.found: list[KeyBlock] = []
        self._open: _Open | None = None

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def feed(self, text: str, line: int) -> Iterator[str]:
        """Yields the text that is complete, of this line and those held before."""
        while text:
            if self._open is None:
                begin = _begin(text)
                if begin is None:
                    yield text
                    return
                self._open = _Open(line, text[: begin.start()], [begin[0]])
                text = text[begin.end() :]
                continue
            end = _END.search(text)
            if end:
                self._hold(self._open, text[: end.start()], raw=text[: end.end()])
                text = text[end.end() :]
                yield self._closed()
            elif self._belongs(self._open, text):
                self._hold(self._open, text, raw=text)
                return
            else:
                yield self._closed(line_end="\n")

    def rest(self) -> Iterator[str]:
        """Yields the text that is held at the end of the input."""
        if self._open is not None:
            yield self._closed()

    @staticmethod
    def _belongs(key: _Open, text: str) -> bool:
        if key.size > _MOST_HELD and not key.body:
            return False
        pieces = _pieces(text)
        return not pieces or _is_body(pieces) or bool(_HEADER.match(text.strip(_DECORATION)))

    @staticmethod
    def _hold(key: _Open, body: str, *, raw: str) -> None:
        key.size += len(raw)
        if key.size > _MOST_HELD:
            return
        key.held.append(raw)
        pieces = _pieces(body)
        if _is_body(pieces):
            key.body.append("".join(pieces))

    def _closed(self, line_end: str = "") -> str:
        """The mask, or the held text if it is no key."""
        key, self._open = self._open, None
        assert key is not None
        body = "".join(key.body)
        if not _may_be_key(body):
            return key.before + "".join(key.held)
        masked = KeyBlock("private-key", "private key", hashlib.sha256(body.encode()).hexdigest()[:4], key.line)
        self.found.append(masked)
        return key.before + masked.mask + line_end


def _pieces(text: str) -> list[str]:
    """Splits text at whitespace and escaped whitespace (`\\n`), and strips decoration from each piece."""
    bare = (piece.strip(_DECORATION) for piece in _BLANKS.sub(" ", text).split())
    return [piece for piece in bare if piece]


def _is_body(pieces: list[str]) -> bool:
    """True if the pieces are base64, and not words: a sentence without punctuation has the same characters."""
    if not pieces or not all(map(_BASE64.fullmatch, pieces)):
        return False
    long = sum(len(piece) for piece in pieces if len(piece) >= _LEAST_PIECE)
    return len(pieces) == 1 or 2 * long >= sum(map(len, pieces))


def _may_be_key(body: str) -> bool:
    """True if the body is long and random enough. A list of names, one a line, has no digits or no capital letters."""
    kinds = (str.isdigit, str.isupper, str.islower)
    return len(body) >= _LEAST_CHARACTERS and len(set(body)) >= 10 and all(any(map(kind, body)) for kind in kinds)


def _begin(text: str) -> re.Match[str] | None:
    """Finds the beginning of a key in a line: the first if a key ends after it, else the last, which may continue."""
    first = _BEGIN.search(text)
    if first is None or _END.search(text, first.end()):
        return first
    *_, last = _BEGIN.finditer(text)
    return last
