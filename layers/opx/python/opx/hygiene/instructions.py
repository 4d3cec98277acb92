"""Text that seems to be aimed at a language model instead of a person: found, so that it can be labelled.

Finding none says nothing about a text: it is a label for readers and no protection by itself.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

from opx.domain.record import replace
from opx.domain.remarks import RemarkKind
from opx.hygiene import invisible
from opx.hygiene.instruction_formats import (
    ENCODED,
    REORDERED,
    UNREADABLE,
    InstructionFormat,
    encoded_hints,
    instruction_formats,
)

FLAG = RemarkKind.SUSPECTED_INSTRUCTION.value
"""Of chunks and results."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,20000}={0,2}")
_AT_MOST = 3
"""Reasons that are told of one line."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """`start` and `end` are where in the text it is, `reason` says what it does."""

    reason: str
    start: int
    end: int


def suspicions(text: str, hints: Iterable[str] | None = None) -> list[Suspicion]:
    """What of a line (or two) seems to be aimed at a model. `hints`: those that the text may contain."""
    if text.isascii():
        return _readable(text, hints)[:_AT_MOST]
    found = _disguises(text)
    bare = invisible.blanked(text)
    inside = _readable(bare, hints)
    if bare != text:  # places in it are not those in the text
        inside = [replace(each, start=0, end=len(text)) for each in inside]
    return (found + inside)[:_AT_MOST]


def _readable(text: str, hints: Iterable[str] | None) -> list[Suspicion]:
    lowered = text.lower()
    present = frozenset([hint for hint in (_all_hints() if hints is None else hints) if hint in lowered])
    found = []
    for form in _formats_with(present):
        match = form.pattern.search(text)
        if match:
            found.append(Suspicion(form.reason, match.start(), match.end()))
    if not present.isdisjoint(encoded_hints()):
        found.extend(_encoded(text))
    return found


@cache
def _all_hints() -> tuple[str, ...]:
    return tuple({*encoded_hints(), *(hint for form in instruction_formats() for hint in form.hints)})


@lru_cache(maxsize=1024)
def _formats_with(hints: frozenset[str]) -> tuple[InstructionFormat, ...]:
    """Those that may match a text with these hints, in their order."""
    return tuple(form for form in instruction_formats() if not hints.isdisjoint(form.hints))


def _disguises(text: str) -> list[Suspicion]:
    found = []
    hidden = invisible.hidden_text(text)
    if hidden:
        found.append(Suspicion(UNREADABLE, *hidden))
    turned = invisible.overridden(text)
    if turned:
        found.append(Suspicion(REORDERED, *turned))
    return found


def _encoded(text: str) -> list[Suspicion]:
    """Runs of base64 in which there is such text."""
    found = []
    for run in _BASE64.finditer(text):
        decoded = _decoded(run[0])
        if decoded and any(form.pattern.search(decoded) for form in instruction_formats()):
            found.append(Suspicion(ENCODED, run.start(), run.end()))
    return found


def _decoded(run: str) -> str:
    bare = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(bare[: len(bare) // 4 * 4], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
